"""Where operations, variables and slots really are, read from what TensorFlow executed."""

from __future__ import annotations

from typing import Any

import keras
import pytest
import tensorflow as tf
from tests.sim.small import DATA, MODELS, compiled

from autoplace import sim
from autoplace.engines.tensorflow import placement, seams
from autoplace.engines.tensorflow.arm import Arm, Feed
from autoplace.engines.tensorflow.devices import of_tf
from autoplace.engines.tensorflow.engine import TensorFlowEngine, TensorFlowSession
from autoplace.ir import CPU, GPU, Device

Build = tuple[Any, TensorFlowSession]


def open_session(name: str, **kwargs: Any) -> Build:
    model = compiled(MODELS[name](), **kwargs)
    x, y = DATA[name](4)
    batch = (tuple(x) if isinstance(x, list) else x, y)
    dataset = tf.data.Dataset.from_tensor_slices(batch).batch(4)
    feed = Feed(list(dataset), dataset.element_spec)
    return model, TensorFlowEngine().session(model, feed, "train_step")


def run_adopted(model: Any, arm: Arm, session: TensorFlowSession) -> placement.Executed:
    """Make an arm the model's own, train a step, and read where it ran."""
    arm.adopt()
    paths = [unit.path for unit in session.graph.units]
    return placement.executed(arm.run, paths)


def lstm_on_cpu(path: str) -> Device:
    return CPU if path.startswith("bidirectional") else GPU


@pytest.mark.parametrize(
    "optimizer",
    [
        keras.optimizers.SGD,
        lambda: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
        keras.optimizers.Adam,
        keras.optimizers.AdamW,
        lambda: keras.optimizers.RMSprop(clipnorm=1.0),
        lambda: keras.optimizers.Adam(use_ema=True, global_clipnorm=1.0),
    ],
)
def test_mixed_plan_of_a_recurrent_model(optimizer: Any) -> None:
    model, session = open_session("recurrent_net", optimizer=optimizer())
    devices = {unit.path: lstm_on_cpu(unit.path) for unit in session.graph.units}
    found = run_adopted(model, session.arm(devices), session)

    # Nothing that is planned for the CPU runs on the device, in any pass, loop bodies included.
    assert not [
        (path, which)
        for path, which, device in found.operations
        if devices[path] == CPU and device != CPU
    ]
    lstm = next(p for p in devices if "/forward_lstm" in p)
    assert found.passes(lstm) == {
        "forward",
        "backward",
        "forward loop body",
        "backward loop body",
    }
    assert found.loop_transfers == 0
    # What is planned for the device runs there, but for shape arithmetic without a kernel.
    for path, types in found.misplaced(devices).items():
        assert devices[path] == GPU
        # On the CPU oneDNN's kernels have names such as _MklConv2D.
        assert not [t for t in types if any(k in t for k in ("Conv", "MatMul", "Pool"))], path
    conv = next(p for p in devices if p.startswith("conv2d"))
    assert found.operations[conv, "backward", GPU] > 0

    check_variables(model, session, devices)


def check_variables(
    model: Any, session: TensorFlowSession, devices: dict[str, Device], *, slots: bool = True
) -> None:
    """Weights are on their unit's device, and so is every slot of the optimizer that belongs to one."""
    place = {}
    for path, unit in session._trace.units.items():
        for variable in unit.variables:
            tensor = seams.tensor_of(variable)
            if tensor.dtype.is_floating:
                assert of_tf(tensor.device) == devices[path], variable.path
                place[id(variable)] = devices[path]
    checked = 0
    for optimizer in seams.optimizers_of(model):
        for slot_id, weight in seams.slot_references(optimizer, model.trainable_variables).items():
            slot = next(v for v in optimizer.variables if id(v) == slot_id)
            assert of_tf(seams.tensor_of(slot).device) == place[id(weight)], slot.path
            checked += 1
    has_slots = not isinstance(model.optimizer, keras.optimizers.SGD) or model.optimizer.momentum
    assert not has_slots or checked >= len(model.trainable_variables)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_all_on_the_cpu(name: str) -> None:
    model, session = open_session(name)
    devices = {unit.path: CPU for unit in session.graph.units}
    found = run_adopted(model, session.arm(devices), session)
    assert found.operations and {device for _, _, device in found.operations} == {CPU}
    assert found.loop_transfers == 0
    check_variables(model, session, devices)


def test_the_proof_can_fail() -> None:
    """Plain `tf.device` around the layers, as users do it, leaves the backward pass on the device."""
    model, session = open_session("recurrent_net")
    devices = {unit.path: lstm_on_cpu(unit.path) for unit in session.graph.units}
    arm = session.arm(devices)
    arm.pins._device_of = lambda op: str(op.device)  # type: ignore[method-assign]
    arm.pins._settle = lambda graph: None  # type: ignore[method-assign]
    arm.function = arm.function.__wrapped__  # type: ignore[attr-defined]  # not called under the CPU
    found = run_adopted(model, arm, session)
    assert [w for p, w, d in found.operations if devices[p] == CPU and d == GPU]


def test_a_weight_that_two_units_use() -> None:
    """The output layer reads the weights of the embedding, which is on the other device."""

    class Tied(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.embedding = keras.layers.Embedding(7, 4)
            self.hidden = keras.layers.Dense(4)
            self.head = Head(self.embedding)

        def call(self, x: Any) -> Any:
            return self.head(self.hidden(self.embedding(x)))

    class Head(keras.layers.Layer):  # type: ignore[misc]
        def __init__(self, embedding: Any) -> None:
            super().__init__()
            self.shared = [embedding]

        def call(self, x: Any) -> Any:
            return keras.ops.matmul(x, keras.ops.transpose(self.shared[0].embeddings))

    model = compiled(Tied(), loss="mse", metrics=[])
    x = tf.constant([[1, 2], [3, 4]])
    feed = Feed([(x, tf.zeros((2, 2, 7)))])
    session = TensorFlowEngine().session(model, feed, "train_step")
    devices = {u.path: CPU if u.path == "embedding" else GPU for u in session.graph.units}
    assert len(devices) == 3
    arm = session.arm(devices)
    with arm.installed():
        arm.run()


@pytest.mark.parametrize("name", sorted(MODELS))
def test_an_all_cpu_plan_never_touches_the_device(name: str) -> None:
    """Not for the batch, the logs, the metrics, nor for tensors that a layer holds (Normalization)."""
    _, session = open_session(name)
    arm = session.arm(dict.fromkeys((unit.path for unit in session.graph.units), CPU))
    arm.adopt()
    arm.run()
    before = sim.counters()
    for _ in range(3):
        arm.run()
    after = sim.counters()
    assert (after.copies, after.launches) == (before.copies, before.launches)
