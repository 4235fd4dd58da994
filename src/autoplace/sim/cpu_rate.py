"""How fast this machine's CPU is in TensorFlow: what the simulated device's times are scaled by.

A placement depends on the *ratio* of the two devices. The CPU here is real and is no Mac's, so the
device's times are multiplied by (rate of the Mac's CPU) / (rate of this CPU).

The rate is that of TensorFlow's own matrix product or convolution, whichever is faster: one of them
may be slow on a CPU that TensorFlow was not tuned for. It is measured in a process of its own, as
TensorFlow's devices must not start here; numpy's BLAS is another library. It is taken with one
thread, the best of many runs of a millisecond, times the cores: other work going on changes that
least. Decision 0015 has the figures.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

from autoplace.errors import AutoplaceWarning
from autoplace.sim.timing_profiles import TimingProfile

SMALLEST_FACTOR, LARGEST_FACTOR = 0.125, 8.0
SECONDS = 300  # for a process that imports TensorFlow, on a busy machine

_MEASURE = """
import time
import tensorflow as tf

tf.config.set_visible_devices([], "GPU")
tf.config.threading.set_intra_op_parallelism_threads(1)
a = tf.random.stateless_normal((512, 512), seed=(1, 2))
x = tf.random.stateless_normal((4, 32, 32, 64), seed=(1, 2))
kernel = tf.random.stateless_normal((3, 3, 64, 64), seed=(1, 2))
works = (
    (lambda: tf.matmul(a, a), 2 * 512**3),
    (lambda: tf.nn.conv2d(x, kernel, 1, "SAME"), 2 * 4 * 32 * 32 * 64 * 9 * 64),
)
rates = []
for work, flops in works:
    run = tf.function(work, jit_compile=False, autograph=False)
    run()
    best, end = float("inf"), time.perf_counter() + 1.0
    while time.perf_counter() < end:
        start = time.perf_counter()
        run().numpy()
        best = min(best, time.perf_counter() - start)
    rates.append(flops / best / 1e9)
print(*rates)
"""


def factor(profile: TimingProfile, folder: Path) -> float:
    """Return what the chip's times are to be multiplied with on this machine.

    Between 1/8 and 8, rounded to three digits. Measured once per machine, kept in `folder`. Where
    it cannot be measured, a warning, and 1.
    """
    rate = _known(folder) or _measured(folder)
    if rate is None:
        return 1.0
    clamped = min(max(profile.cpu_matmul_gflops / rate, SMALLEST_FACTOR), LARGEST_FACTOR)
    return float(f"{clamped:.3g}")


def fingerprint() -> dict[str, str]:
    """Return all that the rate depends on."""
    import tensorflow as tf

    return {
        "architecture": platform.machine(),
        "chip": _chip(),
        "cores": str(usable_cores()),
        "tensorflow": tf.__version__,
        "onednn": os.environ.get("TF_ENABLE_ONEDNN_OPTS", ""),
    }


def usable_cores() -> int:
    """Return the number of physical cores that this process may use."""
    threads = os.sched_getaffinity(0)
    cores = {_siblings(thread) for thread in threads}
    return max(1, min(len(cores), _quota()))


def _siblings(thread: int) -> str:
    """The threads of a thread's core: two on one core do not multiply twice as fast."""
    try:
        file = Path(f"/sys/devices/system/cpu/cpu{thread}/topology/thread_siblings_list")
        return file.read_text("ascii").strip()
    except OSError:
        return str(thread)


def _quota() -> int:
    """Cores that a container may use, rounded up."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text("ascii").split()
        return -(-int(quota) // int(period))
    except (OSError, ValueError):  # no such file, or "max"
        return sys.maxsize


def _chip() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return platform.machine()
    wanted = ("model name", "cpu family", "model\t", "flags", "Features", "CPU part")
    found = {line.partition(":")[0].strip(): line for line in lines if line.startswith(wanted)}
    return hashlib.sha256("\n".join(sorted(found.values())).encode()).hexdigest()[:16]


def _file(folder: Path) -> Path:
    name = hashlib.sha256(json.dumps(fingerprint()).encode()).hexdigest()[:16]
    return folder / f"cpu-rate-{name}.json"


def _known(folder: Path) -> float | None:
    try:
        content = json.loads(_file(folder).read_text("utf-8"))
        rate = float(content["gflops"])
        return rate if content["schema"] == 2 and 0 < rate < 1e6 else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _measured(folder: Path) -> float | None:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    try:
        # From an empty folder: a file of the user's named like a module must not be imported.
        with tempfile.TemporaryDirectory() as empty:
            done = subprocess.run(
                [sys.executable, "-c", _MEASURE],
                capture_output=True,
                text=True,
                check=True,
                cwd=empty,
                env=environment,
                timeout=SECONDS,
            )
        rate = max(float(number) for number in done.stdout.split()) * usable_cores()
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        warnings.warn(
            "this CPU's rate could not be measured, so the simulated device keeps the chip's own "
            f"times: {error}",
            AutoplaceWarning,
            stacklevel=2,
        )
        return None
    content = {"schema": 2, "gflops": round(rate, 1), **fingerprint()}
    try:
        with tempfile.NamedTemporaryFile(
            "w", dir=folder, prefix=".rate-", delete=False, encoding="utf-8"
        ) as scratch:
            json.dump(content, scratch)
        os.replace(scratch.name, _file(folder))
    except OSError:
        pass  # measured again in the next process; the library has warned already
    return round(rate, 1)
