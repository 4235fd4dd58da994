"""One unit on one device: forward, gradients and optimizer update as compiled functions.

The layer's own `call` runs on copies of its weights, with the arguments that the trace saw. A container is run
with its inner units replaced by their recorded outputs, so that only its own operations count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from autoplace.engines.protocol import Array, NotProbeableError
from autoplace.engines.tensorflow import kernels, seams
from autoplace.engines.tensorflow.devices import tf_name
from autoplace.engines.tensorflow.failures import translated
from autoplace.engines.tensorflow.pins import Pins
from autoplace.engines.tensorflow.state import Copies
from autoplace.engines.tensorflow.trace import Call, Trace, TracedUnit
from autoplace.ir import CPU, Device

PATH_THROUGH = frozenset({"Cast", "Identity", "Reshape", "Squeeze", "ExpandDims"})


class UnitInputs:
    """Values to run a unit on: the batch's own where they are data, else random ones of the same shape.

    Integers, booleans and strings may be indices, masks or keys, so these come from the batch where they can
    be followed back to it.
    """

    def __init__(self, unit: TracedUnit, traced: Trace) -> None:
        self.call: Call = unit.calls[0]
        structure = (self.call.args, self.call.kwargs)
        self._leaves = [leaf for leaf in keras.tree.flatten(structure) if _is_tensor(leaf)]
        self._inner = [call for _, call in unit.inner_calls]
        symbolic = [
            *self._leaves,
            *(
                leaf
                for call in self._inner
                for leaf in keras.tree.flatten(call.outputs)
                if _is_tensor(leaf)
            ),
        ]
        generator = np.random.default_rng(0)
        self.values = [_value_for(leaf, traced, generator) for leaf in symbolic]

    def bind(
        self, tensors: tuple[tf.Tensor, ...]
    ) -> tuple[tuple[Any, ...], dict[str, Any], list[Any]]:
        """Return args, kwargs and the outputs of inner calls, with `tensors` in place."""
        remaining = iter(tensors)

        def fill(leaf: Any) -> Any:
            return next(remaining) if _is_tensor(leaf) else leaf

        args, kwargs = keras.tree.map_structure(fill, (self.call.args, self.call.kwargs))
        outputs = [keras.tree.map_structure(fill, call.outputs) for call in self._inner]
        return args, kwargs, outputs


class UnitProbe:
    """A unit's passes on one device, compiled.

    Args:
        unit: The unit; its layer's variables are not changed.
        inputs: Values to run on, shared by the probes of both devices.
        device: Where to run.
        optimizer: Optimizer whose update is measured, or None for inference.
        without_cudnn: Run recurrent layers as loops.
    """

    def __init__(
        self,
        unit: TracedUnit,
        inputs: UnitInputs,
        device: Device,
        *,
        optimizer: keras.optimizers.Optimizer | None = None,
        without_cudnn: bool = False,
    ) -> None:
        self._unit, self._inputs, self.device = unit, inputs, device
        self._where = tf_name(device)
        self._variables = unit.layer.variables
        self._copies = Copies(self._variables, lambda _: device)
        off = frozenset({unit.path}) if without_cudnn else frozenset()
        self._pins = Pins({unit.path: unit.layer}, {unit.path: device}, off, default=device)
        with tf.device(self._where):
            self._tensors = tuple(tf.identity(value) for value in inputs.values)
        self._weights = [
            tensor
            for variable, tensor in zip(self._variables, self._copies.tensors, strict=True)
            if variable.trainable and id(variable) in {id(v) for v in unit.variables}
        ]
        self._forward = self._compiled(self._run)
        self._cotangents = self._make_cotangents()
        self._train = self._compiled(self._run_with_gradients)
        # Of a loss-scaling wrapper the inner one does the work; scaling is not a unit's.
        self._optimizer = getattr(optimizer, "inner_optimizer", optimizer)
        self._update: Callable[..., Any] | None = None
        self._has_gradient = optimizer is not None and bool(self._cotangents)

    # ----------------------------------------------------------------------------------- passes

    def forward(self, repeats: int) -> Callable[[], None]:
        """Return a function that runs the forward pass `repeats` times and waits for it."""
        return self._repeated(self._forward, self._tensors, repeats)

    def train(self, repeats: int) -> Callable[[], None] | None:
        """Return a function that runs forward and gradients, or None where nothing has a gradient."""
        if not self._has_gradient:
            return None
        return self._repeated(self._train, (*self._tensors, *self._cotangents), repeats)

    def update(self, repeats: int) -> Callable[[], None] | None:
        """Return a function that runs the optimizer's update, or None where nothing is trained."""
        if self._optimizer is None or not self._weights:
            return None
        if self._update is None:
            self._update = self._compiled_update(self._optimizer)
        return self._repeated(self._update, (), repeats)

    def results(self) -> tuple[list[Array], list[Array]]:
        """Run once and return the values of the forward pass and of all gradients."""
        outputs = self.outputs()
        gradients: list[tf.Tensor] = []
        if self._has_gradient:
            with translated(), self._copies.installed():
                gradients = self._train(*self._tensors, *self._cotangents)
        return outputs, [t.numpy() for t in gradients]

    def outputs(self) -> list[Array]:
        """Run the forward pass once, from the model's own state, and return its values."""
        self._copies.reset()
        with translated(), self._copies.installed():
            return [t.numpy() for t in self._forward(*self._tensors)]

    def missing_kernels(self) -> list[str]:
        """Return the operations on data, of all passes, for which the accelerator has no kernel."""
        function, arguments = self._forward, self._tensors
        if self._has_gradient:
            function, arguments = self._train, (*self._tensors, *self._cotangents)
        with translated(), self._copies.installed():
            concrete = function.get_concrete_function(*arguments)
        return kernels.missing(kernels.operations_of(concrete.graph))

    # ------------------------------------------------------------------------------------ inside

    def _compiled(self, function: Callable[..., Any]) -> Any:
        def placed(*tensors: tf.Tensor) -> Any:
            with self._pins.tracing():
                return function(*tensors)

        return tf.function(placed, autograph=False, jit_compile=False)

    def _run(self, *tensors: tf.Tensor) -> list[tf.Tensor]:
        args, kwargs, inner_outputs = self._inputs.bind(tensors)
        passed_on: list[Any] = []
        remaining = iter(inner_outputs)

        def stub(_call: Callable[..., Any], *inner: Any, **inner_kwargs: Any) -> Any:
            passed_on.append((inner, inner_kwargs))
            return next(remaining)

        stubs = [
            (layer, name, seams.wrapped(getattr(layer, name), stub))
            for layer in {id(layer): layer for layer, _ in self._unit.inner_calls}.values()
            for name in seams.call_methods(layer)
        ]
        with seams.overridden(stubs), seams.autocast(self._inputs.call.autocast):
            outputs = getattr(self._unit.layer, self._inputs.call.method)(*args, **kwargs)
        seams.clear_losses(self._unit.layer)
        given = {id(t) for t in tensors}
        leaves = [leaf for leaf in keras.tree.flatten((outputs, passed_on)) if _is_tensor(leaf)]
        computed = [leaf for leaf in leaves if id(leaf) not in given]
        # A unit may hand on what it got, as augmentation outside training does: that is one copy.
        return computed or [tf.identity(leaf) for leaf in leaves]

    def _run_with_gradients(self, *tensors: tf.Tensor) -> list[tf.Tensor]:
        inputs = tensors[: len(self._tensors)]
        cotangents = tensors[len(self._tensors) :]
        floats = [t for t in inputs if t.dtype.is_floating]
        with tf.GradientTape() as tape:
            tape.watch(floats)
            outputs = [t for t in self._run(*inputs) if t.dtype.is_floating]
        gradients = tape.gradient(
            outputs, [*floats, *self._weights], output_gradients=list(cotangents)
        )
        dense = [tf.convert_to_tensor(g) for g in gradients if g is not None]
        return dense or outputs

    def _make_cotangents(self) -> tuple[tf.Tensor, ...]:
        with self._copies.installed():
            outputs = self._forward.get_concrete_function(*self._tensors).structured_outputs
        generator = np.random.default_rng(1)
        made = []
        for output in outputs:
            if not output.dtype.is_floating:
                continue
            if not output.shape.is_fully_defined():
                raise NotProbeableError(f"its output has the open shape {output.shape}")
            value = _normal(generator, output.shape)
            with tf.device(self._where):
                made.append(tf.identity(tf.cast(value, output.dtype)))
        return tuple(made)

    @translated()
    def _compiled_update(self, optimizer: keras.optimizers.Optimizer) -> Any:
        twin = type(optimizer).from_config(optimizer.get_config())
        with tf.device(self._where):
            weights = [
                keras.Variable(tensor.numpy(), trainable=True, dtype=tensor.dtype.name)
                for tensor in self._weights
            ]
            gradients = [tf.ones_like(seams.tensor_of(w)) * 1e-3 for w in weights]
            twin.build(weights)

        def run() -> list[tf.Tensor]:
            twin.apply(gradients, weights)
            return [tf.convert_to_tensor(seams.tensor_of(weights[0]))]

        return self._compiled(run)

    def _repeated(
        self, function: Any, arguments: tuple[tf.Tensor, ...], repeats: int
    ) -> Callable[[], None]:
        """Call one traced function `repeats` times inside another.

        So that the cost of one is a difference, free of the cost of calling into TensorFlow. Traps, seen:
        repeats on the same arguments are merged by Grappler although control dependencies separate them, and
        those whose results nobody takes are dropped. So every repeat has arguments of its own, though they
        hold the same tensors, and all results are returned.
        """
        with translated(), self._copies.installed():
            concrete = function.get_concrete_function(*arguments)
        if not any(_is_tensor(leaf) for leaf in tf.nest.flatten(concrete.structured_outputs)):
            raise NotProbeableError("it has no tensor among its outputs")

        def run(*tensors: tf.Tensor) -> list[tf.Tensor]:
            results: list[tf.Tensor] = []
            kept: list[tf.Tensor] = []
            for start in range(0, repeats * len(arguments) or repeats, len(arguments) or 1):
                with tf.control_dependencies(results):
                    inputs = tensors[start : start + len(arguments)]
                    results = [t for t in tf.nest.flatten(concrete(*inputs)) if _is_tensor(t)]
                    kept += results
            # One element comes back to the CPU: its arrival is the end of the work, also on devices that
            # run behind.
            with tf.device(self._where), tf.control_dependencies(results):
                last = next((t for t in results if t.dtype.is_floating), results[0])
                element = tf.reshape(last, [-1])[:1]
            with tf.device(tf_name(CPU)):
                return [tf.identity(element), *kept]

        given = arguments * repeats
        many = tf.function(run, autograph=False, jit_compile=False).get_concrete_function(*given)

        def call() -> None:
            with translated():
                many(*given)[0].numpy()

        return call


def _is_tensor(leaf: Any) -> bool:
    return isinstance(leaf, tf.Tensor)


def _normal(generator: np.random.Generator, shape: Any) -> Array:
    """Normal values; large tensors repeat a block, since drawing them would take longer than the layer."""
    block = generator.standard_normal(min(int(shape.num_elements()), 65_521)).astype(np.float32)
    return np.resize(block, shape.as_list())


def _value_for(tensor: tf.Tensor, traced: Trace, generator: np.random.Generator) -> tf.Tensor:
    if not tensor.shape.is_fully_defined():
        raise NotProbeableError(f"its input has the open shape {tensor.shape}")
    if tensor.dtype.is_floating:
        return tf.cast(_normal(generator, tensor.shape), tensor.dtype)
    source = tensor
    while source.op.type in PATH_THROUGH:
        source = source.op.inputs[0]
    value = traced.inputs.get(source.name)
    if value is not None and value.shape.num_elements() == tensor.shape.num_elements():
        return tf.cast(tf.reshape(value, tensor.shape), tensor.dtype)
    if tensor.dtype == tf.bool:
        return tf.ones(tensor.shape, tf.bool)
    if tensor.dtype.is_integer:
        return tf.zeros(tensor.shape, tensor.dtype)
    raise NotProbeableError(f"its input is of dtype {tensor.dtype.name}")
