"""Any Keras model becomes a graph of units and edges."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from autoplace.engines.tensorflow import kernels
from autoplace.engines.tensorflow.trace import Trace, trace
from autoplace.ir import INPUT


def normal(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def traced(model: Any, *data: Any) -> Trace:
    model.compile("adam", "mse")
    return trace(model, data)


def links(result: Trace) -> set[tuple[str, str]]:
    return {(edge.source, edge.target) for edge in result.graph.edges}


def test_a_shared_layer_is_one_unit_with_two_calls() -> None:
    a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b")
    shared = layers.Dense(3, name="shared")
    model = keras.Model([a, b], layers.Concatenate(name="join")([shared(a), shared(b)]))
    result = traced(model, (normal(2, 4), normal(2, 4)), normal(2, 6))
    assert result.graph.unit("shared").calls == 2
    from_shared = [e for e in result.graph.edges if (e.source, e.target) == ("shared", "join")]
    assert len(from_shared) == 2 and len({e.tensor for e in from_shared}) == 2


def test_one_tensor_for_two_units_is_one_tensor() -> None:
    inputs = keras.Input((4,))
    first = layers.Dense(3, name="first")(inputs)
    outputs = [layers.Dense(1, name="left")(first), layers.Dense(1, name="right")(first)]
    result = traced(keras.Model(inputs, outputs), normal(2, 4), (normal(2, 1), normal(2, 1)))
    tensors = [e.tensor for e in result.graph.edges if e.source == "first"]
    assert len(tensors) == 2 and len(set(tensors)) == 1
    sizes = {e.target: e.size_bytes for e in result.graph.edges}
    assert sizes == {"first": 2 * 4 * 4, "left": 2 * 3 * 4, "right": 2 * 3 * 4}


def test_operations_between_layers_pass_edges_on() -> None:
    inputs = keras.Input((4,))
    a = layers.Dense(4, name="a")(inputs)
    b = layers.Dense(4, name="b")(a)
    outputs = layers.Dense(1, name="c")(keras.ops.relu(a + b))
    result = traced(keras.Model(inputs, outputs), normal(2, 4), normal(2, 1))
    assert set(result.units) == {"a", "b", "c"}
    assert links(result) == {(INPUT, "a"), ("a", "b"), ("a", "c"), ("b", "c")}


def test_nested_models_and_paths() -> None:
    inner = keras.Sequential([layers.Dense(4, name="x"), layers.Dense(4, name="y")], name="inner")
    model = keras.Sequential([keras.Input((4,)), inner, layers.Dense(1, name="x")], name="outer")
    result = traced(model, normal(2, 4), normal(2, 1))
    assert list(result.units) == ["inner/x", "inner/y", "x"]


def test_a_loop_is_not_torn_apart() -> None:
    inputs = keras.Input((5, 3))
    x = layers.RNN(layers.StackedRNNCells([layers.LSTMCell(4), layers.LSTMCell(4)]), name="rnn")(
        inputs
    )
    model = keras.Model(inputs, layers.Dense(1, name="head")(x))
    result = traced(model, normal(2, 5, 3), normal(2, 1))
    assert list(result.units) == ["rnn", "head"]
    owned = {v.path for v in result.units["rnn"].variables if v.trainable}
    assert len(owned) == 6


def test_a_composite_layer_has_its_own_operations() -> None:
    inputs = keras.Input((5, 8))
    attention = layers.MultiHeadAttention(2, 4, name="mha")
    model = keras.Model(inputs, attention(inputs, inputs))
    result = traced(model, normal(2, 5, 8), normal(2, 5, 8))
    assert "mha" in result.units and result.graph.unit("mha").is_container
    assert {"mha/query", "mha/key", "mha/value"} <= set(result.units)
    owned = [id(v) for unit in result.units.values() for v in unit.variables]
    assert len(owned) == len(set(owned))
    assert {id(v) for v in model.trainable_variables} <= set(owned)


def test_a_bidirectional_layer_and_time_distributed() -> None:
    inputs = keras.Input((5, 3))
    x = layers.TimeDistributed(layers.Dense(4), name="each")(inputs)
    x = layers.Bidirectional(layers.LSTM(2), name="both")(x)
    result = traced(keras.Model(inputs, x), normal(2, 5, 3), normal(2, 4))
    forward = next(path for path in result.units if path.startswith("both/forward_lstm"))
    assert not result.graph.unit(forward).is_container
    assert next(iter(result.units)).startswith("each")


def test_signatures() -> None:
    """Equal layers are equal, whatever their names; anything that changes cost or result makes a difference."""

    def signature(layer: Any, rows: int = 2, **compile_kwargs: Any) -> str:
        inputs = keras.Input((4,))
        result = traced(keras.Model(inputs, layer(inputs)), normal(rows, 4), normal(rows, 3))
        return next(iter(result.graph.units)).signature

    same = signature(layers.Dense(3))
    assert signature(layers.Dense(3, name="other")) == same
    frozen = layers.Dense(3)
    frozen.trainable = False
    inequal = [
        signature(layers.Dense(3, activation="relu")),
        signature(layers.Dense(3, use_bias=False)),
        signature(layers.Dense(3), rows=3),
        signature(layers.Dense(3, dtype="mixed_float16")),
        signature(frozen),
    ]
    assert len({same, *inequal}) == 6


def test_random_layers_are_known() -> None:
    inputs = keras.Input((4,))
    model = keras.Model(inputs, layers.Dropout(0.5, name="drop")(layers.Dense(2, name="d")(inputs)))
    graph = traced(model, normal(2, 4), normal(2, 2)).graph
    assert graph.unit("drop").is_random and not graph.unit("d").is_random


def test_an_unbuilt_subclassed_model_is_built() -> None:
    class Net(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.dense = layers.Dense(3)

        def call(self, x: Any) -> Any:
            return self.dense(x)

    net = Net()
    result = traced(net, normal(2, 4), normal(2, 3))
    assert net.built and list(result.units) == [net.dense.name]


@pytest.mark.parametrize("batch", [2, 5])
def test_nothing_is_executed(batch: int) -> None:
    inputs = keras.Input((4,))
    x = layers.Dropout(0.5, seed=1)(layers.BatchNormalization()(inputs))
    model = keras.Model(inputs, layers.Dense(1)(x))
    before = [np.asarray(v.value) for v in model.variables]
    traced(model, normal(batch, 4), normal(batch, 1))
    for a, b in zip(before, model.variables, strict=True):
        np.testing.assert_array_equal(a, np.asarray(b.value))


def test_operations_inside_of_a_switch_are_seen() -> None:
    """Its branches are a list of functions, unlike the body of a loop."""

    @tf.function(input_signature=[tf.TensorSpec([], tf.int32), tf.TensorSpec([2], tf.float32)])
    def switch(index: Any, x: Any) -> Any:
        branches = [lambda: tf.sin(x), lambda: tf.cos(x), lambda: tf.tan(x)]
        return tf.switch_case(index, branches)

    types = {op.type for op in kernels.operations_of(switch.get_concrete_function().graph)}
    assert {"Sin", "Cos", "Tan"} <= types
