"""Texts and data of reports as they were: one mixed plan, one without an accelerator, one refused.

After a wanted change: `AUTOPLACE_GOLDEN=write pytest tests/golden/report`, then read the diff.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from autoplace.ir import (
    CPU,
    GPU,
    INPUT,
    Assignment,
    CostTable,
    Edge,
    Event,
    GateResult,
    LayerGraph,
    Machine,
    Parity,
    Plan,
    ProbeSummary,
    StepTime,
    TransferCost,
    Unit,
    UnitCost,
    Verdict,
)
from autoplace.report import Report

HERE = Path(__file__).parent
# Read at import, before conftest.py removes what the user has set.
IS_WRITING = os.environ.get("AUTOPLACE_GOLDEN") == "write"

MACHINE = Machine(
    fingerprint={
        "system": "Linux 6.1",
        "chip": "Some CPU",
        "tensorflow": "2.21.0",
        "simulation.profile": "m1",
        "simulation.scale": "ratio",
    },
    devices={"cpu:0": "x86_64", "gpu:0": "SIM"},
    simulated=True,
)


def cost(forward: int, backward: int, update: int = 0, *, measured: bool = True) -> UnitCost:
    """Costs in microseconds."""
    return UnitCost(
        forward_ns=forward * 1000,
        backward_ns=backward * 1000,
        update_ns=update * 1000,
        measured=measured,
    )


def mixed() -> Plan:
    """Convolution on the accelerator, recurrent layer on the CPU, one layer shared and predicted."""
    units = (
        Unit(
            path="conv2d",
            class_name="Conv2D",
            signature="a",
            parameters=640,
            parameter_bytes=2560,
            trainable_bytes=2560,
            output_shapes=((64, 96, 32, 64),),
        ),
        Unit(
            path="lstm",
            class_name="LSTM",
            signature="b",
            parameters=99_840,
            output_shapes=((64, 24, 128), (64, 128)),
        ),
        Unit(path="head/dense", class_name="Dense", signature="c", parameters=5160, calls=2),
    )
    edges = (
        Edge(
            source=INPUT, target="conv2d", size_bytes=786_432, tensor="input:0", has_gradient=False
        ),
        Edge(source="conv2d", target="lstm", size_bytes=3 * 2**20 // 2, tensor="conv2d:0"),
        Edge(source="lstm", target="head/dense", size_bytes=600, tensor="lstm:0"),
    )
    return Plan(
        graph=LayerGraph(
            model_name="crnn", model_kind="functional", batch_size=64, units=units, edges=edges
        ),
        units=(
            Assignment(
                path="conv2d",
                device=GPU,
                reason="8.0x faster on the GPU (3.75 ms against 30.00 ms)",
            ),
            Assignment(path="lstm", device=CPU, reason="no kernel for ReverseV2 on the GPU"),
            Assignment(
                path="head/dense",
                device=CPU,
                reason="follows lstm: moving the data would cost more than it saves",
            ),
        ),
        costs=CostTable(
            units={
                "conv2d": {CPU: cost(10_000, 20_000), GPU: cost(1_250, 2_500)},
                "lstm": {CPU: cost(4_000, 9_000, 500)},
                "head/dense": {CPU: cost(100, 200, 50), GPU: cost(60, 150, 90, measured=False)},
            },
            transfers={
                CPU: {GPU: TransferCost(fixed_ns=20_000, ns_per_mib=16_000)},
                GPU: {CPU: TransferCost(fixed_ns=20_000, ns_per_mib=16_000)},
            },
        ),
        verdicts={
            "conv2d": Verdict(state="ok", source="parity", evidence="worst 1.2e-06"),
            "lstm": Verdict(state="no_kernel", source="registry", evidence="ReverseV2"),
            "head/dense": Verdict(state="unchecked", source="budget"),
        },
        step_times={
            "all-cpu": StepTime(
                median_ns=44_000_000, low_ns=43_000_000, high_ns=46_500_000, rounds=12
            ),
            "all-gpu": StepTime(
                median_ns=90_000_000, low_ns=88_000_000, high_ns=91_000_000, rounds=4
            ),
            "mixed": StepTime(
                median_ns=19_000_000, low_ns=18_500_000, high_ns=20_000_000, rounds=12
            ),
        },
        gate=GateResult(
            candidate="mixed",
            against="all-cpu",
            ratio=0.4318,
            low=0.41,
            high=0.45,
            decided="faster",
        ),
        parity=Parity(passed=True, worst=3.1e-6, tolerance=9.8e-4, checked_steps=2),
        probe=ProbeSummary(seconds=11.25, measured=2, from_cache=0, predicted=1),
        machine=MACHINE,
        events=(
            Event(
                step=0,
                kind="pin",
                unit="lstm",
                action="pinned to cpu:0",
                detail="no kernel for ReverseV2",
            ),
        ),
    )


def trivial() -> Plan:
    """No accelerator: nothing was traced, measured or compared."""
    unit = Unit(path="dense", class_name="Dense", signature="", parameters=65)
    return Plan(
        graph=LayerGraph(model_name="net", model_kind="sequential", batch_size=0, units=(unit,)),
        units=(Assignment(path="dense", device=CPU, reason="no accelerator on this machine"),),
        machine=Machine(devices={"cpu:0": "the only device in use"}),
    )


def refused() -> Plan:
    """Inference, where the candidate was given up early: its interval is open."""
    unit = Unit(path="dense", class_name="Dense", signature="x", output_shapes=((9, 1),))
    return Plan(
        graph=LayerGraph(model_name="net", model_kind="subclassed", batch_size=9, units=(unit,)),
        units=(Assignment(path="dense", device=CPU, reason="on the CPU: nothing was faster"),),
        kind="predict",
        step_times={
            "all-cpu": StepTime(median_ns=900_000, low_ns=890_000, high_ns=910_000, rounds=2),
            "all-gpu": StepTime(median_ns=800_000, low_ns=100_000, high_ns=990_000, rounds=2),
        },
        gate=GateResult(
            candidate="all-gpu",
            against="all-cpu",
            ratio=0.889,
            low=0.0,
            high=float("inf"),
            decided="no_difference",
        ),
        machine=Machine(devices={"cpu:0": "arm", "gpu:0": "METAL"}),
    )


PLANS = {"mixed": mixed, "trivial": trivial, "refused": refused}


def check(name: str, got: str) -> None:
    """Compare with the file `name`, or write it."""
    path = HERE / name
    if IS_WRITING:
        path.write_text(got, encoding="utf-8")
    assert got == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PLANS)
def test_text(name: str) -> None:
    """What `print(autoplace.report(model))` shows."""
    check(f"{name}.txt", str(Report(PLANS[name]())) + "\n")


@pytest.mark.parametrize("name", PLANS)
def test_data(name: str) -> None:
    """Schema 1, which scripts read."""
    check(f"{name}.json", json.dumps(Report(PLANS[name]()).to_dict(), indent=1) + "\n")
