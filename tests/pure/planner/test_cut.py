"""The cut against the oracle, and properties that no optimum can lack."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoplace import planner
from autoplace.errors import (
    PinCannotHoldError,
    PlannerInputError,
    UnknownDeviceError,
    UnknownUnitError,
)
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
from autoplace.testing.strategies import PlannerInput, planner_inputs

pytestmark = pytest.mark.pure


def graph_of(*paths: str, edges: tuple[Edge, ...] = ()) -> LayerGraph:
    """A graph of single-call units."""
    return LayerGraph(
        model_name="m",
        model_kind="functional",
        batch_size=1,
        units=tuple(Unit(path=path, class_name="Dense", signature=path) for path in paths),
        edges=edges,
    )


def costs_of(
    to_gpu_ns: int = 0, to_cpu_ns: int = 0, **units: tuple[int | None, int | None]
) -> CostTable:
    """Costs from (cpu, gpu) pairs; None where the unit cannot run."""
    return CostTable(
        units={
            path: {
                device: UnitCost(forward_ns=ns)
                for device, ns in zip((CPU, GPU), pair, strict=True)
                if ns is not None
            }
            for path, pair in units.items()
        },
        transfers={
            CPU: {GPU: TransferCost(fixed_ns=to_gpu_ns, ns_per_mib=0)},
            GPU: {CPU: TransferCost(fixed_ns=to_cpu_ns, ns_per_mib=0)},
        },
    )


def edge(source: str, target: str, *, tensor: str | None = None, gradient: bool = False) -> Edge:
    """An edge of eight bytes."""
    return Edge(
        source=source,
        target=target,
        size_bytes=8,
        tensor=tensor or f"{source}>{target}",
        has_gradient=gradient,
    )


@given(planner_inputs(max_units=7))
def test_cut_is_optimal(given_input: PlannerInput) -> None:
    """It costs what the best of all placements costs, and is the one with fewest units on the GPU."""
    arguments = {"fixed": given_input.fixed, "together": given_input.together}
    solution = planner.solve(given_input.graph, given_input.costs, **arguments)  # type: ignore[arg-type]
    oracle = planner.solve_exhaustively(given_input.graph, given_input.costs, **arguments)  # type: ignore[arg-type]
    assert solution == oracle
    assert list(solution.devices) == [unit.path for unit in given_input.graph.units]


@given(planner_inputs(max_units=6), st.sampled_from([(GPU, CPU), (GPU, Device("gpu", 1))]))
def test_cut_is_optimal_for_other_pairs_of_devices(
    given_input: PlannerInput, devices: tuple[Device, Device]
) -> None:
    """Neither the order of the devices nor an input that is on neither of them matters."""
    everywhere = {
        path: {**by_device, Device("gpu", 1): UnitCost(forward_ns=7)}
        for path, by_device in given_input.costs.units.items()
    }
    all_devices = (CPU, GPU, Device("gpu", 1))
    fees = {
        source: {
            target: TransferCost(fixed_ns=3 + 5 * number, ns_per_mib=number)
            for number, target in enumerate(all_devices)
            if source != target
        }
        for source in all_devices
    }
    costs = CostTable(units=everywhere, transfers=fees)
    graph = given_input.graph
    together = () if CPU in devices else given_input.together
    assert planner.solve(
        graph, costs, together=together, devices=devices
    ) == planner.solve_exhaustively(graph, costs, together=together, devices=devices)


@given(planner_inputs(), st.randoms(use_true_random=False))
def test_names_and_order_do_not_matter(given_input: PlannerInput, random: object) -> None:
    """Renamed units in another order, with their edges shuffled, get the same devices."""
    graph, costs = given_input.graph, given_input.costs
    paths = [unit.path for unit in graph.units]
    order = list(range(len(paths)))
    random.shuffle(order)  # type: ignore[attr-defined]
    names = {path: f"z{order[index]}" for index, path in enumerate(paths)}
    names[INPUT] = INPUT
    edges = [replace(e, source=names[e.source], target=names[e.target]) for e in graph.edges]
    random.shuffle(edges)  # type: ignore[attr-defined]
    renamed = replace(
        graph,
        units=tuple(
            sorted((replace(u, path=names[u.path]) for u in graph.units), key=lambda u: u.path)
        ),
        edges=tuple(edges),
    )
    solution = planner.solve(graph, costs, fixed=given_input.fixed, together=given_input.together)
    again = planner.solve(
        renamed,
        CostTable(
            units={names[path]: cost for path, cost in costs.units.items()},
            transfers=costs.transfers,
        ),
        fixed={names[path]: device for path, device in given_input.fixed.items()},
        together=[[names[path] for path in group] for group in given_input.together],
    )
    assert again.step_ns == solution.step_ns
    assert again.devices == {names[path]: device for path, device in solution.devices.items()}


@given(planner_inputs(), st.integers(2, 1000))
def test_scaled_costs_give_the_same_placement(given_input: PlannerInput, factor: int) -> None:
    """A slower clock does not change the plan."""
    graph = replace(
        given_input.graph, edges=tuple(replace(e, size_bytes=0) for e in given_input.graph.edges)
    )
    costs = given_input.costs
    scaled = CostTable(
        units={
            path: {
                device: UnitCost(
                    forward_ns=cost.forward_ns * factor,
                    backward_ns=cost.backward_ns * factor,
                    update_ns=cost.update_ns * factor,
                )
                for device, cost in by_device.items()
            }
            for path, by_device in costs.units.items()
        },
        transfers={
            source: {
                target: replace(fee, fixed_ns=fee.fixed_ns * factor) for target, fee in by.items()
            }
            for source, by in costs.transfers.items()
        },
    )
    solution = planner.solve(graph, costs, fixed=given_input.fixed, together=given_input.together)
    again = planner.solve(graph, scaled, fixed=given_input.fixed, together=given_input.together)
    assert again.devices == solution.devices
    assert again.step_ns == solution.step_ns * factor


@given(planner_inputs())
def test_dominated_device_gets_nothing(given_input: PlannerInput) -> None:
    """An accelerator that is never faster than the CPU gets only what has to be there."""
    units = {
        path: {CPU: UnitCost(forward_ns=3), GPU: UnitCost(forward_ns=3 + index % 2)}
        for index, path in enumerate(given_input.costs.units)
    }
    solution = planner.solve(
        given_input.graph, CostTable(units=units, transfers=given_input.costs.transfers)
    )
    assert set(solution.devices.values()) <= {CPU}


@given(planner_inputs())
def test_single_devices_are_never_better(given_input: PlannerInput) -> None:
    """Both trivial placements are candidates of the cut."""
    costs = CostTable(
        units={
            path: {
                CPU: by_device.get(CPU, UnitCost(forward_ns=5)),
                GPU: by_device.get(GPU, UnitCost(forward_ns=5)),
            }
            for path, by_device in given_input.costs.units.items()
        },
        transfers=given_input.costs.transfers,
    )
    best = planner.solve(given_input.graph, costs).step_ns
    for device in (CPU, GPU):
        everywhere = dict.fromkeys(given_input.graph.by_path, device)
        assert best <= planner.predict_step_ns(given_input.graph, costs, everywhere)


def test_empty_graph() -> None:
    """There is nothing to place, and that takes no time."""
    empty = planner.Solution(devices={}, step_ns=0)
    assert planner.solve(graph_of(), CostTable(units={})) == empty
    assert planner.solve_exhaustively(graph_of(), CostTable(units={})) == empty


def test_ties_go_to_the_cpu() -> None:
    """A chain that costs the same everywhere stays on the CPU."""
    graph = graph_of("a", "b", edges=(edge("a", "b"),))
    assert set(planner.solve(graph, costs_of(a=(5, 5), b=(5, 5))).devices.values()) == {CPU}


def test_a_shared_tensor_is_transferred_once_per_device() -> None:
    """Two consumers of one tensor pay one transfer, of two tensors two."""
    units: dict[str, tuple[int | None, int | None]] = {
        "a": (0, 100),
        "b": (10, 0),
        "c": (10, 0),
    }
    once = graph_of("a", "b", "c", edges=(edge("a", "b", tensor="t"), edge("a", "c", tensor="t")))
    twice = graph_of("a", "b", "c", edges=(edge("a", "b"), edge("a", "c")))
    costs = costs_of(15, 15, **units)
    assert planner.solve(once, costs).step_ns == 15
    assert planner.solve(once, costs).devices == {"a": CPU, "b": GPU, "c": GPU}
    assert planner.solve(twice, costs).step_ns == 20
    assert set(planner.solve(twice, costs).devices.values()) == {CPU}


def test_gradients_flow_back_once_per_consumer() -> None:
    """Forward once, backward per edge; none to the input."""
    graph = graph_of(
        "a",
        "b",
        "c",
        edges=(
            edge(INPUT, "b", gradient=True),
            edge("a", "b", tensor="t", gradient=True),
            edge("a", "c", tensor="t", gradient=True),
        ),
    )
    costs = costs_of(100, 1, a=(0, 0), b=(0, 0), c=(0, 0))
    placement = {"a": CPU, "b": GPU, "c": GPU}
    assert planner.predict_step_ns(graph, costs, placement) == 100 + 100 + 1 + 1


def test_calls_count_forward_and_backward_but_one_update() -> None:
    """A shared layer runs twice and is updated once."""
    graph = LayerGraph(
        model_name="m",
        model_kind="functional",
        batch_size=1,
        units=(Unit(path="a", class_name="Dense", signature="a", calls=2),),
    )
    cost = UnitCost(forward_ns=3, backward_ns=5, update_ns=7)
    assert planner.solve(graph, CostTable(units={"a": {CPU: cost}})).step_ns == 2 * 8 + 7


def test_costs_beyond_32_bits_are_not_cut() -> None:
    """A unit of 3e9 ns, where 32-bit capacities would silently become 0."""
    graph = graph_of("a", "b", edges=(edge("a", "b"),))
    costs = costs_of(4_000_000_000, 4_000_000_000, a=(3_000_000_000, 1), b=(1, 3_000_000_000))
    solution = planner.solve(graph, costs)
    assert solution.step_ns == 3_000_000_001
    held = planner.solve(graph, costs, fixed={"a": GPU, "b": CPU})
    assert held.step_ns == 4_000_000_002
    assert held.devices == {"a": GPU, "b": CPU}


def test_a_pin_holds_against_any_cost() -> None:
    """Contraction needs no capacity, so no cost outweighs a pin."""
    graph = graph_of("a")
    solution = planner.solve(graph, costs_of(a=(0, 2**70)), fixed={"a": GPU})
    assert solution == planner.Solution(devices={"a": GPU}, step_ns=2**70)


def test_no_accelerator_needs_no_transfers() -> None:
    """With costs on the CPU only, no transfer has to be known."""
    graph = graph_of("a", "b", edges=(edge(INPUT, "a"), edge("a", "b", gradient=True)))
    costs = CostTable(units={path: {CPU: UnitCost(forward_ns=1)} for path in "ab"})
    assert planner.solve(graph, costs).step_ns == 2


def test_together_moves_the_group() -> None:
    """A group goes where it is cheapest as a whole."""
    graph = graph_of("a", "b", "c")
    costs = costs_of(a=(5, 1), b=(1, 3), c=(1, 2))
    solution = planner.solve(graph, costs, together=[["a", "b"], ["b", "c"]])
    assert solution == planner.Solution(devices={"a": GPU, "b": GPU, "c": GPU}, step_ns=6)
    assert planner.solve(graph, costs, together=[[], ["a"]]).devices["b"] == CPU


def test_contradictions_are_errors() -> None:
    """Pins, groups and units that cannot run somewhere: AP404 with both reasons."""
    graph = graph_of("a", "b")
    with pytest.raises(PinCannotHoldError, match=r"'a' is pinned there.*'b' is pinned there"):
        planner.solve(
            graph,
            costs_of(a=(1, 1), b=(1, 1)),
            fixed={"a": CPU, "b": GPU},
            together=[["a", "b"]],
        )
    with pytest.raises(PinCannotHoldError, match="'a' can run only there"):
        planner.solve(graph, costs_of(a=(1, None), b=(1, 1)), fixed={"a": GPU})


def test_unknown_names_are_errors() -> None:
    """AP403 for units, AP401 for devices."""
    graph, costs = graph_of("a"), costs_of(a=(1, 1))
    with pytest.raises(UnknownUnitError):
        planner.solve(graph, costs, fixed={"z": CPU})
    with pytest.raises(UnknownUnitError):
        planner.solve(graph, costs, together=[["a", "z"]])
    with pytest.raises(UnknownUnitError):
        planner.predict_step_ns(graph, costs, {"a": CPU, "z": CPU})
    with pytest.raises(UnknownDeviceError):
        planner.solve(graph, costs, fixed={"a": Device("gpu", 1)})


def test_missing_costs_are_errors() -> None:
    """AP406 where a unit can run nowhere, a unit has no device, or a needed transfer is unknown."""
    graph = graph_of("a", "b", edges=(edge("a", "b"),))
    with pytest.raises(PlannerInputError, match="'b'"):
        planner.solve(graph, costs_of(a=(1, 1)))
    with pytest.raises(PlannerInputError, match="no device"):
        planner.predict_step_ns(graph, costs_of(a=(1, 1), b=(1, 1)), {"a": CPU})
    with pytest.raises(PlannerInputError, match="no cost"):
        planner.predict_step_ns(graph, costs_of(a=(1, 1), b=(1, None)), {"a": CPU, "b": GPU})
    with pytest.raises(PlannerInputError, match="transfer"):
        planner.solve(graph, CostTable(units=costs_of(a=(1, 1), b=(1, 1)).units))
    with pytest.raises(PlannerInputError, match="the same"):
        planner.solve(graph, costs_of(a=(1, 1), b=(1, 1)), devices=(CPU, CPU))


def test_costs_beyond_64_bits_are_an_error() -> None:
    """What OR-tools could not add up is refused before it tries."""
    with pytest.raises(PlannerInputError, match="too large"):
        planner.solve(graph_of("a", "b"), costs_of(a=(0, 2**62), b=(0, 2**62)))
    assert planner.solve(graph_of("a"), costs_of(a=(2**62, 0))).devices == {"a": GPU}


def test_oracle_refuses_what_it_cannot_try() -> None:
    """More than twenty free units would take hours."""
    paths = [f"u{index}" for index in range(21)]
    costs = costs_of(0, 0, **dict.fromkeys(paths, (1, 1)))
    with pytest.raises(PlannerInputError, match="too many"):
        planner.solve_exhaustively(graph_of(*paths), costs)
