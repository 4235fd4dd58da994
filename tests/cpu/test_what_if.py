"""Forecasts of Macs on a machine without any accelerator or compiler."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from typer.testing import CliRunner

import autoplace
from autoplace import cli
from autoplace.errors import ModelNotBuiltError, NotAModelError, UnknownSimulationError

layers = keras.layers


def crnn(**compiled: Any) -> Any:
    """Convolutions that gain on the GPU, a recurrent layer after them."""
    model = keras.Sequential(
        [
            keras.Input((32, 32, 1)),
            layers.Conv2D(128, 3, padding="same", activation="relu", name="first"),
            layers.Conv2D(128, 3, padding="same", activation="relu", name="second"),
            layers.MaxPooling2D(8, name="pool"),
            layers.Reshape((4, 512), name="sequence"),
            layers.LSTM(8, recurrent_dropout=0.1, name="lstm"),
            layers.Dense(2, name="head"),
        ],
        name="crnn",
    )
    if compiled:
        model.compile(**compiled)
    return model


def test_small_layers_stay_on_the_cpu_and_large_convolutions_go() -> None:
    forecast = autoplace.what_if(crnn(optimizer="adam", loss="mse"), batch=64)
    devices = {unit.path: str(unit.device) for unit in forecast.units}
    assert devices["second"] == "gpu:0"
    assert devices["lstm"] == devices["head"] == "cpu:0"
    assert forecast.choice == "mixed"
    assert forecast.kind == "train"
    assert forecast.step_ns["mixed"] < min(forecast.step_ns[c] for c in ("all-cpu", "all-gpu"))


def test_a_small_net_is_slower_on_the_gpu_as_reported() -> None:
    """dnn9: 45 s on a Mac with the plugin, 9 s without it."""
    model = keras.Sequential(
        [
            keras.Input((1024,)),
            *(layers.Dense(n, activation="relu") for n in (64, 8)),
            layers.Dense(1),
        ]
    )
    model.compile("adam", "mae", metrics=["mae"])
    rows = np.zeros((9, 1024), "float32"), np.zeros((9, 1), "float32")
    forecast = autoplace.what_if(model, *rows)
    assert forecast.choice == "all-cpu"
    assert 3 < forecast.step_ns["all-gpu"] / forecast.step_ns["all-cpu"] < 33
    assert forecast.batch == 9


def test_missing_kernels_by_pass() -> None:
    model = keras.Sequential(
        [
            keras.Input((8, 6)),
            layers.Bidirectional(
                layers.LSTM(4, return_sequences=True, name="lstm"), name="both_ways"
            ),
        ]
    )
    model.compile("sgd", "mse")
    found = {unit.path: unit.missing for unit in autoplace.what_if(model).units}
    backwards = found["both_ways/backward_lstm"]
    assert backwards["forward"] == backwards["backward"] == ("ReverseV2",)
    assert not found["both_ways/forward_lstm"]  # CudnnRNNV3, which the plugin has


def test_random_layers_lose_their_kernel_on_macos_12() -> None:
    model = keras.Sequential([keras.Input((8,)), layers.Dropout(0.5, name="drop"), layers.Dense(1)])
    model.compile("sgd", "mse")
    (new, *_), (old, *_) = (autoplace.what_if(model, macos=macos).units for macos in ("15", "12.6"))
    assert "StatelessRandomUniformV2" in old.missing["forward"]
    assert "StatelessRandomUniformV2" not in new.missing.get("forward", ())


def test_a_model_that_is_not_compiled_predicts_unless_an_optimizer_is_given() -> None:
    model = crnn()
    assert autoplace.what_if(model).kind == "predict"
    trained = autoplace.what_if(model, optimizer="adam")
    assert trained.kind == "train"
    assert trained.step_ns["all-cpu"] > autoplace.what_if(model).step_ns["all-cpu"]
    assert not model.compiled


def test_the_model_is_as_it_was() -> None:
    model = crnn(optimizer="adam", loss="mse")
    twin = keras.models.clone_model(model)
    twin.set_weights(model.get_weights())
    twin.compile("adam", "mse")
    x = np.random.default_rng(0).normal(size=(4, 32, 32, 1)).astype("float32")
    y = np.ones((4, 2), "float32")
    before = keras.random.uniform(())
    autoplace.what_if(model)
    autoplace.what_if(model, x, y)
    assert before != keras.random.uniform(())
    keras.utils.set_random_seed(1)
    lost = model.fit(x, y, verbose=0).history["loss"]
    keras.utils.set_random_seed(1)
    assert twin.fit(x, y, verbose=0).history["loss"] == pytest.approx(lost, rel=0.2)
    assert model.optimizer.iterations == 1


def test_own_train_step_dict_inputs_and_several_outputs() -> None:
    class Own(keras.Model):
        def train_step(self, data: Any) -> dict[str, Any]:
            x, y = data
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(self(x, training=True)["a"] - y))
            weights = [v.value for v in self.trainable_variables]
            grads = tape.gradient(loss, weights, unconnected_gradients="zero")
            self.optimizer.apply_gradients(zip(grads, self.trainable_variables, strict=True))
            return {"loss": loss}

    inputs = {"p": keras.Input((4,), name="p"), "q": keras.Input((4,), name="q")}
    both = layers.Concatenate()([inputs["p"], inputs["q"]])
    model = Own(
        inputs, {"a": layers.Dense(1, name="a")(both), "b": layers.Dense(2, name="b")(both)}
    )
    model.compile("adam")
    x = {name: np.zeros((6, 4), "float32") for name in inputs}
    with_targets = autoplace.what_if(model, x, np.zeros((6, 1), "float32"))
    assert with_targets.batch == 6
    assert {u.path: u.gpu_ns > 0 for u in with_targets.units}["a"]
    assert autoplace.what_if(model).batch == 32


def test_what_it_refuses() -> None:
    with pytest.raises(NotAModelError):
        autoplace.what_if(layers.Dense(1))
    open_model = keras.Sequential([keras.Input((None, 3)), layers.LSTM(2)])
    with pytest.raises(ModelNotBuiltError, match="open_size"):
        autoplace.what_if(open_model)
    assert autoplace.what_if(open_model, open_size=5).choice == "all-cpu"
    with pytest.raises(UnknownSimulationError):
        autoplace.what_if(crnn(), target="tensorflow-metal==9")
    with pytest.raises(UnknownSimulationError):
        autoplace.what_if(crnn(), profile="m99")
    with pytest.raises(UnknownSimulationError):
        autoplace.what_if(crnn(), macos="10")


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_compiler(*_: Any, **__: Any) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", no_compiler)
    path = tmp_path / "model.keras"
    crnn(optimizer="adam", loss="mse").save(path)
    run = CliRunner().invoke(cli.app, ["plan", str(path), "--profile", "m1_max", "--batch", "64"])
    assert run.exit_code == 0, run.stderr
    assert "Apple M1 Max" in run.stdout
    assert "second" in run.stdout
    run = CliRunner().invoke(cli.app, ["plan", str(path), "--json"])
    data = json.loads(run.stdout)
    assert {"schema", "choice", "step_ns", "units", "target"} <= set(data)
    assert data["units"][0]["path"] == "first"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [(["--profile", "m99"], 2, "AP106"), (["--batch", "0"], 2, "batch"), ([], 1, "AP600")],
)
def test_the_command_ends_with_the_right_code(
    tmp_path: Path, arguments: list[str], code: int, words: str
) -> None:
    path = tmp_path / "model.keras"
    if arguments:
        crnn().save(path)
    else:
        path.write_bytes(b"no model")
    run = CliRunner().invoke(cli.app, ["plan", str(path), *arguments])
    assert (run.exit_code, run.stdout) == (code, "")
    assert words in run.stderr
