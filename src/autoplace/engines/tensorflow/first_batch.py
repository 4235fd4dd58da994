"""Takes the first batches of a run out of what Keras hands to a step function, so that none is lost."""

from __future__ import annotations

import contextlib
from typing import Any

import tensorflow as tf

from autoplace.engines.tensorflow.arm import Feed


def take(source: Any, steps: int, step: str) -> Feed | None:
    """Take the batches of one execution.

    Args:
        source: What Keras calls the step function with: a tf.data iterator, a Python iterator, or, for
            `predict`, the list of batches itself.
        steps: `steps_per_execution`; fewer are taken where the data ends before.
        step: ``train_step``, ``test_step`` or ``predict_step``.

    Returns:
        The batches, which `Feed.once` hands on to the function that was placed meanwhile; None where there
        is none.
    """
    if step == "predict_step":
        return Feed(list(source))
    spec = source.element_spec if isinstance(source, tf.data.Iterator) else None
    batches: list[Any] = []
    with contextlib.suppress(StopIteration, tf.errors.OutOfRangeError):
        while len(batches) < steps:
            batches.append(next(source))
    return Feed(batches, spec) if batches else None
