"""Faults that the simulated device can have."""

from __future__ import annotations

from collections.abc import Sequence

from autoplace.errors import UnknownSimulationError

KINDS = {
    "nan": "outputs are NaN",
    "bad_batch": "outputs are off by 0.1 where the first dimension is no multiple of 8",
    "exhausted": "the kernel raises ResourceExhausted",
    "command_buffer": "a line on stderr, and outputs are zero",
    "hang": "the kernel sleeps",
    "abort": "the process aborts",
    "dropped_relu": "compiled Relu(BiasAdd(MatMul)) gives BiasAdd(MatMul)",
}
WITHOUT_OPERATION = frozenset({"dropped_relu"})


def lines(specs: Sequence[str]) -> list[str]:
    """Return the settings' lines for faults such as ``nan@MatMul:5``: kind, operation, first bad run, argument.

    Raises:
        UnknownSimulationError: AP106, for anything else.
    """
    return [f"fault={_checked(spec)}" for spec in specs]


def _checked(spec: str) -> str:
    kind, _, where = spec.partition("@")
    parts = where.split(":") if where else []
    is_known = kind in KINDS and bool(parts) != (kind in WITHOUT_OPERATION)
    numbers = parts[1:]
    if (
        not is_known
        or len(numbers) > 2
        or not all(n.replace(".", "", 1).isdigit() for n in numbers)
    ):
        raise UnknownSimulationError(
            "a fault of the simulated device is not known",
            expected=f"kind@Operation[:first_run[:argument]] with a kind of {', '.join(KINDS)}; "
            "dropped_relu takes no operation",
            received=repr(spec),
            fix="write for example 'nan@MatMul:5' or 'dropped_relu'",
        )
    return spec
