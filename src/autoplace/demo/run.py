"""Runs the demo: trains each model on each side, then times the sides in turns."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from autoplace.demo import device
from autoplace.demo.results import GPU_ARM, PLAN_ARM, Result

Say = Callable[[str], None]

MODELS = ("dnn9", "three_inputs", "crnn")
ROUNDS, SMALL_ROUNDS = 15, 6
ROUND_NS = 150_000_000
"""A round of the faster arms lasts about this long, so that the clock and the scheduler do not matter."""
MAX_STEPS = 40
TIMED_BATCHES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to run.

    Attributes:
        models: Names out of `MODELS`.
        profile: Chip to simulate; None to simulate only where there is no accelerator.
        may_simulate: False to use what is there.
        epochs: Epochs of each training, >= 1.
        is_small: Less data and fewer rounds, for a quick look.
        seed: Seed of weights and data.
    """

    models: tuple[str, ...] = MODELS
    profile: str | None = None
    may_simulate: bool = True
    epochs: int = 3
    is_small: bool = False
    seed: int = 7


def run(settings: Settings, say: Say) -> Sequence[Result]:
    """Run the demo and return one result per model.

    Args:
        settings: What to run.
        say: Called with what happens next, a line each.

    Raises:
        MissingExtraError: AP107, without scikit-learn.
        TensorFlowMissingError: AP101.
    """
    from autoplace.demo import data

    data.digits()  # a missing package should be known before the device is built
    say(f"running {device.choose(settings.profile, may_simulate=settings.may_simulate)}")
    return [_run_model(name, settings, say) for name in settings.models]


def _run_model(name: str, settings: Settings, say: Say) -> Result:
    # Only now: these start TensorFlow, and the device has to be there before.
    from autoplace.demo import arms as sides
    from autoplace.demo import models

    example = models.EXAMPLES[name]
    rows = example.small_rows if settings.is_small else example.rows
    inputs, targets = example.draw(rows, settings.seed)
    batches = models.dataset(inputs, targets, example.batch)
    arms = sides.make_arms(example, inputs, settings.seed)
    losses: dict[str, float] = {}
    for arm in arms.values():
        say(f"{name}: {settings.epochs} epochs of {rows // example.batch} steps, {arm.name}")
        losses[arm.name] = arm.fit(batches, settings.epochs)
    plan = arms[PLAN_ARM].model.plan
    slowest = max((time.median_ns for time in plan.step_times.values()), default=ROUND_NS)
    rounds = SMALL_ROUNDS if settings.is_small else ROUNDS
    say(f"{name}: timing {len(arms)} arms in {rounds} rounds")
    samples = sides.race(
        arms,
        batches.take(TIMED_BATCHES),
        rounds=rounds,
        steps=max(1, min(MAX_STEPS, ROUND_NS // max(slowest, 1))),
    )
    from autoplace.report import Report

    return Result(
        name=name,
        batch=example.batch,
        report=Report(plan),
        losses=losses,
        samples_ns=samples,
    )


def findings(results: Sequence[Result]) -> list[str]:
    """Return what is wrong with the results, a sentence each; times are not judged."""
    wrong = [
        f"{result.name}: the final loss is off by {result.loss_difference:.2%} "
        f"from plain Keras on the CPU"
        for result in results
        if not result.is_right
    ]
    return wrong + [
        f"{result.name}: plain Keras on the accelerator has a loss that is not finite"
        for result in results
        if not math.isfinite(result.losses.get(GPU_ARM, 0.0))
    ]
