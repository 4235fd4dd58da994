"""Explains a plan: as text, in a terminal, as HTML and as data.

In: a `Plan` with its evidence. Out: text, one self-contained HTML page, JSON of schema 1. Never: a
framework, a measurement, a network request, a figure that the plan does not hold.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from autoplace.report.report import Report as Report


class _CallableModule(ModuleType):
    """Makes `autoplace.report(model)` work, although `autoplace.report` is also this package.

    Importing the package sets it as the attribute `report` of `autoplace`, over any function of that name.
    So the module itself is callable. The function lives above this room, in `autoplace.model`; it is looked
    up by name when it is called, since an import here would point upwards.
    """

    def __call__(self, model: object) -> Report:
        """Explain where the layers of a model run, and why: `autoplace.model.report`."""
        explained: Report = importlib.import_module("autoplace.model").report(model)
        return explained


sys.modules[__name__].__class__ = _CallableModule
