"""What a placement costs: the one objective that the cut, the oracle and the reports share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autoplace.errors import PlannerInputError
from autoplace.ir import CPU, INPUT, CostTable, Device, LayerGraph, UnitCost
from autoplace.ir.graph import unknown_unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """A placement and what it is predicted to cost.

    Attributes:
        devices: Device by unit path, in the order of the graph's units.
        step_ns: Value of the objective: nanoseconds per step, were nothing to run at the same time.
    """

    devices: Mapping[str, Device]
    step_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A tensor with everything that its placement can cost.

    Attributes:
        source: Path of the unit that makes it, or ``INPUT``.
        size_bytes: Size of the tensor.
        targets: Paths of the units that use it, each once.
        gradients: One entry per edge along which a gradient flows back: target path and bytes.
    """

    source: str
    size_bytes: int
    targets: tuple[str, ...]
    gradients: tuple[tuple[str, int], ...]


def tensors_of(graph: LayerGraph) -> tuple[Tensor, ...]:
    """Return the tensors of `graph` in the order of their first edge."""
    sizes: dict[tuple[str, str], int] = {}
    targets: dict[tuple[str, str], dict[str, None]] = {}
    gradients: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for edge in graph.edges:
        key = (edge.source, edge.tensor)
        sizes[key] = max(sizes.get(key, 0), edge.size_bytes)
        targets.setdefault(key, {})[edge.target] = None
        backward = gradients.setdefault(key, [])
        if edge.has_gradient and edge.source != INPUT:
            backward.append((edge.target, edge.size_bytes))
    return tuple(
        Tensor(
            source=key[0],
            size_bytes=size_bytes,
            targets=tuple(targets[key]),
            gradients=tuple(gradients[key]),
        )
        for key, size_bytes in sizes.items()
    )


def predict_step_ns(graph: LayerGraph, costs: CostTable, devices: Mapping[str, Device]) -> int:
    """Return what a step costs under `devices`, in nanoseconds.

    The sum over all units of forward, backward and update on their device, plus the transfers: each
    tensor once to each device that needs it, each gradient once for each edge that it crosses.

    Args:
        graph: Units and edges.
        costs: What they cost.
        devices: Device of each unit of `graph`.

    Raises:
        UnknownUnitError: AP403, for a path that the graph does not have.
        PlannerInputError: AP406, for a unit without device, or a cost that is not there.
    """
    for path in devices:
        if path not in graph.by_path:
            raise unknown_unit(path, graph)
    total_ns = 0
    for unit in graph.units:
        if unit.path not in devices:
            raise PlannerInputError(
                "a unit has no device",
                expected=f"a device for each of the {len(graph.units)} units",
                received=f"none for {unit.path!r}",
                fix="assign every unit of the graph",
            )
        device = devices[unit.path]
        cost = costs.units.get(unit.path, {}).get(device)
        if cost is None:
            raise missing_cost(unit.path, (device,), costs)
        total_ns += step_cost_ns(cost, unit.calls)
    for tensor in tensors_of(graph):
        home = CPU if tensor.source == INPUT else devices[tensor.source]
        for target in {devices[path] for path in tensor.targets}:
            total_ns += transfer_ns(costs, home, target, tensor.size_bytes)
        for path, size_bytes in tensor.gradients:
            total_ns += transfer_ns(costs, devices[path], home, size_bytes)
    return total_ns


def step_cost_ns(cost: UnitCost, calls: int) -> int:
    """Return what a unit with the given cost of one call costs per step."""
    return cost.times(calls).total_ns


def transfer_ns(costs: CostTable, source: Device, target: Device, size_bytes: int) -> int:
    """Return what moving `size_bytes` costs; 0 on one device.

    Raises:
        PlannerInputError: AP406, where the table has no such transfer.
    """
    try:
        return costs.transfer_ns(source, target, size_bytes)
    except KeyError:
        raise PlannerInputError(
            "the cost table lacks a transfer that the graph needs",
            expected=f"CostTable.transfers with {source} -> {target}",
            received=str({str(s): [str(t) for t in costs.transfers[s]] for s in costs.transfers}),
            fix="measure transfers in both directions between the two devices",
        ) from None


def missing_cost(path: str, devices: tuple[Device, ...], costs: CostTable) -> PlannerInputError:
    """Return the error for a unit that has no cost on any of `devices`."""
    return PlannerInputError(
        "a unit has no cost on the devices in question, so it can run on none of them",
        expected=f"a cost of {path!r} on {' or '.join(str(device) for device in devices)}",
        received=str([str(device) for device in costs.units.get(path, {})]),
        fix="measure the unit, or predict its cost, on at least one of the devices",
    )
