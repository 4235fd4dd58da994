"""Hypothesis strategies for the values of `ir` and for whole planner inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hypothesis import strategies as st

from autoplace.ir import (
    CPU,
    GPU,
    INPUT,
    CostTable,
    Device,
    Edge,
    LayerGraph,
    TransferCost,
    Unit,
    UnitCost,
)

SMALL_NS = 60
"""Costs mostly stay this small, so that ties and near ties are common."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerInput:
    """Everything that `planner.solve` takes.

    Attributes:
        graph: Units and edges.
        costs: What they cost.
        fixed: Pins that can hold.
        together: Groups that can hold together with the pins.
    """

    graph: LayerGraph
    costs: CostTable
    fixed: Mapping[str, Device]
    together: tuple[tuple[str, ...], ...]


def nanoseconds() -> st.SearchStrategy[int]:
    """Small times, and now and then one that 32 bits cannot hold."""
    # One in ten: a unit that is huge on one device has nothing left to decide.
    return st.integers(0, 9).flatmap(
        lambda digit: st.integers(2**31, 2**40) if digit == 9 else st.integers(0, SMALL_NS)
    )


def unit_costs() -> st.SearchStrategy[UnitCost]:
    """Costs of one unit on one device."""
    small = st.integers(0, SMALL_NS // 4)
    return st.builds(UnitCost, forward_ns=nanoseconds(), backward_ns=small, update_ns=small)


@st.composite
def layer_graphs(draw: st.DrawFn, max_units: int = 8) -> LayerGraph:
    """Acyclic graphs in which a tensor may have several consumers, and one consumer several tensors."""
    paths = [f"unit_{index}" for index in range(draw(st.integers(0, max_units)))]
    units = tuple(
        Unit(path=path, class_name="Dense", signature=path, calls=draw(st.integers(1, 3)))
        for path in paths
    )
    edges: list[Edge] = []
    for position, source in enumerate([INPUT, *paths]):
        later = paths[position:]
        for number in range(draw(st.integers(0, 2)) if later else 0):
            size_bytes = draw(st.integers(0, 2**20))
            edges.extend(
                Edge(
                    source=source,
                    target=target,
                    size_bytes=size_bytes,
                    tensor=f"{source}:{number}",
                    has_gradient=draw(st.booleans()),
                )
                for target in draw(st.lists(st.sampled_from(later), min_size=1, max_size=4))
            )
    return LayerGraph(
        model_name="drawn",
        model_kind="functional",
        batch_size=draw(st.integers(1, 64)),
        units=units,
        edges=tuple(edges),
    )


@st.composite
def cost_tables(draw: st.DrawFn, graph: LayerGraph) -> CostTable:
    """Costs of all units of `graph` on both devices, and of transfers in both directions."""
    transfers = st.builds(
        TransferCost,
        fixed_ns=st.integers(0, SMALL_NS // 4),
        ns_per_mib=st.integers(0, SMALL_NS // 4),
    )
    return CostTable(
        units={
            unit.path: {CPU: draw(unit_costs()), GPU: draw(unit_costs())} for unit in graph.units
        },
        transfers={CPU: {GPU: draw(transfers)}, GPU: {CPU: draw(transfers)}},
    )


@st.composite
def planner_inputs(draw: st.DrawFn, max_units: int = 8) -> PlannerInput:
    """Graphs with costs, some of them missing, pins and groups; all of it can hold together."""
    graph = draw(layer_graphs(max_units))
    costs = draw(cost_tables(graph))
    paths = [unit.path for unit in graph.units]
    if not paths:
        return PlannerInput(graph=graph, costs=costs, fixed={}, together=())
    together = draw(
        st.lists(st.lists(st.sampled_from(paths), min_size=1, max_size=3).map(tuple), max_size=2)
    )
    # Units that groups could join to another get neither a pin nor a missing cost.
    grouped = {path for group in together for path in group}
    loose = [path for path in paths if path not in grouped]
    restricted = draw(
        st.dictionaries(
            st.sampled_from(loose or paths),
            st.tuples(st.sampled_from([CPU, GPU]), st.booleans()),
            max_size=3 if loose else 0,
        )
    )
    fixed = {path: device for path, (device, is_pin) in restricted.items() if is_pin}
    units = {
        path: {
            device: cost
            for device, cost in by_device.items()
            if path not in restricted or restricted[path][1] or device == restricted[path][0]
        }
        for path, by_device in costs.units.items()
    }
    return PlannerInput(
        graph=graph,
        costs=CostTable(units=units, transfers=costs.transfers),
        fixed=fixed,
        together=tuple(together),
    )
