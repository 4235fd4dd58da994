"""Which accelerator the demo uses: a real one if there is one, else the simulated one."""

from __future__ import annotations

import autoplace.sim
from autoplace.errors import TensorFlowMissingError

DEFAULT_PROFILE = "m1"


def choose(profile: str | None, *, may_simulate: bool) -> str:
    """Get an accelerator ready, and return a sentence that says which.

    Call it before anything has run in TensorFlow.

    Args:
        profile: Simulate this chip, whatever there is; None to simulate only where there is nothing real.
        may_simulate: False to use what is there, perhaps the CPU alone.

    Raises:
        TensorFlowMissingError: AP101.
        UnknownSimulationError: AP106, for an unknown profile; others of AP1xx where it cannot be simulated.
    """
    try:
        import tensorflow as tf
    except ImportError as error:
        raise TensorFlowMissingError(
            "TensorFlow cannot be imported",
            expected="TensorFlow 2.16 or newer",
            received=str(error),
            fix="pip install 'autoplace[cpu]', or 'autoplace[cuda]' with an NVIDIA GPU",
        ) from None
    if autoplace.sim.is_started() or profile is not None:
        return _simulated(profile or DEFAULT_PROFILE)
    if tf.config.list_physical_devices("GPU"):
        return "on this machine's accelerator"
    if may_simulate:
        return _simulated(DEFAULT_PROFILE)
    return "without an accelerator: all plans are trivial"


def _simulated(profile: str) -> str:
    device = autoplace.sim.start(profile=profile)
    fields = device.describe()
    shown = ", ".join(f"{name} {fields[name]}" for name in ("kernels", "profile", "scale"))
    return f"on a SIMULATED accelerator ({shown}); values are exact, step times are modelled"
