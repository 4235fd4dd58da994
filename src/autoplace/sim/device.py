"""Starts the simulated device in this process and controls it."""

from __future__ import annotations

import ctypes
import os
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from autoplace.errors import (
    DevicesAlreadyStartedError,
    SimulatorUnsupportedError,
    UnknownSimulationError,
)
from autoplace.sim import build, pace, profiles, tables
from autoplace.sim import faults as fault_kinds
from autoplace.sim.profiles import Profile

SCALES = ("ratio", "absolute")
MODES = ("replay", "spin", "exact")
REPLAY_AFTER = 1  # runs at a shape after which heavy kernels are remembered; 0 would never do it


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """What the device has done since it was started.

    Attributes:
        launches: Kernels run.
        copies: Copies between the CPU's and the device's memory.
        busy_ns: Simulated time for which it was busy.
    """

    launches: int
    copies: int
    busy_ns: int


@dataclass(frozen=True, kw_only=True)
class SimulatedDevice:
    """The device of this process.

    Attributes:
        kernels: Name of its kernel table.
        profile: The chip that it imitates.
        scale: ``ratio`` or ``absolute``.
        factor: What every time of the chip is multiplied with.
        left_out: Kernels of the table that are not simulated, with the reason.
        library: The native library.
        build_seconds: What building it took; 0.0 where it was there.
    """

    kernels: str
    profile: Profile
    scale: str
    factor: float
    left_out: tuple[str, ...]
    library: Path
    build_seconds: float

    def describe(self) -> dict[str, str]:
        """Return what a report says of the device, and what measured costs depend on."""
        return {
            "kernels": self.kernels,
            "profile": self.profile.title,
            "scale": self.scale,
            "factor": f"{self.factor:.3f}",
            "faults": ", ".join(_state.faults) or "none",
        }


class _State:
    """The device of this process; TensorFlow admits one, and never lets it go."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.device: SimulatedDevice | None = None
        self.native: ctypes.CDLL | None = None
        self.modes: list[str] = []
        self.faults: tuple[str, ...] = ()

    def send(self) -> None:
        """Tell the native device what is in force now."""
        if self.native is None or self.device is None:
            return
        lines = fault_kinds.lines(self.faults)
        mode = self.modes[-1] if self.modes else "exact"
        if mode != "exact":
            chip, factor = self.device.profile, self.device.factor
            lines += [
                f"launch_s={chip.launch_us * 1e-6 * factor!r}",
                f"copy_s={chip.copy_us * 1e-6 * factor!r}",
                f"flops={chip.peak_gflops * 1e9 * chip.efficiency / factor!r}",
                f"bytes_per_s={chip.bandwidth_gb_s * 1e9 / factor!r}",
            ]
        if mode == "replay":
            lines.append(f"replay={REPLAY_AFTER}")
        self.native.AutoplaceSim_Set("\n".join(lines).encode())


_state = _State()


def start(
    kernels: str = "tensorflow-metal==1.2.0",
    profile: str = "m1",
    *,
    scale: str = "ratio",
    faults: Sequence[str] = (),
) -> SimulatedDevice:
    """Add the simulated device to this process: TensorFlow lists it as `GPU:0`.

    Args:
        kernels: Plugin version whose kernels it has.
        profile: Chip that it imitates in `timing`.
        scale: ``ratio`` scales its times by how this CPU compares with the chip's, ``absolute`` keeps them.
        faults: Faults from the start, see `set_faults`.

    Returns:
        The device; the same one for a second call with the same arguments.

    Raises:
        DevicesAlreadyStartedError: AP104, after TensorFlow has set up its devices, or for other arguments
            than before.
        UnknownSimulationError: AP106, for unknown names.
        SimulatorUnsupportedError: AP105, CompilerMissingError: AP102, SimulatorBuildError: AP103.
    """
    if scale not in SCALES:
        raise UnknownSimulationError(
            "the scale of the simulated device is not known",
            expected=f"one of {', '.join(SCALES)}",
            received=repr(scale),
            fix="use scale='ratio'",
        )
    chip = profiles.load(profile)
    fault_kinds.lines(faults)
    next(tables.kernels(kernels))
    with _state.lock:
        if _state.device is None:
            _start(kernels, chip, scale)
        elif (_state.device.kernels, _state.device.profile, _state.device.scale) != (
            kernels,
            chip,
            scale,
        ):
            raise DevicesAlreadyStartedError(
                "the simulated device of this process was started with other arguments",
                expected=f"{_state.device.kernels}, {_state.device.profile.name}, {_state.device.scale}",
                received=f"{kernels}, {profile}, {scale}",
                fix="use a process of its own for each device",
            )
        set_faults(faults)
        started = _state.device
    if started is None:  # cannot be: _start sets it or raises
        raise RuntimeError("the simulated device did not start")
    return started


def _start(kernels: str, chip: Profile, scale: str) -> None:
    import tensorflow as tf
    from tensorflow.python.eager import context
    from tensorflow.python.framework.load_library import load_pluggable_device_library

    if context.context()._initialized:  # noqa: SLF001 - there is no public way to ask
        raise DevicesAlreadyStartedError(
            "TensorFlow has set up its devices already, so none can be added",
            expected="autoplace.sim.start() before the first tensor or model is made",
            received="a process in which TensorFlow has run something",
            fix="call autoplace.sim.start() right after the imports",
        )
    build.check_platform()
    present = tf.config.list_physical_devices("GPU")
    if present:
        raise SimulatorUnsupportedError(
            "there is an accelerator or another plugin already",
            expected="a process without a GPU",
            received=", ".join(device.name for device in present),
            fix="use the real device, or uninstall the other plugin",
        )
    lines, left_out = tables.simulated_lines(kernels)
    library = build.build()
    factor = 1.0
    if scale == "ratio":
        factor = chip.cpu_matmul_gflops / pace.cpu_gflops(build.cache_directory())
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as table:
        table.write("\n".join(lines) + "\n")
        table.flush()
        os.environ["AUTOPLACE_SIM_KERNELS"] = table.name
        try:
            load_pluggable_device_library(str(library.path))
        finally:
            del os.environ["AUTOPLACE_SIM_KERNELS"]
    _state.native = ctypes.CDLL(str(library.path))
    _state.device = SimulatedDevice(
        kernels=kernels,
        profile=chip,
        scale=scale,
        factor=factor,
        left_out=tuple(left_out),
        library=library.path,
        build_seconds=library.seconds,
    )
    _state.send()


def device() -> SimulatedDevice | None:
    """Return the device of this process, or None."""
    return _state.device


def is_started() -> bool:
    """Whether this process has the simulated device."""
    return _state.device is not None


@contextmanager
def timing(mode: str = "replay") -> Iterator[None]:
    """Let the device take a chip's time inside; outside it takes none. Without a device, nothing happens.

    Args:
        mode: ``replay``: heavy kernels answer from memory after a few runs at a shape and take the modelled
            time, so that the device can be faster than this CPU; values are stale. ``spin``: right values, the
            modelled time or the CPU's, whichever is longer. ``exact``: right values and no time, as outside.

    Raises:
        UnknownSimulationError: AP106, for another mode.
    """
    if mode not in MODES:
        raise UnknownSimulationError(
            "a timing mode of the simulated device is not known",
            expected=f"one of {', '.join(MODES)}",
            received=repr(mode),
            fix="use timing('replay') to measure and timing('spin') for right values",
        )
    with _state.lock:
        _state.modes.append(mode)
        _state.send()
    try:
        yield
    finally:
        with _state.lock:
            _state.modes.pop()
            _state.send()


def set_faults(specs: Sequence[str]) -> None:
    """Switch faults on, and all others off.

    Args:
        specs: Such as ``nan@MatMul:5``: kind, operation (``*`` for all), the first run of each kernel that is
            bad, an argument (seconds of ``hang``); or ``dropped_relu``.

    Raises:
        UnknownSimulationError: AP106, for a fault that there is not.
    """
    fault_kinds.lines(specs)
    with _state.lock:
        _state.faults = tuple(specs)
        _state.send()


@contextmanager
def faults(*specs: str) -> Iterator[None]:
    """Switch faults on inside; those of before come back on exit."""
    before = _state.faults
    set_faults(specs)
    try:
        yield
    finally:
        set_faults(before)


def counters() -> Counters:
    """Return what the device has done so far; zeros where there is none."""
    values = (ctypes.c_int64 * 3)()
    if _state.native is not None:
        _state.native.AutoplaceSim_Counters(values)
    return Counters(launches=values[0], copies=values[1], busy_ns=values[2])
