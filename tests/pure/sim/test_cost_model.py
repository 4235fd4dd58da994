"""The prices of operations, by hand."""

from __future__ import annotations

import pytest

from autoplace.ir import Operation, Tensor
from autoplace.sim import cost_model, timing_profiles

CHIP = timing_profiles.load("m1")


def tensor(*shape: int, dtype: str = "float32") -> Tensor:
    return Tensor(
        shape=shape, dtype=dtype, item_bytes={"float32": 4, "float16": 2, "int32": 4}[dtype]
    )


def operation(op: str, inputs: list[Tensor], outputs: list[Tensor], runs: int = 1) -> Operation:
    return Operation(
        op=op, dtypes={"T": "float32"}, inputs=tuple(inputs), outputs=tuple(outputs), runs=runs
    )


SIZES = tensor(4, dtype="int32")
IMAGE, KERNEL, OUT = tensor(2, 8, 8, 3), tensor(3, 3, 3, 5), tensor(2, 8, 8, 5)


@pytest.mark.parametrize(
    ("made", "flops"),
    [
        (operation("MatMul", [tensor(3, 4), tensor(4, 5)], [tensor(3, 5)]), 2 * 3 * 4 * 5),
        (operation("MatMul", [tensor(4, 3), tensor(4, 5)], [tensor(3, 5)]), 2 * 3 * 4 * 5),
        (
            operation("BatchMatMulV2", [tensor(7, 3, 4), tensor(7, 4, 5)], [tensor(7, 3, 5)]),
            2 * 7 * 3 * 4 * 5,
        ),
        (operation("Conv2D", [IMAGE, KERNEL], [OUT]), 2 * OUT.elements * 27),
        (
            operation("Conv2DBackpropInput", [SIZES, KERNEL, OUT], [IMAGE]),
            2 * OUT.elements * 27,
        ),
        (
            operation("Conv2DBackpropFilter", [IMAGE, SIZES, OUT], [KERNEL]),
            2 * OUT.elements * 27,
        ),
        (
            operation("DepthwiseConv2dNative", [IMAGE, tensor(3, 3, 3, 2)], [tensor(2, 8, 8, 6)]),
            2 * 2 * 8 * 8 * 6 * 9,
        ),
        (
            operation(
                "CudnnRNNV3",
                [tensor(6, 2, 3), tensor(1, 2, 4), tensor(1, 2, 4), tensor(144)],
                [tensor(6, 2, 4)],
            ),
            2 * 6 * 2 * 144,
        ),
        (operation("AddV2", [tensor(9), tensor(9)], [tensor(9)]), 0),
    ],
)
def test_arithmetic(made: Operation, flops: float) -> None:
    assert cost_model.flops(made) == pytest.approx(flops)


def test_the_longer_of_arithmetic_and_memory_and_a_launch() -> None:
    large = operation("MatMul", [tensor(1000, 1000)] * 2, [tensor(1000, 1000)])
    arithmetic_ns = 2e9 / (2600 * 0.5)
    assert cost_model.gpu_ns(large, CHIP) == pytest.approx(50_000 + arithmetic_ns, abs=1)
    add = operation("AddV2", [tensor(1_000_000)] * 2, [tensor(1_000_000)])
    assert cost_model.gpu_ns(add, CHIP) == pytest.approx(50_000 + 12e6 / 60, abs=1)
    assert cost_model.cpu_ns(add, CHIP) == pytest.approx(3_000 + 12e6 / 59, abs=1)


def test_every_run_counts() -> None:
    once, often = (operation("AddV2", [tensor(9)], [tensor(9)], runs=n) for n in (1, 48))
    assert cost_model.gpu_ns(often, CHIP) == 48 * cost_model.gpu_ns(once, CHIP)


def test_a_recurrent_operation_launches_a_kernel_per_time_step() -> None:
    inputs = [tensor(6, 2, 3), tensor(1, 2, 4), tensor(1, 2, 4), tensor(144)]
    forward = cost_model.gpu_ns(operation("CudnnRNNV3", inputs, [tensor(6, 2, 4)]), CHIP)
    assert 7 * 50_000 <= forward < 8 * 50_000
