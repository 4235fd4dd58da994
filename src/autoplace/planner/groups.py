"""Units that must share a device, as one: what is left to choose after pins, groups and missing costs.

Pins are contractions, not huge capacities: nothing can overflow, and a pin holds whatever it costs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autoplace.errors import PinCannotHoldError, PlannerInputError, UnknownDeviceError
from autoplace.ir import CostTable, Device, LayerGraph
from autoplace.ir.graph import unknown_unit
from autoplace.planner.objective import missing_cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Units that share a device.

    Attributes:
        paths: Their paths, in the order of the graph.
        device: The device that they have to be on, or None where it is to be chosen.
    """

    paths: tuple[str, ...]
    device: Device | None


def group_units(
    graph: LayerGraph,
    costs: CostTable,
    *,
    fixed: Mapping[str, Device],
    together: Sequence[Sequence[str]],
    devices: tuple[Device, Device],
) -> tuple[Group, ...]:
    """Return the units of `graph` as groups, in the order of their first unit.

    Args:
        graph: Units and edges.
        costs: A unit without cost on a device cannot run there.
        fixed: Pins.
        together: Paths that must share a device.
        devices: The devices to choose from.

    Raises:
        UnknownUnitError: AP403, for a path in `fixed` or `together` that the graph does not have.
        UnknownDeviceError: AP401, for a pin to a device that is not one of `devices`.
        PinCannotHoldError: AP404, for pins, groups and missing costs that contradict each other.
        PlannerInputError: AP406, for a unit that has no cost at all, or devices that are the same.
    """
    if devices[0] == devices[1]:
        raise PlannerInputError(
            "the two devices to choose from are the same",
            expected="two different devices",
            received=f"{devices[0]} twice",
            fix="pass the CPU and the accelerator",
        )
    for path, device in fixed.items():
        if path not in graph.by_path:
            raise unknown_unit(path, graph)
        if device not in devices:
            raise UnknownDeviceError(
                "a unit is pinned to a device that is not planned for",
                expected=f"{devices[0]} or {devices[1]}",
                received=f"{path!r} on {device}",
                fix="pin it to one of these, or plan for that device",
            )
    members = _members(graph, together)
    return tuple(
        Group(paths=paths, device=_device_of(paths, costs, fixed, devices)) for paths in members
    )


def _members(graph: LayerGraph, together: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    leader = {unit.path: unit.path for unit in graph.units}

    def find(path: str) -> str:
        while leader[path] != path:
            leader[path] = leader[leader[path]]
            path = leader[path]
        return path

    for paths in together:
        for path in paths:
            if path not in leader:
                raise unknown_unit(path, graph)
            leader[find(path)] = find(paths[0])
    members: dict[str, list[str]] = {}
    for unit in graph.units:
        members.setdefault(find(unit.path), []).append(unit.path)
    return tuple(tuple(paths) for paths in members.values())


def _device_of(
    paths: tuple[str, ...],
    costs: CostTable,
    fixed: Mapping[str, Device],
    devices: tuple[Device, Device],
) -> Device | None:
    reasons: dict[Device, str] = {}
    for path in paths:
        known = costs.units.get(path, {})
        possible = [device for device in devices if device in known]
        if not possible:
            raise missing_cost(path, devices, costs)
        if len(possible) == 1:
            reasons.setdefault(possible[0], f"{path!r} can run only there")
        if path in fixed:
            reasons.setdefault(fixed[path], f"{path!r} is pinned there")
    if len(reasons) > 1:
        raise PinCannotHoldError(
            "units that must share a device have to be on different ones",
            expected="pins and groups that can hold together",
            received="; ".join(f"{device}: {reason}" for device, reason in reasons.items())
            + (f"; kept together: {list(paths[:6])}" if len(paths) > 1 else ""),
            fix="drop one of the pins, or take one of the units out of keep_together",
        )
    return next(iter(reasons), None)
