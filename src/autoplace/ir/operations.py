"""Operations of a step as plain values: what can be looked up and reckoned with, unrun."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A tensor's shape and size.

    Attributes:
        shape: Its dimensions; an open one counts as 1.
        dtype: Name of its dtype, such as ``float32``.
        item_bytes: Bytes of one element; 0 for what is no number.
    """

    shape: tuple[int, ...]
    dtype: str
    item_bytes: int

    @property
    def elements(self) -> int:
        """Number of elements, 1 for a scalar."""
        return math.prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Size in bytes."""
        return self.elements * self.item_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation of a traced pass.

    Attributes:
        op: Its type, as TensorFlow names it.
        dtypes: Its type attributes, such as ``{"T": "float32"}``; a tuple for a list of types.
        inputs: Tensors that it takes.
        outputs: Tensors that it makes.
        runs: How often one step runs it: more than once inside a loop.
        is_on_data: False where it only reckons with shapes, seeds and counters.
    """

    op: str
    dtypes: Mapping[str, str | tuple[str, ...]]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    runs: int = 1
    is_on_data: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitOperations:
    """The operations of all calls of a unit in one step, by pass.

    Attributes:
        forward: Of the forward pass.
        backward: Of the gradients.
        update: Of the optimizer's update of its weights.
    """

    forward: tuple[Operation, ...] = ()
    backward: tuple[Operation, ...] = ()
    update: tuple[Operation, ...] = ()

    @property
    def all(self) -> tuple[Operation, ...]:
        """Those of all passes."""
        return (*self.forward, *self.backward, *self.update)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOperations:
    """The operations of a whole step.

    Attributes:
        units: By unit path.
        outside: Of no unit: loss, metrics, what the optimizer does for all weights together.
    """

    units: Mapping[str, UnitOperations]
    outside: UnitOperations
