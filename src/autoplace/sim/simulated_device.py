"""Starts the simulated device in this process. TensorFlow admits one, and never lets it go."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from autoplace.errors import (
    DevicesAlreadyStartedError,
    SimulatorUnsupportedError,
    UnknownSimulationError,
)
from autoplace.sim import control, cpu_rate, fault_specs, kernel_tables, library, timing_profiles
from autoplace.sim.timing_profiles import TimingProfile

SCALES = ("ratio", "absolute")
SCALE = SCALES[0]


@dataclass(frozen=True, kw_only=True)
class SimulatedDevice:
    """The device of this process.

    Attributes:
        kernels: Name of its kernel table, such as ``tensorflow-metal==1.2.0``.
        macos: Version of the macOS, or None for one that meets all of the plugin's conditions.
        profile: The chip whose pace it has inside `timing`.
        scale: ``ratio`` or ``absolute``.
        factor: What all times of the chip are multiplied with.
        kernel_count: Kernels that it has.
        left_out: Why kernels of the table are not simulated, a sentence each.
        library: The native library.
        build_seconds: What building it took in this process; 0.0 where it was there.
        version: Short name of the native library's sources: measured costs depend on it.
    """

    kernels: str
    macos: str | None
    profile: TimingProfile
    scale: str
    factor: float
    kernel_count: int
    left_out: tuple[str, ...] = field(repr=False)
    library: Path
    build_seconds: float
    version: str

    def describe(self) -> dict[str, str]:
        """Return what a report says of the device; measured costs depend on all of it."""
        return {
            "device": "simulated, no real GPU",
            "kernels": self.kernels,
            "macos": self.macos or "any",
            "profile": self.profile.title,
            "scale": self.scale,
            "factor": f"{self.factor:.3g}",
            "version": self.version,
            "faults": ", ".join(control.faults_in_force()) or "none",
        }


class _Process:
    """The device of this process, and the arguments that it was started with."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.device: SimulatedDevice | None = None
        self.arguments: Mapping[str, object] = {}
        self.keras = ExitStack()  # never left, as the device never leaves the process


_process = _Process()


def device() -> SimulatedDevice | None:
    """Return the simulated device of this process, or None."""
    return _process.device


def is_started() -> bool:
    """Whether this process has the simulated device."""
    return _process.device is not None


def start(
    kernels: str = kernel_tables.NEWEST,
    profile: str = timing_profiles.DEFAULT,
    *,
    macos: str | None = None,
    scale: str = SCALE,
    faults: Sequence[str] = (),
) -> SimulatedDevice:
    """Add the simulated device to this process: TensorFlow lists it as `GPU:0`.

    Call it before the first tensor or model is made. The first start on a machine builds the device
    (some 15 s) and, for ``scale="ratio"``, measures the CPU (some 10 s); both are kept.

    Args:
        kernels: Plugin version whose kernels it has; `kernel_table_names()` lists them.
        profile: Chip whose pace it has inside `timing`; `profile_names()` lists them.
        macos: macOS version, such as ``"13"``: some plugins register fewer kernels on older ones. By
            default one that meets all their conditions.
        scale: ``ratio`` multiplies all its times by how this CPU compares with the chip's, so that
            the two devices compare as on a Mac; ``absolute`` keeps the chip's own times.
        faults: Faults from the start, see `set_faults`.

    Returns:
        The device; the same object for another call with equal arguments.

    Raises:
        CompilerMissingError: AP102, SimulatorBuildError: AP103, where it cannot be built.
        DevicesAlreadyStartedError: AP104, after TensorFlow has set up its devices, or for other
            arguments than those of the first call.
        SimulatorUnsupportedError: AP105, off Linux, with a CUDA build of TensorFlow, or beside
            another GPU.
        UnknownSimulationError: AP106, for a table, profile, scale or fault that there is not, or a macOS on
            which the plugin does not load.
    """
    if scale not in SCALES:
        raise UnknownSimulationError(
            "the scale of the simulated device is not known",
            expected=f"one of {', '.join(SCALES)}",
            received=repr(scale),
            fix="use scale='ratio'",
        )
    chip = timing_profiles.load(profile)
    fault_specs.parse(faults, kernel_tables.ops(kernels))
    kernel_tables.macos_version(kernels, macos)
    arguments = {
        "kernels": kernels,
        "profile": profile,
        "macos": macos,
        "scale": scale,
        "faults": tuple(faults),
    }
    with _process.lock:
        if _process.device is None:
            _process.device = _started(kernels, chip, macos, scale, faults)
            _process.arguments = arguments
        elif _process.arguments != arguments:
            raise DevicesAlreadyStartedError(
                "the simulated device of this process was started with other arguments",
                expected=_written(_process.arguments),
                received=_written(arguments),
                fix="use set_faults() for other faults, a process of its own for another device",
            )
        return _process.device


def _written(arguments: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items())


def _started(
    kernels: str, chip: TimingProfile, macos: str | None, scale: str, faults: Sequence[str]
) -> SimulatedDevice:
    library.check_platform()
    _check_no_devices()
    from tensorflow.python.framework.load_library import load_pluggable_device_library

    missing = fault_specs.missing_ops(fault_specs.parse(faults, kernel_tables.ops(kernels)))
    table = kernel_tables.simulated(kernels, without=missing, macos=macos)
    built = library.build()
    factor = cpu_rate.factor(chip, built.path.parent.parent) if scale == "ratio" else 1.0
    native = library.open_native(built)
    native.AutoplaceSim_SetKernels("\n".join(table.lines).encode())
    load_pluggable_device_library(str(built.path))
    control.connect(native, chip, factor, table.ops | missing, faults)
    _process.keras.enter_context(_keras_on_a_mac())
    return SimulatedDevice(
        kernels=kernels,
        macos=macos,
        profile=chip,
        scale=scale,
        factor=factor,
        kernel_count=len(table.lines),
        left_out=table.left_out,
        library=built.path,
        build_seconds=built.seconds,
        version=built.version,
    )


def _keras_on_a_mac() -> AbstractContextManager[None]:
    from autoplace.engines.tensorflow import seams

    return seams.arm_mac_for_keras()


def _check_no_devices() -> None:
    """Raise unless TensorFlow can still take a device, and has no GPU yet."""
    import tensorflow as tf
    from tensorflow.python.eager import context

    if context.context()._initialized:  # noqa: SLF001 - nothing public tells; a test holds it
        raise DevicesAlreadyStartedError(
            "TensorFlow has set up its devices already, so none can be added",
            expected="autoplace.sim.start() before the first tensor, variable or model is made",
            received="a process that has run an operation or listed its logical devices",
            fix="call autoplace.sim.start() right after the imports; restart a notebook's kernel",
        )
    present = tf.config.list_physical_devices("GPU")
    if present:
        raise SimulatorUnsupportedError(
            "there is a GPU, or the plugin of one, already",
            expected="a process in which TensorFlow lists no GPU",
            received=", ".join(device.name for device in present),
            fix="use the real device, or uninstall the other plugin for a simulation",
        )
