"""The device that TensorFlow lists: its kernels, its identity, and the CPU's values."""

from __future__ import annotations

from contextlib import nullcontext

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import kernels as registry
from tests.sim import small
from tests.sim.conftest import graph

from autoplace import sim
from autoplace.errors import DevicesAlreadyStartedError, UnknownSimulationError
from autoplace.sim import kernel_tables, library


def test_tensorflow_lists_one_gpu(simulated: sim.SimulatedDevice) -> None:
    (found,) = tf.config.list_logical_devices("GPU")
    assert found.name == "/device:GPU:0"
    details = tf.config.experimental.get_device_details(tf.config.list_physical_devices("GPU")[0])
    assert details["device_name"] == "METAL_SIM" or "Metal" in details["device_name"]
    assert sim.is_started()
    assert sim.device() is simulated


def test_the_table_of_1_2_0_is_what_was_extracted(simulated: sim.SimulatedDevice) -> None:
    table = kernel_tables.simulated("tensorflow-metal==1.2.0")
    assert (len(table.lines), len(table.ops)) == (539, 176)
    assert simulated.kernel_count == 539
    left_out = {note.split(":")[0] for note in simulated.left_out}
    assert {"CudnnRNNV3", "_FusedBatchMatMulV2"} < left_out
    assert len(left_out) == 8


@pytest.mark.parametrize("name", kernel_tables.names())
def test_every_table_can_be_simulated(name: str) -> None:
    table = kernel_tables.simulated(name)
    assert "MatMul" in table.ops
    assert len(table.lines) > 100
    assert table.ops <= kernel_tables.ops(name)


def test_tensorflow_has_registered_every_line() -> None:
    """Priority 1 tells our kernels from those that the CPU build itself has for GPU."""
    table = kernel_tables.simulated("tensorflow-metal==1.2.0")
    registered = set()
    for op in table.ops:
        for kernel in registry.get_registered_kernels_for_op(op).kernel:
            if kernel.device_type == "GPU" and kernel.priority == 1:
                dtypes = {
                    c.name: tf.as_dtype(c.allowed_values.list.type[0]).name
                    for c in kernel.constraint
                }
                registered.add((op, frozenset(dtypes.items()), frozenset(kernel.host_memory_arg)))
    wanted = set()
    for line in table.lines:
        op, constraints, host = line.split("|")
        pairs = frozenset(tuple(p.split("=")) for p in constraints.split(";") if p)
        wanted.add((op, pairs, frozenset(h for h in host.split(",") if h)))
    assert registered == wanted


def test_a_missing_kernel_is_missing() -> None:
    """Soft placement would hide it; the table has no ReverseV2."""
    tf.config.set_soft_device_placement(False)
    try:
        with tf.device("GPU:0"), pytest.raises(tf.errors.InvalidArgumentError, match="ReverseV2"):
            tf.raw_ops.ReverseV2(tensor=tf.ones((4,)), axis=[0])
    finally:
        tf.config.set_soft_device_placement(True)


def test_a_second_start_with_equal_arguments_is_the_same_device(
    simulated: sim.SimulatedDevice,
) -> None:
    assert sim.start() is simulated
    assert sim.start("tensorflow-metal==1.2.0", "m1", scale="ratio", faults=[]) is simulated


@pytest.mark.parametrize(
    "arguments",
    [{"kernels": "tensorflow-metal==0.8.0"}, {"scale": "absolute"}, {"faults": ["nan@MatMul"]}],
)
def test_a_second_start_with_other_arguments_is_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(DevicesAlreadyStartedError) as caught:
        sim.start(**arguments)  # type: ignore[arg-type]  # one of several types
    assert caught.value.code == "AP104"
    assert "tensorflow-metal==1.2.0" in caught.value.expected
    assert str(next(iter(arguments.values()))).strip("[]'") in caught.value.received
    assert "set_faults" in caught.value.fix


def test_describe_says_that_it_is_simulated(simulated: sim.SimulatedDevice) -> None:
    with sim.faults("dropped_relu"):
        described = simulated.describe()
    assert "simulated" in described["device"]
    assert described["kernels"] == "tensorflow-metal==1.2.0"
    assert described["profile"] == "Apple M1, 8-core GPU"
    assert described["scale"] == "ratio"
    assert float(described["factor"]) == pytest.approx(simulated.factor, rel=0.01)
    assert described["faults"] == "dropped_relu"
    assert simulated.describe()["faults"] == "none"
    assert described["version"] == simulated.version


def test_the_factor_is_measured_once(simulated: sim.SimulatedDevice) -> None:
    from autoplace.sim import cpu_rate

    assert 0.125 <= simulated.factor <= 8
    folder = library.cache_directory()
    assert cpu_rate._file(folder).exists()
    assert cpu_rate.factor(simulated.profile, folder) == simulated.factor


def test_the_second_build_is_the_first(simulated: sim.SimulatedDevice) -> None:
    again = library.build()
    assert again.path == simulated.library
    assert again.seconds == 0.0
    assert again.version == simulated.version


def _small_net() -> keras.Model:
    keras.utils.set_random_seed(0)
    with tf.device("CPU:0"):
        model = keras.Sequential(
            [
                keras.Input((8, 8, 3)),
                keras.layers.Conv2D(4, 3, activation="relu"),
                keras.layers.BatchNormalization(),
                keras.layers.Flatten(),
                keras.layers.Dense(3),
            ]
        )
        model.compile("sgd", "mse", jit_compile=False)
    return model


def _losses(device: str) -> list[float]:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(32, 8, 8, 3)).astype("float32")
    y = generator.normal(size=(32, 3)).astype("float32")
    model = _small_net()
    with tf.device(device):
        history = model.fit(x, y, batch_size=16, epochs=3, shuffle=False, verbose=0)
    return [float(loss) for loss in history.history["loss"]]


def test_training_gives_the_losses_of_the_cpu() -> None:
    before = sim.counters()
    on_device = _losses("GPU:0")
    after = sim.counters()
    assert after.launches - before.launches > 100
    assert after.copies > before.copies
    assert after.busy_ns == before.busy_ns  # exact outside timing()
    np.testing.assert_allclose(on_device, _losses("CPU:0"), rtol=1e-5)
    assert on_device[-1] < on_device[0]


def _one_op(
    op: str, inputs: list[tf.Tensor], dtypes: list[tf.DType], **attributes: object
) -> list[tf.Tensor]:
    """Run an operation that has no Python wrapper, on the device."""

    @graph
    def step(*arguments: tf.Tensor) -> list[tf.Tensor]:
        with tf.device("GPU:0"):
            made = tf.compat.v1.get_default_graph()._create_op_internal(
                op, list(arguments), dtypes, attrs=attributes, name="op"
            )
        return list(made.outputs)

    return list(step(*inputs))


def _attribute(**field: object) -> tf.compat.v1.AttrValue:
    return tf.compat.v1.AttrValue(**field)


@pytest.mark.parametrize("side_input", [False, True])
def test_fused_batch_norm_is_composed(side_input: bool) -> None:
    """The only kernel without one on the CPU: norm, side input and Relu, as fused."""
    generator = np.random.default_rng(3)
    x, side = generator.normal(size=(2, 2, 3, 3, 4)).astype("float32")
    ones = np.ones(4, "float32")
    float_type = _attribute(type=tf.float32.as_datatype_enum)
    inputs = [
        tf.constant(v) for v in [x, ones * 2, ones, ones * 0, ones, *([side] if side_input else [])]
    ]
    out = _one_op(
        "_FusedBatchNormEx",
        inputs,
        [tf.float32] * 6,
        T=float_type,
        U=float_type,
        num_side_inputs=_attribute(i=int(side_input)),
        activation_mode=_attribute(s=b"Relu"),
        is_training=_attribute(b=False),
        epsilon=_attribute(f=1e-3),
        data_format=_attribute(s=b"NHWC"),
        exponential_avg_factor=_attribute(f=1.0),
    )
    normal = x / np.sqrt(1 + 1e-3) * 2 + 1
    np.testing.assert_allclose(
        out[0], np.maximum(normal + (side if side_input else 0), 0), rtol=1e-4, atol=1e-5
    )


def test_an_operation_that_the_device_lacks_has_no_faults() -> None:
    with pytest.raises(UnknownSimulationError) as caught:
        sim.set_faults(["nan@ReverseV2"])
    assert caught.value.received == "'nan@ReverseV2'"
    assert "176 operations" in caught.value.expected


@pytest.mark.parametrize("asked", ["auto", True])
def test_keras_leaves_xla_out_as_on_a_mac(asked: str | bool) -> None:
    """XLA has no compiler for the device, on a Mac neither: training would raise."""
    model = small.dense_net()
    warns = pytest.warns(UserWarning, match="jit") if asked is True else nullcontext()
    with warns:
        model.compile("sgd", "mse", jit_compile=asked)
    assert model.jit_compile is False
    model.fit(*small.DATA["dense_net"](8), epochs=1, verbose=0)
