"""What SmartModel costs where there is nothing to place: against keras.Model, in turns.

    .venv/bin/python benchmarks/overhead.py [--small] [--rounds 60] [--steps 20] [--out build/bench/overhead.json]

No accelerator is used, even if there is one, so the plan is trivial. Two ways: the train function on a repeated
dataset, and whole `fit` calls. Each round runs `steps` steps of every arm, in an order drawn by lot. A second plain
model is the control: its ratio shows what this machine's noise makes of two equal things. Target: at most 1 % at
steps of about 1 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

SCHEMA = 1
CONFIDENCE = 0.95
PLAIN, CONTROL, SMART = "keras.Model", "keras.Model again", "SmartModel"
TARGET = 1.01
ROWS, FEATURES, UNITS = 64, 256, 256
WARM_ROUNDS = 3

Runs = Mapping[str, Callable[[int], None]]


def make_model(kind: Any, seed: int = 7) -> Any:
    """Build a dense model whose train step takes about 1 ms."""
    import keras

    keras.utils.set_random_seed(seed)
    x = inputs = keras.Input((FEATURES,))
    for _ in range(2):
        x = keras.layers.Dense(UNITS, activation="relu")(x)
    model = kind(inputs, keras.layers.Dense(1)(x))
    model.compile("adam", "mse", jit_compile=False)
    return model


def batches() -> Any:
    """Return an endless dataset of one batch that is kept in memory."""
    import numpy as np
    import tensorflow as tf

    rng = np.random.default_rng(7)
    x = rng.normal(size=(ROWS, FEATURES)).astype(np.float32)
    options = tf.data.Options()
    # Autotuning threads would take a core from whichever arm runs at the moment.
    options.autotune.enabled = False
    one = tf.data.Dataset.from_tensors((x, x[:, :1]))
    return one.cache().repeat().with_options(options)


def by_function(models: Mapping[str, Any], data: Any) -> Runs:
    """Return runs of the train function, as `fit` calls it for each step."""
    import keras

    def runner(model: Any) -> Callable[[int], None]:
        model.make_train_function()
        iterator = iter(data)

        def run(steps: int) -> None:
            logs: Any = None
            for _ in range(steps):
                logs = model.train_function(iterator)
            keras.tree.flatten(logs)[0].numpy()

        return run

    return {name: runner(model) for name, model in models.items()}


def by_fit(models: Mapping[str, Any], data: Any) -> Runs:
    """Return runs of whole `fit` calls."""

    def runner(model: Any) -> Callable[[int], None]:
        def run(steps: int) -> None:
            model.fit(data, steps_per_epoch=steps, verbose=0, shuffle=False)

        return run

    return {name: runner(model) for name, model in models.items()}


def race(runs: Runs, rounds: int, steps: int) -> dict[str, list[int]]:
    """Return nanoseconds per step by arm, one for each round."""
    names = list(runs)
    samples: dict[str, list[int]] = {name: [] for name in names}
    order = random.Random(7)
    for number in range(-WARM_ROUNDS, rounds):
        # By lot: in rotation each arm would always follow the same other one, and find its leavings.
        for name in order.sample(names, len(names)):
            start = time.perf_counter_ns()
            runs[name](steps)
            if number >= 0:
                samples[name].append((time.perf_counter_ns() - start) // steps)
    return samples


def compare(way: str, samples: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """Print the ratios of one way, and return them with the samples."""
    from autoplace import planner

    found: dict[str, Any] = {"way": way, "samples_ns": dict(samples), "ratios": {}}
    plain_ns = planner.step_time(samples[PLAIN]).median_ns
    for name in (CONTROL, SMART):
        ratio = planner.ratio_interval(samples[name], samples[PLAIN], CONFIDENCE)
        found["ratios"][name] = {
            "ratio": ratio.ratio,
            "low": ratio.low,
            "high": ratio.high if ratio.high < float("inf") else None,
        }
        print(
            f"{way:<15} {plain_ns / 1e6:>9.3f}  {name:<17} {ratio.ratio:.4f} "
            f"({ratio.low:.4f} to {ratio.high:.4f})"
        )
    return found


def main() -> None:
    """Measure, print the table, write the samples."""
    parser = argparse.ArgumentParser(description="SmartModel with a trivial plan, against Keras.")
    parser.add_argument("--small", action="store_true", help="few rounds: does it run")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("build/bench/overhead.json"))
    asked = parser.parse_args()
    rounds = asked.rounds or (6 if asked.small else 60)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

    import keras
    import tensorflow as tf

    from autoplace.engines.tensorflow import devices
    from autoplace.model import SmartModel

    tf.config.set_visible_devices([], "GPU")
    kinds = {PLAIN: keras.Model, CONTROL: keras.Model, SMART: SmartModel}
    models = {name: make_model(kind) for name, kind in kinds.items()}
    data = batches()
    print(f"{'way':<15} {'plain ms':>9}  {'arm':<17} arm / plain ({CONFIDENCE:.0%})")
    found = [
        compare(way, race(make(models, data), rounds, asked.steps))
        for way, make in (("train function", by_function), ("fit", by_fit))
    ]
    print(f"target: at most {TARGET:.2f}")
    here = devices.machine()
    content = {
        "schema": SCHEMA,
        "benchmark": "overhead",
        "confidence": CONFIDENCE,
        "target": TARGET,
        "rounds": rounds,
        "steps_per_round": asked.steps,
        "choice": models[SMART].plan.choice,
        "machine": {"fingerprint": dict(here.fingerprint), "devices": dict(here.devices)},
        "results": found,
    }
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
