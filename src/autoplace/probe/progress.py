"""The progress bar of a warmup: in a terminal and in a notebook, on stderr, and nowhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Advance = Callable[[str], None]


@contextmanager
def progress(setting: str, total: int) -> Iterator[Advance]:
    """Show a bar of `total` parts inside.

    Args:
        setting: ``auto`` shows it where a person looks on, ``on`` always, ``off`` never.
        total: Number of parts.

    Yields:
        A function that names the next part and advances.
    """
    if setting == "off" or (setting == "auto" and not (_in_notebook() or _in_terminal())):
        yield lambda _part: None
    elif _in_notebook():
        with _notebook_bar(total) as advance:
            yield advance
    else:
        with _terminal_bar(total) as advance:
            yield advance


@contextmanager
def _terminal_bar(total: int) -> Iterator[Advance]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("autoplace"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} {task.description}"),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True, force_terminal=True if not _in_terminal() else None)
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda part: bar.update(task, advance=1, description=part)


@contextmanager
def _notebook_bar(total: int) -> Iterator[Advance]:
    """A bar that a notebook can show without ipywidgets, which rich would need."""
    from html import escape

    from IPython.display import HTML, display

    def drawn(done: int, part: str) -> Any:
        text = f"{done}/{total} {escape(part)}"
        return HTML(f"autoplace <progress max={total} value={done}>{text}</progress> {text}")

    shown = display(drawn(0, ""), display_id=True)
    count = 0

    def advance(part: str) -> None:
        nonlocal count
        count += 1
        shown.update(drawn(min(count, total), part))

    try:
        yield advance
    finally:
        shown.update(HTML(""))


def _in_notebook() -> bool:
    """Whether this runs in a Jupyter kernel; IPython is looked at only if it is there already."""
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell is not None else None
    return type(running).__name__ == "ZMQInteractiveShell"


def _in_terminal() -> bool:
    return bool(getattr(sys.stderr, "isatty", lambda: False)())
