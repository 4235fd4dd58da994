"""A report as HTML, self-contained: a fragment for notebooks, or a whole page."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from autoplace.report.view import View

if TYPE_CHECKING:
    from jinja2 import Template


def html(view: View, *, is_page: bool) -> str:
    """Return HTML for `view`.

    Args:
        view: What to show.
        is_page: True for a page with head and title, False for a fragment inside another page.
    """
    return _template().render(view=view, is_page=is_page, passes=("forward", "backward", "update"))


@cache
def _template() -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("autoplace.report"),
        autoescape=True,  # names come from the user's model
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.jinja")
