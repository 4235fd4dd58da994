"""The progress bar: where a person looks on, and nowhere else."""

from __future__ import annotations

import io
import sys
import types
from typing import Any

import pytest

from autoplace.probe.progress import progress


def run(setting: str) -> None:
    with progress(setting, 2) as advance:
        advance("conv2d")
        advance("a <strange> name")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_none_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    run("auto")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("setting", "is_shown"), [("auto", True), ("on", True), ("off", False)])
def test_in_a_terminal(setting: str, is_shown: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    run(setting)
    assert ("autoplace" in terminal.getvalue()) == is_shown
    assert ("conv2d" in terminal.getvalue() or "<strange>" in terminal.getvalue()) == is_shown


def test_on_shows_it_also_in_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    run("on")
    out, err = capsys.readouterr()
    assert out == "" and "autoplace" in err


@pytest.mark.parametrize("setting", ["auto", "off"])
def test_in_a_notebook_without_ipywidgets(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Handle:
        def update(self, thing: Any) -> None:
            shown.append(thing.data)

    class HTML:
        def __init__(self, data: str) -> None:
            self.data = data

    def display(thing: Any, display_id: bool) -> Handle:
        assert display_id
        shown.append(thing.data)
        return Handle()

    package: Any = types.ModuleType("IPython")
    room: Any = types.ModuleType("IPython.display")
    shell = type("ZMQInteractiveShell", (), {})()
    package.get_ipython, room.HTML, room.display = lambda: shell, HTML, display
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", room)
    run(setting)
    if setting == "off":
        assert shown == []
        return
    assert "value=0" in shown[0] and "value=2" in shown[2]
    assert "&lt;strange&gt;" in shown[2] and "<strange>" not in shown[2]
    assert shown[-1] == ""


def test_it_goes_away_when_the_warmup_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with pytest.raises(KeyboardInterrupt), progress("on", 2):
        raise KeyboardInterrupt
