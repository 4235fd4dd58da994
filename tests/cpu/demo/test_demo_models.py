"""The demo's models in plain Keras, the demo without an accelerator, and the overhead benchmark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sklearn", reason="the demo's data are scikit-learn's")

import keras

from autoplace.demo import models

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("name", "shape", "layers"),
    [("dnn9", (None, 1), 5), ("three_inputs", (None, 1), 18), ("crnn", (None, 24, 40), 11)],
)
def test_models_train_on_their_data(name: str, shape: tuple[int | None, ...], layers: int) -> None:
    """One step of plain Keras; shapes are those that were reported."""
    example = models.EXAMPLES[name]
    inputs, targets = example.draw(4, 1)
    model = example.make(keras.Model, inputs)
    assert model.output_shape == shape
    assert len(model.layers) == layers
    history = model.fit(models.dataset(inputs, targets, 2), verbose=0, shuffle=False)
    assert history.history["loss"][0] > 0


@pytest.mark.parametrize("name", models.EXAMPLES)
def test_rows_are_whole_batches(name: str) -> None:
    """Nothing of the data is left out."""
    example = models.EXAMPLES[name]
    assert example.rows % example.batch == example.small_rows % example.batch == 0


def test_demo_without_accelerator(tmp_path: Path) -> None:
    """`--no-sim` on a machine without one: trivial plan, same loss, no GPU column."""
    command = [sys.executable, "-m", "autoplace.cli", "demo", "--no-sim", "--small", "--json"]
    command += ["--models", "dnn9", "--epochs", "1", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    data = json.loads(done.stdout)
    figures = data["results"]["dnn9"]
    if len(figures["final_loss"]) == 3:
        pytest.skip("this machine has an accelerator")
    assert figures["choice"] == data["models"]["dnn9"]["choice"] == "all-cpu"
    assert figures["loss_difference"] == 0.0
    assert data["models"]["dnn9"]["gate"] is None


def test_overhead_benchmark_runs(tmp_path: Path) -> None:
    """It writes its samples; no time is looked at."""
    out = tmp_path / "overhead.json"
    command = [sys.executable, str(ROOT / "benchmarks" / "overhead.py"), "--small"]
    subprocess.run([*command, "--rounds", "2", "--out", str(out)], check=True, capture_output=True)
    content = json.loads(out.read_text())
    assert content["choice"] == "all-cpu"
    assert [found["way"] for found in content["results"]] == ["train function", "fit"]
    for found in content["results"]:
        assert {len(samples) for samples in found["samples_ns"].values()} == {2}
    assert content["machine"]["fingerprint"]["tensorflow"]
