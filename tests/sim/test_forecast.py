"""A forecast against the device that it forecasts: the times that the simulated device takes for the same step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

import autoplace
from autoplace import sim

layers = keras.layers
Shape = tuple[int, ...]
MODELS: dict[str, tuple[Callable[[], list[Any]], Shape, Shape, str]] = {
    "dense": (
        lambda: [
            layers.Dense(64, activation="relu"),
            layers.Dense(8, activation="relu"),
            layers.Dense(1),
        ],
        (9, 256),
        (9, 1),
        "adam",
    ),
    "conv": (
        lambda: [
            layers.Conv2D(8, 3, activation="relu"),
            layers.BatchNormalization(),
            layers.SeparableConv2D(8, 3),
            layers.GlobalAveragePooling2D(),
            layers.Dropout(0.5),
            layers.Dense(3),
        ],
        (8, 16, 16, 3),
        (8, 3),
        "sgd",
    ),
    "loop": (lambda: [layers.LSTM(8, use_cudnn=False), layers.Dense(3)], (8, 6, 4), (8, 3), "adam"),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_step_on_the_gpu_takes_what_was_forecast(
    name: str, simulated: sim.SimulatedDevice
) -> None:
    """Seen for six models: 0.95 to 0.99 of what the device was busy for."""
    parts, inputs, targets, optimizer = MODELS[name]
    model = keras.Sequential([keras.Input(inputs[1:]), *parts()])
    model.compile(optimizer, "mse")
    x, y = np.ones(inputs, "float32"), np.ones(targets, "float32")
    forecast = autoplace.what_if(model, x, y)
    model.train_on_batch(x, y)
    with sim.timing("spin"):
        before = sim.counters().busy_ns
        model.train_on_batch(x, y)
        busy_ns = sim.counters().busy_ns - before
    predicted_ns = forecast.step_ns["all-gpu"] * simulated.factor
    assert predicted_ns == pytest.approx(busy_ns, rel=0.1)
