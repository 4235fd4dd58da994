"""The gate: whole steps of every candidate, right first, then timed in turns.

A candidate that gives other results than the CPU is out. A mixed one replaces the better single device only
where it was shown to be faster; where no difference is shown, the simplest plan stays.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import numpy as np

from autoplace import planner
from autoplace.engines.protocol import Arm, Array, Engine, NotProbeableError, Session
from autoplace.ir import ALL_CPU, ALL_GPU, MIXED, Event, GateResult, Parity, StepTime
from autoplace.probe.clock import WARM_RUNS, time_once

Timing = Callable[[], AbstractContextManager[object]]

CHECKED_EXECUTIONS = 2
CONFIDENCE = 0.99
# Rounds after which it is looked whether the order is clear. Looking after every round would make the real
# error many times the nominal one; six looks at 1 % each bound it by 6 %, and what a false "faster" can cost
# is little: it takes two sides that are equally fast. From 12 rounds on the interval bears one outlier.
LOOKS = (8, 12, 18, 27, 40, 60)
# An arm that was slower than another by this factor in each of the first rounds is not timed on: its chance of
# being the better one is nil, and a step of it may take a second.
HOPELESS_RATIO, HOPELESS_ROUNDS = 2.0, 4
LONE_ROUNDS = 6
SIMPLEST = (ALL_CPU, ALL_GPU, MIXED)


@dataclass(kw_only=True)
class Outcome:
    """What the gate found.

    Attributes:
        winner: Name of the arm to use.
        step_times: Step time by arm, of those that were right.
        result: The deciding comparison, or None with a single arm.
        parity: By arm, the comparison with the CPU.
        events: Candidates that were refused, and why.
    """

    winner: str
    step_times: dict[str, StepTime] = field(default_factory=dict)
    result: GateResult | None = None
    parity: dict[str, Parity] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)


def run_gate(
    engine: Engine,
    session: Session,
    arms: Mapping[str, Arm],
    timing: Timing,
    deadline: float,
    advance: Callable[[str], None],
) -> Outcome:
    """Compare arms by results, then by time.

    Args:
        engine: The framework.
        session: The model.
        arms: By choice; ``all-cpu`` must be among them, it is what the others are compared with.
        timing: Context in which times are a device's true ones.
        deadline: `time.monotonic()` after which no round is begun beyond the least number.
        advance: Called with the name of each part that is begun.
    """
    outcome = Outcome(winner=ALL_CPU)
    right = _check(engine, session, arms, outcome, advance)
    with session.undisturbed(), timing():
        samples = _race({name: arms[name] for name in right}, deadline, advance)
    for name, times in samples.items():
        outcome.step_times[name] = planner.step_time(times)
    _decide(samples, outcome)
    return outcome


# ------------------------------------------------------------------------------------------ right


def _check(
    engine: Engine,
    session: Session,
    arms: Mapping[str, Arm],
    outcome: Outcome,
    advance: Callable[[str], None],
) -> list[str]:
    """Run a few executions of each arm from the same state, and return the arms that agree with the CPU."""
    right: list[str] = []
    wanted: tuple[list[Array], list[Array], list[Array]] | None = None
    for name in sorted(arms, key=SIMPLEST.index):
        advance(f"checking {name}")
        try:
            with session.undisturbed(), arms[name].installed():
                got = _results(arms[name])
        except NotProbeableError as error:
            if wanted is None:
                # Not even the CPU can run it: that is the model's own fault, told as Keras tells it.
                raise error.__cause__ or error from None
            outcome.events.append(_refused(name, str(error)))
            continue
        if wanted is None:
            wanted = got
            right.append(name)
            continue
        outcome.parity[name] = parity = _compare(engine, got, wanted)
        if parity.passed:
            right.append(name)
        else:
            outcome.events.append(
                _refused(
                    name,
                    f"its steps differ from the CPU's by {parity.worst:.2g}, "
                    f"{parity.tolerance:.2g} is allowed",
                )
            )
    return right


def _results(arm: Arm) -> tuple[list[Array], list[Array], list[Array]]:
    before = arm.trainable()
    results: list[Array] = []
    for _ in range(CHECKED_EXECUTIONS):
        results += arm.losses()
    return before, results, arm.trainable()


def _compare(
    engine: Engine,
    got: tuple[list[Array], list[Array], list[Array]],
    want: tuple[list[Array], list[Array], list[Array]],
) -> Parity:
    results_allowed, update_allowed = engine.step_tolerances(want[1])
    results = engine.difference(got[1], want[1])
    update = _relative_change(
        [b - a for a, b in zip(got[0], got[2], strict=True)],
        [b - a for a, b in zip(want[0], want[2], strict=True)],
    )
    passed = results <= results_allowed and update <= update_allowed
    # Report the one that is nearer to its bound.
    if results_allowed and update / update_allowed > results / results_allowed:
        return Parity(
            passed=passed,
            worst=update,
            tolerance=update_allowed,
            checked_steps=CHECKED_EXECUTIONS,
        )
    return Parity(
        passed=passed, worst=results, tolerance=results_allowed, checked_steps=CHECKED_EXECUTIONS
    )


def _relative_change(got: Sequence[Array], want: Sequence[Array]) -> float:
    """Return ||got - want|| / ||want|| over all weights together; inf where not finite."""
    difference = sum(
        float(np.sum(np.square(_wide(a) - _wide(b)))) for a, b in zip(got, want, strict=True)
    )
    scale = sum(float(np.sum(np.square(_wide(b)))) for b in want)
    if not np.isfinite(difference):
        return 0.0 if not np.isfinite(scale) else float("inf")
    if difference == 0.0:
        return 0.0
    return float(np.sqrt(difference / scale)) if scale else float("inf")


def _wide(array: Array) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return array.astype(np.float64)


def _refused(name: str, why: str) -> Event:
    return Event(step=0, kind="parity", unit="", action=f"refused {name}", detail=why)


# ----------------------------------------------------------------------------------------- faster


def _race(
    arms: Mapping[str, Arm], deadline: float, advance: Callable[[str], None]
) -> dict[str, list[int]]:
    """Time executions in turns until the order is clear; return nanoseconds per step."""
    samples: dict[str, list[int]] = {name: [] for name in arms}
    live = list(arms)
    for name in live:
        advance(f"timing {name}")
        with arms[name].installed():
            for _ in range(WARM_RUNS):
                arms[name].run()
    for number in range(max(LOOKS)):
        # A single arm has nobody to be compared with; its step time is still worth knowing.
        if number in (LOOKS if len(arms) > 1 else (LONE_ROUNDS,)) and _is_clear(live, samples):
            break
        if number >= min(LOOKS) and time.monotonic() > deadline:
            break
        shift = number % len(live)
        for name in live[shift:] + live[:shift]:
            with arms[name].installed():
                elapsed = time_once(arms[name].run)
            samples[name].append(elapsed // arms[name].steps_per_run)
        live = _without_hopeless(live, samples)
    return samples


def _without_hopeless(live: list[str], samples: Mapping[str, list[int]]) -> list[str]:
    """Drop arms that cannot win any more.

    A single device is measured against the other single device only: which of the two is the better one has
    to be known, also where both are far behind the mixed plan.
    """
    if any(len(samples[name]) < HOPELESS_ROUNDS for name in live):
        return live
    return [
        name
        for name in live
        if not any(_is_hopeless(samples[name], samples[rival]) for rival in _rivals(name, live))
    ]


def _rivals(name: str, live: list[str]) -> list[str]:
    return [other for other in live if other not in (name, MIXED)]


def _is_hopeless(own: list[int], other: list[int]) -> bool:
    return all(a >= HOPELESS_RATIO * b for a, b in zip(own, other, strict=False))


def _is_clear(live: list[str], samples: Mapping[str, list[int]]) -> bool:
    fastest = min(live, key=lambda name: sum(samples[name]))
    return all(
        planner.decide(_interval(samples, fastest, name)) == "faster"
        for name in live
        if name != fastest
    )


def _interval(
    samples: Mapping[str, list[int]], candidate: str, against: str
) -> planner.RatioInterval:
    rounds = min(len(samples[candidate]), len(samples[against]))
    return planner.ratio_interval(
        samples[candidate][:rounds], samples[against][:rounds], CONFIDENCE
    )


def _decide(samples: Mapping[str, list[int]], outcome: Outcome) -> None:
    """Take the simplest single device, unless another was shown faster; then the same for the mixed one."""
    singles = [name for name in (ALL_CPU, ALL_GPU) if samples.get(name)]
    if not singles:
        return
    better = singles[0]
    for name in singles[1:]:
        result = _result(samples, name, better, outcome)
        outcome.result = result
        if result.decided == "faster":
            better = name
    outcome.winner = better
    if samples.get(MIXED):
        outcome.result = _result(samples, MIXED, better, outcome)
        if outcome.result.decided == "faster":
            outcome.winner = MIXED


def _result(
    samples: Mapping[str, list[int]], candidate: str, against: str, outcome: Outcome
) -> GateResult:
    a, b = outcome.step_times[candidate].median_ns, outcome.step_times[against].median_ns
    rounds = min(len(samples[candidate]), len(samples[against]))
    if rounds < planner.rounds_needed(CONFIDENCE) and max(a, b) > HOPELESS_RATIO * min(a, b):
        # One of them was given up as hopeless: all of its rounds were worse by that factor, and their
        # extremes stand for the interval.
        ratios = [x / y for x, y in zip(samples[candidate], samples[against], strict=False)]
        low, high = min(ratios), max(ratios)
    else:
        interval = _interval(samples, candidate, against)
        low, high = interval.low, interval.high
    interval = planner.RatioInterval(ratio=a / max(b, 1), low=low, high=high)
    return GateResult(
        candidate=candidate,
        against=against,
        ratio=interval.ratio,
        low=low,
        high=high,
        decided=planner.decide(interval),
    )
