"""How this machine's CPU compares with a Mac's: the scale of the simulated device's times.

A placement depends on the *ratio* of the two devices. The CPU here is real and is not a Mac's, so the simulated
device's times are scaled by how the two CPUs compare, and the plans are those of a Mac.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

FALLBACK_GFLOPS = 200.0

# TensorFlow's own product, not numpy's: here numpy's BLAS reached 260 and TensorFlow 449 GFLOP/s. In a process of its
# own, since TensorFlow must not have set up its devices when the simulated one is added.
_MEASURE = """
import time, tensorflow as tf
a = tf.random.stateless_normal((1024, 1024), seed=(1, 2))
product = tf.function(lambda: tf.matmul(a, a), jit_compile=False)
best = float("inf")
for _ in range(40):
    start = time.perf_counter()
    product().numpy()
    best = min(best, time.perf_counter() - start)
print(2 * 1024**3 / best / 1e9)
"""


def cpu_gflops(folder: Path) -> float:
    """Return the rate of a matrix product of TensorFlow on this CPU in GFLOP/s, the best of 40.

    Measured once per machine and kept in `folder`; the best, since other load only makes it slower.
    """
    import tensorflow as tf

    key = f"{_chip()}|{len(_cores())}|{tf.__version__}"
    file = folder / "pace.json"
    try:
        known = json.loads(file.read_text("utf-8"))
        return float(known[key])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    measured = subprocess.run(
        [sys.executable, "-c", _MEASURE],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    try:
        rate = float(measured.stdout.strip().splitlines()[-1])
    except (ValueError, IndexError):
        return FALLBACK_GFLOPS
    try:
        folder.mkdir(parents=True, exist_ok=True)
        scratch = file.with_name(f".{file.name}.{os.getpid()}")
        scratch.write_text(json.dumps({key: rate}), "utf-8")
        scratch.replace(file)
    except OSError:
        pass  # measured again next time
    return rate


def _cores() -> set[int]:
    return (
        os.sched_getaffinity(0)
        if hasattr(os, "sched_getaffinity")
        else set(range(os.cpu_count() or 1))
    )


def _chip() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.machine()
