"""Timing profiles as data."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoplace.errors import FileProblem, UnknownSimulationError
from autoplace.sim import timing_profiles


def content(**changes: Any) -> dict[str, Any]:
    """A right file's content, with some of it replaced."""
    right: dict[str, Any] = {
        "schema": 1,
        "name": "x1",
        "title": "X1",
        "gpu": {
            "fp32_gflops": 1000,
            "fp16_gflops": 2000,
            "mbytes_per_s": 50_000,
            "launch_ns": 40_000,
            "copy_ns": 10_000,
            "efficiency": {"contraction": 0.5, "Conv2D": 0.25},
        },
        "cpu": {"cores": 4, "matmul_gflops": 100, "mbytes_per_s": 40_000, "op_ns": 3_000},
    }
    return {**right, **changes}


@pytest.mark.parametrize("name", timing_profiles.names())
def test_shipped_profiles_are_right_and_named_as_their_files(name: str) -> None:
    assert timing_profiles.load(name).name == name


def test_m1_is_what_the_public_figures_say() -> None:
    chip = timing_profiles.load("m1")
    assert (chip.fp32_gflops, chip.launch_ns, chip.cpu_cores) == (2600, 50_000, 8)
    ratio = chip.fp32_gflops * chip.efficiency / chip.cpu_matmul_gflops
    assert 4 <= ratio <= 14  # convolutions at large batches win 4 to 14 times


@pytest.mark.parametrize(
    ("name", "gflops", "gbytes_per_s"), [("m1_pro", 5200, 200), ("m1_max", 10_400, 400)]
)
def test_larger_chips_have_the_figures_that_apple_gives(
    name: str, gflops: int, gbytes_per_s: int
) -> None:
    chip = timing_profiles.load(name)
    assert chip.fp32_gflops == gflops
    assert 0.8 * gbytes_per_s <= chip.mbytes_per_s / 1000 <= gbytes_per_s


def test_an_unknown_profile() -> None:
    with pytest.raises(UnknownSimulationError) as caught:
        timing_profiles.load("m99")
    assert (caught.value.code, caught.value.received) == ("AP106", "'m99'")
    assert "m1" in caught.value.expected


@pytest.mark.parametrize(
    "broken",
    [
        content(schema=2),
        content(colour="red"),
        content(cpu={"cores": 4, "matmul_gflops": 100}),
        content(cpu={**content()["cpu"], "matmul_gflops": 0}),
        content(cpu={**content()["cpu"], "matmul_gflops": 1.5}),
        content(cpu={**content()["cpu"], "op_ns": 0}),
        content(gpu={**content()["gpu"], "efficiency": {"Conv2D": 0.5}}),
        content(gpu={**content()["gpu"], "efficiency": {"contraction": 1.5}}),
        content(gpu={**content()["gpu"], "launch": 5}),
    ],
)
def test_a_broken_file_is_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(FileProblem):
        timing_profiles.parse(broken)


def test_single_operations_have_their_own_efficiency() -> None:
    chip = timing_profiles.parse(content())
    assert chip.efficiency == 0.5
    assert chip.efficiency_of == (("Conv2D", 0.25),)
    assert "efficiency_of=Conv2D:0.25" in chip.settings(1.0)


@given(st.floats(0.125, 8))
def test_the_factor_scales_all_times(factor: float) -> None:
    chip = timing_profiles.parse(content())
    values = dict(line.split("=") for line in chip.settings(factor) if "_of" not in line)
    assert float(values["launch_ns"]) == pytest.approx(40_000 * factor, abs=1)
    assert float(values["copy_ns"]) == pytest.approx(10_000 * factor, abs=1)
    assert 1 / float(values["flops"]) == pytest.approx(factor / 1e12)
    assert 1 / float(values["half_flops"]) == pytest.approx(factor / 2e12)
    assert 1 / float(values["bytes_per_s"]) == pytest.approx(factor / 50e9)
    assert float(values["efficiency"]) == 0.5
