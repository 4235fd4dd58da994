"""Intervals of the gate: exact ranks, and what they decide."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoplace import planner
from autoplace.errors import PlannerInputError
from autoplace.planner import RatioInterval

pytestmark = pytest.mark.pure

times = st.integers(1, 10**10)


@pytest.mark.parametrize(
    ("confidence", "rounds"), [(0.5, 2), (0.9, 5), (0.95, 6), (0.99, 8), (0.999, 11)]
)
def test_rounds_needed(confidence: float, rounds: int) -> None:
    """1 - 2 / 2**n is the confidence of the whole range of n samples; 0.5 is reached exactly at 2."""
    assert planner.rounds_needed(confidence) == rounds


@pytest.mark.parametrize(
    ("samples", "confidence", "low", "high"),
    # Conover, "Practical Nonparametric Statistics", table of ranks for the median.
    [(20, 0.95, 6, 15), (10, 0.95, 2, 9), (9, 0.99, 1, 9), (25, 0.99, 6, 20), (100, 0.95, 40, 61)],
)
def test_ranks_are_those_of_the_tables(
    samples: int, confidence: float, low: int, high: int
) -> None:
    """Samples 1..n: the ends are their own ranks."""
    interval = planner.ratio_interval(range(1, samples + 1), [1] * samples, confidence)
    assert (interval.low, interval.high) == (low, high)


def test_many_samples_stay_exact() -> None:
    """2**5000 exceeds every float."""
    time = planner.step_time(range(1, 5001))
    assert (time.low_ns, time.median_ns, time.high_ns) == (2431, 2500, 2570)


@given(st.lists(st.tuples(times, times), max_size=40))
def test_exchanging_gives_the_reciprocal(rounds: list[tuple[int, int]]) -> None:
    """Nothing depends on which of the two is called the candidate."""
    ours, theirs = [a for a, _ in rounds], [b for _, b in rounds]
    one, other = planner.ratio_interval(ours, theirs), planner.ratio_interval(theirs, ours)
    assert one.ratio == pytest.approx(1 / other.ratio)
    assert one.low <= one.ratio * (1 + 1e-12)
    assert one.ratio <= one.high * (1 + 1e-12)
    if len(rounds) >= planner.rounds_needed(0.99):
        assert one.low == pytest.approx(1 / other.high)
    else:
        assert (one.low, one.high) == (0, math.inf)
    decisions = {planner.decide(one), planner.decide(other)}
    assert decisions in ({"no_difference"}, {"faster", "slower"})


def test_no_rounds_show_nothing() -> None:
    """Without data there is no difference."""
    interval = planner.ratio_interval([], [])
    assert interval == RatioInterval(ratio=1.0, low=0.0, high=math.inf)
    assert planner.decide(interval) == "no_difference"


@pytest.mark.parametrize(
    ("low", "high", "decided"),
    [
        (0.5, 0.9, "faster"),
        (0.5, 1.0, "no_difference"),
        (1.0, 1.2, "no_difference"),
        (1.01, 1.2, "slower"),
    ],
)
def test_only_a_whole_interval_decides(low: float, high: float, decided: str) -> None:
    """An end that touches 1 has shown nothing."""
    assert planner.decide(RatioInterval(ratio=(low + high) / 2, low=low, high=high)) == decided


def test_one_outlier_does_not_move_the_median() -> None:
    """A round during which something else ran."""
    calm = planner.ratio_interval([50] * 20, [100] * 20)
    hit = planner.ratio_interval([50] * 19 + [5000], [100] * 20)
    assert calm == hit == RatioInterval(ratio=0.5, low=0.5, high=0.5)


def test_step_time_of_few_samples_is_their_range() -> None:
    """Five samples cannot give 95 %."""
    time = planner.step_time([5, 1, 3])
    assert (time.low_ns, time.median_ns, time.high_ns, time.rounds) == (1, 3, 5, 3)


def test_bad_samples_are_errors() -> None:
    """AP406: not paired, not positive, none, no probability."""
    with pytest.raises(PlannerInputError, match="pair"):
        planner.ratio_interval([1, 2], [1])
    with pytest.raises(PlannerInputError, match="pair"):
        planner.ratio_interval([1, 0], [1, 1])
    with pytest.raises(PlannerInputError, match="no sample"):
        planner.step_time([])
    for confidence in (0.0, 1.0, math.nan):
        with pytest.raises(PlannerInputError, match="confidence"):
            planner.rounds_needed(confidence)
