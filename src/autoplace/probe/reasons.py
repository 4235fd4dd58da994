"""Why a unit is where it is, in a sentence that a user understands."""

from __future__ import annotations

from collections.abc import Mapping

from autoplace.ir import CPU, CostTable, Device, LayerGraph, Unit, Verdict

NAMES = {"cpu": "CPU", "gpu": "GPU"}


def reason(
    unit: Unit,
    device: Device,
    *,
    graph: LayerGraph,
    costs: CostTable,
    verdict: Verdict | None,
    devices: Mapping[str, Device],
    pinned: bool,
) -> str:
    """Return the reason for one unit.

    Args:
        unit: The unit.
        device: Where it runs.
        graph: The whole model.
        costs: What was measured.
        verdict: What is known of the unit on the accelerator.
        devices: Where all units run.
        pinned: Whether the policy said so.
    """
    if pinned:
        return f"pinned to {device} by the policy"
    if device == CPU and verdict is not None and not verdict.is_ok:
        return _of_verdict(verdict)
    if verdict is not None and verdict.state == "no_kernel":
        return f"on the GPU as the rest; {verdict.evidence} has no kernel there and runs on the CPU"
    own = costs.units.get(unit.path, {})
    here = own.get(device)
    there = next((cost for other, cost in own.items() if other != device), None)
    if here is None or there is None:
        return f"not measured; on the {NAMES[device.kind]} as the rest of the plan"
    a, b = here.times(unit.calls).total_ns, there.times(unit.calls).total_ns
    if a == b == 0:
        return "costs nothing on either device"
    if a <= b:
        ratio = b / max(a, 1)
        return (
            f"{ratio:.1f}x faster on the {NAMES[device.kind]} "
            f"({a / 1e6:.2f} ms against {b / 1e6:.2f} ms)"
        )
    leader = _leader(unit.path, graph, devices)
    if leader:
        return f"follows {leader}: moving the data would cost more than it saves"
    return f"on the {NAMES[device.kind]}: no other plan was shown faster as a whole"


def _of_verdict(verdict: Verdict) -> str:
    if verdict.state == "no_kernel":
        return f"no kernel for {verdict.evidence} on the GPU"
    if verdict.state == "wrong":
        return f"wrong on the GPU: {verdict.evidence}"
    if verdict.state == "non_finite":
        return f"not finite on the GPU: {verdict.evidence}"
    if verdict.state in ("crashes", "hangs"):
        return f"{verdict.state} on the GPU: {verdict.evidence}"
    return f"kept on the CPU, not compared: {verdict.evidence}"


def _leader(path: str, graph: LayerGraph, devices: Mapping[str, Device]) -> str:
    """The neighbour on the same device with which the unit shares most data."""
    shared = {
        (edge.source if edge.target == path else edge.target): edge.size_bytes
        for edge in graph.edges
        if path in (edge.source, edge.target)
    }
    same = [other for other in shared if devices.get(other) == devices[path]]
    return max(same, key=lambda other: shared[other], default="")
