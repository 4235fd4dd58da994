"""What the started device is told, and what it says: its pace, its faults, its counters.

The one writer of the native device's settings. They belong to the whole process, not to a thread:
TensorFlow has one simulated device.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from autoplace.errors import UnknownSimulationError
from autoplace.sim import fault_specs
from autoplace.sim.timing_profiles import TimingProfile

MODES = ("replay", "spin", "exact")
REPLAY_AFTER = 2  # runs at a shape after which the next one of a heavy kernel is remembered
MOST_REMEMBERED_BYTES = 4 << 30  # 4 GiB, and never more than a quarter of this machine's memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """What the device has done since it was started.

    Attributes:
        launches: Kernels run.
        copies: Copies between the CPU's and the device's tensors.
        busy_ns: Modelled time for which it was busy.
        remembered_bytes: What is kept for replay just now.
    """

    launches: int
    copies: int
    busy_ns: int
    remembered_bytes: int = 0


class _Control:
    """The native device of this process and what is in force; `lock` guards all of it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.native: ctypes.CDLL | None = None
        self.profile: TimingProfile | None = None
        self.factor = 1.0
        self.ops: frozenset[str] = frozenset()
        self.faults: tuple[str, ...] = ()
        self.missing: frozenset[str] = frozenset()  # operations that a fault took from the table
        self.modes: list[
            tuple[object, str]
        ] = []  # of the blocks entered and not left; the last one counts
        self.sent = ""

    def send(self) -> None:
        if self.native is None or self.profile is None:
            return
        mode = self.modes[-1][1] if self.modes else "exact"
        lines = [] if mode == "exact" else self.profile.settings(self.factor)
        if mode == "replay":
            lines += [f"replay_after={REPLAY_AFTER}", f"replay_bytes={_replay_bytes()}"]
        lines += [
            fault.setting()
            for fault in fault_specs.parse(self.faults, self.ops)
            if fault.kind not in fault_specs.AT_START
        ]
        text = "\n".join(lines)
        if text == self.sent:
            return
        if self.native.AutoplaceSim_Set(text.encode()) != 0:
            raise RuntimeError(f"the native device does not understand its settings: {text!r}")
        self.sent = text


_control = _Control()


def connect(
    native: ctypes.CDLL,
    profile: TimingProfile,
    factor: float,
    ops: frozenset[str],
    faults: Sequence[str],
) -> None:
    """Take charge of a native device that TensorFlow has just loaded."""
    with _control.lock:
        _control.native, _control.profile, _control.factor = native, profile, factor
        _control.ops, _control.faults = ops, tuple(faults)
        _control.missing = fault_specs.missing_ops(fault_specs.parse(faults, ops))
        _control.send()


def faults_in_force() -> tuple[str, ...]:
    """Return the faults that are switched on, as they were written."""
    return _control.faults


@contextmanager
def timing(mode: str = "replay") -> Iterator[None]:
    """Let the device take a chip's time inside; outside it takes none. A no-op without a device.

    Args:
        mode: ``replay``: heavy kernels remember their third run at a shape and answer with it, in
            the modelled time, so that the device can be faster than this CPU. Values inside are
            stale; when the block is left, all that was remembered is gone. ``spin``: right values,
            and the modelled time or the CPU's, whichever is longer. ``exact``: right values and no
            time, as outside.

    Raises:
        UnknownSimulationError: AP106, for another mode.
    """
    if mode not in MODES:
        raise UnknownSimulationError(
            "a timing mode of the simulated device is not known",
            expected=f"one of {', '.join(MODES)}",
            received=repr(mode),
            fix="use timing('replay') to measure, timing('spin') for right values at a chip's pace",
        )
    entry = (object(), mode)
    with _control.lock:
        _control.modes.append(entry)
        _control.send()
    try:
        yield
    finally:
        with _control.lock:
            _control.modes.remove(entry)
            _control.send()


def set_faults(faults: Sequence[str]) -> None:
    """Switch faults on, and all others off; their runs are counted from here.

    Args:
        faults: Such as ``nan@MatMul:5`` or ``dropped_relu``; `autoplace.sim.fault_specs` has the
            kinds.

    Raises:
        UnknownSimulationError: AP106, for a fault that there is not, where no device has been
            started, or for a missing kernel that the started device has.
    """
    with _control.lock:
        if _control.native is None and faults:
            raise UnknownSimulationError(
                "faults are asked for, and there is no simulated device to have them",
                expected="autoplace.sim.start() before",
                received=", ".join(faults),
                fix="call autoplace.sim.start(faults=[...])",
            )
        missing = fault_specs.missing_ops(fault_specs.parse(faults, _control.ops))
        if not missing <= _control.missing:
            raise UnknownSimulationError(
                "a kernel cannot be taken away from a device that has been started",
                expected="missing_kernel among the faults of autoplace.sim.start()",
                received=", ".join(faults),
                fix="start another process with sim.start(faults=['missing_kernel@...'])",
            )
        _control.faults = tuple(faults)
        _control.send()


@contextmanager
def faults(*specs: str) -> Iterator[None]:
    """Switch faults on inside, all others off; those of before come back on exit.

    Raises:
        UnknownSimulationError: AP106, as `set_faults`.
    """
    before = _control.faults
    set_faults(specs)
    try:
        yield
    finally:
        set_faults(before)


def counters() -> Counters:
    """Return what the device has done so far; zeros where there is none."""
    values = (ctypes.c_int64 * 4)()
    if _control.native is not None:
        _control.native.AutoplaceSim_Counters(values)
    return Counters(
        launches=values[0], copies=values[1], busy_ns=values[2], remembered_bytes=values[3]
    )


def _replay_bytes() -> int:
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(MOST_REMEMBERED_BYTES, physical // 4)
