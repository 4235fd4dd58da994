"""What was found out on the way to a plan, and what happened after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

VerdictState = Literal["ok", "no_kernel", "wrong", "non_finite", "crashes", "hangs", "unchecked"]
Decision = Literal["faster", "no_difference", "slower"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is known of a unit on the accelerator.

    Attributes:
        state: ``ok`` after its compiled forward and gradients agreed with the CPU's; ``unchecked``
            where nothing was compared, so that the unit may not be placed there.
        source: Who said so: ``parity``, ``registry``, ``rules``, ``journal``, ``policy`` or ``budget``.
        evidence: A phrase with the figure or the operation that decided it.
    """

    state: VerdictState
    source: str
    evidence: str = ""

    @property
    def is_ok(self) -> bool:
        """True where the unit may be placed on the accelerator."""
        return self.state == "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """Time of a whole step under one placement.

    Attributes:
        median_ns: Median of the rounds, in nanoseconds.
        low_ns: Lower end of its interval.
        high_ns: Upper end of its interval.
        rounds: Number of rounds measured.
    """

    median_ns: int
    low_ns: int
    high_ns: int
    rounds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """Comparison of a candidate with the better single device, from one interleaved run.

    Attributes:
        candidate: Choice that was tried, such as ``mixed``.
        against: Choice that it was compared with.
        ratio: Median of candidate time / other time; below 1 the candidate is faster.
        low: Lower end of the interval of the ratio.
        high: Upper end.
        decided: ``faster`` only where the whole interval is below 1.
    """

    candidate: str
    against: str
    ratio: float
    low: float
    high: float
    decided: Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Parity:
    """Comparison of whole steps with those of the CPU.

    Attributes:
        passed: True where every difference stayed below the tolerance.
        worst: Largest difference, relative to the scale of the tensor.
        tolerance: What was allowed.
        checked_steps: Number of steps after which weights were compared.
    """

    passed: bool
    worst: float
    tolerance: float
    checked_steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSummary:
    """What measuring took.

    Attributes:
        seconds: Wall time of the whole warmup.
        measured: Signatures measured now.
        from_cache: Signatures whose costs were taken from the cache.
        predicted: Signatures whose costs were predicted because the budget was used up.
    """

    seconds: float = 0.0
    measured: int = 0
    from_cache: int = 0
    predicted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The machine that costs belong to.

    Attributes:
        fingerprint: What costs depend on, by name: chip, cores, system, versions, plugin.
        devices: Devices that TensorFlow lists, with a description each.
        simulated: True where the accelerator is the simulated one.
    """

    fingerprint: Mapping[str, str] = field(default_factory=dict)
    devices: Mapping[str, str] = field(default_factory=dict)
    simulated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to a run and that its user should be able to see later.

    Attributes:
        step: Train step at which it happened; 0 before the first.
        kind: Stable word, such as ``fallback`` or ``pin``.
        unit: Path of the unit, or an empty string.
        action: What was done.
        detail: A sentence.
    """

    step: int
    kind: str
    unit: str
    action: str
    detail: str
