"""The contracts between the rooms hold, and each of them can fail."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("importlinter", reason="import-linter is not installed")
pytestmark = pytest.mark.pure

ROOT = Path(__file__).parents[2]


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter on the tree at `root`."""
    return subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command as m; m()",
            "--no-cache",
        ],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root / "src"), "NO_COLOR": "1", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the sources that may be broken."""
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src" / "autoplace", tmp_path / "src" / "autoplace", ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_contracts_hold(copy: Path) -> None:
    """As they are."""
    result = lint(copy)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "0 broken" in result.stdout


@pytest.mark.parametrize(
    ("room", "line", "contract"),
    [
        ("ir/devices.py", "import autoplace.planner", "A room imports only what is below it"),
        ("errors.py", "from autoplace import ir", "A room imports only what is below it"),
        (
            "planner/cut.py",
            "from autoplace.rules import Policy",
            "A room imports only what is below it",
        ),
        ("probe/__init__.py", "import autoplace.model", "A room imports only what is below it"),
        ("rules/policy.py", "def f():\n    import tensorflow", "The pure rooms know no framework"),
        ("planner/cut.py", "from keras import layers", "The pure rooms know no framework"),
        ("ir/__init__.py", "import torch", "The pure rooms know no framework"),
        ("ir/graph.py", "import hypothesis", "Test tools stay in the testing room"),
    ],
)
def test_contracts_can_fail(copy: Path, room: str, line: str, contract: str) -> None:
    """One import in the wrong direction breaks exactly the contract that forbids it."""
    path = copy / "src" / "autoplace" / room
    path.write_text(f"{path.read_text(encoding='utf-8')}\n{line}\n", encoding="utf-8")
    result = lint(copy)
    assert result.returncode == 1, result.stderr
    assert f"{contract} BROKEN" in " ".join(result.stdout.split())


def test_a_new_room_must_enter_the_contract(copy: Path) -> None:
    """The layers are exhaustive."""
    (copy / "src" / "autoplace" / "attic.py").write_text('"""New."""\n', encoding="utf-8")
    result = lint(copy)
    assert result.returncode == 1
    assert "attic" in result.stdout
