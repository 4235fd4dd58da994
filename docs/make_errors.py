"""Writes docs/errors.md from the classes in autoplace.errors.

    .venv/bin/python docs/make_errors.py [--check]

With --check nothing is written; the exit code is 1 if the file is not what it would be.
"""

from __future__ import annotations

import argparse
import inspect
import sys
from pathlib import Path

from autoplace import errors

TARGET = Path(__file__).with_name("errors.md")

HEAD = """\
# Errors and warnings

<!-- Made by docs/make_errors.py from src/autoplace/errors.py: edit there. -->

Every error has a stable code, and four parts that are also attributes: what happened (`what`), what would have
been right (`expected`), what was found instead (`received`), and what you can do (`fix`). `to_dict()` returns
them together. Each class is also the builtin exception named beside it, so `except ValueError` catches it
without knowing autoplace. All errors are subclasses of `autoplace.errors.AutoplaceError`, all warnings of
`autoplace.errors.AutoplaceWarning`.
"""


def coded() -> list[type[Exception]]:
    """Return the classes that have a code of their own, sorted by code."""
    found = [
        kind
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, (errors.AutoplaceError, errors.AutoplaceWarning))
        and "code" in vars(kind)
        and kind is not errors.AutoplaceError
    ]
    return sorted(found, key=code_of)


def code_of(kind: type[Exception]) -> str:
    """Return the code of an error or warning."""
    return str(vars(kind)["code"])


def builtins_of(kind: type[Exception]) -> list[str]:
    """Return the builtin exceptions that `kind` is too, nearest first, without the base of all."""
    return [
        base.__name__
        for base in kind.__mro__
        if base.__module__ == "builtins" and base not in (Exception, BaseException, Warning, object)
    ]


def section(kind: type[Exception]) -> str:
    """Return the text on one class."""
    code = code_of(kind)
    doc = inspect.getdoc(kind) or ""
    text = doc.removeprefix(f"{code}: ")
    text = text[:1].upper() + text[1:]
    is_family = code.endswith("00")
    heading = "##" if is_family else "###"
    also = ", ".join(f"`{name}`" for name in builtins_of(kind))
    title = f"{code[:3]}xx: {kind.__name__}" if is_family else f"{code} {kind.__name__}"
    word = "warning" if issubclass(kind, Warning) else "error"
    return f"{heading} {title}\n\n{text}\n\nCode `{code}`, {word}; also a {also}.\n"


def page() -> str:
    """Return the whole page."""
    return "\n".join([HEAD, *(section(kind) for kind in coded())])


def main(arguments: list[str] | None = None) -> int:
    """Write the page, or compare it."""
    parser = argparse.ArgumentParser(description="Write docs/errors.md from the error classes.")
    parser.add_argument("--check", action="store_true", help="only compare")
    asked = parser.parse_args(arguments)
    if not asked.check:
        TARGET.write_text(page(), encoding="utf-8")
        return 0
    if TARGET.exists() and TARGET.read_text(encoding="utf-8") == page():
        return 0
    sys.stderr.write("docs/errors.md is out of date: run docs/make_errors.py\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
