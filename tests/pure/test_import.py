"""`import autoplace` loads nothing heavy, and the public names are what they are said to be."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import autoplace

pytestmark = pytest.mark.pure

HEAVY = ("tensorflow", "keras", "numpy", "scipy", "rich", "jinja2", "ortools", "cattrs", "typer")


def loaded_after(code: str) -> set[str]:
    """Return which of the heavy packages a fresh process has after running `code`."""
    script = (
        f"{code}\nimport json, sys\nprint(json.dumps([n for n in {HEAVY!r} if n in sys.modules]))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    ).stdout
    return set(json.loads(answer))


def test_import_is_lazy() -> None:
    """Neither a framework nor numpy, nor anything that shows or solves."""
    assert loaded_after("import autoplace") == set()


def test_import_would_notice() -> None:
    """The twin: an import of numpy or rich does show up."""
    assert loaded_after("import autoplace, numpy, rich") == {"numpy", "rich"}


@pytest.mark.parametrize("name", ["Policy", "Plan", "AutoplaceError"])
def test_values_need_no_framework(name: str) -> None:
    """Policies, plans and errors are usable where TensorFlow is broken."""
    assert loaded_after(f"import autoplace; autoplace.{name}") == set()


def test_public_names() -> None:
    """Sorted, listed by dir(), each with a home."""
    assert autoplace.__all__ == sorted(autoplace.__all__)
    assert set(autoplace.__all__) <= set(dir(autoplace))
    source = Path(autoplace.__file__).read_text(encoding="utf-8")
    checked_only = {
        alias.asname
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for statement in node.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    assert checked_only | {"__version__"} == set(autoplace.__all__)
    lazy = autoplace._HOME.keys() | autoplace._MODULES
    assert lazy | {"__version__"} == set(autoplace.__all__)


def test_unknown_names_are_attribute_errors() -> None:
    """As with any module."""
    with pytest.raises(AttributeError, match="has no attribute 'smart_model'"):
        _ = autoplace.smart_model


def test_version_is_that_of_the_package() -> None:
    """Written twice, so compared here."""
    pyproject = Path(__file__).parents[2] / "pyproject.toml"
    assert f'\nversion = "{autoplace.__version__}"\n' in pyproject.read_text(encoding="utf-8")


@pytest.mark.parametrize("use", ["autoplace.SmartModel", "autoplace.smart", "autoplace.report(1)"])
def test_no_tensorflow_is_a_clear_error(use: str) -> None:
    """AP101 at first use, also as an ImportError; what needs no framework goes on working."""
    script = f"""
import sys
sys.modules["tensorflow"] = None  # as if not installed
import autoplace
from autoplace.errors import TensorFlowMissingError
assert autoplace.Policy().mode == "auto"
try:
    {use}
except ImportError as error:
    assert type(error) is TensorFlowMissingError, type(error)
    assert error.code == "AP101"
else:
    raise SystemExit("no error")
assert "keras" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize(
    ("system", "machine", "version", "fix"),
    [
        ("linux", "x86_64", (3, 13), "autoplace[cpu]"),
        ("win32", "AMD64", (3, 10), "autoplace[cpu]"),
        ("darwin", "arm64", (3, 13), "use Python 3.10 to 3.12"),
        ("darwin", "arm64", (3, 12), "--force-reinstall autoplace"),
        ("darwin", "x86_64", (3, 12), "arm64 Python"),
    ],
)
def test_the_fix_fits_the_platform(
    monkeypatch: pytest.MonkeyPatch, system: str, machine: str, version: tuple[int, int], fix: str
) -> None:
    """On a Mac with Python 3.13 no extra would help."""
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr(sys, "version_info", version)
    error = autoplace._tensorflow_missing()
    assert isinstance(error, ImportError)
    assert fix in str(error)


@pytest.mark.parametrize(
    "before",
    [
        "",
        "import autoplace.report",
        "from autoplace.report import __name__ as _",
        "import autoplace.report as r; assert callable(r)",
        "autoplace.report",
    ],
)
def test_report_is_a_function_and_a_room(before: str) -> None:
    """The room shares its name with the function, and importing it does not hide the function."""
    script = f"""
import importlib.machinery, sys, types
import autoplace
home = types.ModuleType("autoplace.model")
home.report = lambda *args, **kwargs: (args, kwargs)
sys.modules["autoplace.model"] = home
sys.modules["tensorflow"] = types.ModuleType("tensorflow")
sys.modules["tensorflow"].__spec__ = importlib.machinery.ModuleSpec("tensorflow", None)
{before}
assert callable(autoplace.report)
assert autoplace.report(1, a=2) == ((1,), {{"a": 2}})
import autoplace.report
assert autoplace.report(3) == ((3,), {{}})
assert sys.modules["autoplace.report"] is autoplace.report
assert autoplace.report.__doc__
"""
    subprocess.run([sys.executable, "-c", script], check=True)
