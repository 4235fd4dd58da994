"""TensorFlow behind the `Engine` protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property

import keras

from autoplace.engines.protocol import Array, Run, UnitProbe
from autoplace.engines.tensorflow import (
    devices,
    kernels,
    seams,
    state,
    tolerances,
    transfers,
)
from autoplace.engines.tensorflow.arm import Arm, Feed
from autoplace.engines.tensorflow.facts import unit_facts
from autoplace.engines.tensorflow.failures import translated
from autoplace.engines.tensorflow.trace import trace
from autoplace.engines.tensorflow.unit_probe import UnitInputs
from autoplace.engines.tensorflow.unit_probe import UnitProbe as TensorFlowUnitProbe
from autoplace.ir import CPU, Device, Machine
from autoplace.rules import UnitFacts


class TensorFlowSession:
    """A Keras model and its first batches, traced.

    Args:
        model: The model; compiled, for training.
        feed: The batches.
        step: ``train_step`` or ``predict_step``.
    """

    def __init__(self, model: keras.Model, feed: Feed, step: str) -> None:
        self._model, self._feed, self._step = model, feed, step
        self._accelerator = devices.accelerator()
        self._has_cudnn = kernels.has_cudnn_rnn()
        listed = self._accelerator is not None
        with seams.undisturbed():
            self._trace = trace(
                model, feed.batches[0], step=step, without_cudnn=listed and not self._has_cudnn
            )
        self.graph = self._trace.graph
        self.context = _context(model, step)
        self.optimizers = tuple(type(o).__name__ for o in seams.optimizers_of(model))

    @cached_property
    def facts(self) -> tuple[UnitFacts, ...]:
        """What rules are compared with; read when a warmup asks, as a plan handed in needs none."""
        return unit_facts(self._trace, training=self._step == "train_step")

    def probes(self, path: str) -> Mapping[Device, UnitProbe]:
        """Return probes of a unit on the CPU and on the accelerator, on the same values."""
        unit = self._trace.units[path]
        with translated():
            inputs = UnitInputs(unit, self._trace)
        optimizer = self._model.optimizer if self._step == "train_step" else None

        def make(device: Device) -> TensorFlowUnitProbe:
            with translated():
                return TensorFlowUnitProbe(
                    unit,
                    inputs,
                    device,
                    optimizer=optimizer,
                    without_cudnn=not self._has_cudnn or device == CPU,
                )

        return _Lazy([d for d in (CPU, self._accelerator) if d is not None], make)

    def arm(self, placement: Mapping[str, Device] | None) -> Arm:
        """Return an arm under a placement; None for TensorFlow's own."""
        if not self._has_cudnn:
            without_cudnn = frozenset(self._trace.units)
        else:
            on_cpu = {path for path, device in (placement or {}).items() if device == CPU}
            without_cudnn = frozenset(on_cpu)
        return Arm(
            self._model,
            self._trace,
            placement,
            self._feed,
            step=self._step,
            without_cudnn=without_cudnn,
        )

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Leave random numbers, name counters and variables that Keras does not list as they were."""
        with seams.undisturbed(), state.foreign_restored(self._trace.foreign):
            yield


class _Lazy(Mapping[Device, UnitProbe]):
    """Probes by device, each made when it is first looked up."""

    def __init__(self, known: list[Device], make: Callable[[Device], UnitProbe]) -> None:
        self._known, self._make = known, make
        self._made: dict[Device, UnitProbe] = {}

    def __getitem__(self, device: Device) -> UnitProbe:
        if device not in self._known:
            raise KeyError(device)
        if device not in self._made:
            self._made[device] = self._make(device)
        return self._made[device]

    def __iter__(self) -> Iterator[Device]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def _context(model: keras.Model, step: str) -> str:
    """What the cost of a unit depends on besides its signature; the learning rate is not part of it."""
    if step != "train_step":
        return step
    parts = []
    for optimizer in seams.optimizers_of(model):
        config = optimizer.get_config()
        flags = {k: v for k, v in sorted(config.items()) if isinstance(v, (bool, int, type(None)))}
        parts.append(f"{type(optimizer).__name__}{flags}")
    return f"{step}|{'|'.join(parts)}"


class TensorFlowEngine:
    """The engine for Keras on TensorFlow."""

    def __init__(self) -> None:
        devices.check_backend()

    def accelerator(self) -> Device | None:
        """Return the accelerator of this process, or None. Starts TensorFlow's devices."""
        return devices.accelerator()

    def check_device(self, device: Device) -> None:
        """Raise AP401 unless this process has `device`."""
        devices.check_device(device)

    def machine(self, simulation: Mapping[str, str] | None) -> Machine:
        """Describe the machine by all that measured costs depend on."""
        return devices.machine(simulation)

    def transfer(self, source: Device, target: Device, size_bytes: int, repeats: int) -> Run:
        """Return a function that moves `repeats` tensors and waits for the last."""
        return transfers.transfer(source, target, size_bytes, repeats)

    def difference(
        self, got: Sequence[Array], want: Sequence[Array], *, is_gradient: bool = False
    ) -> float:
        """Return the largest scaled difference, for gradients the relative norm; inf for lost finiteness."""
        if len(got) != len(want):
            return float("inf")
        compare = tolerances.norm_difference if is_gradient else tolerances.scaled_difference
        return max((compare(a, b) for a, b in zip(got, want, strict=True)), default=0.0)

    def lost_finiteness(self, got: Sequence[Array], want: Sequence[Array]) -> bool:
        """Return whether `got` has a NaN or Inf where `want` is finite."""
        return any(tolerances.lost_finiteness(a, b) for a, b in zip(got, want, strict=False))

    def step_tolerances(self, values: Sequence[Array]) -> tuple[float, float]:
        """Return what results of a step, and the change of weights, may differ by (scaled, relative)."""
        results = max((tolerances.tolerance(v.dtype.name, "step") for v in values), default=0.0)
        return results, tolerances.UPDATE

    def tolerance(self, values: Sequence[Array], *, is_gradient: bool) -> float:
        """Return what `difference` may be between two right devices for values of these dtypes."""
        which: tolerances.Pass = "gradient" if is_gradient else "forward"
        return max((tolerances.tolerance(v.dtype.name, which) for v in values), default=0.0)

    def session(self, model: keras.Model, feed: Feed, step: str) -> TensorFlowSession:
        """Open a session: trace `model` on the first batch of `feed`."""
        return TensorFlowSession(model, feed, step)
