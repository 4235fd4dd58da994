"""Faults that the simulated device can have, and how they are written.

A fault is written ``kind@Operation[:first_run[:argument]]``. It acts on each kernel of the
operation (``*`` for all), from the given run on, counted from 0 since the faults were set. The
argument is the number of seconds for ``hang``, and else the number of runs for which the fault
lasts; without it, it stays. A short name, such as ``topk_over_16``, stands for the faults that
`data/reported_faults.toml` lists, with the public report that they come from.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from autoplace.errors import UnknownSimulationError
from autoplace.sim import package_data

ANY = "*"
KINDS = {
    "abort": "the process aborts",
    "bad_batch": "outputs are off by 0.1 where the first dimension is no multiple of 8",
    "command_buffer": "a line on stderr, outputs are zero, and no exception",
    "dropped_relu": "compiled Relu(BiasAdd(MatMul)) gives BiasAdd(MatMul); takes no operation",
    "exhausted": "the kernel raises ResourceExhausted",
    "hang": "the kernel sleeps, an hour unless the argument says less",
    "missing_kernel": "the device has no kernel for the operation; only from the start",
    "nan": "outputs are NaN",
    "repeated": "each run gives the outputs of the operation's first run at their shape",
    "topk_over_16": "along the last dimension, outputs are zero after the sixteenth",
    "wrong_gradient": "of kernels of the backward pass, the second half of the outputs is zero",
}
IN_THE_GRAPH = frozenset(
    {"dropped_relu"}
)  # act when a graph is compiled, so have no operation and no run
AT_START = frozenset({"missing_kernel"})  # TensorFlow never gives a registered kernel up


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSpec:
    """A fault, as parsed.

    Attributes:
        kind: A key of `KINDS`.
        op: Operation, ``*`` for all, empty for faults in the graph.
        first_run: First run of each kernel that is bad, from 0.
        argument: Seconds for ``hang``, else runs; 0 for no end.
    """

    kind: str
    op: str = ""
    first_run: int = 0
    argument: float = 0.0

    def setting(self) -> str:
        """Return the line that tells the native device."""
        where = f"@{self.op}:{self.first_run}:{self.argument!r}" if self.op else ""
        return f"fault={self.kind}{where}"


def parse(specs: Sequence[str], ops: Iterable[str]) -> tuple[FaultSpec, ...]:
    """Read faults of a device that has kernels for `ops`.

    Raises:
        UnknownSimulationError: AP106, for another kind, an operation that the device lacks, or a
            bad number.
    """
    if isinstance(specs, str):
        raise _unknown("faults are given as one string", repr(specs))
    known = frozenset(ops)
    return tuple(fault for spec in specs for fault in _parse_name_or_spec(spec, known))


def missing_ops(faults: Iterable[FaultSpec]) -> frozenset[str]:
    """Return the operations of which `faults` take the kernels away."""
    return frozenset(fault.op for fault in faults if fault.kind in AT_START)


@functools.cache
def short_names() -> Mapping[str, tuple[str, ...]]:
    """Return what each short name stands for."""
    reported = package_data.toml("data", "reported_faults.toml")["fault"]
    return {name: tuple(fault["faults"]) for name, fault in reported.items()}


def _parse_name_or_spec(spec: str, ops: frozenset[str]) -> tuple[FaultSpec, ...]:
    if spec not in short_names():
        return (_parse(spec, ops),)
    stands_for = short_names()[spec]
    named = {op for text in stands_for for op in [text.partition("@")[2].partition(":")[0]] if op}
    parsed = (_parse(text, ops | named) for text in stands_for)
    return tuple(fault for fault in parsed if not fault.op or fault.op in ops)


def _parse(spec: str, ops: frozenset[str]) -> FaultSpec:
    kind, at, where = spec.partition("@")
    if kind not in KINDS or bool(at) == (kind in IN_THE_GRAPH):
        raise _unknown("a fault of the simulated device is not known", repr(spec))
    if not at:
        return FaultSpec(kind=kind)
    op, *numbers = where.split(":")
    if kind in AT_START and (numbers or op == ANY):
        raise _unknown("a kernel is missing for one operation, and from the start", repr(spec))
    if op != ANY and op not in ops:
        raise UnknownSimulationError(
            "a fault is asked for in an operation for which the simulated device has no kernel",
            expected=f"one of its {len(ops)} operations, such as MatMul, or {ANY} for all",
            received=repr(spec),
            fix="use the operation's name as TensorFlow writes it",
        )
    try:
        first_run = int(numbers[0]) if numbers else 0
        argument = float(numbers[1]) if len(numbers) > 1 else 0.0
    except ValueError:
        raise _unknown("a fault has a number that cannot be read", repr(spec)) from None
    if len(numbers) > 2 or first_run < 0 or not 0 <= argument < float("inf"):
        raise _unknown("a fault has a number that it cannot have", repr(spec))
    return FaultSpec(kind=kind, op=op, first_run=first_run, argument=argument)


def _unknown(what: str, received: str) -> UnknownSimulationError:
    return UnknownSimulationError(
        what,
        expected="a sequence of kind@Operation[:first_run[:argument]] with a kind of "
        f"{', '.join(KINDS)}; "
        f"{', '.join(IN_THE_GRAPH)} takes no operation; "
        f"or a short name: {', '.join(short_names())}",
        received=received,
        fix="write for example ['nan@MatMul:5'] or ['dropped_relu']",
    )
