"""The exact optimum for two devices: a minimum s-t cut.

Source and sink are the two devices; a unit on the sink's side of the cut runs there. An arc is paid when
it leads from the source's side to the sink's. Each tensor and each direction gets a node of its own where
several units use the tensor, so that its transfer is paid once; gradients are paid per edge.
Picard and Ratliff, "Minimum cuts and related problems", Networks 5 (1975); Stone, "Multiprocessor
scheduling with the aid of network flow algorithms", IEEE TSE 3 (1977).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autoplace.errors import PlannerInputError
from autoplace.ir import CPU, GPU, INPUT, CostTable, Device, LayerGraph
from autoplace.planner.groups import Group, group_units
from autoplace.planner.objective import (
    Solution,
    Tensor,
    predict_step_ns,
    step_cost_ns,
    tensors_of,
    transfer_ns,
)

SOURCE, SINK = 0, 1
_LIMIT = 2**63  # OR-tools computes in signed 64-bit integers


def solve(
    graph: LayerGraph,
    costs: CostTable,
    *,
    fixed: Mapping[str, Device] = {},
    together: Sequence[Sequence[str]] = (),
    devices: tuple[Device, Device] = (CPU, GPU),
) -> Solution:
    """Return the placement of least `predict_step_ns`.

    Of several such placements it is the one with the fewest units on ``devices[1]``: each of these units
    is on ``devices[1]`` in every optimum, so the answer does not depend on names or on the order of edges.

    Args:
        graph: Units and edges; ``INPUT`` is on ``cpu:0``.
        costs: What they cost. A unit without cost on a device cannot run there.
        fixed: Pins: the device of some units.
        together: Groups of paths that must share a device.
        devices: The devices to choose from; the first wins ties.

    Raises:
        UnknownUnitError: AP403, for a path in `fixed` or `together` that the graph does not have.
        UnknownDeviceError: AP401, for a pin to a device that is not one of `devices`.
        PinCannotHoldError: AP404, for pins, groups and missing costs that contradict each other.
        PlannerInputError: AP406, for costs that are missing, or that 64 bits cannot hold.
    """
    groups = group_units(graph, costs, fixed=fixed, together=together, devices=devices)
    network = build_network(graph, costs, groups, devices)
    on_second = network.source_side()
    placement = {
        unit.path: devices[1] if network.nodes[unit.path] in on_second else devices[0]
        for unit in graph.units
    }
    return Solution(devices=placement, step_ns=predict_step_ns(graph, costs, placement))


def build_network(
    graph: LayerGraph,
    costs: CostTable,
    groups: tuple[Group, ...],
    devices: tuple[Device, Device],
) -> Network:
    """Return the network whose minimum cuts are the best placements of `groups`."""
    network = Network(costs, devices)
    for group in groups:
        node = network.node_on(group.device)
        for path in group.paths:
            network.nodes[path] = node
            if group.device is None:
                network.add_unit(node, path, graph.by_path[path].calls)
    for tensor in tensors_of(graph):
        network.add_tensor(tensor)
    return network


class Network:
    """Arcs under construction. ``devices[1]`` is the source, since its side comes out as small as can be.

    Attributes:
        nodes: Node by unit path; 0 is the source, 1 the sink.
        arcs: Capacity in nanoseconds by tail and head.
    """

    def __init__(self, costs: CostTable, devices: tuple[Device, Device]) -> None:
        self.nodes: dict[str, int] = {}
        self.arcs: dict[tuple[int, int], int] = {}
        self._costs = costs
        self._devices = devices
        self._next = 2

    def node_on(self, device: Device | None) -> int:
        """Return the node of a group: a terminal where its device is known."""
        if device is None:
            return self._new_node()
        return SINK if device == self._devices[0] else SOURCE

    def add_unit(self, node: int, path: str, calls: int) -> None:
        """Make `node` pay what the unit costs more on one device than on the other."""
        first, second = (
            step_cost_ns(self._costs.units[path][device], calls) for device in self._devices
        )
        if first > second:
            self._add(SOURCE, node, first - second)
        else:
            self._add(node, SINK, second - first)

    def add_tensor(self, tensor: Tensor) -> None:
        """Make crossing the cut cost the transfer of `tensor` and of its gradients."""
        targets = tuple({self.nodes[path]: None for path in tensor.targets})
        if tensor.source == INPUT:
            self._to_first(tensor.size_bytes, CPU, SOURCE, targets)
            self._to_second(tensor.size_bytes, CPU, SINK, targets)
            return
        home = self.nodes[tensor.source]
        others = tuple(node for node in targets if node != home)
        self._to_first(tensor.size_bytes, self._devices[1], home, others)
        self._to_second(tensor.size_bytes, self._devices[0], home, others)
        for path, size_bytes in tensor.gradients:
            node = self.nodes[path]
            if node == home:
                continue
            first, second = self._devices
            if self._can_cross(home, node):
                self._add(home, node, transfer_ns(self._costs, first, second, size_bytes))
            if self._can_cross(node, home):
                self._add(node, home, transfer_ns(self._costs, second, first, size_bytes))

    def source_side(self) -> set[int]:
        """Return the nodes on the source's side of the minimum cut with the smallest such side."""
        # Imported here: 0.04 s, and only whoever solves has to have it.
        from ortools.graph.python import max_flow

        total_ns = sum(self.arcs.values())
        if total_ns >= _LIMIT:
            raise PlannerInputError(
                "the costs are too large to be solved for",
                expected=f"costs that together stay below 2**63 ns ({_LIMIT / 1e9 / 86400 / 365:.0f} years)",
                received=f"{total_ns} ns",
                fix="look for a broken measurement; costs are nanoseconds per step",
            )
        flow = max_flow.SimpleMaxFlow()
        for (tail, head), capacity_ns in self.arcs.items():
            flow.add_arc_with_capacity(tail, head, capacity_ns)
        status = flow.solve(SOURCE, SINK)
        if status != flow.OPTIMAL:
            raise PlannerInputError(
                "the solver did not find the optimum",
                expected="status OPTIMAL of OR-tools' SimpleMaxFlow",
                received=str(status),
                fix="report this with the graph and the costs",
            )
        return {SOURCE, *flow.get_source_side_min_cut()}

    def _to_first(
        self, size_bytes: int, origin: Device, home: int, targets: tuple[int, ...]
    ) -> None:
        """Pay once when `home` is on the source's side and some target is not."""
        reached = tuple(node for node in targets if self._can_cross(home, node))
        if origin == self._devices[0] or not reached:
            return
        price_ns = transfer_ns(self._costs, origin, self._devices[0], size_bytes)
        if len(reached) > 1:
            shared = self._new_node()
            self._add(home, shared, price_ns)
            home = shared
        for node in reached:
            self._add(home, node, price_ns)

    def _to_second(
        self, size_bytes: int, origin: Device, home: int, targets: tuple[int, ...]
    ) -> None:
        """Pay once when `home` is on the sink's side and some target is not."""
        reached = tuple(node for node in targets if self._can_cross(node, home))
        if origin == self._devices[1] or not reached:
            return
        price_ns = transfer_ns(self._costs, origin, self._devices[1], size_bytes)
        if len(reached) > 1:
            shared = self._new_node()
            self._add(shared, home, price_ns)
            home = shared
        for node in reached:
            self._add(node, home, price_ns)

    @staticmethod
    def _can_cross(tail: int, head: int) -> bool:
        return tail != SINK and head != SOURCE

    def _new_node(self) -> int:
        self._next += 1
        return self._next - 1

    def _add(self, tail: int, head: int, capacity_ns: int) -> None:
        # From a shared node no arc has to be wider than what can flow into it, so none is infinite.
        if tail != head and capacity_ns > 0:
            key = (tail, head)
            self.arcs[key] = self.arcs.get(key, 0) + int(capacity_ns)
