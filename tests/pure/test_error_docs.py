"""docs/errors.md is what the classes say, and each class says enough."""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path
from types import ModuleType

import pytest

from autoplace.errors import AutoplaceError, AutoplaceWarning

DOCS = Path(__file__).parents[2] / "docs"


def load() -> ModuleType:
    """Import docs/make_errors.py, which is in no package."""
    spec = importlib.util.spec_from_file_location("make_errors", DOCS / "make_errors.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


make_errors = load()


def test_page_is_current(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a change of errors.py: run docs/make_errors.py. A changed page is noticed."""
    assert make_errors.main(["--check"]) == 0
    page = tmp_path / "errors.md"
    monkeypatch.setattr(make_errors, "TARGET", page)
    assert make_errors.main(["--check"]) == 1
    assert make_errors.main([]) == 0
    assert make_errors.main(["--check"]) == 0
    page.write_text(page.read_text() + "\n")
    assert make_errors.main(["--check"]) == 1


def test_every_class_has_a_section_of_its_own() -> None:
    """Codes are unique, well formed, and each class has its own sentence."""
    kinds = make_errors.coded()
    codes = [make_errors.code_of(kind) for kind in kinds]
    assert len(set(codes)) == len(codes) > 20
    text = make_errors.page()
    for kind, code in zip(kinds, codes, strict=True):
        assert len(code) == 5
        assert code.startswith("AP")
        assert inspect.getdoc(kind) != inspect.getdoc(kind.__mro__[1])
        assert f"`{code}`" in text
        assert kind.__name__ in text


@pytest.mark.parametrize(
    "kind", [k for k in make_errors.coded() if issubclass(k, AutoplaceError)], ids=lambda k: k.code
)
def test_every_error_shows_its_parts(kind: type[AutoplaceError]) -> None:
    """All five parts are in the text and in the data, also where a builtin has a text of its own."""
    error = kind("what happened", expected="this", received="that", fix="do so")
    assert str(error) == (
        f"{kind.code}: what happened\n  Expected: this\n  Received: that\n  Fix: do so"
    )
    assert error.to_dict() == {
        "code": kind.code,
        "what": "what happened",
        "expected": "this",
        "received": "that",
        "fix": "do so",
    }
    assert make_errors.builtins_of(kind)


def test_warnings_are_warnings() -> None:
    """They go through the warnings filter."""
    kinds = [k for k in make_errors.coded() if not issubclass(k, AutoplaceError)]
    assert kinds
    assert all(issubclass(kind, AutoplaceWarning) for kind in kinds)
