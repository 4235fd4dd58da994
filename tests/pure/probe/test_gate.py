"""The gate, with arms that are made up: right first, then shown to be faster, else the simplest."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from autoplace.probe import gate

ONE_MS = 1_000_000


class FakeArm:
    """An arm whose step takes `mean_ns` with some noise, and whose results are off by `error`."""

    steps_per_run = 1

    def __init__(self, mean_ns: int, *, error: float = 0.0, noise: float = 0.05) -> None:
        self.mean_ns, self.error, self.noise = mean_ns, error, noise
        self.runs = 0
        self._weight = np.ones(4, dtype=np.float32)

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        yield

    def run(self) -> None:
        self.runs += 1

    def losses(self) -> list[Any]:
        self._weight = self._weight * (0.9 + self.error)
        return [np.float32(1.0 + self.error) * np.ones((), np.float32)]

    def trainable(self) -> list[Any]:
        return [self._weight]


class FakeEngine:
    def difference(
        self, got: Sequence[Any], want: Sequence[Any], *, is_gradient: bool = False
    ) -> float:
        return max(float(np.abs(a - b).max()) for a, b in zip(got, want, strict=True))

    def step_tolerances(self, values: Sequence[Any]) -> tuple[float, float]:
        return 1e-3, 0.25


class FakeSession:
    @contextlib.contextmanager
    def undisturbed(self) -> Iterator[None]:
        yield


@pytest.fixture(autouse=True)
def _made_up_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = random.Random(7)

    def time_once(run: Callable[[], None]) -> int:
        arm: Any = run.__self__  # type: ignore[attr-defined]
        run()
        elapsed: float = arm.mean_ns * (1 + arm.noise * generator.uniform(-1, 1))
        return round(elapsed)

    monkeypatch.setattr(gate, "time_once", time_once)


def decide(arms: dict[str, FakeArm], deadline: float = float("inf")) -> gate.Outcome:
    given: Any = arms
    engine: Any = FakeEngine()
    session: Any = FakeSession()
    return gate.run_gate(
        engine, session, given, contextlib.nullcontext, deadline, lambda _part: None
    )


def test_a_faster_mixed_plan_is_taken() -> None:
    outcome = decide(
        {
            "all-cpu": FakeArm(3 * ONE_MS),
            "all-gpu": FakeArm(2 * ONE_MS),
            "mixed": FakeArm(ONE_MS),
        }
    )
    assert outcome.winner == "mixed"
    assert outcome.result is not None
    assert (outcome.result.candidate, outcome.result.against) == ("mixed", "all-gpu")
    assert outcome.result.high < 1
    assert outcome.step_times["mixed"].rounds >= 8


def test_no_difference_keeps_the_simplest() -> None:
    outcome = decide({name: FakeArm(ONE_MS) for name in ("all-cpu", "all-gpu", "mixed")})
    assert outcome.winner == "all-cpu"
    assert outcome.result is not None and outcome.result.decided == "no_difference"
    assert outcome.step_times["mixed"].rounds == max(gate.LOOKS)


def test_a_mixed_plan_that_only_beats_the_worse_device_is_not_taken() -> None:
    outcome = decide(
        {
            "all-cpu": FakeArm(9 * ONE_MS),
            "all-gpu": FakeArm(2 * ONE_MS),
            "mixed": FakeArm(2 * ONE_MS),
        }
    )
    assert outcome.winner == "all-gpu"


def test_a_hopeless_arm_is_not_timed_to_the_end() -> None:
    slow = FakeArm(500 * ONE_MS)
    outcome = decide({"all-cpu": FakeArm(2 * ONE_MS), "all-gpu": slow, "mixed": FakeArm(ONE_MS)})
    assert outcome.winner == "mixed"
    assert outcome.step_times["all-gpu"].rounds == gate.HOPELESS_ROUNDS


def test_a_wrong_arm_is_refused_before_it_is_timed() -> None:
    wrong = FakeArm(ONE_MS // 10, error=0.01)
    outcome = decide({"all-cpu": FakeArm(ONE_MS), "all-gpu": wrong})
    assert outcome.winner == "all-cpu"
    assert wrong.runs == 0
    assert [event.action for event in outcome.events] == ["refused all-gpu"]
    assert not outcome.parity["all-gpu"].passed
    assert set(outcome.step_times) == {"all-cpu"}


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_an_arm_that_is_not_finite_is_refused(value: float) -> None:
    outcome = decide({"all-cpu": FakeArm(ONE_MS), "all-gpu": FakeArm(ONE_MS // 10, error=value)})
    assert outcome.winner == "all-cpu"
    assert outcome.events


def test_the_least_number_of_rounds_is_run_whatever_the_deadline() -> None:
    outcome = decide({"all-cpu": FakeArm(2 * ONE_MS), "all-gpu": FakeArm(ONE_MS)}, deadline=0.0)
    assert outcome.winner == "all-gpu"
    assert outcome.step_times["all-gpu"].rounds == min(gate.LOOKS)


def test_false_alarms_are_rare() -> None:
    """Equal arms: the mixed one is taken in fewer than the 6 % that the looks allow (of 300)."""
    taken = sum(
        decide({n: FakeArm(ONE_MS, noise=0.2) for n in ("all-cpu", "mixed")}).winner == "mixed"
        for _ in range(300)
    )
    assert taken <= 18
