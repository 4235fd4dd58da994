"""The device's pace. Modelled times are counted, not clocked: other load changes nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tests.sim.conftest import graph

from autoplace import sim
from autoplace.errors import UnknownSimulationError

Op = Callable[[], object]
Array = np.ndarray[Any, Any]


def on_device(value: Array) -> tf.Tensor:
    """Move a value to the device."""
    with tf.device("GPU:0"):
        return tf.identity(tf.constant(value.astype("float32")))


def normal(*shape: int, seed: int = 0) -> tf.Tensor:
    """Normal values on the device."""
    return on_device(np.random.default_rng(seed).normal(size=shape))


def busy_ns(op: Op) -> int:
    """Modelled time of what `op` runs on the device."""
    before = sim.counters().busy_ns
    with tf.device("GPU:0"):
        op()
    return sim.counters().busy_ns - before


def test_outside_and_in_exact_nothing_takes_time() -> None:
    a = normal(64, 64)
    assert busy_ns(lambda: a @ a) == 0
    with sim.timing("exact"):
        assert busy_ns(lambda: a @ a) == 0


Case = tuple[Callable[[], tuple[Any, Any]], Callable[[Any, Any], Any], int]
FLOPS: dict[str, Case] = {
    "matmul": (
        lambda: (normal(512, 256), normal(256, 512)),
        lambda a, b: a @ b,
        2 * 512 * 512 * 256,
    ),
    "matmul, transposed": (
        lambda: (normal(256, 512), normal(256, 512)),
        lambda a, b: tf.matmul(a, b, transpose_a=True),
        2 * 512 * 512 * 256,
    ),
    "batch": (
        lambda: (normal(4, 256, 256), normal(4, 256, 256)),
        lambda a, b: a @ b,
        2 * 4 * 256**3,
    ),
    "convolution": (
        lambda: (normal(4, 16, 16, 32), normal(3, 3, 32, 64)),
        lambda a, b: tf.nn.conv2d(a, b, 1, "SAME"),
        2 * 4 * 16 * 16 * 64 * 9 * 32,
    ),
    "gradient of the input": (
        lambda: (normal(4, 16, 16, 64), normal(3, 3, 32, 64)),
        lambda a, b: tf.raw_ops.Conv2DBackpropInput(
            input_sizes=[4, 16, 16, 32],
            filter=b,
            out_backprop=a,
            strides=[1, 1, 1, 1],
            padding="SAME",
        ),
        2 * 4 * 16 * 16 * 64 * 9 * 32,
    ),
    "gradient of the filter": (
        lambda: (normal(4, 16, 16, 64), normal(4, 16, 16, 32)),
        lambda a, b: tf.raw_ops.Conv2DBackpropFilter(
            input=b,
            filter_sizes=[3, 3, 32, 64],
            out_backprop=a,
            strides=[1, 1, 1, 1],
            padding="SAME",
        ),
        2 * 4 * 16 * 16 * 64 * 9 * 32,
    ),
}


@pytest.mark.parametrize("name", FLOPS)
def test_contractions_take_launch_and_arithmetic(name: str, simulated: sim.SimulatedDevice) -> None:
    make, op, flops = FLOPS[name]
    operands = make()
    chip, factor = simulated.profile, simulated.factor
    with sim.timing("spin"):
        took = busy_ns(lambda: op(*operands))
    expected = factor * (chip.launch_ns + flops / (chip.fp32_gflops * chip.efficiency))
    assert took == pytest.approx(expected, abs=3)


def test_a_depthwise_convolution_counts_its_own_filter(simulated: sim.SimulatedDevice) -> None:
    """It is bound by bandwidth: a filter counted across channels would make it 64 times longer."""
    x, kernel = normal(8, 32, 32, 64), normal(3, 3, 64, 1)
    with sim.timing("spin"):
        took = busy_ns(lambda: tf.nn.depthwise_conv2d(x, kernel, [1, 1, 1, 1], "SAME"))
    chip = simulated.profile
    size = 4 * (2 * 8 * 32 * 32 * 64 + 9 * 64)
    assert took == pytest.approx(
        simulated.factor * (chip.launch_ns + size * 1e3 / chip.mbytes_per_s), abs=3
    )


def test_all_else_takes_launch_and_bandwidth(simulated: sim.SimulatedDevice) -> None:
    a = normal(512, 512)
    chip = simulated.profile
    with sim.timing("spin"):
        took = busy_ns(lambda: tf.nn.relu(a))
    size = 2 * 4 * 512 * 512
    assert took == pytest.approx(
        simulated.factor * (chip.launch_ns + size * 1e3 / chip.mbytes_per_s), abs=3
    )


def test_copies_take_their_cost_and_bytes(simulated: sim.SimulatedDevice) -> None:
    a = normal(512, 512)
    chip, before = simulated.profile, sim.counters()
    with sim.timing("spin"):
        a.numpy()
    after = sim.counters()
    copies = after.copies - before.copies
    assert copies == 1
    size = 4 * 512 * 512
    expected = simulated.factor * (chip.copy_ns + size * 1e3 / chip.mbytes_per_s)
    assert after.busy_ns - before.busy_ns == pytest.approx(expected, abs=3)


@pytest.mark.parametrize("mode", ["spin", "replay"])
def test_whoever_asks_waits_for_the_modelled_time(mode: str) -> None:
    a = normal(8, 8)
    with sim.timing(mode):
        start, before = time.perf_counter_ns(), sim.counters().busy_ns
        with tf.device("GPU:0"):
            for _ in range(50):
                a @ a
        assert time.perf_counter_ns() - start >= sim.counters().busy_ns - before > 0


def test_the_queue_is_serial() -> None:
    """Two threads take the sum of their times, not the longer one."""
    a = normal(8, 8)

    def work() -> None:
        with tf.device("GPU:0"):
            for _ in range(100):
                a @ a

    with sim.timing("spin"):
        before, start = sim.counters().busy_ns, time.perf_counter_ns()
        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took = time.perf_counter_ns() - start
        assert took >= sim.counters().busy_ns - before


# --------------------------------------------------------------------------------------------
# replay


@graph
def convolution(x: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    """Heavy enough that this CPU is always slower than the modelled device."""
    with tf.device("GPU:0"):
        return tf.nn.conv2d(x, kernel, 1, "SAME")


def test_replay_remembers_and_forgets() -> None:
    """Inside, another input gets the remembered answer; afterwards, the right one."""
    kernel = normal(3, 3, 64, 64)
    first, second = normal(8, 48, 48, 64, seed=1), normal(8, 48, 48, 64, seed=2)
    right = convolution(second, kernel).numpy()
    with sim.timing("replay"):
        remembered = [convolution(first, kernel).numpy() for _ in range(5)][-1]
        assert sim.counters().remembered_bytes >= remembered.nbytes
        stale = convolution(second, kernel).numpy()
    np.testing.assert_array_equal(
        stale, remembered
    )  # the twin of the next line: replay does happen
    np.testing.assert_array_equal(convolution(second, kernel).numpy(), right)
    assert sim.counters().remembered_bytes == 0


def test_a_new_block_remembers_nothing_of_the_last() -> None:
    kernel = normal(3, 3, 64, 64)
    first, second = normal(8, 48, 48, 64, seed=1), normal(8, 48, 48, 64, seed=2)
    right = convolution(second, kernel).numpy()
    with sim.timing("replay"):
        for _ in range(5):
            convolution(first, kernel)
    with sim.timing("replay"):
        np.testing.assert_array_equal(convolution(second, kernel).numpy(), right)


@pytest.mark.parametrize("inner", ["exact", "spin"])
def test_a_nested_block_has_right_values(inner: str) -> None:
    kernel = normal(3, 3, 64, 64)
    first, second = normal(8, 48, 48, 64, seed=1), normal(8, 48, 48, 64, seed=2)
    right = convolution(second, kernel).numpy()
    with sim.timing("replay"):
        for _ in range(5):
            convolution(first, kernel)
        with sim.timing(inner):
            np.testing.assert_array_equal(convolution(second, kernel).numpy(), right)
        assert busy_ns(lambda: convolution(first, kernel)) > 0


def test_a_nested_replay_goes_on() -> None:
    kernel, first = normal(3, 3, 64, 64), normal(8, 48, 48, 64, seed=1)
    with sim.timing("replay"):
        for _ in range(5):
            convolution(first, kernel)
        kept = sim.counters().remembered_bytes
        with sim.timing("replay"):
            assert sim.counters().remembered_bytes == kept > 0
        assert sim.counters().remembered_bytes == kept


def test_an_error_inside_ends_the_block() -> None:
    a = normal(8, 8)
    with pytest.raises(ZeroDivisionError), sim.timing("replay"):
        raise ZeroDivisionError
    assert busy_ns(lambda: a @ a) == 0


def test_replay_takes_the_modelled_time(simulated: sim.SimulatedDevice) -> None:
    kernel, x = normal(3, 3, 64, 64), normal(8, 48, 48, 64)
    flops = 2 * 8 * 48 * 48 * 64 * 9 * 64
    chip = simulated.profile
    expected = simulated.factor * (chip.launch_ns + flops / (chip.fp32_gflops * chip.efficiency))
    with sim.timing("replay"):
        for _ in range(5):
            convolution(x, kernel)
        assert busy_ns(lambda: convolution(x, kernel)) == pytest.approx(expected, abs=3)


def test_small_outputs_are_never_replayed() -> None:
    """They may steer a loop. The sum of a large tensor is slow enough, and four bytes."""
    first, second = normal(1024, 1024, seed=1), normal(1024, 1024, seed=2)

    @graph
    def total(a: tf.Tensor) -> tf.Tensor:
        with tf.device("GPU:0"):
            return tf.reduce_sum(a)

    right = float(total(second))
    with sim.timing("replay"):
        for _ in range(5):
            total(first)
        assert float(total(second)) == right


def test_stateful_operations_are_never_replayed() -> None:
    @graph
    def draw() -> tf.Tensor:
        with tf.device("GPU:0"):
            return tf.raw_ops.RandomStandardNormal(shape=[2048, 1024], dtype=tf.float32)

    with sim.timing("replay"):
        drawn = [draw().numpy() for _ in range(5)]
    assert not np.array_equal(drawn[-1], drawn[-2])


def test_other_sizes_are_other_answers() -> None:
    """The shape of a Fill comes from a value in host memory: it is part of what is remembered."""

    @graph
    def tiled(a: tf.Tensor, times: tf.Tensor) -> tf.Tensor:
        with tf.device("GPU:0"):
            return tf.tile(a, times)

    a = normal(256, 256)
    with sim.timing("replay"):
        for times in (2, 3, 2, 3, 2, 3, 2, 3):
            assert tiled(a, tf.constant([times, 8])).shape == (256 * times, 2048)


def test_a_variable_fed_by_a_remembered_output_does_not_change_it() -> None:
    """Remembered buffers are shared; an update in place of one would show in the next answer."""
    kernel, x = normal(3, 3, 64, 64), normal(8, 48, 48, 64)
    with tf.device("GPU:0"):
        kept = tf.Variable(tf.zeros((8, 48, 48, 64)))
    with sim.timing("replay"):
        before = [convolution(x, kernel).numpy() for _ in range(5)][-1]
        kept.assign(convolution(x, kernel))
        kept.assign_add(tf.ones_like(kept))
        np.testing.assert_array_equal(convolution(x, kernel).numpy(), before)


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(UnknownSimulationError) as caught, sim.timing("fast"):
        pass
    assert caught.value.code == "AP106"
    assert caught.value.expected == "one of replay, spin, exact"
    assert caught.value.received == "'fast'"


def test_blocks_may_come_and_go_while_kernels_run() -> None:
    """Another thread measures: nothing breaks, and what is left is right and empty."""
    kernel, x = normal(3, 3, 16, 16), normal(4, 32, 32, 16)
    right = convolution(x, kernel).numpy()
    is_over = threading.Event()
    worst: list[float] = []

    def work() -> None:
        while not is_over.is_set():
            worst.append(float(np.abs(convolution(x, kernel).numpy() - right).max()))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for mode in ["replay", "spin", "replay", "exact"] * 20:
        with sim.timing(mode):
            time.sleep(0.01)
    is_over.set()
    for thread in threads:
        thread.join()
    assert len(worst) > 3
    assert max(worst) == 0
    assert sim.counters().remembered_bytes == 0
