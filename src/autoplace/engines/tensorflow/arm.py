"""Arms: whole steps of one model under one placement, on copies of its state.

Several arms of a model exist side by side, compiled, so that they can be timed in turns. The model's own
variables are never touched until one arm is adopted.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import keras
import tensorflow as tf

from autoplace.engines.protocol import Array
from autoplace.engines.tensorflow import seams
from autoplace.engines.tensorflow.devices import tf_name
from autoplace.engines.tensorflow.failures import translated
from autoplace.engines.tensorflow.pins import Pins
from autoplace.engines.tensorflow.state import Copies, owners, state_of
from autoplace.engines.tensorflow.trace import Trace
from autoplace.ir import CPU, Device


class Feed:
    """The first batches of a run, again and again, as the step function gets them from `fit`.

    Args:
        batches: One batch per step of an execution.
        element_spec: Spec of the iterator that they came from, so that the function traced for it is the
            one that `fit` goes on with; None for batches that came from no tf.data iterator.
    """

    def __init__(self, batches: list[Any], element_spec: Any = None) -> None:
        self.batches = batches
        self.spec = element_spec

    def dataset(self) -> tf.data.Dataset:
        """The batches once, in order, with the element spec of their origin."""
        parts = [tf.data.Dataset.from_tensors(as_elements(batch)) for batch in self.batches]
        joined = parts[0]
        for part in parts[1:]:
            joined = joined.concatenate(part)
        spec = self.spec

        def widen(*batch: Any) -> Any:
            # from_tensors knows every dimension; fit's iterator may leave the batch dimension open, and
            # another spec would be another trace.
            whole = batch if isinstance(spec, tuple) else batch[0]
            return tf.nest.map_structure(
                lambda value, wanted: (
                    tf.compat.v1.placeholder_with_default(value, wanted.shape)
                    if isinstance(wanted, tf.TensorSpec)
                    else value
                ),
                whole,
                spec,
            )

        widened = joined if spec is None else joined.map(widen)
        return widened.with_options(seams.without_autotune())

    def once(self, step: str) -> Any:
        """What one execution of the step's function takes, each batch once."""
        if step == "predict_step":
            return list(self.batches)
        return iter(self.batches) if self.spec is None else iter(self.dataset())

    def forever(self, step: str) -> Iterator[Any]:
        """The same without end, for one execution after the other."""
        if step == "predict_step":
            while True:
                yield self.once(step)
        # Also for batches from train_on_batch: Keras 3.5 traces anew for every Python iterator.
        iterator = iter(self.dataset().repeat())
        while True:
            yield iterator


def as_elements(batch: Any) -> Any:
    """Return a batch as an element of a dataset: tuples for lists, without absent parts at its end.

    A dataset would stack a list into one tensor, and cannot hold the None of an absent sample weight.
    """
    if isinstance(batch, dict):
        return {key: as_elements(value) for key, value in batch.items()}
    if not isinstance(batch, (list, tuple)):
        return batch
    parts = [as_elements(part) for part in batch]
    while parts and parts[-1] is None:
        parts.pop()
    return tuple(parts)


def on_cpu(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Let the default device be the CPU while a placed step function is called.

    What Keras does around the step (hand a batch in, take the logs out, ask whether there was one) is on no
    unit's account; on the accelerator it cost 0.4 ms a step of dnn9, more than half of the step itself.
    """

    @functools.wraps(function)
    def placed(source: Any) -> Any:
        with tf.device(tf_name(CPU)):
            return function(source)

    return placed


class Arm:
    """Whole steps of a model under one placement.

    Args:
        model: The model; built and, for training, compiled.
        traced: Its trace.
        devices: Device of each unit; None for TensorFlow's own placement, as plain Keras has it.
        feed: Batches to run on.
        step: ``train_step`` or ``predict_step``.
        without_cudnn: Units whose recurrent layers must run as loops.
    """

    def __init__(
        self,
        model: keras.Model,
        traced: Trace,
        devices: Mapping[str, Device] | None,
        feed: Feed,
        *,
        step: str = "train_step",
        without_cudnn: frozenset[str] = frozenset(),
    ) -> None:
        self.model = model
        self.step = step
        self.is_unpinned = devices is None
        self.pins = Pins(
            {path: unit.layer for path, unit in traced.units.items()}, devices, without_cudnn
        )
        self.steps_per_run = len(feed.batches)
        self._feed = feed.forever(step)
        owner = owners(model, traced.variables, seams.optimizers_of(model))

        def device_of(variable: keras.Variable) -> Device | None:
            return None if devices is None else devices.get(owner.get(id(variable), ""), CPU)

        self.copies = Copies(state_of(model), device_of)
        # Keras 3.15 binds `self.train_step` when it makes the function, earlier versions when they trace it:
        # so the pins are installed for both.
        with self.installed(), seams.without_jit(model):
            made = seams.new_function(model, step)
        self.function = made if devices is None else on_cpu(made)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Let the model be this arm inside: its copies, its pins."""
        with ExitStack() as stack:
            stack.enter_context(self.copies.installed(self.model))
            stack.enter_context(seams.overridden(self.pins.overrides(self.model)))
            yield

    def run(self) -> None:
        """Run one execution and wait for it. Call inside `installed`."""
        for leaf in self._execute():
            # Reading a value waits for the device: Metal and CUDA run behind.
            leaf.numpy()
            break

    def losses(self) -> list[Array]:
        """Run one execution and return its floating-point results. Call inside `installed`."""
        with translated():
            return [t.numpy() for t in self._execute() if t.dtype.is_floating]

    def _execute(self) -> list[tf.Tensor]:
        leaves = keras.tree.flatten(self.function(next(self._feed)))
        return [leaf for leaf in leaves if tf.is_tensor(leaf)]

    def trainable(self) -> list[Array]:
        """Return the values of the trainable weights. Call inside `installed`."""
        return [seams.tensor_of(v).numpy() for v in self.model.trainable_variables]

    def reset(self) -> None:
        """Go back to the model's own state. Call outside `installed`."""
        self.copies.reset()

    def adopt(self) -> None:
        """Make this arm the model's own: its tensors, with the model's values, its pins, its function."""
        self.copies.reset()
        self.copies.adopt(self.model)
        self.model.__dict__.update(
            {name: value for _, name, value in self.pins.overrides(self.model)}
        )
        seams.set_function(self.model, self.step, self.function)
