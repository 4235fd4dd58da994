"""What a framework has to offer to be placed: the face that the rooms above know.

A second engine (torch with MPS or CUDA) implements these four classes and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy.typing as npt

from autoplace.ir import Device, LayerGraph, Machine
from autoplace.rules import UnitFacts

Array = npt.NDArray[Any]
Run = Callable[[], None]


class NotProbeableError(Exception):
    """A unit cannot be run alone: an argument is no plain tensor of known shape, or its code refuses."""


class UnitProbe(Protocol):
    """The passes of one unit on one device, compiled, on copies of its weights."""

    def forward(self, repeats: int) -> Run:
        """Return a function that runs the forward pass `repeats` times and waits for the end."""

    def train(self, repeats: int) -> Run | None:
        """Return one for forward and gradients, or None where nothing has a gradient."""

    def update(self, repeats: int) -> Run | None:
        """Return one for the optimizer's update, or None where nothing is updated."""

    def results(self) -> tuple[list[Array], list[Array]]:
        """Run once from the model's own state; return the outputs and the gradients."""

    def outputs(self) -> list[Array]:
        """Run the forward pass once from the model's own state; return its outputs."""

    def missing_kernels(self) -> list[str]:
        """Return the operations for which the accelerator has no kernel."""


class Arm(Protocol):
    """Whole steps of the model under one placement, compiled, on copies of its state.

    Attributes:
        steps_per_run: Steps in one execution.
        is_unpinned: Whether the framework places everything itself.
    """

    steps_per_run: int
    is_unpinned: bool

    def installed(self) -> AbstractContextManager[None]:
        """Let the model be this arm inside; everything else here is called inside."""

    def run(self) -> None:
        """Run one execution and wait for the end."""

    def losses(self) -> list[Array]:
        """Run one execution and return its floating-point results."""

    def trainable(self) -> list[Array]:
        """Return the values of the arm's trainable weights."""

    def reset(self) -> None:
        """Go back to the model's own state."""

    def adopt(self) -> None:
        """Make this arm the model's own, from the state that the model has now."""


class Session(Protocol):
    """One model and its first batches.

    Attributes:
        graph: The traced model.
        context: What a unit's cost depends on besides its signature: the step, the optimizer.
        optimizers: Class names of the optimizers.
    """

    graph: LayerGraph
    context: str
    optimizers: tuple[str, ...]

    @property
    def facts(self) -> tuple[UnitFacts, ...]:
        """What rules are compared with, of each unit."""

    def probes(self, path: str) -> Mapping[Device, UnitProbe]:
        """Return probes of a unit on the CPU and on the accelerator, on the same values.

        A probe is made when it is looked up, so that nothing runs on a device that is not asked for.

        Raises:
            NotProbeableError: Where it cannot be run alone.
        """

    def arm(self, devices: Mapping[str, Device] | None) -> Arm:
        """Return an arm under a placement; None for the framework's own."""

    def undisturbed(self) -> AbstractContextManager[None]:
        """Leave all state that running could change as it was: random numbers, foreign variables."""


class Engine(Protocol):
    """A framework."""

    def accelerator(self) -> Device | None:
        """Return the accelerator of this process, or None."""

    def check_device(self, device: Device) -> None:
        """Raise AP401 unless this process has `device`."""

    def machine(self, simulation: Mapping[str, str] | None) -> Machine:
        """Describe the machine by all that measured costs depend on."""

    def transfer(self, source: Device, target: Device, size_bytes: int, repeats: int) -> Run:
        """Return a function that moves `repeats` tensors and waits for the last."""

    def difference(
        self, got: Sequence[Array], want: Sequence[Array], *, is_gradient: bool = False
    ) -> float:
        """Return the largest scaled difference, for gradients the relative norm; inf for lost finiteness."""

    def lost_finiteness(self, got: Sequence[Array], want: Sequence[Array]) -> bool:
        """Return whether `got` has a NaN or Inf where `want` is finite."""

    def step_tolerances(self, values: Sequence[Array]) -> tuple[float, float]:
        """Return what results of a step, and the change of weights, may differ by (scaled, relative)."""

    def tolerance(self, values: Sequence[Array], *, is_gradient: bool) -> float:
        """Return what `difference` may be between two right devices for values of these dtypes."""
