"""What rules are compared with, read from a traced model: classes, operations, configs, sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import keras
import tensorflow as tf

from autoplace.engines.tensorflow import seams
from autoplace.engines.tensorflow.trace import Trace, TracedUnit
from autoplace.rules.facts import Scalar, UnitFacts

LONGEST_CHAIN = 4
# What only hands its input on, so that a chain of operations goes through it.
PASSED_THROUGH = frozenset({"Identity", "Reshape", "Squeeze", "ExpandDims", "Cast"})
GRADIENTS = ("{}Grad", "{}GradV2", "{}BackpropInput", "{}BackpropInputV2", "{}BackpropFilterV2")
ACTIVATION_LAYERS = {"ReLU": "relu", "LeakyReLU": "leaky_relu", "ELU": "elu", "Softmax": "softmax"}


def unit_facts(traced: Trace, *, training: bool) -> tuple[UnitFacts, ...]:
    """Return the facts of all units of a trace, in its order.

    Args:
        traced: The trace.
        training: Whether gradients are taken, so that their operations count.
    """
    return tuple(
        _facts(unit, batch=traced.graph.batch_size, training=training)
        for unit in traced.units.values()
    )


def _facts(unit: TracedUnit, *, batch: int, training: bool) -> UnitFacts:
    config = _config(unit.layer)
    operations = [op for op in unit.operations if op.type not in ("Placeholder", "NoOp")]
    types = {str(op.type) for op in operations}
    if training:
        types |= set(_gradient_types(types))
    tensors = [tensor for op in operations for tensor in (*op.inputs, *op.outputs)]
    return UnitFacts(
        path=unit.path,
        classes=tuple(_classes(unit.layer)),
        ops=frozenset(types),
        op_chains=frozenset(chain for op in operations for chain in _chains(op)),
        activation=_activation(unit.layer, config),
        attributes=_attributes(config, operations),
        dtypes=frozenset(str(tensor.dtype.base_dtype.name) for tensor in tensors),
        policy=str(getattr(getattr(unit.layer, "dtype_policy", None), "name", "")),
        sizes=_sizes(unit, config, batch),
    )


def _classes(layer: keras.layers.Layer) -> Iterator[str]:
    for cls in type(layer).__mro__:
        if cls is keras.layers.Layer:
            return
        yield cls.__name__


def _config(layer: keras.layers.Layer) -> dict[str, Any]:
    try:
        config: object = layer.get_config()
    except Exception:  # noqa: BLE001 - a user's own get_config; a layer without one has no attributes to match
        return {}
    return config if isinstance(config, dict) else {}


def _activation(layer: keras.layers.Layer, config: dict[str, Any]) -> str:
    named = ACTIVATION_LAYERS.get(type(layer).__name__)
    given = config.get("activation")
    if isinstance(given, dict):  # a serialized object
        given = given.get("config") or given.get("class_name")
    return named or (given if isinstance(given, str) else "")


def _attributes(
    config: dict[str, Any], operations: Iterable[tf.Operation]
) -> dict[str, tuple[Scalar, ...]]:
    found: dict[str, list[Scalar]] = {}
    for name, value in config.items():
        if isinstance(value, (bool, int, float, str)):
            found.setdefault(name, []).append(value)
    for op in operations:
        if op.type == "TopKV2":
            k = tf.get_static_value(op.inputs[1])
            axis = op.inputs[0].shape[-1] if op.inputs[0].shape.rank else None
            if k is not None:
                found.setdefault("k", []).append(int(k))
                found.setdefault("k_equals_axis", []).append(axis is not None and int(k) == axis)
    return {name: tuple(values) for name, values in found.items()}


def _gradient_types(types: Iterable[str]) -> Iterator[str]:
    """Operations that TensorFlow has for the gradients of these, by their names."""
    for name in types:
        for form in GRADIENTS:
            if seams.is_known_op(form.format(name)):
                yield form.format(name)


def _chains(op: tf.Operation) -> Iterator[tuple[str, ...]]:
    rows: list[tuple[tuple[str, ...], tf.Operation]] = [((str(op.type),), op)]
    while rows:
        row, last = rows.pop()
        if len(row) > 1:
            yield row
        if len(row) == LONGEST_CHAIN:
            continue
        for tensor in last.outputs:
            for consumer in tensor.consumers():
                is_passed = consumer.type in PASSED_THROUGH and consumer is not last
                rows.append((row if is_passed else (*row, str(consumer.type)), consumer))


def _sizes(unit: TracedUnit, config: dict[str, Any], batch: int) -> dict[str, int]:
    sizes = {
        "batch": batch,
        "params": sum(int(tf.TensorShape(v.shape).num_elements() or 0) for v in unit.variables),
    }
    if isinstance(config.get("units"), int):
        sizes["units"] = config["units"]
    inputs = [
        leaf
        for leaf in keras.tree.flatten(unit.calls[0].args if unit.calls else ())
        if isinstance(leaf, tf.Tensor) and leaf.shape.is_fully_defined()
    ]
    if inputs:
        sizes["batch_elements"] = max(int(leaf.shape.num_elements()) for leaf in inputs)
        if inputs[0].shape.rank == 3:
            sizes["steps"] = int(inputs[0].shape[1])
    return sizes
