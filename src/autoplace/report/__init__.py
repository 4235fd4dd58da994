"""Explains a plan: as text, in a terminal, as HTML and as data.

In: a `Plan` with its evidence. Out: text, one self-contained HTML page, JSON of schema 1. Never: a
framework, a measurement, a network request, a figure that the plan does not hold.

`autoplace.report(model)` is this room, called: `autoplace/__init__.py` makes it callable.
"""

from autoplace.report.report import Report as Report
