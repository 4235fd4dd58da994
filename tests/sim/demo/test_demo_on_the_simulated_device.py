"""The demo and the steps benchmark on the simulated device, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sklearn", reason="the demo's data are scikit-learn's")

ROOT = Path(__file__).parents[3]


def test_demo(tmp_path: Path) -> None:
    """Three sides, equal losses, the report says that the device is simulated."""
    command = [sys.executable, "-m", "autoplace.cli", "demo", "--sim", "m1", "--small", "--json"]
    command += ["--models", "dnn9", "--epochs", "1", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    report, figures = data["models"]["dnn9"], data["results"]["dnn9"]
    assert report["machine"]["simulated"] is True
    assert report["machine"]["simulation.scale"] == "ratio"
    assert report["probe"]["seconds"] > 0
    assert set(report["step_times_ns"]) >= {"all-cpu", "all-gpu"}
    assert len(figures["final_loss"]) == len(figures["samples_ns"]) == 3
    assert figures["loss_difference"] <= figures["loss_tolerance"]
    assert "SIMULATED" in done.stderr
    assert "SIMULATED" in (tmp_path / "report.html").read_text()


def test_steps_benchmark_runs(tmp_path: Path) -> None:
    """It writes its samples; no time is looked at."""
    out = tmp_path / "steps.json"
    command = [sys.executable, str(ROOT / "benchmarks" / "steps.py"), "--small", "--sim", "m1"]
    done = subprocess.run(
        [*command, "--rounds", "2", "--out", str(out)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    content = json.loads(out.read_text())
    (found,) = content["results"]
    assert (found["model"], found["batch"]) == ("dnn9", 9)
    assert len(found["samples_ns"]) == 3
    assert content["machine"]["simulated"] is True


def test_unknown_profile_is_wrong_usage() -> None:
    """Exit code 2 and AP106."""
    command = [sys.executable, "-m", "autoplace.cli", "demo", "--sim", "m99", "--small"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "AP106" in done.stderr
    assert done.stdout == ""
