"""The state of a model, and copies of it that can be trained without touching the original."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import keras
import tensorflow as tf

from autoplace.engines.tensorflow import seams
from autoplace.engines.tensorflow.devices import tf_name
from autoplace.ir import CPU, Device


def state_of(model: keras.Model) -> list[keras.Variable]:
    """Every Keras variable that a step can change, each once: weights, statistics, seeds, metrics, slots."""
    optimizers = seams.optimizers_of(model)
    found = [
        *model.variables,
        *model.metrics_variables,
        *(v for optimizer in optimizers for v in optimizer.variables),
        *seams.global_seed_variables(),
    ]
    return list({id(v): v for v in found if seams.tensor_of(v) is not None}.values())


def copy_of(tensor: tf.Variable, device: Device | None) -> tf.Variable:
    """Return a new tf.Variable of the same value on `device`, or where TensorFlow puts it for None.

    Integers stay on the CPU: counters and seeds, for which most accelerators lack kernels.
    """
    value = tensor.numpy()
    is_float = tensor.dtype.is_floating
    where = None if device is None else tf_name(device if is_float else CPU)
    with tf.init_scope(), tf.device(where):
        return tf.Variable(
            value,
            trainable=tensor.trainable,
            dtype=tensor.dtype,
            name=tensor.name.split(":")[0],
            shape=tensor.shape,
            aggregation=tensor.aggregation,
            synchronization=tensor.synchronization,
        )


class Copies:
    """Copies of variables, each on a device of its own, that can stand in for the originals.

    Args:
        variables: The originals.
        device_of: Device for a variable; None leaves it to TensorFlow, as plain Keras does.
    """

    def __init__(
        self,
        variables: list[keras.Variable],
        device_of: Callable[[keras.Variable], Device | None],
    ) -> None:
        self._variables = variables
        self.tensors = [copy_of(seams.tensor_of(v), device_of(v)) for v in variables]

    @contextmanager
    def installed(self, model: keras.Model | None = None) -> Iterator[None]:
        """Put the copies behind the variables; the originals come back on exit, whatever happened.

        Args:
            model: The model whose optimizers have to find their slots by the copies.
        """
        originals = [seams.tensor_of(v) for v in self._variables]
        try:
            self._put(self.tensors, model)
            yield
        finally:
            self._put(originals, model)

    def adopt(self, model: keras.Model) -> None:
        """Make the copies the model's own tensors, for good."""
        self._put(self.tensors, model)

    def reset(self) -> None:
        """Give the copies the values that the originals have now."""
        for variable, tensor in zip(self._variables, self.tensors, strict=True):
            original = seams.tensor_of(variable)
            if original is not tensor:
                tensor.assign(original.numpy())

    def _put(self, tensors: list[tf.Variable], model: keras.Model | None) -> None:
        for variable, tensor in zip(self._variables, tensors, strict=True):
            seams.set_tensor(variable, tensor)
        for optimizer in seams.optimizers_of(model) if model is not None else ():
            seams.reindex(optimizer)


def owners(
    model: keras.Model,
    unit_variables: Mapping[str, list[keras.Variable]],
    optimizers: Sequence[keras.optimizers.Optimizer],
) -> dict[int, str]:
    """Return {id(variable): path of the unit that it moves with}: its weights, and the slots of these."""
    owner = {id(v): path for path, variables in unit_variables.items() for v in variables}
    for optimizer in optimizers:
        references = seams.slot_references(optimizer, model.trainable_variables)
        for slot, weight in references.items():
            if id(weight) in owner:
                owner[slot] = owner[id(weight)]
    return owner


@contextmanager
def foreign_restored(variables: list[tf.Variable]) -> Iterator[None]:
    """Put back the values of variables that are in no Keras list but that a step uses.

    Such are a user's own tf.Variables and the state of a tf.random.Generator.
    """
    before = [variable.numpy() for variable in variables]
    try:
        yield
    finally:
        for variable, value in zip(variables, before, strict=True):
            variable.assign(value)
