"""Runs in a child process: results, errors, crashes and hangs; and the pytest plugin."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.sim.conftest import SOURCE

from autoplace import sim
from autoplace.errors import UnknownSimulationError


def product_on_gpu(rows: int) -> dict[str, Any]:
    """Runs in the child."""
    import tensorflow as tf

    with tf.device("GPU:0"):
        out = tf.matmul(tf.ones((rows, 4)), tf.ones((4, 2)))
    return {"values": out, "device": out.device[-5:], "sum": tf.reduce_sum(out)}


def many_products(count: int) -> int:
    """Runs in the child."""
    for _ in range(count):
        product_on_gpu(1)
    return count


def test_a_function_gives_its_result() -> None:
    done = sim.run(product_on_gpu, 3)
    assert done.ok, done.stderr
    assert done.result == {"values": [[4.0, 4.0]] * 3, "device": "GPU:0", "sum": 24.0}


def test_a_fault_of_the_child_stays_there() -> None:
    done = sim.run(product_on_gpu, 9, faults=["wrong_shape"])
    assert done.result["values"][0] == pytest.approx([4.1, 4.1])


def test_a_crash_is_an_exit_status() -> None:
    done = sim.run(many_products, 30, faults=["crash"])
    assert (done.exit_status, done.result, done.ok) == (-6, None, False)


def test_a_hang_ends_with_the_time() -> None:
    done = sim.run(many_products, 30, faults=["hang"], timeout_s=40)
    assert done.exit_status is None


def test_a_script_has_its_arguments_and_its_output(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import sys, tensorflow as tf\n"
        "print(sys.argv[1], len(tf.config.list_physical_devices('GPU')), __name__)\n"
        "raise SystemExit(3)\n",
        "utf-8",
    )
    done = sim.run(script, "--fast")
    assert (done.exit_status, done.stdout.split()) == (3, ["--fast", "1", "__main__"])


@pytest.mark.parametrize("what", [lambda: 1, "".join], ids=["lambda", "method"])
def test_what_a_child_cannot_import(what: Any) -> None:
    with pytest.raises(UnknownSimulationError) as caught:
        sim.run(what)
    assert caught.value.code == "AP106"


def test_arguments_that_json_cannot_write() -> None:
    with pytest.raises(UnknownSimulationError, match="cannot be handed"):
        sim.run(product_on_gpu, object())


def test_a_script_that_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        sim.run(tmp_path / "none.py")


PROJECT = """
import pytest
import tensorflow as tf

def total():
    with tf.device("GPU:0"):
        return float(tf.reduce_sum(tf.matmul(tf.ones((9, 4)), tf.ones((4, 2)))))

def test_plain():
    assert not tf.config.list_physical_devices("GPU")

@pytest.mark.metal_sim
def test_right(metal_sim):
    assert metal_sim.kernels == "tensorflow-metal==1.2.0" and total() == 72.0

@pytest.mark.metal_sim(faults=["wrong_shape"])
def test_wrong():
    assert total() == 72.0

@pytest.mark.metal_sim(faults=["abort@MatMul"])
def test_crash():
    total()

@pytest.mark.metal_sim
def test_skipped():
    pytest.skip("not today")

@pytest.mark.metal_sim(colour="red")
def test_bad_mark():
    pass
"""


def test_the_plugin_runs_marked_tests_in_children(tmp_path: Path) -> None:
    (tmp_path / "test_theirs.py").write_text(PROJECT, "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "autoplace.sim.pytest", "-rA", "test_theirs.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    outcome = {
        name: [line.split()[0] for line in done.stdout.splitlines() if f"::{name}" in line][-1]
        for name in ("test_plain", "test_right", "test_wrong", "test_crash", "test_bad_mark")
    }
    assert outcome == {
        "test_plain": "PASSED",
        "test_right": "PASSED",
        "test_wrong": "FAILED",
        "test_crash": "FAILED",
        "test_bad_mark": "FAILED",
    }, done.stdout
    assert "3 failed, 2 passed, 1 skipped" in done.stdout
    assert "not today" in done.stdout
    assert "the child process ended -6" in done.stdout
