"""Train steps of plain Keras on either device and of SmartModel, in turns.

    .venv/bin/python benchmarks/steps.py [--small] [--models dnn9 crnn] [--batches 9 64] [--sim m1 | --no-sim]
                                         [--rounds 15] [--out build/bench/steps.json]

The same models and data as `autoplace demo`. Each round times all arms once, in an order drawn by lot; a figure is
the median of the rounds, the ratio has its 95 % interval. Without an accelerator the simulated Apple M1 is
used: its step times are modelled.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from autoplace.demo import device
from autoplace.demo.results import CONFIDENCE, CPU_ARM, GPU_ARM, PLAN_ARM
from autoplace.report.data import finite_or_none

SCHEMA = 1
BATCHES = (9, 64)
MODELS = ("dnn9", "three_inputs", "crnn")
DATA_BATCHES = 4
ROUND_NS = 150_000_000
MAX_STEPS = 40


def measure(name: str, batch: int, rounds: int, seed: int = 7) -> dict[str, Any]:
    """Return the figures of one model at one batch size."""
    from autoplace import planner
    from autoplace.demo import arms, models

    example = models.EXAMPLES[name]
    inputs, targets = example.draw(batch * DATA_BATCHES, seed)
    batches = models.dataset(inputs, targets, batch)
    sides = arms.make_arms(example, inputs, seed)
    for side in sides.values():
        side.fit(batches, 1)
    plan = sides[PLAN_ARM].model.plan
    slowest = max((time.median_ns for time in plan.step_times.values()), default=ROUND_NS)
    steps = max(1, min(MAX_STEPS, ROUND_NS // max(slowest, 1)))
    samples = arms.race(sides, batches, rounds=rounds, steps=steps)
    times = {arm: planner.step_time(samples[arm]) for arm in samples}
    better = min((arm for arm in times if arm != PLAN_ARM), key=lambda arm: times[arm].median_ns)
    ratio = planner.ratio_interval(samples[PLAN_ARM], samples[better], CONFIDENCE)
    return {
        "model": name,
        "batch": batch,
        "choice": plan.choice,
        "devices": {path: str(where) for path, where in plan.devices.items()},
        "median_ns": {arm: time.median_ns for arm, time in times.items()},
        "better_single": better,
        "ratio": {"ratio": ratio.ratio, "low": ratio.low, "high": finite_or_none(ratio.high)},
        "gate": None
        if plan.gate is None
        else {
            "candidate": plan.gate.candidate,
            "against": plan.gate.against,
            "ratio": plan.gate.ratio,
            "low": plan.gate.low,
            "high": finite_or_none(plan.gate.high),
            "decided": plan.gate.decided,
        },
        "gate_median_ns": {arm: time.median_ns for arm, time in plan.step_times.items()},
        "warmup_s": plan.probe.seconds,
        "steps_per_round": steps,
        "samples_ns": samples,
    }


def row(found: dict[str, Any]) -> str:
    """Return one line of the table."""
    times = {arm: f"{time / 1e6:.2f}" for arm, time in found["median_ns"].items()}
    ratio = found["ratio"]
    high = "open" if ratio["high"] is None else f"{ratio['high']:.3f}"
    return (
        f"{found['model']:<13} {found['batch']:>5} {times[CPU_ARM]:>9} {times.get(GPU_ARM, '-'):>9} "
        f"{times[PLAN_ARM]:>9}  {found['choice']:<8} {ratio['ratio']:.3f} ({ratio['low']:.3f} to {high})"
        f"  {found['warmup_s']:.1f}"
    )


def main() -> None:
    """Measure, print the table, write the samples."""
    parser = argparse.ArgumentParser(description="Train steps on either device and as planned.")
    parser.add_argument("--small", action="store_true", help="one model, few rounds: does it run")
    parser.add_argument("--models", nargs="+", choices=MODELS)
    parser.add_argument("--batches", nargs="+", type=int)
    parser.add_argument("--sim", help="simulate the GPU of this chip")
    parser.add_argument("--no-sim", action="store_true", help="use what is there")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--out", type=Path, default=Path("build/bench/steps.json"))
    asked = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    names = asked.models or (MODELS[:1] if asked.small else MODELS)
    sizes = asked.batches or (BATCHES[:1] if asked.small else BATCHES)
    rounds = asked.rounds or (6 if asked.small else 15)
    print(f"running {device.choose(asked.sim, may_simulate=not asked.no_sim)}", file=sys.stderr)
    print(
        f"{'model':<13} {'batch':>5} {'CPU ms':>9} {'GPU ms':>9} {'plan ms':>9}  {'choice':<8} "
        f"plan / better single ({CONFIDENCE:.0%})  warmup s"
    )
    found = []
    for name in names:
        for batch in sizes:
            found.append(measure(name, batch, rounds))
            print(row(found[-1]), flush=True)
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "schema": SCHEMA,
        "benchmark": "steps",
        "confidence": CONFIDENCE,
        "rounds": rounds,
        "machine": machine(),
        "results": found,
    }
    asked.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    from autoplace import sim
    from autoplace.engines.tensorflow import devices

    simulated = sim.device()
    here = devices.machine(None if simulated is None else simulated.describe())
    return {
        "fingerprint": dict(here.fingerprint),
        "devices": dict(here.devices),
        "simulated": here.simulated,
    }


if __name__ == "__main__":
    main()
