"""Interleaved timing.

One side after the other measures the machine's mood: phase-wise timing was seen to swing a ratio from 0.9 to
4.3. So everything that will be compared is run in turns, in an order that changes from round to round.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

Name = TypeVar("Name", bound=Hashable)

# TensorFlow allocates and compiles in its first runs; the simulated device remembers heavy kernels in the third.
WARM_RUNS = 3


def time_once(run: Callable[[], object]) -> int:
    """Return how long `run` takes, in nanoseconds."""
    start = time.perf_counter_ns()
    run()
    return time.perf_counter_ns() - start


def interleaved(
    runs: Mapping[Name, Callable[[], object]],
    *,
    rounds: int,
    deadline: float,
    warm_runs: int = WARM_RUNS,
) -> dict[Name, list[int]]:
    """Run all in turns and return their times.

    Args:
        runs: What to time, by name.
        rounds: How often each is timed.
        deadline: `time.monotonic()` after which no further round is begun; the first two always are.
        warm_runs: Untimed runs of each before that.

    Returns:
        Nanoseconds per run, by name; equally many for each.
    """
    names = list(runs)
    for name in names:
        for _ in range(warm_runs):
            runs[name]()
    samples: dict[Name, list[int]] = {name: [] for name in names}
    for number in range(rounds):
        if number >= 2 and time.monotonic() > deadline:
            break
        shift = number % len(names) if names else 0
        for name in names[shift:] + names[:shift]:
            samples[name].append(time_once(runs[name]))
    return samples
