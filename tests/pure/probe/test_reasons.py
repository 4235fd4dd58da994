"""Reasons are sentences with the figures that decided."""

from __future__ import annotations

import pytest

from autoplace.ir import CPU, GPU, CostTable, Device, Edge, LayerGraph, Unit, UnitCost, Verdict
from autoplace.probe.reasons import reason

OK = Verdict(state="ok", source="parity")


def graph() -> LayerGraph:
    units = tuple(Unit(path=p, class_name="Dense", signature=p) for p in ("a", "b"))
    edges = (Edge(source="a", target="b", size_bytes=400, tensor="t"),)
    return LayerGraph(
        model_name="m", model_kind="functional", batch_size=1, units=units, edges=edges
    )


def say(
    device: Device,
    cpu_ns: int,
    gpu_ns: int,
    verdict: Verdict | None = OK,
    *,
    neighbour: Device = GPU,
    pinned: bool = False,
) -> str:
    row = {CPU: UnitCost(forward_ns=cpu_ns), GPU: UnitCost(forward_ns=gpu_ns)}
    made = graph()
    return reason(
        made.unit("b"),
        device,
        graph=made,
        costs=CostTable(units={"b": row}),
        verdict=verdict,
        devices={"a": neighbour, "b": device},
        pinned=pinned,
    )


def test_faster_with_both_figures() -> None:
    assert say(CPU, 120_000, 380_000) == "3.2x faster on the CPU (0.12 ms against 0.38 ms)"
    assert say(GPU, 380_000, 120_000) == "3.2x faster on the GPU (0.12 ms against 0.38 ms)"


def test_following_a_neighbour() -> None:
    assert say(GPU, 100, 200) == "follows a: moving the data would cost more than it saves"
    assert "no other plan was shown faster" in say(GPU, 100, 200, neighbour=CPU)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("no_kernel", "no kernel for ReverseV2 on the GPU"),
        ("wrong", "wrong on the GPU: ReverseV2"),
        ("non_finite", "not finite on the GPU: ReverseV2"),
        ("crashes", "crashes on the GPU: ReverseV2"),
        ("hangs", "hangs on the GPU: ReverseV2"),
        ("unchecked", "kept on the CPU, not compared: ReverseV2"),
    ],
)
def test_verdicts(state: str, words: str) -> None:
    verdict = Verdict(state=state, source="parity", evidence="ReverseV2")  # type: ignore[arg-type]
    assert say(CPU, 200, 100, verdict) == words


def test_soft_placement_is_told() -> None:
    verdict = Verdict(state="no_kernel", source="registry", evidence="ReverseV2")
    assert "ReverseV2 has no kernel there and runs on the CPU" in say(GPU, 200, 100, verdict)


def test_pins_come_first() -> None:
    assert say(CPU, 200, 100, pinned=True) == "pinned to cpu:0 by the policy"
