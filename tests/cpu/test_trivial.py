"""Without an accelerator: nothing is measured, nothing is different, nothing breaks."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import autoplace
from autoplace import Policy
from autoplace.engines.tensorflow import seams
from autoplace.errors import ModelNotCompiledError, NoDataError, UnknownDeviceError


def data(rows: int = 8) -> tuple[Any, Any]:
    generator = np.random.default_rng(0)
    return (
        generator.normal(size=(rows, 6)).astype("float32"),
        generator.normal(size=(rows, 1)).astype("float32"),
    )


def functional(make: Any) -> Any:
    inputs = keras.Input((6,))
    x = keras.layers.Dense(4, activation="relu")(inputs)
    x = keras.layers.Dropout(0.3, seed=1)(x)
    return make(inputs, keras.layers.Dense(1)(x))


def compiled(model: Any) -> Any:
    model.compile("adam", "mse", metrics=["mae"])
    return model


def test_there_is_no_accelerator_here() -> None:
    assert not tf.config.list_logical_devices("GPU")


def test_results_are_those_of_keras_to_the_bit() -> None:
    results = []
    for make in (keras.Model, autoplace.SmartModel):
        keras.utils.set_random_seed(3)
        model = compiled(functional(make))
        history = model.fit(*data(20), batch_size=4, epochs=2, validation_split=0.2, verbose=0)
        predicted = model.predict(data()[0], verbose=0)
        results.append([*history.history.values(), *model.get_weights(), predicted])
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)


def test_nothing_of_ours_runs_in_a_step() -> None:
    """The trivial plan costs nothing since Keras' own functions are used, on an instance left alone."""
    model = compiled(functional(autoplace.SmartModel))
    model.fit(*data(), verbose=0)
    plain = compiled(functional(keras.Model))
    plain.fit(*data(), verbose=0)
    for name in ("__code__", "python_function"):  # Keras 3.15 has a function, 3.5 a tf.function
        ours, theirs = (getattr(m.train_function, name, None) for m in (model, plain))
        assert getattr(ours, "__code__", ours) is getattr(theirs, "__code__", theirs)
    assert set(vars(model)) - set(vars(plain)) == {"_autoplace_placer"}


def test_the_plan_is_trivial_and_says_why() -> None:
    model = functional(autoplace.SmartModel)
    plan = model.plan
    assert plan.choice == "all-cpu"
    assert [unit.reason for unit in plan.units] == ["no accelerator on this machine"] * 3
    assert plan.device_of(model.layers[1].name) == "cpu:0"
    report = autoplace.report(model)
    assert report.to_dict()["choice"] == "all-cpu" and "no accelerator" in str(report)
    assert compiled(model).warmup(*data()).choice == "all-cpu"


def test_errors_are_those_of_a_machine_with_an_accelerator() -> None:
    model = functional(autoplace.SmartModel)
    with pytest.raises(ModelNotCompiledError, match="AP202"):
        model.warmup(*data())
    compiled(model)
    with pytest.raises(NoDataError, match="AP301"):
        model.warmup(*data(0))
    plan = model.plan
    moved = plan.units[0].__class__(
        path=plan.units[0].path, device=autoplace.ir.GPU, reason="a test"
    )
    with pytest.raises(UnknownDeviceError, match="AP401"):
        model.use_plan(plan.__class__(graph=plan.graph, units=(moved, *plan.units[1:])))


@pytest.mark.parametrize("kind", ["sequential", "functional", "subclassed"])
def test_every_kind_of_model_trains_and_is_traced(kind: str) -> None:
    class Net(autoplace.SmartModel):
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(1)

        def call(self, x: Any) -> Any:
            return self.dense(x)

    models: dict[str, Any] = {
        "sequential": lambda: autoplace.SmartSequential([keras.Input((6,)), keras.layers.Dense(1)]),
        "functional": lambda: functional(autoplace.SmartModel),
        "subclassed": Net,
    }
    model = compiled(models[kind]())
    model.fit(*data(), verbose=0)
    assert isinstance(model, keras.Model)
    assert model.plan.graph.model_kind == kind
    assert seams.kind_of(model) == kind


def test_smart_converts_in_place() -> None:
    model = compiled(functional(keras.Model))
    model.fit(*data(), verbose=0)
    weights, optimizer = model.get_weights(), model.optimizer
    same = autoplace.smart(model)
    assert same is model and isinstance(model, autoplace.SmartModel)
    assert model.optimizer is optimizer
    for a, b in zip(weights, model.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    model.fit(*data(), verbose=0)
    assert int(model.optimizer.iterations) == 2
    assert autoplace.smart(model) is model


def test_subclassing_after_a_functional_model() -> None:
    """Left to Keras, the first functional model makes every later subclass functional."""
    functional(autoplace.SmartModel)

    class Late(autoplace.SmartModel):
        def __init__(self, units: int = 1) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(units)

        def call(self, x: Any) -> Any:
            return self.dense(x)

    compiled(Late()).fit(*data(), verbose=0)


def test_copies_and_pickles_and_files(tmp_path: Path) -> None:
    model = compiled(functional(autoplace.SmartModel))
    model.fit(*data(), verbose=0)
    want = model.predict(data()[0], verbose=0)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):  # noqa: S301 - our own
        assert isinstance(other, autoplace.SmartModel)
        np.testing.assert_allclose(other.predict(data()[0], verbose=0), want, rtol=1e-6)
    clone = keras.models.clone_model(model)
    assert isinstance(clone, autoplace.SmartModel)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded) is type(functional(keras.Model))
    assert loaded.optimizer is not None
    np.testing.assert_allclose(loaded.predict(data()[0], verbose=0), want, rtol=1e-6)


def test_a_distribution_strategy_is_left_alone() -> None:
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    with strategy.scope():
        model = compiled(functional(autoplace.SmartModel))
    model.fit(*data(), verbose=0)
    assert "strategy" in model.plan.units[0].reason


def test_the_default_policy_and_ones_own() -> None:
    autoplace.set_policy(Policy(mode="off"))
    try:
        model = functional(autoplace.SmartModel)
        assert model.policy.mode == "off" and "mode is off" in model.plan.units[0].reason
    finally:
        autoplace.set_policy(None)
    inputs = keras.Input((6,))
    own = autoplace.SmartModel(inputs, keras.layers.Dense(1)(inputs), policy=Policy(mode="cpu"))
    assert own.policy.mode == "cpu"
