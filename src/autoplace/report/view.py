"""What a report shows, in order and as strings: the one source of text, terminal and HTML."""

from __future__ import annotations

from dataclasses import dataclass

from autoplace.ir import Device, Plan, UnitCost, Verdict
from autoplace.report import sentences

PREDICTED = "~"
"""Stands before a cost that was predicted instead of measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """Step time under one placement.

    Attributes:
        name: Choice, such as ``all-cpu``.
        is_chosen: True for the placement of the plan.
        median: In milliseconds, as text.
        interval: Likewise.
        rounds: Number of rounds.
        shares: Low end, median and high end, each as a share of the longest high end, 0 to 1.
    """

    name: str
    is_chosen: bool
    median: str
    interval: str
    rounds: int
    shares: tuple[float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitRow:
    """One unit.

    Attributes:
        path: Path of the unit.
        class_name: Class of the layer.
        device: Its device.
        kind: Kind of the device, ``cpu`` or ``gpu``.
        verdict: State with source and evidence, or an empty string where nothing is known.
        reason: Why it is there.
        costs: Per device of the view, forward, backward and update in milliseconds; empty if unknown.
    """

    path: str
    class_name: str
    device: str
    kind: str
    verdict: str
    reason: str
    costs: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Everything that a report shows.

    Attributes:
        model: Name of the model, and what it is.
        summary: One sentence.
        simulation: One sentence if the accelerator is simulated, else an empty string.
        bars: Step times; empty where nothing was timed.
        facts: Name and sentence: gate, parity, probe, transfers.
        devices: Devices for which units have costs.
        units: One row per unit.
        has_predictions: True where a cost was predicted.
        crossing: Edges that cross: from, to, size of the tensor.
        events: Step, kind, unit, action, detail.
        machine: Name and value.
    """

    model: str
    summary: str
    simulation: str
    bars: tuple[Bar, ...]
    facts: tuple[tuple[str, str], ...]
    devices: tuple[str, ...]
    units: tuple[UnitRow, ...]
    has_predictions: bool
    crossing: tuple[tuple[str, str, str], ...]
    events: tuple[tuple[str, str, str, str, str], ...]
    machine: tuple[tuple[str, str], ...]


def view_of(plan: Plan) -> View:
    """Return what a report on `plan` shows."""
    devices = tuple(sorted({device for row in plan.costs.units.values() for device in row}))
    return View(
        model=_model(plan),
        summary=sentences.summary(plan),
        simulation=sentences.simulation(plan.machine),
        bars=_bars(plan),
        facts=_facts(plan),
        devices=tuple(str(device) for device in devices),
        units=_units(plan, devices),
        has_predictions=any(
            not cost.measured for row in plan.costs.units.values() for cost in row.values()
        ),
        crossing=tuple(
            (edge.source, edge.target, sentences.size(edge.size_bytes))
            for edge in plan.graph.edges
            if plan.crosses(edge)
        ),
        events=tuple(
            (str(event.step), event.kind, event.unit, event.action, event.detail)
            for event in plan.events
        ),
        machine=(*plan.machine.devices.items(), *plan.machine.fingerprint.items()),
    )


def _model(plan: Plan) -> str:
    graph = plan.graph
    parameters = sum(unit.parameters for unit in graph.units)
    purpose = "training" if plan.kind == "train" else "inference"
    batch = f", batch {graph.batch_size}" if graph.batch_size else ""
    return (
        f"{graph.model_name}: {graph.model_kind}, {sentences.counted(len(graph.units), 'unit')}, "
        f"{sentences.counted(parameters, 'parameter')}, {purpose}{batch}"
    )


def _facts(plan: Plan) -> tuple[tuple[str, str], ...]:
    return (
        ("Gate", sentences.gate_decision(plan.gate) if plan.gate else "nothing was compared"),
        ("Parity", sentences.parity_result(plan.parity, plan.choice)),
        ("Transfers", sentences.transfers(plan)),
        ("Probe", sentences.probe_result(plan.probe)),
    )


def _bars(plan: Plan) -> tuple[Bar, ...]:
    longest = max((max(t.high_ns, t.median_ns) for t in plan.step_times.values()), default=0) or 1
    return tuple(
        Bar(
            name=name,
            is_chosen=name == plan.choice,
            median=sentences.milliseconds(time.median_ns),
            interval=f"{sentences.milliseconds(time.low_ns)} to "
            f"{sentences.milliseconds(time.high_ns)}",
            rounds=time.rounds,
            shares=(time.low_ns / longest, time.median_ns / longest, time.high_ns / longest),
        )
        for name, time in plan.step_times.items()
    )


def _units(plan: Plan, devices: tuple[Device, ...]) -> tuple[UnitRow, ...]:
    rows: list[UnitRow] = []
    for unit, assignment in zip(plan.graph.units, plan.units, strict=True):
        costs = plan.costs.units.get(unit.path, {})
        rows.append(
            UnitRow(
                path=unit.path,
                class_name=unit.class_name,
                device=str(assignment.device),
                kind=assignment.device.kind,
                verdict=_verdict(plan.verdicts.get(unit.path)),
                reason=assignment.reason,
                costs=tuple(
                    _passes(costs[device].times(unit.calls)) if device in costs else ("", "", "")
                    for device in devices
                ),
            )
        )
    return tuple(rows)


def _verdict(verdict: Verdict | None) -> str:
    if verdict is None:
        return ""
    evidence = f": {verdict.evidence}" if verdict.evidence else ""
    return f"{verdict.state} ({verdict.source}{evidence})"


def _passes(cost: UnitCost) -> tuple[str, ...]:
    mark = "" if cost.measured else PREDICTED
    return tuple(
        mark + sentences.milliseconds(time_ns)
        for time_ns in (cost.forward_ns, cost.backward_ns, cost.update_ns)
    )
