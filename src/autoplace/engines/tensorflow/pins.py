"""Pins layers to devices, forward and backward.

`tf.device` around a layer places its forward operations only. The backward ones are made later, by
`tape.gradient`, and while-loop bodies are graphs of their own. So while a step is traced:

1. Each unit's `call` runs under `tf.device` and under a marker name scope `AP.<k>`. A gradient operation
   carries the scope of its forward operation in its name (`gradient_tape/.../AP.<k>/...`).
2. The step runs under a *device function*, which TensorFlow applies to each new operation and inherits into
   nested graphs (device strings alone are dropped there). A nested graph belongs to the unit that was running
   when it was made; a gradient body to that of its forward body.
3. When a graph has been traced, operations on a variable go where the variable is, and those still unplaced
   (loss, update, metrics, accumulators, operations between layers) adopt the device of their consumers if
   these agree, else of their producers, else the default.

See README.md in this folder for what is guaranteed and the traps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping, MutableSet
from contextlib import ExitStack, contextmanager
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import keras
import tensorflow as tf

from autoplace.engines.tensorflow import seams
from autoplace.engines.tensorflow.devices import of_tf, tf_name
from autoplace.ir import CPU, Device

STEPS = ("train_step", "test_step", "predict_step")
MARKER = re.compile(r"AP\.(\d+)")
NEVER_PLACED = frozenset({"Placeholder", "_Arg", "NoOp"})


class Pins:
    """Places what a model's steps create while they are traced.

    Args:
        layers: Layer of each unit, by path.
        devices: Device of each unit. None pins nothing: TensorFlow places as for plain Keras.
        without_cudnn: Recurrent layers that must not use the cuDNN operation, for want of a kernel.
        default: Device of what belongs to no unit and has no placed neighbour.
    """

    def __init__(
        self,
        layers: Mapping[str, keras.layers.Layer],
        devices: Mapping[str, Device] | None,
        without_cudnn: frozenset[str] = frozenset(),
        default: Device = CPU,
    ) -> None:
        self._paths = list(layers)
        self._layers = layers
        self._devices = (
            None if devices is None else [tf_name(devices[path]) for path in self._paths]
        )
        self._constants = list(self._moved_constants())
        self._without_cudnn = without_cudnn
        self._default = tf_name(default)
        self._running: list[str] = []
        # Device of the unit that a graph belongs to, and graphs that are being traced. Weak, or every retrace
        # of a long run would stay in memory.
        self._owner: MutableMapping[tf.Graph, str] = WeakKeyDictionary()
        self._watched: MutableSet[tf.Graph] = WeakSet()

    def overrides(self, model: keras.Model) -> list[seams.Override]:
        """What to set on `model` so that its steps are traced under these pins."""
        return [
            (model, step, seams.wrapped(seams.unwrapped(model, step), self._in_step))
            for step in STEPS
        ]

    @contextmanager
    def tracing(self) -> Iterator[None]:
        """Place all that is created inside; undone on exit."""
        with ExitStack() as stack:
            stack.enter_context(seams.overridden(list(self._layer_overrides())))
            if self._devices is not None and not tf.executing_eagerly():
                graph = tf.compat.v1.get_default_graph()
                stack.enter_context(graph.device(self._device_of))
                self._watch_outer(graph)
            yield

    # ---------------------------------------------------------------------------- while tracing

    def _in_step(self, step: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with self.tracing():
            return step(*args, **kwargs)

    def _moved_constants(self) -> Iterator[seams.Override]:
        """Tensors that a layer holds as attributes (the mean of a Normalization), on the unit's device.

        A captured tensor stays where it was made, mostly on the accelerator; each would be a copy per step.
        """
        if self._devices is None:
            return
        for path, device in zip(self._paths, self._devices, strict=True):
            for name, value in seams.tensors_held_by(self._layers[path]):
                if _short(value.device) != device:
                    with tf.init_scope(), tf.device(device):
                        yield (self._layers[path], name, tf.identity(value))

    def _layer_overrides(self) -> Iterator[seams.Override]:
        yield from self._constants
        for number, path in enumerate(self._paths):
            layer = self._layers[path]
            if path in self._without_cudnn:
                for recurrent in seams.recurrent_layers(layer):
                    yield (recurrent, "use_cudnn", False)
            if self._devices is None:
                continue
            for name in seams.call_methods(layer):

                def around(
                    call: Callable[..., Any], *args: Any, _unit: int = number, **kwargs: Any
                ) -> Any:
                    return self._in_unit(_unit, call, args, kwargs)

                yield (layer, name, seams.wrapped(getattr(layer, name), around))

    def _in_unit(
        self, number: int, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        device = self._devices[number] if self._devices else ""
        self._running.append(device)
        try:
            with tf.device(device), tf.name_scope(f"AP.{number}"):
                return call(*args, **kwargs)
        finally:
            self._running.pop()

    def _watch_outer(self, graph: tf.Graph) -> None:
        """Settle also the functions around the step: they hand data in and results out."""
        outer: tf.Graph | None = graph
        while outer is not None:
            self._watch(outer)
            outer = getattr(outer, "outer_graph", None)

    def _watch(self, graph: tf.Graph) -> None:
        """Settle a graph when its outermost entry ends.

        TensorFlow enters a graph again and again while it is being traced (1,257 times for a step of a small
        recurrent model), and once more later to add accumulators to a loop's body.
        """
        if graph in self._watched:
            return

        def settle() -> None:
            self._watched.discard(graph)
            self._settle(graph)

        if seams.on_exit(graph, settle):
            self._watched.add(graph)

    def _device_of(self, op: tf.Operation) -> str:
        """The device function: TensorFlow applies it to each new operation, after any inner `tf.device`."""
        graph = op.graph
        if graph not in self._owner:
            forward = seams.forward_graph(graph)
            running = self._running[-1] if self._running else ""
            self._owner[graph] = (self._owner.get(forward) if forward else "") or running
        self._watch(graph)
        if op.device or op.type in NEVER_PLACED:
            return str(op.device)
        markers = MARKER.findall(op.name)
        if markers and self._devices:
            return self._devices[int(markers[-1])]
        is_nested = getattr(graph, "outer_graph", None) in self._owner
        return self._owner[graph] if is_nested else ""

    # ---------------------------------------------------------------------- when a graph is done

    def _settle(self, graph: tf.Graph) -> None:
        """Place what is left. Operations are listed in the order of creation: a topological one."""
        operations = [op for op in graph.get_operations() if op.type not in NEVER_PLACED]
        resources = Resources()
        for op in operations:
            resource = resources.device_used_by(op)
            if resource and resource != _short(op.device):
                seams.set_device(op, resource)
        for op in reversed(operations):
            _adopt(op, [consumer for output in op.outputs for consumer in output.consumers()])
        for op in operations:
            _adopt(op, [tensor.op for tensor in op.inputs])
        for op in operations:
            if not op.device:
                seams.set_device(op, self._default)


def _short(device: str) -> str:
    known = of_tf(device)
    return tf_name(known) if known else ""


def _adopt(op: tf.Operation, neighbours: list[tf.Operation]) -> None:
    if op.device:
        return
    devices = {_short(n.device) for n in neighbours if n.device and n.type not in NEVER_PLACED}
    if len(devices) == 1:
        seams.set_device(op, devices.pop())


class Resources:
    """Finds on which device the variable lives that an operation of a FuncGraph uses.

    An operation on a variable anywhere else is refused by TensorFlow ("incompatible assigned devices"), also
    where a unit reads the weights of another one.
    """

    def __init__(self) -> None:
        self._captured: dict[tf.Graph, dict[str, Any]] = {}

    def device_used_by(self, op: tf.Operation) -> str:
        """Return the device of the variable that `op` works on, or an empty string."""
        if op.type in (
            "PartitionedCall",
            "StatefulPartitionedCall",
            "While",
            "If",
            "StatelessWhile",
        ):
            return ""  # runs on several devices
        for tensor in op.inputs:
            if tensor.dtype == tf.resource:
                device = self._device_of(tensor)
                if device:
                    return device
        return ""

    def _device_of(self, tensor: Any) -> str:
        while tf.is_symbolic_tensor(tensor):
            graph = tensor.graph
            if graph not in self._captured:
                self._captured[graph] = {
                    inner.name: outer for outer, inner in getattr(graph, "captures", ())
                }
            outer = self._captured[graph].get(tensor.name)
            if outer is None:
                return ""
            tensor = outer
        return _short(getattr(tensor, "device", ""))
