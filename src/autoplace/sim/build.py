"""Builds the native device with g++, once per source and TensorFlow version."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from autoplace.errors import (
    CompilerMissingError,
    SimulatorBuildError,
    SimulatorUnsupportedError,
)

FLAGS = ("-shared", "-fPIC", "-O2", "-fno-gnu-unique", "-Wall", "-Wextra", "-Werror")
MAIN = "metal_sim.cc"


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """The built device.

    Attributes:
        path: The shared library.
        seconds: What building took; 0.0 where it was there.
    """

    path: Path
    seconds: float


def cache_directory() -> Path:
    """Return the folder for built devices: `AUTOPLACE_CACHE_DIR`, else the system's place for caches."""
    from platformdirs import user_cache_dir

    return Path(os.environ.get("AUTOPLACE_CACHE_DIR") or user_cache_dir("autoplace")) / "sim"


def build() -> Library:
    """Return the library for the installed TensorFlow, building it if need be.

    Several processes may do so at once: each builds under a name of its own and renames it when it is whole.

    Raises:
        SimulatorUnsupportedError: AP105, off Linux or with a CUDA build of TensorFlow.
        CompilerMissingError: AP102, without g++.
        SimulatorBuildError: AP103, where the compiler fails.
    """
    check_platform()
    import tensorflow as tf

    sources = sorted(
        (f for f in resources.files("autoplace.sim").joinpath("native").iterdir()),
        key=lambda f: f.name,
    )
    # As system headers, TensorFlow's own warnings are not ours.
    compile_flags = [
        f"-isystem{flag[2:]}" if flag.startswith("-I") else flag
        for flag in tf.sysconfig.get_compile_flags()
    ]
    digest = hashlib.sha256(repr((tf.__version__, FLAGS, compile_flags, sys.platform)).encode())
    for source in sources:
        digest.update(source.read_bytes())
    target = _folder() / f"metal_sim-{digest.hexdigest()[:24]}.so"
    if _is_whole(target):
        return Library(path=target, seconds=0.0)
    compiler = os.environ.get("CXX") or shutil.which("g++")
    if not compiler:
        raise CompilerMissingError(
            "the simulated device has to be built, and there is no C++ compiler",
            expected="g++ on the PATH, or its path in the environment variable CXX",
            received="neither",
            fix="install it, on Debian and Ubuntu with: apt-get install g++",
        )
    start = time.monotonic()
    with (
        resources.as_file(resources.files("autoplace.sim").joinpath("native")) as native,
        tempfile.TemporaryDirectory(dir=target.parent) as scratch,
    ):
        made = Path(scratch) / target.name
        command = [compiler, *FLAGS, *compile_flags, str(native / MAIN)]
        command += [*tf.sysconfig.get_link_flags(), "-o", str(made)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SimulatorBuildError(
                "the C++ compiler failed on the simulated device",
                expected="a library for TensorFlow " + tf.__version__,
                received="\n".join((done.stderr or done.stdout).strip().splitlines()[:12]),
                fix="use g++ 9 or newer; if it is, report these lines",
            )
        digest_file = made.with_suffix(".sha256")
        digest_file.write_text(hashlib.sha256(made.read_bytes()).hexdigest())
        os.replace(made, target)
        os.replace(digest_file, target.with_suffix(".sha256"))
    return Library(path=target, seconds=time.monotonic() - start)


def check_platform() -> None:
    """Raise where the simulated device cannot run.

    Raises:
        SimulatorUnsupportedError: AP105.
    """
    import tensorflow as tf

    if not sys.platform.startswith("linux"):
        raise SimulatorUnsupportedError(
            "the simulated device runs on Linux only",
            expected="Linux",
            received=sys.platform,
            fix="on a Mac use the real device; elsewhere use a Linux container",
        )
    if tf.test.is_built_with_cuda():
        # Every operation that the table lacks would get its CUDA kernel, which fails on host memory.
        raise SimulatorUnsupportedError(
            "the simulated device cannot run in a TensorFlow that was built for CUDA",
            expected="the package tensorflow-cpu",
            received=f"a CUDA build of TensorFlow {tf.__version__}",
            fix="pip uninstall tensorflow && pip install tensorflow-cpu",
        )


def _folder() -> Path:
    """The cache folder, or a temporary one where that cannot be written."""
    folder = cache_directory()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return Path(tempfile.mkdtemp(prefix="autoplace-sim-"))


def _is_whole(library: Path) -> bool:
    """Whether a cached library is what was built: a full disk may have cut it off."""
    try:
        wanted = library.with_suffix(".sha256").read_text().strip()
        return hashlib.sha256(library.read_bytes()).hexdigest() == wanted
    except OSError:
        return False
