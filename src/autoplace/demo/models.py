"""The three models: as reported by people whose training was slow or wrong on a Mac."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
from keras import layers

from autoplace.demo import data

if TYPE_CHECKING:
    import tensorflow as tf

BLOCKS = ((64, (2, 2)), (128, (2, 2)), (128, (1, 2)))
"""Filters and pool size of the crnn's convolutions: 96 x 32 becomes 24 steps of 4 x 128."""

MakeModel = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A model with its data.

    Attributes:
        name: Name of the model.
        batch: Rows of a batch.
        rows: Rows of the training data.
        small_rows: The same for a quick look.
        make: Builds the compiled model; its arguments are `keras.Model`, or a class that replaces it, and the inputs
            of the training data.
        draw: Makes inputs and targets of a number of rows, with a seed.
    """

    name: str
    batch: int
    rows: int
    small_rows: int
    make: Callable[[MakeModel, Any], Any]
    draw: Callable[[int, int], tuple[Any, Any]]


def dnn9(make_model: MakeModel, inputs: Any) -> Any:
    """Normalization and three dense layers: so small that launching kernels is all that a GPU does."""
    normalization = layers.Normalization(axis=None, name="normalization")
    normalization.adapt(inputs)
    x = first = keras.Input((1024,))
    x = normalization(x)
    x = layers.Dense(64, activation="relu", name="dense_64")(x)
    x = layers.Dense(8, activation="relu", name="dense_8")(x)
    model = make_model(first, layers.Dense(1, name="dense_1")(x), name="dnn9")
    model.compile(
        keras.optimizers.Adam(0.001), "mean_absolute_error", metrics=["mae"], jit_compile=False
    )
    return model


def three_inputs(make_model: MakeModel, _inputs: Any) -> Any:
    """Two dense branches and one of convolutions, of which the last takes the second pool."""
    ends, starts = [], []
    for number in (1, 2):
        starts.append(keras.Input((1024,), name=f"input{number}"))
        x = layers.LayerNormalization(name=f"normalization_{number}")(starts[-1])
        x = layers.Dense(8, activation="relu", name=f"dense_8_{number}")(x)
        ends.append(layers.Dense(32, activation="relu", name=f"dense_32_{number}")(x))
    starts.append(keras.Input((16, data.STRIP_WIDTH, 1), name="input3"))
    x = layers.Conv2D(64, 3, padding="same", activation="relu", name="conv_1")(starts[-1])
    x = layers.MaxPooling2D(2, name="pool_1")(x)
    x = layers.Conv2D(128, 3, padding="same", activation="relu", name="conv_2")(x)
    x = layers.MaxPooling2D(2, name="pool_2")(x)
    x = layers.Conv2D(128, 3, padding="same", activation="relu", name="conv_3")(x)
    x = layers.Flatten(name="flatten")(x)
    x = layers.Dense(128, activation="relu", name="dense_128")(x)
    layers.Dense(1)(x)  # the unused head of the model that was reported
    x = layers.Concatenate(name="concatenate")([*ends, x])
    model = make_model(
        starts, layers.Dense(1, activation="relu", name="pred")(x), name="three_inputs"
    )
    model.compile("adam", "mean_absolute_error", jit_compile=False)
    return model


def crnn(make_model: MakeModel, _inputs: Any) -> Any:
    """Convolutions, for which a GPU is made, and a recurrent layer, for which it is not."""
    x = first = keras.Input((96, 32, 1))
    for number, (filters, pool) in enumerate(BLOCKS, start=1):
        x = layers.Conv2D(filters, 3, padding="same", activation="relu", name=f"conv_{number}")(x)
        x = layers.MaxPooling2D(pool, name=f"pool_{number}")(x)
    x = layers.Reshape((data.SEQUENCE_STEPS, -1), name="steps")(x)
    x = layers.Dense(64, activation="relu", name="dense_64")(x)
    recurrent = layers.LSTM(64, return_sequences=True, name="lstm")
    x = layers.Bidirectional(recurrent, name="bidirectional")(x)
    model = make_model(first, layers.Dense(40, name="dense_40")(x), name="crnn")
    model.compile(
        "adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False
    )
    return model


EXAMPLES: Mapping[str, Example] = {
    example.name: example
    for example in (
        Example(name="dnn9", batch=9, rows=1800, small_rows=180, make=dnn9, draw=data.features),
        Example(
            name="three_inputs",
            batch=9,
            rows=360,
            small_rows=36,
            make=three_inputs,
            draw=data.strips,
        ),
        Example(name="crnn", batch=64, rows=512, small_rows=128, make=crnn, draw=data.sequences),
    )
}


def dataset(inputs: Any, targets: Any, batch: int) -> tf.data.Dataset:
    """Return whole batches in order; the same for each of several models.

    The order is fixed, and the last, smaller batch left out: then all that differs between runs is the device.
    """
    import tensorflow as tf

    options = tf.data.Options()
    options.deterministic = True
    whole = tf.data.Dataset.from_tensor_slices((inputs, targets))
    return whole.batch(batch, drop_remainder=True).with_options(options).prefetch(2)


def rows_of(inputs: Any) -> int:
    """Return the number of rows of the inputs of a model."""
    return len(inputs[0] if isinstance(inputs, tuple) else inputs)


def first_rows(inputs: Any, rows: int) -> Any:
    """Return the first rows of one or several inputs."""
    if isinstance(inputs, tuple):
        return tuple(part[:rows] for part in inputs)
    return np.asarray(inputs)[:rows]
