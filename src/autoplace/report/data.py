"""A plan as data: schema 1 of the report, made of JSON's own types only.

What is not known is null: `gate` where nothing was compared, `parity` where nothing runs on an accelerator,
a unit's `verdict` where there is no accelerator, and a number that has no finite value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from autoplace.ir import (
    Device,
    Edge,
    Event,
    GateResult,
    LayerGraph,
    Machine,
    Parity,
    Plan,
    ProbeSummary,
    StepTime,
    Unit,
    UnitCost,
    Verdict,
)

SCHEMA = 1

Data = dict[str, Any]


def plan_data(plan: Plan) -> Data:
    """Return schema 1 for `plan`; costs are those of one step, in integer nanoseconds."""
    reasons = {assignment.path: assignment.reason for assignment in plan.units}
    return {
        "schema": SCHEMA,
        "model": _model(plan.graph),
        "machine": _machine(plan.machine),
        "choice": plan.choice,
        "step_times_ns": {name: _step_time(time) for name, time in plan.step_times.items()},
        "gate": None if plan.gate is None else _gate(plan.gate),
        "parity": None if plan.parity is None else _parity(plan.parity),
        "units": [
            _unit(
                unit,
                device=plan.devices[unit.path],
                reason=reasons[unit.path],
                verdict=plan.verdicts.get(unit.path),
                costs=plan.costs.units.get(unit.path, {}),
            )
            for unit in plan.graph.units
        ],
        "edges": [_edge(edge, plan.crosses(edge)) for edge in plan.graph.edges],
        "probe": _probe(plan.probe),
        "events": [_event(event) for event in plan.events],
        "advice": [],
    }


def _model(graph: LayerGraph) -> Data:
    return {
        "name": graph.model_name,
        "kind": graph.model_kind,
        "parameters": sum(unit.parameters for unit in graph.units),
        "batch": graph.batch_size,
    }


def _machine(machine: Machine) -> Data:
    return {
        **machine.fingerprint,
        "devices": dict(machine.devices),
        "simulated": machine.simulated,
    }


def _step_time(time: StepTime) -> Data:
    return {
        "median": time.median_ns,
        "low": time.low_ns,
        "high": time.high_ns,
        "rounds": time.rounds,
    }


def _gate(gate: GateResult) -> Data:
    return {
        "candidate": gate.candidate,
        "against": gate.against,
        "ratio": finite_or_none(gate.ratio),
        "low": finite_or_none(gate.low),
        "high": finite_or_none(gate.high),
        "decided": gate.decided,
    }


def _parity(parity: Parity) -> Data:
    return {
        "passed": parity.passed,
        "worst": finite_or_none(parity.worst),
        "tolerance": finite_or_none(parity.tolerance),
        "checked_steps": parity.checked_steps,
    }


def _unit(
    unit: Unit,
    *,
    device: Device,
    reason: str,
    verdict: Verdict | None,
    costs: Mapping[Device, UnitCost],
) -> Data:
    return {
        "path": unit.path,
        "class": unit.class_name,
        "device": str(device),
        "reason": reason,
        "verdict": None if verdict is None else _verdict(verdict),
        "cost_ns": {str(where): _cost(cost.times(unit.calls)) for where, cost in costs.items()},
        "parameters": unit.parameters,
        "output_shape": _output_shape(unit),
    }


def _verdict(verdict: Verdict) -> Data:
    return {"state": verdict.state, "source": verdict.source, "evidence": verdict.evidence}


def _cost(cost: UnitCost) -> Data:
    return {
        "forward": cost.forward_ns,
        "backward": cost.backward_ns,
        "update": cost.update_ns,
        "measured": cost.measured,
    }


def _output_shape(unit: Unit) -> list[Any]:
    """As in Keras: the shape of a single output, a list of shapes of several, [] if not traced."""
    shapes = [list(shape) for shape in unit.output_shapes]
    return shapes[0] if len(shapes) == 1 else shapes


def _edge(edge: Edge, crosses: bool) -> Data:
    return {"from": edge.source, "to": edge.target, "bytes": edge.size_bytes, "crosses": crosses}


def _probe(probe: ProbeSummary) -> Data:
    return {
        "seconds": probe.seconds,
        "measured": probe.measured,
        "from_cache": probe.from_cache,
        "predicted": probe.predicted,
    }


def _event(event: Event) -> Data:
    return {
        "step": event.step,
        "kind": event.kind,
        "unit": event.unit,
        "action": event.action,
        "detail": event.detail,
    }


def finite_or_none(number: float) -> float | None:
    """JSON has no infinity: the open end of an interval is null."""
    return number if math.isfinite(number) else None
