"""Tiny models of the kinds that matter, and data for them."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import layers

Array = np.ndarray[Any, Any]


def normal(*shape: int, seed: int = 0) -> Array:
    """Normal values in float32."""
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def dense_net(make: Any = keras.Sequential, **kwargs: Any) -> Any:
    """Normalization and three Dense layers: dnn9 with fewer features."""
    normalization = layers.Normalization(axis=None)
    normalization.adapt(normal(64, 32, seed=1) * 2 + 3)
    parts = [keras.Input((32,)), normalization]
    parts += [layers.Dense(16, "relu"), layers.Dense(8, "relu"), layers.Dense(1)]
    return make(parts, **kwargs)


def recurrent_net(make: Any = keras.Model, **kwargs: Any) -> Any:
    """Convolutions, then a bidirectional LSTM: crnn with few filters."""
    x = inputs = keras.Input((16, 8, 1))
    for filters in (4, 8):
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        x = layers.MaxPool2D((2, 2))(x)
    x = layers.Reshape((4, -1))(x)
    x = layers.Dense(8, activation="relu")(x)
    x = layers.Bidirectional(layers.LSTM(4, return_sequences=True))(x)
    return make(inputs, layers.Dense(5)(x), **kwargs)


def three_inputs(make: Any = keras.Model, **kwargs: Any) -> Any:
    """Two dense towers and a convolutional one."""
    first, second = keras.Input((12,)), keras.Input((12,))
    image = keras.Input((8, 13, 1))
    towers = [
        layers.Dense(8, "relu")(layers.Dense(4, "relu")(layers.LayerNormalization()(x)))
        for x in (first, second)
    ]
    x = layers.MaxPool2D(2)(layers.Conv2D(4, 3, padding="same", activation="relu")(image))
    x = layers.MaxPool2D(2)(layers.Conv2D(8, 3, padding="same")(x))
    x = layers.Dense(8, "relu")(layers.Flatten()(layers.Conv2D(8, 3, padding="same")(x)))
    joined = layers.Concatenate()([*towers, x])
    return make([first, second, image], layers.Dense(1, "relu", name="pred")(joined), **kwargs)


DATA: dict[str, Any] = {
    "dense_net": lambda rows: (normal(rows, 32), normal(rows, 1, seed=1)),
    "recurrent_net": lambda rows: (normal(rows, 16, 8, 1), normal(rows, 4, 5, seed=1)),
    "three_inputs": lambda rows: (
        [normal(rows, 12), normal(rows, 12, seed=1), normal(rows, 8, 13, 1, seed=2)],
        np.abs(normal(rows, 1, seed=3)),
    ),
}
MODELS: dict[str, Any] = {
    "dense_net": dense_net,
    "recurrent_net": recurrent_net,
    "three_inputs": three_inputs,
}


def compiled(model: Any, **kwargs: Any) -> Any:
    """Compile with Adam, mean absolute error and a metric."""
    options = {"optimizer": keras.optimizers.Adam(0.01), "loss": "mae", "metrics": ["mse"]}
    model.compile(jit_compile=False, **{**options, **kwargs})
    return model
