"""From operations to a forecast: kernels looked up, times reckoned, the placement solved for. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from autoplace import planner
from autoplace.ir import (
    ALL_CPU,
    ALL_GPU,
    CPU,
    GPU,
    MIXED,
    CostTable,
    Device,
    LayerGraph,
    Operation,
    StepOperations,
    TransferCost,
    UnitCost,
    UnitOperations,
    Verdict,
)
from autoplace.ir.costs import MIB
from autoplace.probe.reasons import reason
from autoplace.sim import cost_model
from autoplace.sim.kernel_tables import Match
from autoplace.sim.timing_profiles import TimingProfile

PASSES = ("forward", "backward", "update")
# A mixed plan is worth its name only where the model's own error cannot explain the difference.
CLEARLY = 0.95

Lookup = Callable[[Operation], Match]


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What was reckoned of a step.

    Attributes:
        devices: Device of each unit under the predicted plan.
        reasons: Why, by unit.
        choice: The quickest placement.
        step_ns: Time of a step by placement.
        missing: By unit and pass, operations on data without a kernel.
        costs: Costs by unit and device.
    """

    devices: Mapping[str, Device]
    reasons: Mapping[str, str]
    choice: str
    step_ns: Mapping[str, int]
    missing: Mapping[str, Mapping[str, tuple[str, ...]]]
    costs: CostTable


def predict(
    graph: LayerGraph,
    on_cpu: StepOperations,
    on_gpu: StepOperations,
    lookup: Lookup,
    profile: TimingProfile,
    verdicts: Mapping[str, Verdict],
) -> Prediction:
    """Predict devices and times.

    Args:
        graph: Units and edges.
        on_cpu: What a step does where units run on the CPU: LSTM and GRU as loops.
        on_gpu: What it does where they run on the GPU.
        lookup: The kernels.
        profile: The chip.
        verdicts: What is known of units on that GPU already, such as by rules.
    """
    # Operations are those of all calls of a unit, so each counts as called once.
    graph = replace(graph, units=tuple(replace(unit, calls=1) for unit in graph.units))
    missing = {path: _missing(unit, lookup) for path, unit in on_gpu.units.items()}
    costs = CostTable(
        units={
            path: {
                CPU: _cost(unit, lambda op: cost_model.cpu_ns(op, profile)),
                GPU: _cost(on_gpu.units[path], lambda op: _gpu_ns(op, lookup, profile)),
            }
            for path, unit in on_cpu.units.items()
        },
        transfers=_transfers(profile),
    )
    outside = {
        CPU: _cost(on_cpu.outside, lambda op: cost_model.cpu_ns(op, profile)).total_ns,
        GPU: _cost(on_gpu.outside, lambda op: _gpu_ns(op, lookup, profile)).total_ns,
    }
    known = {
        path: Verdict(state="no_kernel", source="registry", evidence=", ".join(_union(ops)))
        for path, ops in missing.items()
        if ops
    }
    known |= verdicts
    step_ns = {
        name: planner.predict_step_ns(graph, costs, dict.fromkeys(graph.by_path, device))
        + outside[device]
        for name, device in ((ALL_CPU, CPU), (ALL_GPU, GPU))
    }
    # A unit that would be wrong must not run there, so that neither may the whole model.
    is_wrong = any(not v.is_ok and v.state != "no_kernel" for v in known.values())
    allowed = {k: v for k, v in step_ns.items() if not (is_wrong and k == ALL_GPU)}
    fixed = {path: CPU for path, verdict in known.items() if not verdict.is_ok}
    solution = planner.solve(graph, costs, fixed=fixed)
    devices: Mapping[str, Device] = solution.devices
    mixed_ns = solution.step_ns + outside[CPU]
    if len(set(devices.values())) > 1 and mixed_ns < CLEARLY * min(allowed.values()):
        step_ns[MIXED] = allowed[MIXED] = mixed_ns
    choice = min(allowed, key=lambda name: allowed[name])
    if choice != MIXED:
        devices = dict.fromkeys(graph.by_path, CPU if choice == ALL_CPU else GPU)
    reasons = {
        unit.path: reason(
            unit,
            devices[unit.path],
            graph=graph,
            costs=costs,
            verdict=known.get(unit.path),
            devices=devices,
            pinned=False,
        )
        for unit in graph.units
    }
    return Prediction(
        devices=devices,
        reasons=reasons,
        choice=choice,
        step_ns=step_ns,
        missing=missing,
        costs=costs,
    )


def _cost(unit: UnitOperations, price: Callable[[Operation], int]) -> UnitCost:
    forward, backward, update = (
        sum(price(operation) for operation in part)
        for part in (unit.forward, unit.backward, unit.update)
    )
    return UnitCost(forward_ns=forward, backward_ns=backward, update_ns=update, measured=False)


def _gpu_ns(operation: Operation, lookup: Lookup, profile: TimingProfile) -> int:
    """What an operation of a unit on the GPU costs, wherever it really runs."""
    kernel = lookup(operation)
    if kernel == "own":
        return cost_model.gpu_ns(operation, profile)
    if kernel == "default" or not operation.is_on_data:
        return 0  # the host reckons with shapes while the device works
    # Soft placement: on the CPU, with its tensors of data copied there and back.
    moved = [t for t in (*operation.inputs, *operation.outputs) if t.size_bytes]
    price = _transfers(profile)[CPU][GPU]
    copies = operation.runs * sum(price.at(tensor.size_bytes) for tensor in moved)
    return cost_model.cpu_ns(operation, profile) + copies


def _transfers(profile: TimingProfile) -> dict[Device, dict[Device, TransferCost]]:
    price = TransferCost(
        fixed_ns=profile.copy_ns, ns_per_mib=round(MIB * 1000 / profile.mbytes_per_s)
    )
    return {CPU: {GPU: price}, GPU: {CPU: price}}


def _missing(unit: UnitOperations, lookup: Lookup) -> dict[str, tuple[str, ...]]:
    found = {}
    for which in PASSES:
        operations: Iterable[Operation] = getattr(unit, which)
        ops = {o.op for o in operations if o.is_on_data and lookup(o) == "none"}
        if ops:
            found[which] = tuple(sorted(ops))
    return found


def _union(missing: Mapping[str, tuple[str, ...]]) -> list[str]:
    return sorted({op for ops in missing.values() for op in ops})
