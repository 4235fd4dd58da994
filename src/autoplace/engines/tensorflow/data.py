"""The first batches of what a user hands to `warmup`, without losing any to the run that follows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from autoplace.engines.tensorflow.arm import as_elements
from autoplace.errors import OneShotDataError

DEFAULT_BATCH = 32


def first_batches(x: Any, y: Any, batch_size: int | None, count: int) -> tuple[list[Any], Any]:
    """Return the first `count` batches, and the element spec where they come from a dataset.

    Args:
        x: Arrays, nested arrays, a tf.data.Dataset or a `keras.utils.PyDataset`.
        y: Targets, or None.
        batch_size: Rows of a batch of arrays, or None for 32.
        count: How many are wanted; fewer are returned where the data ends before, none for no data.

    Raises:
        OneShotDataError: AP302, for an iterator: the batch taken from it would be missing in `fit`.
    """
    if isinstance(x, Iterator) or (hasattr(x, "__next__") and not hasattr(x, "__array__")):
        raise OneShotDataError(
            "warmup would take a batch out of an iterator that can be read only once",
            expected="arrays or a tf.data.Dataset",
            received=repr(type(x)),
            fix="call fit directly: it warms up on its first batch and trains on it too",
        )
    if isinstance(x, tf.data.Dataset):
        return list(x.take(count)), x.element_spec
    if isinstance(x, keras.utils.PyDataset):
        return [x[index] for index in range(min(count, x.num_batches or count))], None
    data = (x,) if y is None else (x, y)
    leaves = [leaf for leaf in keras.tree.flatten(data) if leaf is not None]
    rows = len(leaves[0]) if leaves else 0
    size = batch_size or DEFAULT_BATCH

    def rows_from(start: int) -> Any:
        return keras.tree.map_structure(lambda leaf: np.asarray(leaf[start : start + size]), data)

    batches = [rows_from(start) for start in range(0, min(rows, size * count), size)]
    standard = [keras.tree.map_structure(_standard, batch) for batch in batches]
    if not standard:
        return [], None
    # As fit's own pipeline has it: the batch dimension is open, so that its function is not traced again.
    standard = [as_elements(batch) for batch in standard]
    spec = keras.tree.map_structure(
        lambda leaf: tf.TensorSpec([None, *leaf.shape[1:]], tf.as_dtype(leaf.dtype)), standard[0]
    )
    return standard, spec


def _standard(array: Any) -> Any:
    """float64 becomes Keras' default float, as in `fit`."""
    return array.astype(keras.config.floatx()) if array.dtype == np.float64 else array
