"""What samples of time show: medians, ratios, and intervals that assume no distribution.

The interval of a median from order statistics: of n independent samples the number below the true median is
Binomial(n, 1/2), whatever their distribution (David and Nagaraja, "Order Statistics", 3rd ed., section 7.1).
Times of steps are skewed and have outliers, which neither a mean nor a t interval survives.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from autoplace.errors import PlannerInputError
from autoplace.ir import StepTime
from autoplace.ir.evidence import Decision

STEP_TIME_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioInterval:
    """How the time of a candidate compares with another's.

    Attributes:
        ratio: Median over the rounds of candidate time / other time; below 1 the candidate is faster.
        low: Lower end of its interval; 0.0 with too few rounds.
        high: Upper end; infinite with too few rounds.
    """

    ratio: float
    low: float
    high: float


def ratio_interval(
    candidate_ns: Sequence[int], against_ns: Sequence[int], confidence: float = 0.99
) -> RatioInterval:
    """Return the median of the rounds' ratios, and its interval.

    A round times both, one after the other, so that what slows the machine down slows both. The median is
    taken of the logarithms, so that exchanging the two gives the reciprocal.

    Args:
        candidate_ns: Time of the candidate in each round, > 0.
        against_ns: Time of the other in the same rounds, > 0.
        confidence: Least probability with which the interval holds the true median.

    Returns:
        The interval; ``(0, inf)`` below `rounds_needed` rounds. Without any round the ratio is 1.0.

    Raises:
        PlannerInputError: AP406, for times that are not paired or not positive.
    """
    if len(candidate_ns) != len(against_ns) or any(
        time_ns <= 0 for time_ns in (*candidate_ns, *against_ns)
    ):
        raise PlannerInputError(
            "the times to compare do not pair up",
            expected="as many times of one as of the other, all > 0 ns",
            received=f"{len(candidate_ns)} and {len(against_ns)} times, least "
            f"{min((*candidate_ns, *against_ns), default=None)}",
            fix="time both in every round",
        )
    rank = _rank(len(candidate_ns), confidence)
    ratios = sorted(
        candidate / against for candidate, against in zip(candidate_ns, against_ns, strict=True)
    )
    if not ratios:
        return RatioInterval(ratio=1.0, low=0.0, high=math.inf)
    middle = math.sqrt(ratios[(len(ratios) - 1) // 2] * ratios[len(ratios) // 2])
    if rank == 0:
        return RatioInterval(ratio=middle, low=0.0, high=math.inf)
    return RatioInterval(ratio=middle, low=ratios[rank - 1], high=ratios[-rank])


def step_time(samples_ns: Sequence[int]) -> StepTime:
    """Return the median of `samples_ns` with its 95 % interval.

    Below six samples no such interval exists: the ends are then the least and the largest sample.

    Raises:
        PlannerInputError: AP406, without any sample.
    """
    if not samples_ns:
        raise PlannerInputError(
            "there is no sample of which to take the median",
            expected="at least one time in ns",
            received="none",
            fix="measure at least one round",
        )
    ordered = sorted(int(sample_ns) for sample_ns in samples_ns)
    rank = max(_rank(len(ordered), STEP_TIME_CONFIDENCE), 1)
    return StepTime(
        median_ns=round(statistics.median(ordered)),
        low_ns=ordered[rank - 1],
        high_ns=ordered[-rank],
        rounds=len(ordered),
    )


def decide(interval: RatioInterval) -> Decision:
    """Return ``faster`` or ``slower`` only where the whole interval says so."""
    if interval.high < 1:
        return "faster"
    if interval.low > 1:
        return "slower"
    return "no_difference"


def rounds_needed(confidence: float) -> int:
    """Return the least number of rounds at which an interval is finite.

    Raises:
        PlannerInputError: AP406, for a confidence that is not between 0 and 1.
    """
    rounds = 1
    while _rank(rounds, confidence) == 0:
        rounds += 1
    return rounds


def _rank(samples: int, confidence: float) -> int:
    """Return the largest k for which [k-th smallest, k-th largest] is wide enough; 0 for none."""
    if not 0 < confidence < 1:
        raise PlannerInputError(
            "a confidence is not a probability",
            expected="0 < confidence < 1",
            received=repr(confidence),
            fix="pass for example 0.99",
        )
    # Exact, since 2**samples exceeds every float: both tails together may hold `allowed` outcomes.
    allowed = (1 - Fraction(str(float(confidence)))) * 2**samples
    rank, tail, outcomes = 0, 0, 1
    while rank < samples // 2 + samples % 2:
        tail += outcomes
        if 2 * tail > allowed:
            break
        outcomes = outcomes * (samples - rank) // (rank + 1)
        rank += 1
    return rank
