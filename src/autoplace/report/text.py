"""A report as plain text, and for a terminal by rich."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from autoplace.report.sentences import counted
from autoplace.report.view import PREDICTED, View

if TYPE_CHECKING:
    from rich.console import RenderableType

UNITS_SHOWN = 80
CROSSING_SHOWN = 20
BAR_WIDTH = 30
PASSES = "forward / backward / update"


def plain_text(view: View) -> str:
    """Return the report without colour, for logs and `str()`."""
    lines = [_clean(view.model), _clean(view.summary)]
    if view.simulation:
        lines.append(_clean(view.simulation))
    lines += (f"{name}: {_clean(text)}" for name, text in view.facts)
    for title, header, rows, note in _tables(view):
        lines += ["", title, *_aligned(header, rows)]
        if note:
            lines.append(f"  {note}")
    return "\n".join(lines)


def renderables(view: View) -> Iterator[RenderableType]:
    """Yield the report's parts for a rich console."""
    from rich.table import Table
    from rich.text import Text

    yield Text(_clean(view.model), style="bold")
    yield Text(_clean(view.summary))
    if view.simulation:
        yield Text(_clean(view.simulation), style="yellow")
    for name, text in view.facts:
        yield Text(f"{name}: {_clean(text)}")
    for title, header, rows, note in _tables(view):
        table = Table(title=title, title_justify="left", caption=note or None)
        for name in header:
            table.add_column(Text(name), overflow="fold")
        for row in rows:
            table.add_row(*(Text(_clean(cell)) for cell in row))
        yield table


_Table = tuple[str, Sequence[str], Sequence[Sequence[str]], str]


def _tables(view: View) -> Iterator[_Table]:
    if view.bars:
        yield (
            "Step time",
            ("placement", "ms", "interval", "rounds", ""),
            [
                (
                    f"{bar.name} *" if bar.is_chosen else bar.name,
                    bar.median,
                    bar.interval,
                    str(bar.rounds),
                    "#" * max(round(bar.shares[1] * BAR_WIDTH), 1),
                )
                for bar in view.bars
            ],
            "* chosen",
        )
    note = f"ms per step, {PASSES}" if view.devices else ""
    if view.has_predictions:
        note += f"; {PREDICTED} predicted"
    yield (
        f"Units ({len(view.units)})",
        ("unit", "class", "device", *(f"{device} ms" for device in view.devices), "verdict", "why"),
        [
            (
                unit.path,
                unit.class_name,
                unit.device,
                *(" / ".join(passes) if passes[0] else "-" for passes in unit.costs),
                unit.verdict or "-",
                unit.reason,
            )
            for unit in view.units[:UNITS_SHOWN]
        ],
        _joined(note, _left_out(len(view.units), UNITS_SHOWN, "unit")),
    )
    if view.crossing:
        yield (
            f"Edges that cross ({len(view.crossing)})",
            ("from", "to", "size"),
            view.crossing[:CROSSING_SHOWN],
            _left_out(len(view.crossing), CROSSING_SHOWN, "edge"),
        )
    if view.events:
        yield "Events", ("step", "kind", "unit", "action", "detail"), view.events, ""
    if view.machine:
        yield "Machine", ("what", "value"), view.machine, ""


def _left_out(number: int, shown: int, noun: str) -> str:
    if number <= shown:
        return ""
    return f"{counted(number - shown, noun)} more: see to_html() or to_dict()"


def _joined(*notes: str) -> str:
    return "; ".join(note for note in notes if note)


def _aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    table = [list(header), *([_clean(cell) for cell in row] for row in rows)]
    widths = [max(len(cell) for cell in column) for column in zip(*table, strict=True)]
    for row in table:
        yield "  " + _row(row, widths)


def _row(row: Iterable[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _clean(text: str) -> str:
    """Names come from the user's model: no line breaks, no terminal codes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
