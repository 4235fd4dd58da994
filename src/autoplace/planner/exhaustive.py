"""The oracle: every placement tried. Slow and too simple to be wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from autoplace.errors import PlannerInputError
from autoplace.ir import CPU, GPU, CostTable, Device, LayerGraph
from autoplace.planner.groups import group_units
from autoplace.planner.objective import Solution, predict_step_ns

MAX_FREE_GROUPS = 20


def solve_exhaustively(
    graph: LayerGraph,
    costs: CostTable,
    *,
    fixed: Mapping[str, Device] = {},
    together: Sequence[Sequence[str]] = (),
    devices: tuple[Device, Device] = (CPU, GPU),
) -> Solution:
    """Return what `solve` returns, by trying all placements.

    Raises:
        PlannerInputError: AP406, for more than 20 groups to choose for; otherwise as `solve`.
    """
    groups = group_units(graph, costs, fixed=fixed, together=together, devices=devices)
    free = [group for group in groups if group.device is None]
    if len(free) > MAX_FREE_GROUPS:
        raise PlannerInputError(
            "there are too many units to try all placements",
            expected=f"at most {MAX_FREE_GROUPS} groups without a pin",
            received=f"{len(free)}",
            fix="use planner.solve",
        )
    best: tuple[int, int, dict[str, Device]] | None = None
    for choice in product(devices, repeat=len(free)):
        chosen = iter(choice)
        by_path = {
            path: device
            for group in groups
            for device in (group.device or next(chosen),)
            for path in group.paths
        }
        placement = {unit.path: by_path[unit.path] for unit in graph.units}
        on_second = sum(device == devices[1] for device in placement.values())
        step_ns = predict_step_ns(graph, costs, placement)
        if best is None or (step_ns, on_second) < best[:2]:
            best = (step_ns, on_second, placement)
    step_ns, _, placement = best or (0, 0, {})
    return Solution(devices=placement, step_ns=step_ns)
