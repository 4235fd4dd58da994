"""The rules in force: those that come with autoplace, then the user's own files, which replace by id."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from autoplace.errors import BrokenRulesFileError, RulesSetAsideWarning, UnknownRuleError
from autoplace.rules.reading import read
from autoplace.rules.rule import Rule

LARGEST_BYTES = 4 << 20


def load(files: Iterable[str] = ()) -> tuple[Rule, ...]:
    """Return the rules in force, sorted by id.

    A file of the user's that is not valid is set aside as a whole, with a warning: it is neither obeyed in part
    nor does it stop a training.

    Args:
        files: Paths of the user's files, later ones before earlier ones.
    """
    known = {rule.id: rule for rule in built_in()}
    for file in files:
        try:
            own = read_file(file)
        except BrokenRulesFileError as error:
            warnings.warn(
                f"{RulesSetAsideWarning.code}: {error}", RulesSetAsideWarning, stacklevel=2
            )
            continue
        known.update({rule.id: rule for rule in own})
    return tuple(sorted((rule for rule in known.values() if rule.enabled), key=lambda r: r.id))


def read_file(file: str | Path) -> tuple[Rule, ...]:
    """Return the rules of one file.

    Raises:
        BrokenRulesFileError: AP603, where it cannot be read or is not valid.
    """
    path = Path(file)
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise ValueError(f"more than {LARGEST_BYTES >> 20} MiB")
        text = path.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise BrokenRulesFileError(
            f"the rules file {path} cannot be read",
            expected="a TOML file in UTF-8",
            received=str(error)[:200],
            fix="correct Policy.rules or AUTOPLACE_RULES",
        ) from None
    return read(text, str(path))


def find_rule(rules: Iterable[Rule], identity: str) -> Rule:
    """Return the rule of an id, whatever its case.

    Raises:
        UnknownRuleError: AP605.
    """
    known = {rule.id.lower(): rule for rule in rules}
    try:
        return known[identity.strip().lower()]
    except KeyError:
        raise UnknownRuleError(
            "there is no rule of this id",
            expected=f"one of {len(known)} ids, such as {next(iter(known), '')!r}",
            received=repr(identity),
            fix="`autoplace rules list` shows all",
        ) from None


@functools.cache
def built_in() -> tuple[Rule, ...]:
    """The rules that come with autoplace."""
    folder = resources.files("autoplace.rules") / "data"
    found: list[Rule] = []
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".toml"):
            found += read(file.read_text("utf-8"), file.name)
    return tuple(found)
