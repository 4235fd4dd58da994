"""The sentences of a report, each made from figures that the plan holds."""

from __future__ import annotations

import math
from collections import Counter

from autoplace.ir import ALL_CPU, CPU, GateResult, Machine, Parity, Plan, ProbeSummary

SIMULATION = "simulation."
"""Prefix of the fingerprint's fields that describe a simulated device."""


def milliseconds(time_ns: float) -> str:
    """Return nanoseconds as milliseconds with three decimals: `12.345`."""
    return f"{time_ns / 1e6:,.3f}"


def size(size_bytes: int) -> str:
    """Return a number of bytes in the unit in which it is easy to read: `1.5 MiB`."""
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size_bytes >= scale:
            return f"{size_bytes / scale:.1f} {unit}"
    return f"{size_bytes} B"


def counted(number: int, noun: str) -> str:
    """Return `1 unit` or `4 units`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def summary(plan: Plan) -> str:
    """Return the report in one sentence: what was chosen, why, and what runs where."""
    return f"{plan.choice} plan: {_advantage(plan)}, {placement(plan)}"


def placement(plan: Plan) -> str:
    """Return how many units are where: `4 of 11 units on gpu:0`."""
    count = Counter(str(device) for device in plan.devices.values())
    total = len(plan.units)
    if len(count) <= 1:
        units = f"all {total} units" if total != 1 else "the only unit"
        return f"{units} on {next(iter(count), str(CPU))}"
    away = [f"{number} of {total} units on {device}" for device, number in sorted(count.items())]
    return " and ".join(part for part in away if not part.endswith(str(CPU)))


def _advantage(plan: Plan) -> str:
    gate = plan.gate
    if gate is None:
        if plan.step_times:
            return "nothing else could be compared"
        reasons = {assignment.reason for assignment in plan.units}
        return reasons.pop() if len(reasons) == 1 else "nothing was timed"
    chosen, other = plan.choice, gate.against if plan.choice == gate.candidate else gate.candidate
    if chosen not in (gate.candidate, gate.against):
        return gate_decision(gate)
    if gate.decided == "no_difference":
        return f"no difference to {other} was shown"
    times, low, high = _as_speedup(gate)
    is_candidate = chosen == gate.candidate
    if is_candidate != (gate.decided == "faster"):  # the user chose against the gate
        return f"{other} was {times:.2f}x faster (interval {_interval(low, high)})"
    return f"{times:.2f}x faster than {other} (interval {_interval(low, high)})"


def gate_decision(gate: GateResult) -> str:
    """Return what the gate found: the ratio of times with its interval, and what followed."""
    measured = (
        f"{gate.candidate} takes {gate.ratio:.3f} of the time of {gate.against} "
        f"(interval {_interval(gate.low, gate.high, digits=3)})"
    )
    decided = {
        "faster": f"so {gate.candidate} is faster",
        "slower": f"so {gate.candidate} is slower",
        "no_difference": "so no difference is shown, and the simpler plan stays",
    }[gate.decided]
    return f"{measured}, {decided}"


def _as_speedup(gate: GateResult) -> tuple[float, float, float]:
    """Return how many times faster the faster one is, with its interval."""
    if gate.decided == "slower":
        return gate.ratio, gate.low, gate.high
    return _inverse(gate.ratio), _inverse(gate.high), _inverse(gate.low)


def _inverse(ratio: float) -> float:
    return 1 / ratio if ratio else math.inf


def _interval(low: float, high: float, digits: int = 2) -> str:
    upper = f"{high:.{digits}f}" if math.isfinite(high) else "unbounded"
    return f"{low:.{digits}f} to {upper}"


def parity_result(parity: Parity | None, choice: str) -> str:
    """Return how far whole steps were from those of the CPU."""
    if parity is None:
        if choice == ALL_CPU:
            return "not needed: everything runs on the CPU"
        return "not checked: no whole step of this plan was compared with the CPU's"
    verb = "agree with" if parity.passed else "differ from"
    return (
        f"whole steps {verb} the CPU's: largest difference {parity.worst:.2g}, "
        f"{parity.tolerance:.2g} allowed, after {counted(parity.checked_steps, 'step')}"
    )


def probe_result(probe: ProbeSummary) -> str:
    """Return what the warmup took, and where the costs are from."""
    return (
        f"warmup {probe.seconds:.2f} s; signatures: {probe.measured} measured, "
        f"{probe.from_cache} from the cache, {probe.predicted} predicted"
    )


def transfers(plan: Plan) -> str:
    """Return how much crosses between devices in a step, one way."""
    crossing = {edge.tensor: edge.size_bytes for edge in plan.graph.edges if plan.crosses(edge)}
    if not crossing:
        return "none"
    total = size(sum(crossing.values()))
    return f"{counted(len(crossing), 'tensor')} of together {total} cross in each forward pass"


def simulation(machine: Machine) -> str:
    """Return that the accelerator is simulated, with profile and scale; an empty string if it is real."""
    if not machine.simulated:
        return ""
    fields = {
        name.removeprefix(SIMULATION): value
        for name, value in machine.fingerprint.items()
        if name.startswith(SIMULATION)
    }
    known = "; ".join(f"{name} {value}" for name, value in fields.items())
    return (
        "The accelerator is SIMULATED: its times are a model's, not a chip's "
        f"({known or 'profile and scale not recorded'})"
    )
