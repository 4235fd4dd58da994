"""Each fault does what it says, and without it the same is right."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tests.sim.conftest import graph

from autoplace import sim
from autoplace.errors import UnknownSimulationError


def ones(*shape: int, dtype: tf.DType = tf.float32) -> tf.Tensor:
    """Ones on the device."""
    with tf.device("GPU:0"):
        return tf.identity(tf.ones(shape, dtype))


def product(rows: int = 8, dtype: tf.DType = tf.float32) -> np.ndarray[Any, Any]:
    """A matrix product on the device: all fours, if it is right."""
    with tf.device("GPU:0"):
        return np.asarray(
            tf.cast(tf.matmul(ones(rows, 4, dtype=dtype), ones(4, 4, dtype=dtype)), tf.float32)
        )


def test_without_faults_all_is_right() -> None:
    np.testing.assert_array_equal(product(), np.full((8, 4), 4.0))


@pytest.mark.parametrize("dtype", [tf.float32, tf.float16])
def test_nan(dtype: tf.DType) -> None:
    with sim.faults("nan@MatMul"):
        assert np.isnan(product(dtype=dtype)).all()
    assert (product(dtype=dtype) == 4).all()


def test_a_fault_acts_from_its_run_on() -> None:
    """Counted from when the faults were set, however often the kernel ran before."""
    product()
    with sim.faults("nan@MatMul:2"):
        assert [bool(np.isnan(product()).any()) for _ in range(4)] == [False, False, True, True]
    with sim.faults("nan@MatMul:2"):
        assert [bool(np.isnan(product()).any()) for _ in range(4)] == [False, False, True, True]


def test_a_fault_can_pass() -> None:
    with sim.faults("nan@MatMul:1:2"):
        assert [bool(np.isnan(product()).any()) for _ in range(5)] == [
            False,
            True,
            True,
            False,
            False,
        ]


def test_every_operation() -> None:
    with sim.faults("nan@*"), tf.device("GPU:0"):
        assert np.isnan(tf.nn.relu(ones(2))).all()


@pytest.mark.parametrize(("rows", "is_bad"), [(8, False), (16, False), (9, True), (12, True)])
def test_bad_batch(rows: int, is_bad: bool) -> None:
    with sim.faults("bad_batch@MatMul"):
        np.testing.assert_allclose(product(rows), 4.1 if is_bad else 4.0, rtol=1e-6)


def test_exhausted() -> None:
    with (
        sim.faults("exhausted@MatMul"),
        pytest.raises(tf.errors.ResourceExhaustedError, match="OOM"),
    ):
        product()
    assert (product() == 4).all()


def test_command_buffer_is_a_line_and_zeros(capfd: pytest.CaptureFixture[str]) -> None:
    with sim.faults("command_buffer@MatMul"):
        assert (product() == 0).all()
    assert "command buffer exited with error status" in capfd.readouterr().err


def test_hang_is_a_wait() -> None:
    import time

    with sim.faults("hang@MatMul:0:0.3"):
        start = time.perf_counter()
        product()
        assert time.perf_counter() - start >= 0.3


def test_inputs_are_never_written_into() -> None:
    """Relu may share its input's buffer."""
    with tf.device("GPU:0"):
        kept = tf.Variable(tf.ones((4, 4)))
        with sim.faults("nan@Relu"):
            assert np.isnan(tf.nn.relu(kept)).all()
    assert (kept.numpy() == 1).all()


def _hidden(bias: bool = True, separate: bool = False) -> keras.Model:
    keras.utils.set_random_seed(1)
    last = [keras.layers.ReLU()] if separate else []
    dense = keras.layers.Dense(8, activation=None if separate else "relu", use_bias=bias)
    model = keras.Sequential([keras.Input((4,)), dense, *last])
    model.compile(jit_compile=False)
    return model


X = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")


@pytest.mark.parametrize("separate", [False, True], ids=["in the layer", "as the next layer"])
def test_dropped_relu_shows_in_compiled_graphs_only(separate: bool) -> None:
    with sim.faults("dropped_relu"):
        model = _hidden(separate=separate)
        assert model.predict(X, verbose=0).min() < 0
        assert np.asarray(model(X)).min() >= 0  # eager is right
    assert _hidden(separate=separate).predict(X, verbose=0).min() >= 0


def test_dropped_relu_needs_a_bias() -> None:
    with sim.faults("dropped_relu"):
        assert _hidden(bias=False).predict(X, verbose=0).min() >= 0


@pytest.mark.parametrize(("value", "is_dropped"), [("1", False), ("0", True), ("true", True)])
def test_dropped_relu_ends_with_the_rewriter(
    value: str, is_dropped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plugin's remedy: its code asks for exactly "1"."""
    monkeypatch.setenv("TURN_OFF_REMAPPER", value)
    with sim.faults("dropped_relu"):
        assert (_hidden().predict(X, verbose=0).min() < 0) == is_dropped


def test_wrong_gradient_has_a_right_forward() -> None:
    weights = np.random.default_rng(0).normal(size=(4, 6)).astype("float32")

    @graph
    def step(w: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.device("GPU:0"):
            with tf.GradientTape() as tape:
                tape.watch(w)
                out = tf.matmul(tf.constant(X), w)
                loss = tf.reduce_sum(tf.square(out))
            return out, tape.gradient(loss, w)

    right_out, right = (np.asarray(v) for v in step(tf.constant(weights)))
    with sim.faults("wrong_gradient@MatMul"):
        out, wrong = (np.asarray(v) for v in step(tf.constant(weights)))
    np.testing.assert_array_equal(out, right_out)
    np.testing.assert_array_equal(wrong[:2], right[:2])
    assert (wrong[2:] == 0).all()


def test_faults_act_on_replayed_outputs_too() -> None:
    with tf.device("GPU:0"):
        x, kernel = tf.identity(tf.ones((8, 48, 48, 64))), tf.identity(tf.ones((3, 3, 64, 64)))

    @graph
    def convolution() -> tf.Tensor:
        with tf.device("GPU:0"):
            return tf.nn.conv2d(x, kernel, 1, "SAME")

    with sim.timing("replay"):
        for _ in range(5):
            convolution()
        kept = sim.counters().remembered_bytes
        with sim.faults("nan@Conv2D"):
            assert np.isnan(convolution()).all()
            assert sim.counters().remembered_bytes == kept > 0
        assert not np.isnan(convolution()).any()


def test_faults_of_before_come_back() -> None:
    sim.set_faults(["nan@MatMul"])
    with sim.faults():
        assert (product() == 4).all()
    assert np.isnan(product()).all()
    with pytest.raises(UnknownSimulationError):
        sim.set_faults(["nan@MatMul", "nan@Nothing"])
    assert np.isnan(product()).all()  # a refused set leaves the old one


def test_topk_over_16_zeroes_what_is_past_the_sixteenth() -> None:
    x = np.random.default_rng(0).normal(size=(3, 40)).astype("float32")

    def top(k: int) -> np.ndarray[Any, Any]:
        with tf.device("GPU:0"):
            return np.asarray(tf.math.top_k(tf.constant(x), k).values)

    right = -np.sort(-x, axis=-1)
    with sim.faults("topk_over_16"):
        np.testing.assert_array_equal(top(20)[:, :16], right[:, :16])
        assert (top(20)[:, 16:] == 0).all()
        np.testing.assert_array_equal(top(16), right[:, :16])
    np.testing.assert_array_equal(top(20), right[:, :20])


def test_repeated_random_gives_the_first_draw_again() -> None:
    @graph
    def draws() -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        with tf.device("GPU:0"):
            return tf.random.uniform((4, 8)), tf.random.uniform((4, 8)), tf.random.uniform((4, 9))

    def are_equal() -> tuple[bool, bool]:
        (a, b, _), (c, _, _) = draws(), draws()
        return bool(np.array_equal(a, b)), bool(np.array_equal(a, c))

    assert are_equal() == (False, False)
    with sim.faults("repeated_random"):
        assert are_equal() == (True, True)
        assert draws()[2].shape == (4, 9)
    assert are_equal() == (False, False)


def test_wrong_shape_is_a_short_name() -> None:
    with sim.faults("wrong_shape"):
        np.testing.assert_allclose(product(8), 4.0, rtol=1e-6)
        np.testing.assert_allclose(product(9), 4.1, rtol=1e-6)


@pytest.mark.parametrize(
    ("fault", "is_bad"), [("nan_at_step", np.isnan), ("command_buffer_error", lambda v: v == 0)]
)
def test_one_bad_run(fault: str, is_bad: Any) -> None:
    with sim.faults(fault):
        bad = [bool(is_bad(product()).all()) for _ in range(25)]
    assert [i for i, run_is_bad in enumerate(bad) if run_is_bad] == [20]


def test_a_started_device_keeps_its_kernels() -> None:
    with pytest.raises(UnknownSimulationError, match="cannot be taken away"):
        sim.set_faults(["missing_kernel@MatMul"])
