"""The operations of a train step, unit by unit, as plain values: for a device that need not be here.

The step is traced under markers, as for pins, and its graph read; nothing is run. What TensorFlow folds into
constants before it runs a graph is left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import tensorflow as tf

from autoplace.engines.tensorflow import kernels, seams
from autoplace.engines.tensorflow.pins import MARKER
from autoplace.ir import Operation, StepOperations, Tensor, UnitOperations

# Known when a graph is made, if the shapes are: TensorFlow replaces them by constants.
OF_SHAPES = frozenset({"Shape", "ShapeN", "Size", "Rank", "BroadcastGradientArgs"})
# Grappler's, once the shapes are known: no kernel of theirs runs, or one that touches no data.
NO_WORK = frozenset(
    [
        "Const",
        "EnsureShape",
        "ExpandDims",
        "Identity",
        "IdentityN",
        "NoOp",
        "Placeholder",
        "PreventGradient",
        "ReadVariableOp",
        "Reshape",
        "Squeeze",
        "StopGradient",
        "VariableShape",
        "_Arg",
        "_Retval",
    ]
)
LOOPS = frozenset({"While", "StatelessWhile"})
BRANCHES = frozenset({"If", "StatelessIf", "Case", "StatelessCase"})
FORWARD, BACKWARD, UPDATE = "forward", "backward", "update"


def step_operations(
    graph: tf.Graph, paths: list[str], variables: Mapping[int, str]
) -> StepOperations:
    """Read the operations of a traced step.

    Args:
        graph: The step, traced under the markers of `Pins`.
        paths: Unit paths in the order of the markers.
        variables: Path of the unit that a variable moves with, weights and slots, by the id of its handle.
    """
    reader = _Reader(paths)
    updates = _updates(graph, variables)
    reader.read(graph, _Home(), updates)
    return StepOperations(
        units={path: reader.unit(path) for path in paths}, outside=reader.unit(None)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Home:
    """What the operations of a nested graph have from the operation that runs it."""

    path: str | None = None
    which: str = FORWARD
    runs: int = 1


@dataclass(slots=True)
class _Reader:
    paths: list[str]
    found: dict[tuple[str | None, str], list[Operation]] = field(
        default_factory=lambda: defaultdict(list)
    )
    trips: dict[int, int] = field(default_factory=dict)  # of a loop, by the id of its body

    def unit(self, path: str | None) -> UnitOperations:
        return UnitOperations(
            forward=tuple(self.found[path, FORWARD]),
            backward=tuple(self.found[path, BACKWARD]),
            update=tuple(self.found[path, UPDATE]),
        )

    def read(self, graph: tf.Graph, home: _Home, updates: Mapping[str, str]) -> None:
        constant: set[str] = set()
        needed = _needed(graph)
        for op in graph.get_operations():
            if _is_constant(op, constant):
                constant.add(op.name)
            elif op.name in needed:
                self._take(graph, op, self._home(op, home, updates))

    def _home(self, op: tf.Operation, outer: _Home, updates: Mapping[str, str]) -> _Home:
        if op.name in updates:
            return replace(outer, path=updates[op.name], which=UPDATE)
        markers = MARKER.findall(op.name)
        path = self.paths[int(markers[-1])] if markers else outer.path
        is_backward = outer.which == BACKWARD or op.name.startswith("gradient_tape/")
        return replace(outer, path=path, which=BACKWARD if is_backward else outer.which)

    def _take(self, graph: tf.Graph, op: tf.Operation, home: _Home) -> None:
        names = kernels.called_functions(op)
        inside = [nested for name in names if (nested := seams.function_graph(graph, name))]
        if op.type in LOOPS:
            home = replace(home, runs=home.runs * self._trips(op, inside))
        if op.type in BRANCHES and inside:
            # One of them runs; the longer one is the work, the other mostly hands something on.
            inside = [max(inside, key=lambda nested: len(nested.get_operations()))]
        for nested in inside:
            self.read(nested, home, {})
        if not inside and op.type not in NO_WORK:
            self.found[home.path, home.which].append(_plain(op, home.runs))

    def _trips(self, op: tf.Operation, inside: list[tf.Graph]) -> int:
        """How often a loop runs: Keras gives `maximum_iterations`, which is the loop's second input.

        The loop of the gradients runs as often as the forward loop, whose body its own body knows.
        """
        forward = [seams.forward_graph(nested) for nested in inside]
        known = [self.trips[id(graph)] for graph in forward if id(graph) in self.trips]
        limit = None if known else seams.constant_value(op.inputs[1])
        count = max(1, int(limit)) if isinstance(limit, np.generic | np.ndarray) else 1
        count = known[0] if known else count
        self.trips.update((id(nested), count) for nested in inside)
        return count


def _updates(graph: tf.Graph, variables: Mapping[int, str]) -> dict[str, str]:
    """Path by name, of the operations that only serve to write a unit's variables.

    Found backwards from the writes, up to what carries a marker: gradients, and statistics of a layer.
    """
    captured = {inner.name: variables.get(id(outer)) for outer, inner in graph.captures}
    found: dict[str, str] = {}
    for op in graph.get_operations():
        path = captured.get(op.inputs[0].name) if op.inputs else None
        if path is None or op.type in NO_WORK or MARKER.search(op.name):
            continue
        if not op.op_def.is_stateful:
            continue
        pending = [op]
        while pending:
            current = pending.pop()
            if (
                current.name in found
                or current.type == "Placeholder"
                or MARKER.search(current.name)
            ):
                continue
            if current.name.startswith("gradient_tape/"):
                continue
            found[current.name] = path
            pending += [tensor.op for tensor in current.inputs]
    return found


def _needed(graph: tf.Graph) -> set[str]:
    """Names of the operations that a result, or something with a side effect, depends on: others are pruned."""
    pending = [
        op for op in graph.get_operations() if op.op_def.is_stateful and op.type != "Placeholder"
    ]
    pending += [tensor.op for tensor in getattr(graph, "outputs", ())]
    needed: set[str] = set()
    while pending:
        op = pending.pop()
        if op.name not in needed:
            needed.add(op.name)
            pending += [*(tensor.op for tensor in op.inputs), *op.control_inputs]
    return needed


def _is_constant(op: tf.Operation, constant: set[str]) -> bool:
    if op.type == "Const":
        return True
    if op.type in OF_SHAPES and all(t.shape.is_fully_defined() for t in op.inputs):
        return True
    is_pure = not op.op_def.is_stateful and op.type not in ("Placeholder", "NoOp")
    return is_pure and bool(op.inputs) and all(t.op.name in constant for t in op.inputs)


def _plain(op: tf.Operation, runs: int) -> Operation:
    dtypes: dict[str, str | tuple[str, ...]] = {}
    for attribute in op.op_def.attr:
        value = op.node_def.attr[attribute.name]
        if attribute.type == "type":
            dtypes[attribute.name] = str(tf.as_dtype(value.type).name)
        elif attribute.type == "list(type)":
            dtypes[attribute.name] = tuple(str(tf.as_dtype(t).name) for t in value.list.type)
    return Operation(
        op=str(op.type),
        dtypes=dtypes,
        inputs=tuple(map(_tensor, op.inputs)),
        outputs=tuple(map(_tensor, op.outputs)),
        runs=runs,
        is_on_data=kernels.is_on_data(op),
    )


def _tensor(tensor: tf.Tensor) -> Tensor:
    dimensions = tensor.shape.as_list() if tensor.shape.rank is not None else []
    is_number = tensor.dtype not in (tf.resource, tf.variant, tf.string)
    return Tensor(
        shape=tuple(1 if d is None else int(d) for d in dimensions),
        dtype=str(tensor.dtype.name),
        item_bytes=int(tensor.dtype.size) if is_number else 0,
    )
