"""The sides that are compared: plain Keras on either device, and the planned model."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

import autoplace.sim
from autoplace import model as smart_models
from autoplace.demo import models
from autoplace.demo.results import CPU_ARM, GPU_ARM, PLAN_ARM
from autoplace.engines.tensorflow import devices, kernels, seams
from autoplace.rules import Policy

WARM_STEPS = 4
"""Untimed steps: the first traces, the next ones let a simulated device learn the shapes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One model with the device on which it was built and is run.

    Attributes:
        name: One of the names above.
        model: The compiled model.
        device: Device of TensorFlow for all of it, or an empty string to leave placement alone.
    """

    name: str
    model: Any
    device: str = ""

    def scope(self) -> AbstractContextManager[object]:
        """Return the device scope in which the model is used."""
        return tf.device(self.device) if self.device else nullcontext()

    def fit(self, batches: tf.data.Dataset, epochs: int) -> float:
        """Train, and return the loss of the last epoch."""
        with self.scope():
            history = self.model.fit(batches, epochs=epochs, verbose=0, shuffle=False)
        return float(history.history["loss"][-1])


# The models' convolutions are computed on this machine's CPU before the simulated device can replay them.
BUDGET_S = 60.0


def make_arms(
    example: models.Example, inputs: Any, seed: int, policy: Policy | None = None
) -> dict[str, Arm]:
    """Build the same model three times, with equal weights; twice where there is no accelerator.

    Args:
        example: The model.
        inputs: Its training data.
        seed: Seed of the weights.
        policy: Policy of the planned model; one with a budget that suffices on a busy machine if None.
    """
    arms = [_plain(CPU_ARM, example, inputs, seed, "/cpu:0")]
    if devices.accelerator() is not None:
        arms.append(_plain(GPU_ARM, example, inputs, seed, ""))
    keras.utils.set_random_seed(seed)
    planned = example.make(smart_models.SmartModel, inputs)
    smart_models.smart(planned, policy=policy or Policy(budget_s=BUDGET_S))
    arms.append(Arm(name=PLAN_ARM, model=planned))
    return {arm.name: arm for arm in arms}


def _plain(name: str, example: models.Example, inputs: Any, seed: int, device: str) -> Arm:
    keras.utils.set_random_seed(seed)
    with tf.device(device) if device else nullcontext():
        model = example.make(keras.Model, inputs)
    if device or not kernels.has_cudnn_rnn():
        # With any GPU listed, Keras makes LSTMs CudnnRNNV3, which the CPU and the simulated device lack.
        for layer in seams.recurrent_layers(model):
            layer.use_cudnn = False
    return Arm(name=name, model=model, device=device)


def timing() -> AbstractContextManager[object]:
    """Return the context in which the accelerator takes its true time; a real one always does."""
    return autoplace.sim.timing("replay") if autoplace.sim.is_started() else nullcontext()


def race(
    arms: Mapping[str, Arm], batches: tf.data.Dataset, *, rounds: int, steps: int
) -> dict[str, list[int]]:
    """Time the train step of each arm, in turns.

    The order within a round is drawn by lot, so that none always runs on what another left in the caches. On a simulated device the values, and so the weights, are of no use afterwards.

    Args:
        arms: The arms; their train functions are those that `fit` uses.
        batches: A few batches, repeated without end.
        rounds: Number of rounds, >= 1.
        steps: Steps per round, >= 1; waited for at the end.

    Returns:
        Nanoseconds per step by arm, one for each round.
    """
    samples: dict[str, list[int]] = {name: [] for name in arms}
    # Autotuning threads would take a core from whichever arm runs at the moment.
    options = tf.data.Options()
    options.autotune.enabled = False
    endless = batches.cache().repeat().with_options(options)
    with timing():
        runs: dict[str, Callable[[], None]] = {}
        for name, arm in arms.items():
            runs[name] = _stepper(arm, endless)
            for _ in range(WARM_STEPS):
                runs[name]()
        order = random.Random(rounds)  # noqa: S311 - no secret
        for _ in range(rounds):
            for name in order.sample(list(arms), len(arms)):
                start = time.perf_counter_ns()
                for _ in range(steps):
                    runs[name]()
                samples[name].append((time.perf_counter_ns() - start) // steps)
    return samples


def _stepper(arm: Arm, endless: tf.data.Dataset) -> Callable[[], None]:
    with arm.scope():
        function = arm.model.make_train_function()
        function = arm.model.train_function if function is None else function
        iterator: Iterator[Any] = iter(endless)

    def run() -> None:
        with arm.scope():
            logs = function(iterator)
        # Reading a value waits for the device, which runs behind.
        next(leaf for leaf in keras.tree.flatten(logs) if tf.is_tensor(leaf)).numpy()

    return run
