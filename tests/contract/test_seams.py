"""What autoplace relies on in Keras and TensorFlow beyond their public API.

Each test names the versions when a seam has moved.
"""

from __future__ import annotations

import platform
import random
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.src.trainers import trainer as keras_trainer

from autoplace.engines.tensorflow import seams

VERSIONS = f"Keras {keras.__version__}, TensorFlow {tf.__version__}"


def dense_model() -> Any:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile(keras.optimizers.Adam(0.1), "mse", metrics=["mae"])
    return model


@pytest.fixture
def model() -> Any:
    return dense_model()


def test_an_instance_call_is_the_one_that_runs_and_is_undone(model: Any) -> None:
    layer, seen = model.layers[0], []

    def around(call: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(1)
        return call(*args, **kwargs)

    attributes = set(vars(layer))
    override = (layer, "call", seams.wrapped(layer.call, around))
    with seams.overridden([override]):
        model(np.zeros((1, 3)))
    model(np.zeros((1, 3)))
    assert seen == [1], f"layer.__dict__['call'] is not what runs: {VERSIONS}"
    assert set(vars(layer)) == attributes


def test_an_override_that_raises_is_undone(model: Any) -> None:
    with pytest.raises(KeyboardInterrupt), seams.overridden([(model, "train_step", None)]):
        raise KeyboardInterrupt
    assert "train_step" not in vars(model)


def test_call_methods_cover_quantized_layers() -> None:
    assert "call" in seams.call_methods(keras.layers.Dense(1)), VERSIONS
    assert ("quantized_call" in seams.call_methods(keras.layers.Dense(1))) == hasattr(
        keras.layers.Dense, "quantized_call"
    )


def test_an_instance_train_step_is_the_one_that_is_traced(model: Any) -> None:
    seen = []

    def around(step: Any, data: Any) -> Any:
        seen.append(1)
        return step(data)

    with seams.overridden([(model, "train_step", seams.wrapped(model.train_step, around))]):
        function = seams.new_function(model, "train_step")
        function(iter(tf.data.Dataset.from_tensors((np.zeros((1, 3)), np.zeros((1, 2))))))
    assert seen, f"instance train_step is not traced: {VERSIONS}"
    assert model.train_function is None


def test_a_variable_keeps_its_identity_with_another_tensor(model: Any) -> None:
    variable = model.layers[0].kernel
    old = seams.tensor_of(variable)
    new = tf.Variable(old + 1)
    seams.set_tensor(variable, new)
    assert variable.value is new, VERSIONS
    np.testing.assert_array_equal(model.get_weights()[0], old.numpy() + 1)


def test_slots_follow_a_swap_after_reindexing(model: Any) -> None:
    """Without `reindex` a new trace fails with "Unknown variable"."""
    x, y = np.zeros((2, 3), "float32"), np.ones((2, 2), "float32")
    model.fit(x, y, verbose=0)
    for variable in model.trainable_variables:
        seams.set_tensor(variable, tf.Variable(seams.tensor_of(variable)))
    for optimizer in seams.optimizers_of(model):
        seams.reindex(optimizer)
    seams.set_function(model, "train_step", None)
    before = model.get_weights()[1]
    model.fit(x, y, verbose=0)
    assert np.abs(model.get_weights()[1] - before).max() > 0, VERSIONS


@pytest.mark.parametrize("built", [False, True])
@pytest.mark.parametrize("kind", ["Adam", "SGD", "LossScaleOptimizer"])
def test_which_weight_a_slot_belongs_to(kind: str, built: bool, model: Any) -> None:
    optimizer = {
        "Adam": lambda: keras.optimizers.Adam(amsgrad=True),
        "SGD": lambda: keras.optimizers.SGD(momentum=0.9),
        "LossScaleOptimizer": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam()),
    }[kind]()
    model.compile(optimizer, "mse")
    if built:
        optimizer.build(model.trainable_variables)
    found = {}
    for part in seams.optimizers_of(model):
        references = seams.slot_references(part, model.trainable_variables)
        shapes = {id(v): tuple(v.shape) for v in part.variables}
        for slot, weight in references.items():
            assert shapes[slot] == tuple(weight.shape), VERSIONS
        found.update(references)
    assert len(found) == {"Adam": 6, "SGD": 2, "LossScaleOptimizer": 4}[kind], VERSIONS


def test_compiled_state_is_built_before_the_first_step(model: Any) -> None:
    seams.build_compiled_state(model, np.zeros((2, 2)), np.zeros((2, 2)))
    assert len(model.metrics_variables) == 4, VERSIONS


def test_own_steps_are_known() -> None:
    class Net(keras.Model):  # type: ignore[misc]
        def train_step(self, data: Any) -> Any:
            return super().train_step(data)

    assert seams.has_own_step(Net(), "train_step"), VERSIONS
    assert not seams.has_own_step(Net(), "predict_step"), VERSIONS


def test_jit_setting_is_kept(model: Any) -> None:
    before = model._jit_compile
    with seams.without_jit(model):
        assert model.jit_compile is False, VERSIONS
    assert model._jit_compile == before


def test_random_numbers_and_names_are_undisturbed() -> None:
    keras.utils.set_random_seed(1)
    want = random.random(), np.random.rand(), float(tf.random.uniform(()))
    keras.utils.set_random_seed(1)
    with seams.undisturbed():
        inside = keras.layers.Dense(1).name
        random.random()
        np.random.rand()
        tf.function(lambda: tf.random.uniform(())).get_concrete_function()
    got = random.random(), np.random.rand(), float(tf.random.uniform(()))
    assert got == want, VERSIONS
    assert keras.layers.Dense(1).name == inside, VERSIONS


def test_a_device_function_reaches_nested_graphs_and_their_end() -> None:
    seen: set[str] = set()
    ended: list[bool] = []

    def note(op: Any) -> str:
        seen.add(op.graph.name)
        return str(op.device)

    @tf.function(autograph=False)
    def run(x: Any) -> Any:
        graph = tf.compat.v1.get_default_graph()
        assert seams.on_exit(graph, lambda: ended.append(True))
        with graph.device(note):
            return tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, tf.tanh(v)), (0, x))

    run(tf.ones((2,)))
    assert any("body" in name for name in seen), VERSIONS
    assert ended, VERSIONS


def test_a_new_graph_runs_its_code_once_and_sees_variables() -> None:
    variable = tf.Variable(1.0)
    graph = seams.new_graph("contract")
    with graph.as_default():
        tf.square(variable)
    assert seams.variables_used_in(graph) == [variable], VERSIONS


def test_kernels_are_known() -> None:
    kinds = {device for device, _ in seams.kernels_of("MatMul")}
    assert "CPU" in kinds, VERSIONS
    assert seams.kernels_of("NoSuchOperation") == ()
    assert seams.is_known_op("MatMul") and not seams.is_known_op("__inference_f_12")


def test_the_first_batch_of_fit_is_made_as_fit_makes_it(model: Any) -> None:
    x, y = np.arange(30, dtype="float32").reshape(10, 3), np.zeros((10, 2))
    found = seams.first_batch_of_fit(model, {"x": x, "y": y, "batch_size": 4})
    assert found is not None, VERSIONS
    (first_x, first_y), spec = found
    np.testing.assert_array_equal(first_x, x[:4])
    assert first_y.shape == (4, 2)
    assert spec[0].shape.as_list() == [None, 3], VERSIONS
    assert seams.first_batch_of_fit(model, {"x": iter([x])}) is None


def test_executed_nodes_can_be_read() -> None:
    @tf.function(autograph=False)
    def run(x: Any) -> Any:
        return tf.tanh(tf.matmul(x, tf.sin(x)) + tf.cos(x))

    x = tf.ones((2, 2))
    nodes = seams.executed_nodes(lambda: run(x))
    # With oneDNN the operation is called _MklMatMul or _FusedMatMul.
    assert any("MatMul" in node.op and "CPU" in node.device for node in nodes), VERSIONS


def test_keras_leaves_xla_out_where_it_sees_an_arm_mac_with_a_gpu(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: [kind])
    with seams.arm_mac_for_keras():
        assert not keras_trainer.model_supports_jit(model), f"Keras asks otherwise: {VERSIONS}"
        assert keras_trainer.platform.machine() == platform.machine()
    assert keras_trainer.model_supports_jit(model), f"not undone: {VERSIONS}"
    assert keras_trainer.platform is platform


def test_lstm_is_one_operation_where_keras_sees_a_gpu() -> None:
    layer = keras.layers.LSTM(2)
    layer.build((1, 3, 2))

    def operations() -> set[str]:
        graph = seams.new_graph("lstm")
        with graph.as_default():
            layer(tf.zeros((1, 3, 2)))
        return {op.type for op in graph.get_operations()}

    with seams.gpu_listed_for_recurrent_layers():
        assert "CudnnRNNV3" in operations(), f"Keras asks otherwise: {VERSIONS}"
    # Undone: there is no GPU here.
    assert "CudnnRNNV3" not in operations(), f"not undone: {VERSIONS}"


def test_the_length_of_a_traced_loop_is_a_constant() -> None:
    with seams.new_graph("loop").as_default():
        length = tf.reduce_max(tf.range(0, 7, 1))
        assert seams.constant_value(length) == 6, VERSIONS
        assert seams.constant_value(tf.compat.v1.placeholder(tf.int32, ())) is None, VERSIONS
