"""`Report`: what `autoplace.report(model)` returns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoplace.ir import Plan
from autoplace.report.data import plan_data
from autoplace.report.files import write_whole
from autoplace.report.html import html
from autoplace.report.text import plain_text, renderables
from autoplace.report.view import view_of

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True, repr=False)
class Report:
    """Explains a plan; shows itself in a notebook, in a terminal and by `print`.

    Args:
        plan: The plan with its evidence. Everything that a report says comes from it.

    Example:
        >>> from autoplace.ir import CPU, Assignment, LayerGraph, Plan, Unit
        >>> unit = Unit(path="dense", class_name="Dense", signature="")
        >>> graph = LayerGraph(
        ...     model_name="net", model_kind="sequential", batch_size=8, units=(unit,)
        ... )
        >>> seat = Assignment(path="dense", device=CPU, reason="no accelerator on this machine")
        >>> Report(Plan(graph=graph, units=(seat,))).to_dict()["choice"]
        'all-cpu'
    """

    plan: Plan

    def to_dict(self) -> dict[str, Any]:
        """Return the report as data of schema 1: dictionaries, lists, strings, numbers, null.

        Times are integer nanoseconds of one step, sizes are bytes. What is not known is None.
        """
        return plan_data(self.plan)

    def to_json(self, path: str | Path) -> None:
        """Write `to_dict` as a JSON file; the file is whole or not there.

        Args:
            path: File to write; its folder must exist.

        Raises:
            OSError: If the folder does not exist or cannot be written.
        """
        write_whole(path, json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n")

    def to_html(self, path: str | Path) -> None:
        """Write the report as one HTML page that needs no network; the file is whole or not there.

        Args:
            path: File to write; its folder must exist.

        Raises:
            OSError: If the folder does not exist or cannot be written.
        """
        write_whole(path, html(view_of(self.plan), is_page=True))

    def __str__(self) -> str:
        return plain_text(view_of(self.plan))

    __repr__ = __str__  # what a prompt shows for `autoplace.report(model)`

    def __rich_console__(self, console: object, options: object) -> Iterator[RenderableType]:
        yield from renderables(view_of(self.plan))

    def _repr_html_(self) -> str:
        return html(view_of(self.plan), is_page=False)
