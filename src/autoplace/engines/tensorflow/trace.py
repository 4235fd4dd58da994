"""Turns a Keras model and a batch into a `LayerGraph`, by one symbolic run of the real model.

Every layer's `call` is wrapped on the instance, and every operation that TensorFlow makes meanwhile is
attributed to the layer that is running: so functional, Sequential, subclassed and nested models, shared
layers and operations between layers all look the same. Nothing is executed.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import keras
import tensorflow as tf

from autoplace.engines.tensorflow import seams
from autoplace.engines.tensorflow.state import state_of
from autoplace.ir import INPUT, Edge, LayerGraph, Unit

# Operations that cost nothing to speak of: a container that only has these is no unit.
TRIVIAL = frozenset(
    [
        "Const",
        "Identity",
        "IdentityN",
        "NoOp",
        "Placeholder",
        "Shape",
        "ShapeN",
        "Size",
        "Rank",
        "Reshape",
        "Squeeze",
        "ExpandDims",
        "StridedSlice",
        "Pack",
        "Cast",
        "StopGradient",
        "ReadVariableOp",
        "Range",
        "Fill",
        "Prod",
        "PreventGradient",
        "EnsureShape",
    ]
)
RANDOM = ("Random", "Multinomial", "Truncated")
SMALL_CONSTANT_BYTES = 256


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call of a layer during the trace, with symbolic tensors.

    Attributes:
        method: ``call`` or ``quantized_call``.
        args: Positional arguments.
        kwargs: Keyword arguments.
        outputs: What it returned.
        autocast: Dtype to which variables were cast, or None.
        number: Its place in the order in which calls began.
        within: `number` of the call that made it, or -1.
    """

    number: int
    within: int
    method: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: Any
    autocast: str | None


@dataclass(kw_only=True)
class TracedUnit:
    """A unit of the `LayerGraph`, bound to its layer.

    Attributes:
        path: Path of the unit.
        layer: The Keras layer.
        calls: Its calls, in order.
        inner_calls: For a container, the calls that its first call made to layers placed on their own.
        variables: Keras variables that belong to it and to no other unit.
        operations: Operations that the trace made in it.
    """

    path: str
    layer: keras.layers.Layer
    calls: list[Call]
    inner_calls: list[tuple[keras.layers.Layer, Call]]
    variables: list[keras.Variable]
    operations: list[tf.Operation]


@dataclass(kw_only=True)
class Trace:
    """A traced model.

    Attributes:
        graph: Units and edges, as plain values.
        units: The same units bound to their layers, by path.
        inputs: Values of the batch, by name of the symbolic tensor.
        foreign: Variables that the step uses and that are in no list of Keras.
    """

    graph: LayerGraph
    units: Mapping[str, TracedUnit]
    inputs: Mapping[str, tf.Tensor]
    foreign: list[tf.Variable]

    @property
    def variables(self) -> dict[str, list[keras.Variable]]:
        """Variables of each unit."""
        return {path: unit.variables for path, unit in self.units.items()}


@dataclass(kw_only=True)
class _Seen:
    """A layer as the recorder sees it."""

    layer: keras.layers.Layer
    path: str
    parent: _Seen | None
    calls: list[Call] = field(default_factory=list)
    operations: list[tf.Operation] = field(default_factory=list)
    is_atomic: bool = False
    has_children: bool = False

    def home(self) -> _Seen:
        """The layer that this one is placed with: itself, or an outermost one that runs it in a loop."""
        outer = self.parent.home() if self.parent else self
        return outer if outer.is_atomic else self


class _Recorder:
    def __init__(self, model: keras.Model) -> None:
        self.root = _Seen(layer=model, path="", parent=None)
        self.seen: dict[int, _Seen] = {id(model): self.root}
        self.owner: dict[tuple[int, str], _Seen] = {}
        self._running: list[tuple[_Seen, tf.Graph, int]] = []
        self._numbers = itertools.count()
        self._paths: set[str] = set()

    @contextmanager
    def recording(self, model: keras.Model) -> Iterator[None]:
        overrides: list[seams.Override] = []
        for layer in seams.all_layers(model):
            if isinstance(layer, keras.layers.InputLayer):
                continue
            for name in seams.call_methods(layer):

                def around(
                    call: Callable[..., Any],
                    *args: Any,
                    _layer: keras.layers.Layer = layer,
                    _name: str = name,
                    **kwargs: Any,
                ) -> Any:
                    return self._call(_layer, _name, call, args, kwargs)

                overrides.append((layer, name, seams.wrapped(getattr(layer, name), around)))
        graph = tf.compat.v1.get_default_graph()
        with seams.overridden(overrides), graph.device(self._attribute):
            yield

    def _call(
        self,
        layer: keras.layers.Layer,
        method: str,
        call: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        graph = tf.compat.v1.get_default_graph()
        parent, parent_graph, within = (
            self._running[-1] if self._running else (self.root, graph, -1)
        )
        number = next(self._numbers)
        seen = self.seen.get(id(layer))
        if seen is None:
            seen = _Seen(layer=layer, path=self._path(parent, layer), parent=parent)
            self.seen[id(layer)] = seen
        if seen is not parent:
            parent.has_children = True
            # Called from within a loop's or a branch's graph of its parent: the loop cannot be torn apart.
            parent.is_atomic |= parent_graph is not graph
        self._running.append((seen, graph, number))
        try:
            outputs = call(*args, **kwargs)
        finally:
            self._running.pop()
        seen.calls.append(
            Call(
                number=number,
                within=within,
                method=method,
                args=args,
                kwargs=kwargs,
                outputs=outputs,
                autocast=seams.autocast_dtype(),
            )
        )
        return outputs

    def _path(self, parent: _Seen, layer: keras.layers.Layer) -> str:
        path = f"{parent.path}/{layer.name}" if parent.path else str(layer.name)
        unique, number = path, 1
        while unique in self._paths:
            number += 1
            unique = f"{path}#{number}"
        self._paths.add(unique)
        return unique

    def _attribute(self, op: tf.Operation) -> str:
        seen = self._running[-1][0] if self._running else self.root
        seen.operations.append(op)
        self.owner[id(op.graph), op.name] = seen
        return str(op.device)


def trace(
    model: keras.Model,
    data: Any,
    *,
    step: str = "train_step",
    without_cudnn: bool = False,
    is_compiled: bool = True,
) -> Trace:
    """Trace `model` on a batch.

    Args:
        model: A Keras model; built here if it is not yet.
        data: A batch as a dataset yields it: ``x``, ``(x, y)`` or ``(x, y, sample_weight)``.
        step: The step that it is for: ``train_step`` or ``predict_step``.
        without_cudnn: Let recurrent layers run as loops, where the accelerator has no kernel for cuDNN's op.
        is_compiled: False for a training step without the compiled loss and the model's own `train_step`.

    Returns:
        The trace. The model's compiled losses, metrics and optimizer are built on the way.
    """
    training = step == "train_step"
    has_own_step = seams.has_own_step(model, step) and is_compiled
    if is_compiled and (not seams.is_model_built(model) or (training and has_own_step)):
        seams.build_model(model, data)
    recorder = _Recorder(model)
    values: dict[str, Any] = {}

    def symbolic(item: Any) -> Any:
        if item is None:
            return None
        value = tf.convert_to_tensor(item)
        placeholder = tf.compat.v1.placeholder(value.dtype, value.shape)
        values[placeholder.name] = value
        return placeholder

    cudnn_off = [
        (layer, "use_cudnn", False) for layer in seams.recurrent_layers(model) if without_cudnn
    ]
    graph = seams.new_graph("autoplace_trace")
    with graph.as_default(), seams.overridden(cudnn_off):
        batch = keras.tree.map_structure(symbolic, data)
        with recorder.recording(model):
            if has_own_step:
                getattr(model, step)(batch)
            else:
                _forward(model, batch, training=training, is_compiled=is_compiled)
    seams.clear_losses(model)
    units = _units(model, recorder)
    first = next((v for v in values.values() if v.shape.rank), None)
    known = {id(seams.tensor_of(v)) for v in state_of(model)}
    return Trace(
        graph=LayerGraph(
            model_name=str(model.name),
            model_kind=seams.kind_of(model),
            batch_size=0 if first is None else int(first.shape[0]),
            units=tuple(_describe(unit) for unit in units.values()),
            edges=tuple(_edges(graph, recorder, units)),
        ),
        units=units,
        inputs=values,
        foreign=[v for v in seams.variables_used_in(graph) if id(v) not in known],
    )


def outputs_of(model: keras.Model, x: Any, *, training: bool) -> Any:
    """Call a model as Keras' own steps do: with `training` only where its `call` takes it."""
    return model(x, training=training) if seams.takes_training(model) else model(x)


def _forward(model: keras.Model, batch: Any, *, training: bool, is_compiled: bool) -> None:
    x, y, _ = seams.unpack(batch)
    y_pred = outputs_of(model, x, training=training)
    if training and is_compiled:
        seams.build_compiled_state(model, y, y_pred)


# ------------------------------------------------------------------------------------------- units


def _units(model: keras.Model, recorder: _Recorder) -> dict[str, TracedUnit]:
    """Decide which of the layers seen are units, and bind them."""
    members: dict[int, list[_Seen]] = {}
    for seen in recorder.seen.values():
        members.setdefault(id(seen.home()), []).append(seen)
    homes = [seen for seen in recorder.seen.values() if id(seen) in members and seen.calls]
    units: dict[str, TracedUnit] = {}
    claimed: set[int] = set()
    for seen in sorted(homes, key=lambda s: -s.path.count("/") if s.path else 1):
        operations = [op for member in members[id(seen)] for op in member.operations]
        parts = [member.layer for member in members[id(seen)]]
        variables = _own_variables(seen, parts, claimed)
        if not _is_unit(seen, operations, variables, is_only=len(homes) == 1):
            continue
        claimed.update(id(v) for v in variables)
        path = seen.path or str(model.name)
        units[path] = TracedUnit(
            path=path,
            layer=seen.layer,
            calls=seen.calls,
            inner_calls=[] if seen.is_atomic else _inner_calls(seen, homes),
            variables=variables,
            operations=operations,
        )
    order = {(s.path or str(model.name)): i for i, s in enumerate(recorder.seen.values())}
    return dict(sorted(units.items(), key=lambda item: order[item[0]]))


def _inner_calls(seen: _Seen, homes: list[_Seen]) -> list[tuple[keras.layers.Layer, Call]]:
    made = [
        (other.layer, call)
        for other in homes
        for call in other.calls
        if call.within == seen.calls[0].number
    ]
    return sorted(made, key=lambda pair: pair[1].number)


def _own_variables(
    seen: _Seen, parts: list[keras.layers.Layer], claimed: set[int]
) -> list[keras.Variable]:
    """Weights of a unit: all below a leaf, only those directly at a container that is torn apart."""
    if seen.has_children and not seen.is_atomic:
        below = {id(v) for sub in seen.layer._layers for v in sub.variables}
        found = [v for v in seen.layer.variables if id(v) not in below]
    else:
        found = [v for part in parts for v in part.variables]
    return [v for v in {id(v): v for v in found}.values() if id(v) not in claimed]


def _is_unit(
    seen: _Seen,
    operations: list[tf.Operation],
    variables: list[keras.Variable],
    *,
    is_only: bool,
) -> bool:
    if not seen.has_children or seen.is_atomic or is_only:
        return True
    if any(v.trainable for v in variables):
        return True
    # Operations between the layers of a model go with their neighbours, see pins; those of a composite
    # layer (attention, Bidirectional) are work of its own.
    is_model = isinstance(seen.layer, keras.Model)
    return not is_model and any(op.type not in TRIVIAL for op in operations)


def _describe(unit: TracedUnit) -> Unit:
    weights = [(tuple(v.shape), str(v.dtype), bool(v.trainable)) for v in unit.variables]
    sizes = [seams.tensor_of(v) for v in unit.variables]
    parameters = sum(int(t.shape.num_elements() or 0) for t in sizes)
    outputs = [t for t in keras.tree.flatten(unit.calls[0].outputs) if tf.is_tensor(t)]
    return Unit(
        path=unit.path,
        class_name=type(unit.layer).__name__,
        signature=_signature(unit, weights),
        parameters=parameters,
        parameter_bytes=sum(_bytes_of(t.shape, t.dtype) for t in sizes),
        trainable_bytes=sum(
            _bytes_of(t.shape, t.dtype)
            for t, v in zip(sizes, unit.variables, strict=True)
            if v.trainable
        ),
        output_shapes=tuple(
            tuple(
                -1 if d is None else int(d)
                for d in (t.shape.as_list() if t.shape.rank is not None else [])
            )
            for t in outputs
        ),
        calls=len(unit.calls),
        is_container=bool(unit.inner_calls),
        is_random=any(op.type.startswith(("StatelessRandom", *RANDOM)) for op in unit.operations),
    )


def _signature(unit: TracedUnit, weights: list[tuple[Any, ...]]) -> str:
    """Hash all that the unit's cost and results depend on.

    Taken from the operations rather than from the layer's config, so that custom layers are covered, and a
    change of a layer's code is noticed.
    """
    digest = hashlib.sha256(type(unit.layer).__name__.encode())
    digest.update(repr(weights).encode())
    call = unit.calls[0]
    for leaf in keras.tree.flatten((call.args, call.kwargs)):
        described = f"{leaf.dtype}{leaf.shape}" if tf.is_tensor(leaf) else repr(type(leaf))
        digest.update(described.encode())
    per_call = max(1, len(unit.operations) // len(unit.calls))
    for op in unit.operations[:per_call]:
        shapes = [(str(t.dtype), str(t.shape)) for t in op.outputs]
        digest.update(f"{op.type}{shapes}".encode())
        attributes = op.node_def.attr
        for name in sorted(attributes):
            value = attributes[name]
            if (
                name.startswith("_")
                or value.HasField("func")
                or value.ByteSize() > SMALL_CONSTANT_BYTES
            ):
                continue
            if name in ("container", "shared_name", "output_shapes"):
                continue
            digest.update(name.encode() + value.SerializeToString(deterministic=True))
    return digest.hexdigest()[:32]


def _bytes_of(shape: Any, dtype: Any) -> int:
    """Size of a tensor; unknown dimensions count as 1."""
    size = tf.as_dtype(dtype).size or 4
    for dimension in shape.as_list() if shape.rank is not None else []:
        size *= dimension or 1
    return int(size)


# ------------------------------------------------------------------------------------------- edges

_Origin = tuple[
    str, str, int, bool
]  # path of the unit, tensor, bytes, whether a gradient flows back


def _edges(graph: tf.Graph, recorder: _Recorder, units: Mapping[str, TracedUnit]) -> Iterator[Edge]:
    """Follow tensors from unit to unit, through the operations that belong to no unit."""
    path_of = {id(unit.layer): path for path, unit in units.items()}
    origins: dict[str, frozenset[_Origin]] = {}
    yielded: set[tuple[str, str, str]] = set()
    for op in graph.get_operations():
        seen = recorder.owner.get((id(graph), op.name))
        path = path_of.get(id(seen.home().layer)) if seen else None
        incoming: set[_Origin] = set()
        for tensor in op.inputs:
            incoming |= origins.get(tensor.name, frozenset())
        for output in op.outputs:
            origins[output.name] = _origins_of(op, output, path, incoming)
        if path is None:
            continue
        for source, tensor_name, size_bytes, has_gradient in sorted(incoming):
            if source != path and (tensor_name, source, path) not in yielded:
                yielded.add((tensor_name, source, path))
                yield Edge(
                    source=source,
                    target=path,
                    size_bytes=size_bytes,
                    tensor=tensor_name,
                    has_gradient=has_gradient,
                )


def _origins_of(
    op: tf.Operation, output: tf.Tensor, path: str | None, incoming: set[_Origin]
) -> frozenset[_Origin]:
    if output.dtype == tf.resource:
        return frozenset()
    size_bytes = _bytes_of(output.shape, output.dtype)
    if path is not None:
        return frozenset({(path, output.name, size_bytes, bool(output.dtype.is_floating))})
    if op.type == "Placeholder":
        return frozenset({(INPUT, output.name, size_bytes, False)})
    return frozenset(incoming)
