"""Keras models whose layers run where the train step is fastest, and right.

    import autoplace
    model = autoplace.SmartModel(inputs, outputs)

Everything is imported on first use, so that `import autoplace` is quick and touches no device.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autoplace import sim as sim
    from autoplace.errors import AutoplaceError as AutoplaceError
    from autoplace.forecast.forecast import Forecast as Forecast
    from autoplace.forecast.what_if import what_if as what_if
    from autoplace.ir import Plan as Plan
    from autoplace.model import SmartModel as SmartModel
    from autoplace.model import SmartSequential as SmartSequential
    from autoplace.model import report as report
    from autoplace.model import smart as smart
    from autoplace.rules import Policy as Policy
    from autoplace.rules import get_policy as get_policy
    from autoplace.rules import set_policy as set_policy

__version__ = "0.1.0"

__all__ = [
    "AutoplaceError",
    "Forecast",
    "Plan",
    "Policy",
    "SmartModel",
    "SmartSequential",
    "__version__",
    "get_policy",
    "report",
    "set_policy",
    "sim",
    "smart",
    "what_if",
]

_HOME = {
    "AutoplaceError": "autoplace.errors",
    "Forecast": "autoplace.forecast.forecast",
    "Plan": "autoplace.ir",
    "Policy": "autoplace.rules",
    "SmartModel": "autoplace.model",
    "SmartSequential": "autoplace.model",
    "get_policy": "autoplace.rules",
    "set_policy": "autoplace.rules",
    "smart": "autoplace.model",
    "what_if": "autoplace.forecast.what_if",
}
_NEED_TENSORFLOW = frozenset({"autoplace.model", "autoplace.forecast.what_if"})
_MODULES = frozenset({"report", "sim"})

# A room and a public function share the name `report`; so the room can be called.
_CALLABLE_MODULES = {"report": ("autoplace.model", "report")}


class _CallableModule(ModuleType):
    """A room that is also the function of its name."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        home, name = _CALLABLE_MODULES[self.__name__.rpartition(".")[2]]
        return getattr(_import(home), name)(*args, **kwargs)


class _Package(ModuleType):
    """This package. Python's import sets a submodule as an attribute of it: the moment to make it callable."""

    def __setattr__(self, name: str, value: object) -> None:
        if name in _CALLABLE_MODULES and isinstance(value, ModuleType):
            value.__class__ = _CallableModule
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def _import(module: str) -> ModuleType:
    """Import `module`; one that needs TensorFlow says so where there is none."""
    # A name that is None in sys.modules counts as not installed, as it does for `import`.
    if module in _NEED_TENSORFLOW and importlib.util.find_spec("tensorflow") is None:
        raise _tensorflow_missing()
    return importlib.import_module(module)


def _tensorflow_missing() -> Exception:
    import platform

    from autoplace.errors import TensorFlowMissingError

    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if (sys.platform, platform.machine()) != ("darwin", "arm64"):
        fix = "pip install 'autoplace[cpu]', or 'autoplace[cuda]' on Linux with an NVIDIA GPU"
        if sys.platform == "darwin":
            fix = "use an arm64 Python on a Mac with Apple silicon; TensorFlow has no newer x86 builds"
    elif sys.version_info >= (3, 13):
        fix = "use Python 3.10 to 3.12: tensorflow-metal has no build for a newer one"
    else:
        fix = (
            "pip install --force-reinstall autoplace, which brings tensorflow and tensorflow-metal"
        )
    return TensorFlowMissingError(
        "TensorFlow is not installed",
        expected="a TensorFlow that this Python can import",
        received=f"none in {sys.prefix}, Python {python} on {sys.platform} {platform.machine()}",
        fix=fix,
    )


def __getattr__(name: str) -> Any:
    """Import the public name `name` on first use."""
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(_import(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
