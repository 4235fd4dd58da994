"""Runs transfers between two devices, in the graph, as a placed step makes them."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from autoplace.engines.tensorflow.devices import tf_name
from autoplace.ir import CPU, Device


def transfer(source: Device, target: Device, size_bytes: int, repeats: int) -> Callable[[], None]:
    """Return a function that moves `repeats` tensors of `size_bytes` from `source` to `target`.

    The cost of one transfer is the difference of two numbers of repeats: starting and ending are in both.
    """
    elements = max(1, size_bytes // 4)
    with tf.device(tf_name(source)):
        tensors = [tf.zeros([elements]) + float(i) for i in range(repeats)]

    def run(*sent: tf.Tensor) -> list[tf.Tensor]:
        last: list[tf.Tensor] = []
        arrived: list[tf.Tensor] = []
        for tensor in sent:
            with tf.device(tf_name(source)), tf.control_dependencies(last):
                departing = tf.identity(tensor)
            with tf.device(tf_name(target)):
                last = [tf.identity(departing)]
                arrived += last
        with tf.device(tf_name(target)), tf.control_dependencies(last):
            element = tf.reshape(last[0], [-1])[:1]
        with tf.device(tf_name(CPU)):
            return [tf.identity(element), *arrived]  # what nobody takes is not sent

    moved = tf.function(run, autograph=False, jit_compile=False).get_concrete_function(*tensors)

    def call() -> None:
        moved(*tensors)[0].numpy()

    return call
