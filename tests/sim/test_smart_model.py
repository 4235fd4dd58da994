"""The public face: plans, policies, every way into training, on the simulated device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tests.sim.small import DATA, MODELS, compiled, normal

import autoplace
from autoplace import Plan, Policy
from autoplace.engines.tensorflow import seams
from autoplace.engines.tensorflow.devices import of_tf
from autoplace.ir import CPU, GPU
from autoplace.probe import gate

MIXED = {"conv*": "gpu:0", "max_pool*": "gpu:0"}


@pytest.fixture(autouse=True)
def _quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOPLACE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(gate, "LOOKS", (8,))


def smart_recurrent(policy: Policy | None = None) -> Any:
    return compiled(autoplace.smart(MODELS["recurrent_net"](), policy=policy))


def forced_mixed() -> Policy:
    return Policy(mode="cpu", pins=MIXED)


def test_a_saved_plan_is_used_again(tmp_path: Path) -> None:
    x, y = DATA["recurrent_net"](4)
    first = smart_recurrent(forced_mixed())
    first.warmup(x, y)
    assert first.plan.choice == "mixed"
    first.plan.save(tmp_path / "plan.json")
    loaded = Plan.load(tmp_path / "plan.json")
    assert loaded == first.plan

    second = autoplace.smart(keras.models.clone_model(first))
    compiled(second)
    second.use_plan(loaded)
    assert second.plan is not None and second.plan.choice == "mixed"
    second.fit(x, y, batch_size=4, verbose=0)
    assert second.plan.devices == loaded.devices
    conv = next(layer for layer in second.layers if layer.name.startswith("conv2d"))
    assert of_tf(seams.tensor_of(conv.kernel).device) == GPU
    compiled(second)  # a new compile keeps a plan that was handed in
    second.fit(x, y, batch_size=4, verbose=0)
    assert second.plan.devices == loaded.devices


def test_keep_together_and_pins() -> None:
    x, y = DATA["recurrent_net"](4)
    model = smart_recurrent(
        Policy(pins={"reshape*": "cpu:0"}, keep_together=[["max_pool*", "reshape*"]])
    )
    plan = model.warmup(x, y)
    pools = [p for p in plan.devices if p.startswith(("max_pool", "reshape"))]
    assert {plan.device_of(path) for path in pools} == {"cpu:0"}
    reshape = next(u for u in plan.units if u.path.startswith("reshape"))
    assert reshape.reason == "pinned to cpu:0 by the policy"


def test_modes() -> None:
    x, y = DATA["dense_net"](8)
    modes: Any = (("cpu", "all-cpu"), ("gpu", "all-gpu"))
    for mode, choice in modes:
        model = compiled(autoplace.smart(MODELS["dense_net"](), policy=Policy(mode=mode)))
        model.fit(x, y, verbose=0)
        assert model.plan.choice == choice
        assert model.plan.probe.measured == 0
        wanted = CPU if mode == "cpu" else GPU
        kernel = model.layers[-1].kernel
        assert of_tf(seams.tensor_of(kernel).device) == wanted
    off = compiled(autoplace.smart(MODELS["dense_net"](), policy=Policy(mode="off")))
    off.fit(x, y, verbose=0)
    assert "mode is off" in off.plan.units[0].reason


@pytest.mark.parametrize("name", ["dense_net", "recurrent_net"])
def test_inference_first_then_training(name: str) -> None:
    x, y = DATA[name](8)
    plain = MODELS[name]()
    with tf.device("cpu:0"):
        want = np.asarray(plain(x, training=False)) if name == "dense_net" else None
    model = compiled(autoplace.smart(plain))
    got = model.predict(x, batch_size=4, verbose=0)
    assert model.plan.kind == "predict"
    if want is not None:
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    loss = model.evaluate(x, y, batch_size=4, verbose=0)[0]
    np.testing.assert_allclose(loss, np.mean(np.abs(got - y)), rtol=1e-3)
    model.fit(x, y, batch_size=4, verbose=0)
    assert model.plan.kind == "train"
    after = model.evaluate(x, y, batch_size=4, verbose=0)[0]
    assert after != loss
    np.testing.assert_allclose(after, np.mean(np.abs(model.predict(x, verbose=0) - y)), rtol=1e-3)


def test_train_on_batch() -> None:
    x, y = DATA["dense_net"](8)
    weights, model = [], None
    for smart in (False, True):
        keras.utils.set_random_seed(5)
        with tf.device("cpu:0"):
            model = MODELS["dense_net"]()
        model = compiled(autoplace.smart(model) if smart else model)
        with tf.device("cpu:0"):
            for _ in range(3):
                model.train_on_batch(x, y)
        assert int(model.optimizer.iterations) == 3
        weights.append(model.get_weights())
    assert model is not None and model.plan is not None
    for a, b in zip(*weights, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def test_a_partial_batch_and_validation() -> None:
    x, y = DATA["recurrent_net"](10)
    model = smart_recurrent(forced_mixed())
    history = model.fit(x, y, batch_size=4, epochs=2, validation_split=0.2, verbose=0)
    assert set(history.history) == {"loss", "mse", "val_loss", "val_mse"}
    assert int(model.optimizer.iterations) == 4
    assert np.isfinite(history.history["val_loss"]).all()


def test_subclassed_shared_and_nested_models() -> None:
    class Net(autoplace.SmartModel):
        def __init__(self) -> None:
            super().__init__()
            self.shared = keras.layers.Dense(6, activation="relu")
            self.inner = keras.Sequential([keras.layers.Dense(6), keras.layers.Dense(6)])
            self.scale = self.add_weight(shape=(), initializer="ones", name="scale")

        def call(self, x: Any) -> Any:
            x = self.shared(self.shared(x))
            return self.inner(x) * self.scale

    net = compiled(Net())
    x = normal(8, 6)
    net.fit(x, x, batch_size=4, verbose=0)
    units = net.plan.graph.by_path
    assert units["dense" if "dense" in units else net.shared.name].calls == 2
    assert any("/" in path for path in units)
    assert net.name in units  # the model's own weight makes its own operations a unit
    assert net.plan.graph.model_kind == "subclassed"


def test_several_outputs_and_a_custom_train_step() -> None:
    class Custom(autoplace.SmartModel):
        def train_step(self, data: Any) -> dict[str, Any]:
            x, y = data
            with tf.GradientTape() as tape:
                first, second = self(x, training=True)
                loss = tf.reduce_mean((first - y) ** 2) + tf.reduce_mean(second**2)
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
            return {"own": loss}

    inputs = keras.Input((6,))
    hidden = keras.layers.Dense(5, activation="relu")(inputs)
    model: Any = Custom(inputs, [keras.layers.Dense(1)(hidden), keras.layers.Dense(2)(hidden)])
    model.compile(keras.optimizers.Adam(0.01), jit_compile=False)
    history = model.fit(normal(8, 6), normal(8, 1), batch_size=4, epochs=3, verbose=0)
    assert history.history["own"][-1] < history.history["own"][0]
    assert len(model.plan.units) == 3


def test_the_report_of_a_real_run(tmp_path: Path) -> None:
    model = smart_recurrent()
    model.fit(*DATA["recurrent_net"](4), batch_size=4, verbose=0)
    report = autoplace.report(model)
    content = report.to_dict()
    assert content["schema"] == 1 and content["machine"]["simulated"] is True
    assert content["choice"] == model.plan.choice
    assert {unit["path"] for unit in content["units"]} == set(model.plan.devices)
    assert set(content["step_times_ns"]) >= {"all-cpu", "all-gpu"}
    assert "simulated" in str(report).lower()
    report.to_html(tmp_path / "report.html")
    assert "<html" in (tmp_path / "report.html").read_text().lower()
    assert "conv2d" in report._repr_html_()


def test_files_read_as_plain_keras(tmp_path: Path) -> None:
    model = smart_recurrent(forced_mixed())
    x, y = DATA["recurrent_net"](4)
    model.fit(x, y, batch_size=4, verbose=0)
    want = model.predict(x, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded) is not type(model) and type(loaded).__name__ == "Functional"
    for a, b in zip(model.get_weights(), loaded.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    again = autoplace.smart(loaded, policy=forced_mixed())
    np.testing.assert_allclose(again.predict(x, verbose=0), want, rtol=1e-4, atol=1e-5)
