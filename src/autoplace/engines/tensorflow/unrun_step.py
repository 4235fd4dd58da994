"""A model's step, traced and read but not run: for a forecast of a machine that is not here."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import keras
import tensorflow as tf

from autoplace.engines.tensorflow import seams
from autoplace.engines.tensorflow.facts import unit_facts
from autoplace.engines.tensorflow.operations import step_operations
from autoplace.engines.tensorflow.pins import Pins
from autoplace.engines.tensorflow.state import owners
from autoplace.engines.tensorflow.trace import Trace, outputs_of, trace
from autoplace.ir import CPU, LayerGraph, StepOperations
from autoplace.rules import UnitFacts


def read_step(
    model: keras.Model,
    data: Any,
    *,
    optimizer: keras.optimizers.Optimizer | None,
    has_targets: bool,
    has_cudnn: bool,
) -> tuple[LayerGraph, StepOperations, tuple[UnitFacts, ...]]:
    """Trace a step of `model` and return its units, their operations, and what rules are compared with.

    Args:
        model: A model; its weights are created if it has none yet, nothing else of it changes.
        data: A batch ``(x,)`` or ``(x, y)`` or ``(x, y, sample_weight)``.
        optimizer: For training, the optimizer; None for inference.
        has_targets: Whether `data` has what the model's own `train_step` needs. Else the loss is the mean
            square of the outputs, as the compiled one cannot be computed.
        has_cudnn: Whether LSTM and GRU are `CudnnRNNV3`, as Keras makes them where a GPU is listed.
    """
    machine = seams.gpu_listed_for_recurrent_layers() if has_cudnn else nullcontext()
    step = "predict_step" if optimizer is None else "train_step"
    with seams.undisturbed(), machine:
        traced = trace(model, data, step=step, without_cudnn=not has_cudnn, is_compiled=has_targets)
        if optimizer is not None and not has_targets:
            optimizer = _twin(optimizer)
        if optimizer is not None and not optimizer.built:
            optimizer.build(model.trainable_variables)
        layers = {path: unit.layer for path, unit in traced.units.items()}
        slow = frozenset() if has_cudnn else frozenset(layers)
        pins = Pins(layers, dict.fromkeys(layers, CPU), slow)
        function = _step(model, optimizer, has_targets=has_targets)
        graph = seams.new_graph("autoplace_unrun")
        with graph.as_default(), seams.without_jit(model), pins.tracing():
            batch = keras.tree.map_structure(_placeholder, data)
            graph.outputs = [
                leaf for leaf in keras.tree.flatten(function(batch)) if tf.is_tensor(leaf)
            ]
        seams.clear_losses(model)
    variables = _handles(model, traced, optimizer)
    facts = unit_facts(traced, training=optimizer is not None)
    return traced.graph, step_operations(graph, list(layers), variables), facts


def _twin(optimizer: keras.optimizers.Optimizer) -> keras.optimizers.Optimizer:
    """An optimizer of the same kind, so that the user's own gets no slots from a forecast."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    return type(inner).from_config(inner.get_config())


def _step(
    model: keras.Model, optimizer: keras.optimizers.Optimizer | None, *, has_targets: bool
) -> Callable[[Any], Any]:
    if optimizer is None:
        return model.predict_step  # type: ignore[no-any-return]  # Keras has no types
    if has_targets:
        return model.train_step  # type: ignore[no-any-return]

    def train(data: Any) -> tf.Tensor:
        with tf.GradientTape() as tape:
            x, _, _ = seams.unpack(data)
            outputs = keras.tree.flatten(outputs_of(model, x, training=True))
            squares = [
                tf.reduce_mean(tf.square(tf.cast(output, tf.float32)))
                for output in outputs
                if tf.as_dtype(output.dtype).is_floating
            ]
            loss = tf.add_n([*squares, *model.losses])
        weights = model.trainable_variables
        gradients = tape.gradient(loss, [seams.tensor_of(w) for w in weights])
        pairs = [(g, w) for g, w in zip(gradients, weights, strict=True) if g is not None]
        optimizer.apply_gradients(pairs)
        return loss

    return train


def _placeholder(value: Any) -> Any:
    if value is None:
        return None
    tensor = tf.convert_to_tensor(value)
    return tf.compat.v1.placeholder(tensor.dtype, tensor.shape)


def _handles(
    model: keras.Model, traced: Trace, optimizer: keras.optimizers.Optimizer | None
) -> dict[int, str]:
    """Path of the unit by the id of a variable's handle: of its weights, and of their slots."""
    owner = owners(model, traced.variables, [] if optimizer is None else [optimizer])
    weights = [weight for weights in traced.variables.values() for weight in weights]
    slots = [] if optimizer is None else optimizer.variables
    return {
        id(seams.tensor_of(variable).handle): owner[id(variable)]
        for variable in (*weights, *slots)
        if id(variable) in owner
    }
