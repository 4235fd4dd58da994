"""The warmup: what it decides, and that it leaves no trace."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tests.sim.small import DATA, MODELS, Array, compiled, normal

import autoplace
from autoplace import Policy, sim
from autoplace.ir import CPU, Plan
from autoplace.probe import gate


@pytest.fixture(autouse=True)
def _quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of each test's own, and as few rounds as the statistics allow."""
    monkeypatch.setenv("AUTOPLACE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(gate, "LOOKS", (8,))


def state_of(model: Any) -> list[Array]:
    """Everything that training changes."""
    variables = [*model.variables, *model.metrics_variables, *model.optimizer.variables]
    return [np.asarray(v.value) for v in variables]


@pytest.mark.parametrize("name", sorted(MODELS))
def test_it_leaves_no_trace(name: str) -> None:
    model = compiled(autoplace.smart(MODELS[name]()))
    x, y = DATA[name](8)
    model.optimizer.build(model.trainable_variables)
    # Metrics and losses make their variables with the first batch, whoever sees it.
    model.evaluate(x, y, verbose=0)
    before = state_of(model)
    random_before = random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index]
    plan = model.warmup(x, y, batch_size=8)
    assert isinstance(plan, Plan) and plan.kind == "train"
    after = state_of(model)
    assert len(before) == len(after)
    for a, b in zip(before, after, strict=True):
        np.testing.assert_array_equal(a, b)
    assert random_before == (random.getstate(), np.random.get_state()[1].tolist())  # type: ignore[index]
    assert int(model.optimizer.iterations) == 0


def test_it_leaves_no_trace_in_variables_that_keras_does_not_know() -> None:
    class Counting(keras.layers.Layer):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.calls = tf.Variable(0.0, trainable=False)
            self.generator = tf.random.Generator.from_seed(7)

        def call(self, x: Any) -> Any:
            self.calls.assign_add(1.0)
            return x + 0.0 * self.generator.normal(tf.shape(x))

    inputs = keras.Input((6,))
    counting = Counting()
    model = compiled(autoplace.SmartModel(inputs, keras.layers.Dense(1)(counting(inputs))))
    before = float(counting.calls), counting.generator.state.numpy().tolist()
    model.warmup(normal(8, 6), normal(8, 1))
    assert (float(counting.calls), counting.generator.state.numpy().tolist()) == before
    model.fit(normal(8, 6), normal(8, 1), batch_size=4, verbose=0)
    assert float(counting.calls) == before[0] + 2


def with_dropout(make: Any) -> Any:
    inputs = keras.Input((6,))
    x = keras.layers.Dense(8, activation="relu")(inputs)
    x = keras.layers.BatchNormalization(momentum=0.5)(x)
    x = keras.layers.Dropout(0.4, seed=11)(x)
    return make(inputs, keras.layers.Dense(1)(x))


def test_fit_is_that_of_plain_keras_with_dropout_and_schedule() -> None:
    """tensorflow/tensorflow#57924: what runs before the first step must not draw or count."""
    x, y = normal(20, 6), normal(20, 1, seed=1)
    histories = []
    for make in (keras.Model, autoplace.SmartModel):
        keras.utils.set_random_seed(123)
        with tf.device("cpu:0"):
            model = with_dropout(make)
        schedule = keras.optimizers.schedules.ExponentialDecay(0.05, 2, 0.5)
        compiled(model, optimizer=keras.optimizers.Adam(schedule), loss="mse")
        with tf.device("cpu:0"):
            history = model.fit(
                x, y, epochs=2, batch_size=5, shuffle=True, validation_split=0.25, verbose=0
            )
        assert int(model.optimizer.iterations) == 6
        histories.append(history.history)
    for key in histories[0]:
        np.testing.assert_allclose(histories[0][key], histories[1][key], rtol=1e-4, err_msg=key)


def batches(seen: list[int], rows: int = 4, count: int = 5) -> Iterator[tuple[Array, Array]]:
    """A generator that notes which batches were asked for."""
    x, y = DATA["dense_net"](rows * count)
    for number in range(count):
        seen.append(number)
        part = slice(number * rows, (number + 1) * rows)
        yield x[part], y[part]


@pytest.mark.filterwarnings(
    "ignore:Your input ran out of data"
)  # Keras on datasets of unknown length
@pytest.mark.parametrize("steps_per_execution", [1, 3])
@pytest.mark.parametrize("kind", ["generator", "dataset", "arrays"])
def test_no_batch_is_lost(kind: str, steps_per_execution: int) -> None:
    """Same weights as plain Keras, batch for batch, from data that can be read only once."""
    weights, logs = [], []
    for smart in (False, True):
        keras.utils.set_random_seed(1)
        with tf.device("cpu:0"):
            model = MODELS["dense_net"](autoplace.SmartSequential if smart else keras.Sequential)
        compiled(model, steps_per_execution=steps_per_execution)
        seen: list[int] = []
        data: Any = batches(seen)
        arguments: dict[str, Any] = {"steps_per_epoch": 5, "shuffle": False}
        if kind == "dataset":
            # An open batch dimension: with a fixed one plain Keras 3.15 now and then counts the rows of a
            # batch that never came, and its mean loss is off by 5/6.
            spec = (tf.TensorSpec((None, 32)), tf.TensorSpec((None, 1)))
            data = tf.data.Dataset.from_generator(
                lambda seen=seen: batches(seen), output_signature=spec
            )
            arguments = {"shuffle": False}
        if kind == "arrays":
            x, y = DATA["dense_net"](20)
            data, arguments = x, {"y": y, "batch_size": 4, "shuffle": False}
        with tf.device("cpu:0"):
            history = model.fit(data, epochs=1, verbose=0, **arguments)
        assert kind == "arrays" or sorted(seen) == [0, 1, 2, 3, 4]
        # Plain Keras 3.15 counts a sixth step where the end of a dataset is found by asking for more: in its
        # graph the counter does not wait for the batch.
        assert int(model.optimizer.iterations) in ((5, 6) if kind == "dataset" else (5,))
        weights.append(model.get_weights())
        logs.append(history.history)
    for a, b in zip(*weights, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)
    np.testing.assert_allclose(logs[0]["loss"], logs[1]["loss"], rtol=1e-4)


@pytest.mark.parametrize("name", sorted(MODELS))
@pytest.mark.parametrize("mode", ["auto", "cpu", "gpu", "mixed"])
def test_training_is_that_of_plain_keras_on_the_cpu(name: str, mode: Any) -> None:
    x, y = DATA[name](12)
    results = []
    for smart in (False, True):
        keras.utils.set_random_seed(3)
        with tf.device("cpu:0"):
            model = MODELS[name]()
        if smart:
            pins = {"conv*": "gpu:0", "max_pool*": "gpu:0"} if name != "dense_net" else {}
            policy = (
                Policy(mode="cpu", pins=pins or {"dense*": "gpu:0"}) if mode == "mixed" else None
            )
            model = autoplace.smart(model, policy=policy or Policy(mode=mode))
        compiled(model)
        with tf.device("cpu:0"):
            if not smart:
                for layer in model._flatten_layers():
                    if hasattr(layer, "use_cudnn"):
                        layer.use_cudnn = False
            history = model.fit(x, y, batch_size=4, epochs=3, shuffle=False, verbose=0)
        results.append((history.history["loss"], model.get_weights()))
        if smart:
            wanted = {"cpu": "all-cpu", "gpu": "all-gpu", "mixed": "mixed"}.get(mode)
            assert wanted in (None, model.plan.choice)
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-3)
    for a, b in zip(results[0][1], results[1][1], strict=True):
        np.testing.assert_allclose(a, b, rtol=5e-3, atol=5e-4)


def test_a_wrong_device_is_not_used() -> None:
    """Also where every unit alone would be faster there."""
    model = compiled(autoplace.smart(MODELS["dense_net"]()))
    x, y = DATA["dense_net"](12)
    with sim.faults("bad_batch@MatMul"):
        plan = model.warmup(x[:12], y[:12], batch_size=12)
    dense = [path for path in plan.verdicts if path.startswith("dense")]
    assert {plan.verdicts[path].state for path in dense} == {"wrong"}
    assert plan.choice == "all-cpu"
    assert "wrong on the GPU" in plan.units[-1].reason


def test_nan_on_the_device_is_a_verdict() -> None:
    model = compiled(autoplace.smart(MODELS["dense_net"]()))
    with sim.faults("nan@MatMul"):
        plan = model.warmup(*DATA["dense_net"](8), batch_size=8)
    assert {v.state for p, v in plan.verdicts.items() if p.startswith("dense")} == {"non_finite"}
    assert plan.choice == "all-cpu"


def test_a_missing_kernel_is_a_verdict() -> None:
    model = compiled(autoplace.smart(MODELS["recurrent_net"]()))
    plan = model.warmup(*DATA["recurrent_net"](4), batch_size=4)
    reverse = next(p for p in plan.verdicts if "/backward_lstm" in p)
    assert plan.verdicts[reverse].state == "no_kernel"
    assert "ReverseV2" in plan.verdicts[reverse].evidence
    assert plan.device_of(reverse) == "cpu:0" or plan.choice == "all-gpu"


def test_the_second_time_costs_come_from_the_cache() -> None:
    plans = []
    for _ in range(2):
        model = compiled(autoplace.smart(MODELS["dense_net"]()))
        plans.append(model.warmup(*DATA["dense_net"](8), batch_size=8))
    assert plans[0].probe.measured > 0 and plans[0].probe.from_cache == 0
    assert plans[1].probe.measured == 0 and plans[1].probe.from_cache == plans[0].probe.measured
    assert plans[0].choice == plans[1].choice
    # The layers of the second model have other names.
    assert plans[0].units[1].path != plans[1].units[1].path
    assert {plans[1].device_of(unit.path) for unit in plans[1].graph.units} == {CPU.kind + ":0"}


def test_a_device_that_went_wrong_since_is_noticed_by_the_canary() -> None:
    model = compiled(autoplace.smart(MODELS["dense_net"]()))
    model.warmup(*DATA["dense_net"](12), batch_size=12)
    again = compiled(autoplace.smart(MODELS["dense_net"]()))
    with sim.faults("nan@MatMul"):
        plan = again.warmup(*DATA["dense_net"](12), batch_size=12)
    assert plan.probe.measured > 0


def test_units_that_hand_on_what_they_got() -> None:
    """Seen: augmentation and dropout outside training, where nothing was left to time."""
    layers = keras.layers
    model: Any = autoplace.SmartSequential(
        [
            keras.Input((12, 12, 3)),
            layers.RandomFlip("horizontal", seed=3),
            layers.RandomRotation(0.1, seed=4),
            layers.Dropout(0.5),
            layers.Conv2D(4, 3, activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(2),
        ]
    )
    model.compile(loss="mse", optimizer="adam")
    x, y = normal(16, 12, 12, 3), normal(16, 2, seed=1)
    predicted = model.predict(x, batch_size=8, verbose=0)
    assert model.plan is not None
    right = keras.Model(model.inputs, model.outputs).predict(x, batch_size=8, verbose=0)
    np.testing.assert_allclose(predicted, right, rtol=1e-4, atol=1e-5)
    assert np.isfinite(model.fit(x, y, batch_size=8, verbose=0).history["loss"]).all()


def of_dense_with_relu() -> Any:
    model = compiled(
        autoplace.SmartSequential(
            [keras.Input((6,)), keras.layers.Dense(8, "relu", name="a"), keras.layers.Dense(1)]
        )
    )
    return model.warmup(normal(8, 6), normal(8, 1), batch_size=8).verdicts["a"]


def test_a_verdict_names_the_rule_that_explains_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """AP-R001: fires where the fault is there, and is cleared by parity where it is not."""
    with sim.faults("dropped_relu"):
        verdict = of_dense_with_relu()
    assert (verdict.state, verdict.source) == ("wrong", "parity")
    assert "AP-R001" in verdict.evidence
    monkeypatch.setenv("AUTOPLACE_CACHE", "0")
    verdict = of_dense_with_relu()
    assert verdict.is_ok
    assert "AP-R001" not in verdict.evidence


def test_parity_alone_finds_what_rules_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the rule switched off the fault is found all the same; only its name is missing."""
    path = tmp_path / "off.toml"
    path.write_text('schema = 1\n[[rule]]\nid = "AP-R001"\nenabled = false\n')
    monkeypatch.setenv("AUTOPLACE_RULES", str(path))
    with sim.faults("dropped_relu"):
        verdict = of_dense_with_relu()
    assert verdict.state == "wrong"
    assert "AP-R001" not in verdict.evidence
