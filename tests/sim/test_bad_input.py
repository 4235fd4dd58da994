"""What bad input gets: a clear error or a stated fallback, and a model that is as it was."""

from __future__ import annotations

import re
import stat
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from tests.sim.small import DATA, MODELS, compiled

import autoplace
from autoplace import Plan, Policy
from autoplace.errors import (
    AutoplaceError,
    BrokenPlanFileError,
    CacheUnusableWarning,
    ModelNotBuiltError,
    ModelNotCompiledError,
    NoDataError,
    NotAModelError,
    OneShotDataError,
    PinCannotHoldError,
    PlanDoesNotFitError,
    UnknownDeviceError,
    UnknownUnitError,
)
from autoplace.ir import Device
from autoplace.model import placer_of
from autoplace.probe import cache as cache_room
from autoplace.probe import gate, units

FORCED = Policy(mode="cpu")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of each test's own, and a short gate."""
    monkeypatch.setenv("AUTOPLACE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(gate, "LOOKS", (8,))
    return tmp_path


def smart_dense(policy: Policy | None = None) -> Any:
    return compiled(autoplace.smart(MODELS["dense_net"](), policy=policy))


def check(error: AutoplaceError, code: str, *parts: str) -> None:
    """All four parts are there, with the user's own values."""
    assert error.code == code
    text = str(error)
    for word in ("Expected: ", "Received: ", "Fix: ", *parts):
        assert word in text, text


def test_a_model_that_was_never_built() -> None:
    class Net(autoplace.SmartModel):
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(1)

        def call(self, x: Any) -> Any:
            return self.dense(x)

    net: Any = Net()
    assert net.plan is None
    with pytest.raises(ModelNotBuiltError) as caught:
        autoplace.report(net)
    check(caught.value, "AP201", "net")
    compiled(net)
    net.fit(*DATA["dense_net"](8), batch_size=8, verbose=0)  # built by its first batch
    assert net.built
    assert placer_of(net).plan is not None


def test_fit_without_compile_says_what_keras_says() -> None:
    x, y = DATA["dense_net"](8)
    messages = []
    for model in (MODELS["dense_net"](), autoplace.smart(MODELS["dense_net"]())):
        with pytest.raises(ValueError, match="compile") as caught:
            model.fit(x, y, verbose=0)
        messages.append(re.sub(r"sequential_?\d*", "m", str(caught.value)))
    assert messages[0] == messages[1]


def test_warmup_without_compile() -> None:
    model = autoplace.smart(MODELS["dense_net"]())
    with pytest.raises(ModelNotCompiledError) as caught:
        model.warmup(*DATA["dense_net"](8))
    check(caught.value, "AP202", model.name)


@pytest.mark.parametrize("device", ["tpu:0", "gpu:7", "gpu", "nowhere", ""])
def test_an_unknown_device_in_a_plan(device: str, folder: Path) -> None:
    model = smart_dense(FORCED)
    plan = model.warmup(*DATA["dense_net"](8))
    path = folder / "plan.json"
    plan.save(path)
    path.write_text(path.read_text().replace('"cpu:0"', f'"{device}"'))
    other = smart_dense()
    if device == "gpu":  # a short form of gpu:0
        assert Plan.load(path).units[0].device == Device("gpu", 0)
        return
    with pytest.raises((UnknownDeviceError, BrokenPlanFileError)) as caught:
        other.use_plan(Plan.load(path))
    check(caught.value, "AP401" if device == "gpu:7" else "AP601")
    if device == "gpu:7":
        assert "'gpu:7'" in str(caught.value)


def test_a_plan_of_another_model() -> None:
    plan = smart_dense(FORCED).warmup(*DATA["dense_net"](8))
    other = compiled(autoplace.smart(MODELS["recurrent_net"]()))
    with pytest.raises(PlanDoesNotFitError) as caught:
        other.use_plan(plan)
    check(caught.value, "AP402", other.name, "bidirectional")
    assert other.plan is None
    other.fit(*DATA["recurrent_net"](4), batch_size=4, verbose=0)
    assert other.plan is not None


def test_something_that_is_no_plan() -> None:
    with pytest.raises(BrokenPlanFileError, match="AP601"):
        smart_dense().use_plan({"dense": "gpu:0"})


@pytest.mark.parametrize("share", [0.0, 0.3, 0.999])
def test_a_plan_file_that_is_cut_off(share: float, folder: Path) -> None:
    path = folder / "plan.json"
    smart_dense(FORCED).warmup(*DATA["dense_net"](8)).save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(BrokenPlanFileError) as caught:
        Plan.load(path)
    check(caught.value, "AP601", str(path))


def test_a_plan_file_with_an_unknown_field(folder: Path) -> None:
    path = folder / "plan.json"
    smart_dense(FORCED).warmup(*DATA["dense_net"](8)).save(path)
    path.write_text(path.read_text().replace('"kind"', '"run_this"', 1))
    with pytest.raises(BrokenPlanFileError, match="run_this"):
        Plan.load(path)


def test_a_corrupt_cache_file_is_set_aside(folder: Path) -> None:
    file = folder / "cache" / cache_room.FILE
    file.parent.mkdir()
    file.write_bytes(b"this is no database, and long enough to be read as one" * 100)
    with pytest.warns(CacheUnusableWarning, match="AP602"):
        plan = smart_dense().warmup(*DATA["dense_net"](8))
    assert plan.probe.measured > 0
    assert list(file.parent.glob(f"{cache_room.FILE}.broken-*"))
    again = smart_dense().warmup(*DATA["dense_net"](8))  # the new file is good
    assert again.probe.measured == 0


def test_a_cache_whose_rows_are_broken_is_not_obeyed(folder: Path) -> None:
    import sqlite3

    smart_dense().warmup(*DATA["dense_net"](8))
    with sqlite3.connect(folder / "cache" / cache_room.FILE) as connection:
        connection.execute('UPDATE units SET costs = \'{"gpu:0": {"forward_ns": -5}}\'')
        connection.execute("UPDATE plans SET plan = substr(plan, 1, 200)")
    connection.close()
    plan = smart_dense().warmup(*DATA["dense_net"](8))
    assert plan.probe.measured > 0 and plan.probe.from_cache == 0


def test_an_unwritable_cache_directory(folder: Path) -> None:
    blocked = folder / "cache"
    blocked.write_text("a file where the folder should be")  # also for root, who may write anywhere
    with pytest.warns(CacheUnusableWarning, match="going on without it"):
        plan = smart_dense().warmup(*DATA["dense_net"](8))
    assert plan.probe.measured > 0
    blocked.unlink()
    blocked.mkdir()
    blocked.chmod(stat.S_IRWXU)


@pytest.mark.parametrize("rows", [0])
def test_zero_batches(rows: int) -> None:
    x, y = DATA["dense_net"](8)
    model = smart_dense()
    with pytest.raises(NoDataError) as caught:
        model.warmup(x[:rows], y[:rows])
    check(caught.value, "AP301", model.name)


def test_fit_on_zero_batches_is_as_in_keras() -> None:
    import tensorflow as tf

    x, y = DATA["dense_net"](8)
    empty = tf.data.Dataset.from_tensor_slices((x, y)).batch(4).take(0)
    outcomes = []
    for model in (compiled(MODELS["dense_net"]()), smart_dense()):
        with pytest.warns(UserWarning, match="ran out of data"):
            outcomes.append(
                _outcome(lambda model=model: model.fit(empty, verbose=0, shuffle=False))
            )
    assert outcomes[0] == outcomes[1]


def _outcome(run: Any) -> str:
    try:
        run()
    except Exception as error:  # noqa: BLE001 - compared with what Keras itself raises
        return f"{type(error).__name__}: {error}"
    return "returned"


def test_a_generator_in_warmup() -> None:
    with pytest.raises(OneShotDataError) as caught:
        smart_dense().warmup(DATA["dense_net"](4) for _ in range(3))
    check(caught.value, "AP302", "generator")


def test_no_budget() -> None:
    model = smart_dense(Policy(budget_s=0))
    start = time.monotonic()
    plan = model.warmup(*DATA["dense_net"](8))
    assert plan.choice == "all-cpu" and plan.probe.measured == 0
    assert "budget_s=0" in plan.units[0].reason
    assert [event.kind for event in plan.events] == ["fallback"]
    assert time.monotonic() - start < 60
    model.fit(*DATA["dense_net"](8), verbose=0)


@pytest.mark.parametrize("moment", ["units", "gate"])
def test_ctrl_c_in_the_warmup(moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = smart_dense()
    x, y = DATA["dense_net"](8)
    model.evaluate(x, y, verbose=0)
    before = [np.asarray(v.value) for v in model.variables]
    attributes = set(vars(model))
    calls = {"count": 0}

    def interrupt(run: Any) -> int:
        calls["count"] += 1
        if calls["count"] > 5:
            raise KeyboardInterrupt
        run()
        return 1

    room = units if moment == "units" else gate
    with monkeypatch.context() as patched:
        patched.setattr(room, "time_once", interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.fit(x, y, batch_size=8, verbose=0)
    for a, b in zip(before, model.variables, strict=True):
        np.testing.assert_array_equal(a, np.asarray(b.value))
    assert set(vars(model)) == attributes
    history = model.fit(x, y, batch_size=8, verbose=0)
    assert np.isfinite(history.history["loss"][0]) and int(model.optimizer.iterations) == 1


def test_pins_that_cannot_hold() -> None:
    recurrent = compiled(
        autoplace.smart(MODELS["recurrent_net"](), policy=Policy(pins={"bidirectional*": "gpu:0"}))
    )
    with pytest.raises(PinCannotHoldError) as caught:
        recurrent.warmup(*DATA["recurrent_net"](4))
    check(caught.value, "AP404", "ReverseV2")
    for pins in ({"no_such_layer*": "cpu:0"}, {"dense*": "cpu:0", "dense": "gpu:0", "*": "gpu:0"}):
        with pytest.raises(PinCannotHoldError, match="AP404"):
            smart_dense(Policy(pins=pins)).warmup(*DATA["dense_net"](8))
    with pytest.raises(UnknownDeviceError, match="AP401"):
        smart_dense(Policy(pins={"dense*": "gpu:3"})).warmup(*DATA["dense_net"](8))


def test_names_that_the_plan_does_not_have() -> None:
    plan = smart_dense(FORCED).warmup(*DATA["dense_net"](8))
    with pytest.raises(UnknownUnitError) as caught:
        plan.device_of("conv2d_99")
    check(caught.value, "AP403", "conv2d_99", "dense")


@pytest.mark.parametrize("thing", [keras.layers.Dense(1), "a model", None])
def test_things_that_are_no_model(thing: Any) -> None:
    for call in (autoplace.smart, autoplace.report):
        with pytest.raises(NotAModelError, match="AP203"):
            call(thing)
