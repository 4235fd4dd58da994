"""The runner of the sets: it adds up, and it notices a set that ran nothing."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.pure

PASSES = "def test_one(): pass\n"
FAILS = "def test_two(): assert 0\n"
SKIPS = "import pytest\n@pytest.mark.skip\ndef test_three(): pass\n"


@pytest.fixture
def sets(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The runner, as if every need were here."""
    spec = importlib.util.spec_from_file_location("sets", Path(__file__).parents[1] / "sets.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "sets", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "missing_need", lambda name: None)
    monkeypatch.setattr(module, "NEVER_EMPTY", ("pure",))
    return module


@pytest.mark.parametrize(
    ("pure", "cpu", "code", "line"),
    [
        (PASSES, PASSES, 0, "2 passed in"),
        (PASSES, None, 0, "1 passed in"),
        (PASSES, FAILS, 1, "1 failed, 1 passed in"),
        (PASSES, SKIPS, 1, "1 passed, 1 skipped, 1 error in"),
        (None, PASSES, 1, "1 passed, 1 error in"),
        ("import nothing_of_this_name\n", PASSES, 1, "1 passed, 1 error in"),
        ("", PASSES, 1, "1 passed, 1 error in"),
    ],
)
def test_closing_line_and_code(
    sets: ModuleType,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    pure: str | None,
    cpu: str | None,
    code: int,
    line: str,
) -> None:
    """The last line counts all sets; an empty, broken or wholly skipped set fails."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    for name, content in (("pure", pure), ("cpu", cpu)):
        if content is not None:
            (tmp_path / name).mkdir()
            (tmp_path / name / f"test_{name}.py").write_text(content, encoding="utf-8")
    extra = ["-c", str(tmp_path / "pytest.ini"), "-p", "no:cacheprovider"]
    assert sets.main(["pure", "cpu", "--out", str(tmp_path), *extra], tests=tmp_path) == code
    assert line in capfd.readouterr().out.rstrip().splitlines()[-1]


def test_unknown_set_is_a_usage_error(sets: ModuleType) -> None:
    """Exit code 2, as argparse has it."""
    with pytest.raises(SystemExit) as caught:
        sets.main(["purr"])
    assert caught.value.code == 2
