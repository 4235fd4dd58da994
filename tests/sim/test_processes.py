"""What ends a process or needs a fresh one: errors of starting and building, faults that kill."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.sim.conftest import HEAD, SOURCE, Child

from autoplace import sim
from autoplace.errors import CacheUnusableWarning
from autoplace.sim import library

REPORT = """
try:
    {call}
except AutoplaceError as error:
    print(type(error).__name__, error.code, error.received, error.fix, sep=" | ")
"""


def error_of(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Class, code, received and fix of the error that a child reported."""
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().split(" | ")


def script(path: Path, text: str) -> str:
    """Make an executable, here a compiler, and return its path."""
    path.write_text(f"#!/bin/sh\n{text}\n", "utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def copying_compiler(folder: Path, built: Path, log: Path) -> str:
    """A compiler that takes a second, logs a line, and yields what is already built."""
    return script(
        folder / "compiler",
        f'echo run >> {log}\nsleep 1\nwhile [ "$1" != "-o" ]; do shift; done\ncp {built} "$2"',
    )


# ------------------------------------------------------------------------------------------
# starting


@pytest.mark.parametrize(
    "first", ["tf.ones(1)", "tf.config.list_logical_devices()", "tf.Variable(1.0)"]
)
def test_after_tensorflow_has_started_its_devices(child: Child, first: str) -> None:
    name, code, _, fix = error_of(child(first + REPORT.format(call="sim.start()")))
    assert (name, code) == ("DevicesAlreadyStartedError", "AP104")
    assert "right after the imports" in fix


def test_imports_and_lists_of_physical_devices_do_no_harm(child: Child) -> None:
    done = child(
        "import keras, autoplace\ntf.config.list_physical_devices()\nsim.start()\n"
        "print(len(tf.config.list_logical_devices('GPU')))"
    )
    assert done.stdout.strip() == "1", done.stderr


def test_a_build_of_tensorflow_for_cuda(child: Child) -> None:
    done = child("tf.test.is_built_with_cuda = lambda: True" + REPORT.format(call="sim.start()"))
    name, code, received, fix = error_of(done)
    assert (name, code) == ("SimulatorUnsupportedError", "AP105")
    assert "built for CUDA" in received
    assert "tensorflow-cpu" in fix


def test_another_gpu(child: Child) -> None:
    """The simulated device itself, loaded behind our back, stands for another plugin."""
    done = child(
        f"""
from autoplace.sim import library
from tensorflow.python.framework.load_library import load_pluggable_device_library
load_pluggable_device_library(str(library.build().path))
{REPORT.format(call="sim.start()")}
print(tf.config.list_physical_devices("GPU"))
"""
    )
    name, code, received, fix = error_of(done)[:4]
    assert (name, code) == ("SimulatorUnsupportedError", "AP105")
    assert "GPU:0" in received
    assert "uninstall the other plugin" in fix


def test_faults_and_scale_from_the_start(child: Child) -> None:
    done = child(
        "d = sim.start('tensorflow-metal==0.8.0', scale='absolute', faults=['nan@MatMul'])\n"
        "print(d.factor, d.kernels, float(tf.matmul([[1.0]], [[1.0]])[0, 0]), sim.start(\n"
        "    'tensorflow-metal==0.8.0', scale='absolute', faults=('nan@MatMul',)) is d)"
    )
    assert done.stdout.split() == ["1.0", "tensorflow-metal==0.8.0", "nan", "True"], done.stderr


# ------------------------------------------------------------------------------------------
# building


def test_without_a_compiler(child: Child, tmp_path: Path) -> None:
    done = child(
        "os.environ['PATH'] = ''" + REPORT.format(call="sim.start()"),
        {"AUTOPLACE_CACHE_DIR": str(tmp_path / "cache"), "CXX": ""},
    )
    name, code, received, fix = error_of(done)
    assert (name, code) == ("CompilerMissingError", "AP102")
    assert received == "no g++ on the PATH"
    assert "apt-get install g++" in fix


def test_what_is_built_needs_no_compiler(child: Child) -> None:
    done = child("os.environ['PATH'] = ''\nprint(sim.start().build_seconds)")
    assert done.stdout.strip() == "0.0", done.stderr


def test_a_compiler_that_fails(child: Child, tmp_path: Path) -> None:
    compiler = script(tmp_path / "broken", "for i in $(seq 40); do echo line $i; done >&2; exit 3")
    done = child(
        REPORT.format(call="sim.start()"),
        {"AUTOPLACE_CACHE_DIR": str(tmp_path / "cache"), "CXX": compiler},
    )
    name, code, received, _ = error_of(done)
    assert (name, code) == ("SimulatorBuildError", "AP103")
    assert received.splitlines() == [f"line {i}" for i in range(26, 41)]
    assert not list((tmp_path / "cache" / "sim").glob("*/*.so"))


def test_two_processes_build_once(simulated: sim.SimulatedDevice, tmp_path: Path) -> None:
    log = tmp_path / "log"
    compiler = copying_compiler(tmp_path, simulated.library, log)
    env = {
        **os.environ,
        "PYTHONPATH": str(SOURCE),
        "AUTOPLACE_CACHE_DIR": str(tmp_path / "cache"),
        "CXX": compiler,
    }
    code = HEAD + "d = sim.start(scale='absolute')\nprint(d.build_seconds > 0, d.library)"
    both = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=env, text=True)
        for _ in range(2)
    ]
    said = [process.communicate(timeout=300)[0].split() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sorted(line[0] for line in said) == ["False", "True"]
    assert said[0][1] == said[1][1]
    assert log.read_text("utf-8").splitlines() == ["run"]


@pytest.mark.parametrize("damage", ["cut off", "no record", "record cut off", "of another build"])
def test_a_damaged_build_is_built_again(
    damage: str,
    simulated: sim.SimulatedDevice,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AUTOPLACE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", copying_compiler(tmp_path, simulated.library, tmp_path / "log"))
    folder = tmp_path / "cache" / "sim" / simulated.library.parent.name
    shutil.copytree(simulated.library.parent, folder)
    assert library.build().seconds == 0  # the copy is right: what follows is the damage's doing
    built, record = folder / library.NAME, folder / library.RECORD
    if damage == "cut off":
        built.write_bytes(built.read_bytes()[:1000])
    elif damage == "no record":
        record.unlink()
    elif damage == "record cut off":
        record.write_text(record.read_text("utf-8")[:20], "utf-8")
    else:
        record.write_text(json.dumps({"sha256": "0" * 64}), "utf-8")
    again = library.build()
    assert again.seconds > 0
    assert again.path == built
    assert built.read_bytes() == simulated.library.read_bytes()
    assert library.build().seconds == 0


def test_a_library_that_cannot_be_loaded_is_not_used_for_ever(child: Child, tmp_path: Path) -> None:
    """The compiler made nonsense, with a fitting record: the next start builds anew."""
    nonsense = script(
        tmp_path / "nonsense", 'while [ "$1" != "-o" ]; do shift; done\necho nonsense > "$2"'
    )
    cache = {"AUTOPLACE_CACHE_DIR": str(tmp_path / "cache")}
    call = REPORT.format(call="sim.start(scale='absolute')")
    for _ in range(2):
        name, code, received, _ = error_of(child(call, {**cache, "CXX": nonsense}))
        assert (name, code) == ("SimulatorBuildError", "AP103")
        assert library.NAME in received
        assert not list((tmp_path / "cache" / "sim").glob(f"*/{library.RECORD}"))


def test_a_cache_that_cannot_be_written(
    simulated: sim.SimulatedDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file where the folder should be: rights would not stop root."""
    (tmp_path / "cache").write_text("a file")
    monkeypatch.setenv("AUTOPLACE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", copying_compiler(tmp_path, simulated.library, tmp_path / "log"))
    with pytest.warns(CacheUnusableWarning, match="AP602.*cannot be kept"):
        built = library.build()
    assert built.path.exists()
    assert not built.path.is_relative_to(tmp_path)


def test_the_module_builds_and_says_where(simulated: sim.SimulatedDevice) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "autoplace.sim"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    assert done.returncode == 0, done.stderr
    size = simulated.library.stat().st_size // 1024
    assert done.stdout == f"{simulated.library}: built before, {size} KiB\n"


def test_the_module_fails_with_the_error_on_stderr(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "autoplace.sim"],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": str(SOURCE),
            "AUTOPLACE_CACHE_DIR": str(tmp_path),
            "CXX": "/bin/false",
        },
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "AP103" in done.stderr


# -------------------------------------------------------------------------------- the rate of this
# CPU


def test_a_rate_that_cannot_be_measured(child: Child, tmp_path: Path) -> None:
    done = child(
        """
import warnings
from autoplace.sim import cpu_rate, timing_profiles
from pathlib import Path
cpu_rate._MEASURE = "raise SystemExit(1)"
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    print(cpu_rate.factor(timing_profiles.load("m1"), Path(sys.argv[0]).parent))
print(caught[0].category.__name__, caught[0].message)
""",
    )
    lines = done.stdout.splitlines()
    assert lines[0] == "1.0", done.stderr
    assert lines[1].startswith("AutoplaceWarning this CPU's rate could not be measured")


@pytest.mark.parametrize(("rate", "factor"), [(300, 1.0), (1, 8.0), (1e5, 0.125), (450, 0.667)])
def test_the_factor_is_bounded(
    rate: float, factor: float, simulated: sim.SimulatedDevice, tmp_path: Path
) -> None:
    from autoplace.sim import cpu_rate

    kept = json.dumps({"schema": 2, "gflops": rate})
    cpu_rate._file(tmp_path).write_text(kept, "utf-8")
    assert cpu_rate.factor(simulated.profile, tmp_path) == factor


# --------------------------------------------------------------------------------- faults that kill


def test_abort_ends_the_process(child: Child) -> None:
    code = "sim.start(scale='absolute', faults=[{!r}])\ntf.matmul([[1.0]], [[1.0]])\nprint('alive')"
    done = child(code.format("abort@MatMul"))
    assert (done.returncode, done.stdout) == (-6, "")
    assert child(code.format("abort@Conv2D")).stdout == "alive\n"


def test_a_hang_lasts(child: Child, tmp_path: Path) -> None:
    """It cannot be interrupted from Python: only ending the process helps."""
    code = HEAD + "sim.start(scale='absolute', faults=['hang@MatMul'])\nprint('in', flush=True)\n"
    code += "tf.matmul([[1.0]], [[1.0]])\nprint('out', flush=True)"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "in\n"
        time.sleep(2)
        assert process.poll() is None
        process.kill()
        assert process.stdout.read() == ""


def test_asynchronous_cpu_kernels_stay_asynchronous(child: Child) -> None:
    """A dequeue waits for an enqueue: with one thread for both, it must not block that thread."""
    done = child(
        """
import dataclasses, faulthandler
from autoplace.sim import kernel_tables
faulthandler.dump_traceback_later(60, exit=True)
table = kernel_tables.simulated("tensorflow-metal==1.2.0")
more = ("QueueDequeueV2||handle", "QueueEnqueueV2||handle")
kernel_tables.simulated = lambda name, **_: dataclasses.replace(table, lines=table.lines + more)
sim.start(scale="absolute")
before = sim.counters().launches
with tf.Graph().as_default(), tf.device("GPU:0"):
    queue = tf.raw_ops.FIFOQueueV2(component_types=[tf.float32], shapes=[()])
    out = tf.raw_ops.QueueDequeueV2(handle=queue, component_types=[tf.float32])
    into = tf.raw_ops.QueueEnqueueV2(handle=queue, components=[tf.constant(3.0)])
    assert "GPU" in into.device
    config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=1,
                                      intra_op_parallelism_threads=1)
    with tf.compat.v1.Session(config=config) as session:
        print(session.run([out, into])[0][0], sim.counters().launches - before)
"""
    )
    assert done.stdout.split() == ["3.0", "2"], done.stderr[-2000:]


def test_a_missing_kernel_falls_back_or_raises(child: Child) -> None:
    """As on a Mac: soft placement moves the operation to the CPU, else TensorFlow refuses."""
    done = child(
        """
sim.start(faults=["missing_kernel@Sigmoid"])
x = tf.ones(2)
with tf.device("GPU:0"):
    print(tf.nn.relu(x).device[-5:], tf.sigmoid(x).device[-5:])
tf.config.set_soft_device_placement(False)
try:
    with tf.device("GPU:0"):
        tf.sigmoid(x)
except tf.errors.NotFoundError as error:
    print("Sigmoid" in str(error))
except tf.errors.InvalidArgumentError as error:
    print("Sigmoid" in str(error))
"""
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["GPU:0", "CPU:0", "True"]
