"""What a model is made of: units, and the tensors that flow between them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from autoplace.errors import PlannerInputError, UnknownUnitError

INPUT = "(input)"
"""Path of the pseudo-unit from which batches arrive; it is always on `cpu:0`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """The smallest thing placed: a leaf layer, or the own operations of a container.

    Attributes:
        path: Unique within the model: layer names from the outside in, such as ``backbone/conv2d_1``.
        class_name: Class of the layer.
        signature: Hash of everything that its cost and its results depend on: operations, shapes,
            dtypes, weights. Units of equal signature are measured once.
        parameters: Number of scalars in its weights, >= 0.
        parameter_bytes: Their size in bytes, >= 0.
        trainable_bytes: Size of the part that the optimizer updates, >= 0.
        output_shapes: Shapes of its output tensors at the traced batch size.
        calls: How often one step runs it; more than 1 for a shared layer.
        is_container: True for a container's own operations, False for a leaf layer.
        is_random: True where it draws random numbers while training.
    """

    path: str
    class_name: str
    signature: str
    parameters: int = 0
    parameter_bytes: int = 0
    trainable_bytes: int = 0
    output_shapes: tuple[tuple[int, ...], ...] = ()
    calls: int = 1
    is_container: bool = False
    is_random: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A tensor that one unit makes and another uses.

    Edges of one `tensor` are one transfer per device, however many units use it there.

    Attributes:
        source: Path of the unit that makes it, or ``INPUT``.
        target: Path of the unit that uses it.
        size_bytes: Size of the tensor at the traced batch size, >= 0.
        tensor: Identifies the tensor within the graph.
        has_gradient: True where a gradient of the same size flows back in training.
    """

    source: str
    target: str
    size_bytes: int
    tensor: str
    has_gradient: bool = True


@dataclass(frozen=True, kw_only=True)
class LayerGraph:
    """Units in the order in which they first run, and the edges between them.

    Attributes:
        model_name: Name of the Keras model.
        model_kind: ``functional``, ``sequential`` or ``subclassed``.
        batch_size: Rows of the traced batch.
        units: In order of their first call; paths are unique.
        edges: Between paths of `units`, or from ``INPUT``.

    Raises:
        PlannerInputError: AP406, for a path given twice or an edge to an unknown path.
    """

    model_name: str
    model_kind: str
    batch_size: int
    units: tuple[Unit, ...]
    edges: tuple[Edge, ...] = ()

    def __post_init__(self) -> None:
        known = {unit.path for unit in self.units}
        if len(known) != len(self.units):
            raise PlannerInputError(
                "two units have the same path",
                expected="unique unit paths",
                received=str(sorted(unit.path for unit in self.units))[:200],
                fix="report this model: tracing should have made the paths unique",
            )
        sources = known | {INPUT}
        for edge in self.edges:
            if edge.target not in known or edge.source not in sources:
                raise PlannerInputError(
                    "an edge names a unit that the graph does not have",
                    expected=f"paths of {len(known)} units, or {INPUT!r} as source",
                    received=f"{edge.source!r} -> {edge.target!r}",
                    fix="give only edges between units of this graph",
                )

    @cached_property
    def by_path(self) -> Mapping[str, Unit]:
        """Units by their path."""
        return {unit.path: unit for unit in self.units}

    def unit(self, path: str) -> Unit:
        """Return the unit at `path`.

        Raises:
            UnknownUnitError: AP403.
        """
        try:
            return self.by_path[path]
        except KeyError:
            raise unknown_unit(path, self) from None

    @cached_property
    def signature(self) -> str:
        """Hash of all units and edges, but for names: equal for models that can have the same plan.

        A notebook cell that is run again builds the same model with other layer names.
        """
        digest = hashlib.sha256()
        number = {unit.path: str(i) for i, unit in enumerate(self.units)}
        for unit in self.units:
            digest.update(f"{unit.class_name}|{unit.signature}|{unit.calls}\n".encode())
        for edge in self.edges:
            ends = f"{number.get(edge.source, INPUT)}>{number[edge.target]}"
            digest.update(f"{ends}|{edge.size_bytes}|{edge.has_gradient}\n".encode())
        return digest.hexdigest()[:32]


def unknown_unit(path: str, graph: LayerGraph) -> UnknownUnitError:
    """Return the error for a path that `graph` does not have, naming some that it has."""
    known = [unit.path for unit in graph.units]
    return UnknownUnitError(
        "the model has no unit of this path",
        expected=f"one of the {len(known)} units of {graph.model_name!r}, e.g. {known[:3]}",
        received=repr(path),
        fix="take a path from model.plan.units",
    )
