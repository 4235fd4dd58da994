"""What the demo shows and writes, from figures made up here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autoplace.demo import results
from autoplace.demo.results import CPU_ARM, GPU_ARM, PLAN_ARM, Result
from autoplace.demo.run import findings
from autoplace.ir import CPU, Assignment, LayerGraph, Plan, Unit
from autoplace.report import Report


def result(*, loss: float = 1.0, gpu: bool = True, plan_ms: int = 5) -> Result:
    """A model of one layer: 10 ms on the CPU, 40 ms on the GPU."""
    unit = Unit(path="<dense>", class_name="Dense", signature="s")
    plan = Plan(
        graph=LayerGraph(model_name="net", model_kind="functional", batch_size=9, units=(unit,)),
        units=(Assignment(path="<dense>", device=CPU, reason="here"),),
    )
    losses = {CPU_ARM: 1.0, GPU_ARM: 1.0, PLAN_ARM: loss}
    samples = {
        CPU_ARM: [10_000_000] * 8,
        GPU_ARM: [40_000_000] * 8,
        PLAN_ARM: [plan_ms * 1_000_000] * 8,
    }
    if not gpu:
        del losses[GPU_ARM], samples[GPU_ARM]
    return Result(name="net", batch=9, report=Report(plan), losses=losses, samples_ns=samples)


def test_figures() -> None:
    """The better single device is the CPU; the plan takes half of its time."""
    found = result()
    assert found.better_single == CPU_ARM
    assert (found.ratio.ratio, found.ratio.low, found.ratio.high) == (0.5, 0.5, 0.5)
    data = found.to_dict()
    assert data["step_times_ns"][GPU_ARM]["median"] == 40_000_000
    assert data["ratio"]["ratio"] == 0.5
    assert data["final_loss"] == {CPU_ARM: 1.0, GPU_ARM: 1.0, PLAN_ARM: 1.0}


def test_table() -> None:
    """A faster plan is a factor above 1."""
    row = dict(zip(results.HEADER, results.cells(result()), strict=True))
    assert row["CPU ms"] == "10.00"
    assert row["GPU ms"] == "40.00"
    assert row["plan ms"] == "5.00"
    assert row["times faster than the better single device"] == "2.00 (2.00 to 2.00)"


def test_without_accelerator() -> None:
    """A dash where there is no second device."""
    row = dict(zip(results.HEADER, results.cells(result(gpu=False)), strict=True))
    assert row["GPU ms"] == row["loss: GPU"] == "-"


@pytest.mark.parametrize(("loss", "is_right"), [(1.0, True), (1.5, False), (float("nan"), False)])
def test_findings_are_about_values(loss: float, is_right: bool) -> None:
    """A wrong loss is one, a slow plan is none."""
    assert bool(findings([result(loss=loss, plan_ms=90)])) != is_right


def test_files(tmp_path: Path) -> None:
    """The folder is made; both files hold every model; names are escaped."""
    page, raw = results.write([result()], tmp_path / "a" / "b")
    content = json.loads(raw.read_text())
    assert content["schema"] == 1
    assert content["models"]["net"] == result().report.to_dict()
    html = page.read_text()
    assert "<dense>" not in html
    assert html.count("&lt;dense&gt;") == 1
    assert "http" not in html
    assert html.count("<html") == 1


def test_nan_is_null(tmp_path: Path) -> None:
    """JSON has no NaN, and a strict reader must be able to read what a failed run wrote."""
    _, raw = results.write([result(loss=float("nan"))], tmp_path)
    figures = json.loads(raw.read_text(), parse_constant=pytest.fail)["results"]["net"]
    assert figures["final_loss"][PLAN_ARM] is None
    assert figures["loss_difference"] is None
