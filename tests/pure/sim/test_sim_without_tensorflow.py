"""What of the room works, and is refused, where TensorFlow was never imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

from autoplace import sim
from autoplace.errors import SimulatorUnsupportedError, UnknownSimulationError
from autoplace.sim import kernel_tables


def test_tables_of_all_versions() -> None:
    names = kernel_tables.names()
    assert len(names) == 14
    assert names[0] == "tensorflow-metal==0.2.0"
    assert names[-1] == "tensorflow-metal==1.2.0"
    assert len(kernel_tables.ops("tensorflow-metal==1.2.0")) == 184


def test_an_entry_has_dtypes_and_host_memory() -> None:
    fill = [k for k in kernel_tables.kernels("tensorflow-metal==1.2.0") if k.op == "Fill"]
    assert any("float32" in k.dtypes["T"] and k.host_memory == ("dims", "value") for k in fill)


@pytest.mark.parametrize(
    ("arguments", "received"),
    [
        ({"kernels": "tensorflow-metal==9.9"}, "'tensorflow-metal==9.9'"),
        ({"kernels": "1.2.0"}, "'1.2.0'"),
        ({"kernels": "other-plugin==1.2.0"}, "'other-plugin==1.2.0'"),
        ({"profile": "m99"}, "'m99'"),
        ({"scale": "sometimes"}, "'sometimes'"),
        ({"faults": ["burns@MatMul"]}, "'burns@MatMul'"),
        ({"faults": ["nan@ReverseV2"]}, "'nan@ReverseV2'"),
    ],
)
def test_unknown_names_are_refused_before_anything_starts(
    arguments: dict[str, object], received: str
) -> None:
    with pytest.raises(UnknownSimulationError) as caught:
        sim.start(**arguments)  # type: ignore[arg-type]  # one of several types
    assert (caught.value.code, caught.value.received) == ("AP106", received)
    assert isinstance(caught.value, ValueError)
    assert not sim.is_started()


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_other_systems(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", system)
    with pytest.raises(SimulatorUnsupportedError) as caught:
        sim.start()
    assert (caught.value.code, caught.value.expected, caught.value.received) == (
        "AP105",
        "Linux",
        system,
    )
    assert "real device" in caught.value.fix


def test_without_a_device_nothing_happens() -> None:
    assert sim.device() is None
    assert not sim.is_started()
    assert sim.counters() == sim.Counters(launches=0, copies=0, busy_ns=0, remembered_bytes=0)
    with sim.timing("replay"), sim.timing("spin"), sim.timing("exact"), sim.timing():
        pass
    sim.set_faults([])
    with pytest.raises(UnknownSimulationError, match="no simulated device"):
        sim.set_faults(["nan@MatMul"])
    with pytest.raises(UnknownSimulationError), sim.timing("fast"):
        pass


def test_the_room_loads_no_framework() -> None:
    code = (
        "import sys; from autoplace import sim; sim.timing; sim.kernel_table_names(); "
        "print(sorted({'tensorflow', 'keras', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**_path()}
    )
    assert done.stdout == "[]\n"


def _path() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
