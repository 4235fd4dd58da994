"""Builds the native device with g++, once per source and TensorFlow, and keeps it.

A build is a folder `<digest>/` with the library and `build.json`, which has the library's own
digest: one that was cut off by a full disk or a crash is seen and built again.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import fcntl
import hashlib
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from autoplace.errors import (
    CacheUnusableWarning,
    CompilerMissingError,
    SimulatorBuildError,
    SimulatorUnsupportedError,
    TensorFlowMissingError,
)

MAIN = "metal_sim.cc"
NAME = "libautoplace_sim.so"
RECORD = "build.json"
# -fno-gnu-unique: TensorFlow's inline variables must not be shared with those of its own libraries.
FLAGS = ("-shared", "-fPIC", "-O2", "-fno-gnu-unique", "-Wall", "-Wextra", "-Werror")
SHOWN_LINES = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """The built device.

    Attributes:
        path: The shared library.
        seconds: What building it took in this process; 0.0 where it was there.
    """

    path: Path
    seconds: float

    @property
    def version(self) -> str:
        """Short name of the sources, flags and TensorFlow that it was built from."""
        return self.path.parent.name[:12]


def cache_directory() -> Path:
    """Return the folder for builds: in `AUTOPLACE_CACHE_DIR`, else in the system's cache."""
    from platformdirs import user_cache_dir

    return Path(os.environ.get("AUTOPLACE_CACHE_DIR") or user_cache_dir("autoplace")) / "sim"


def check_platform() -> None:
    """Raise where the simulated device cannot run.

    Raises:
        SimulatorUnsupportedError: AP105, off Linux, or with a TensorFlow that has kernels for a GPU
            of its own.
        TensorFlowMissingError: AP101.
    """
    if not sys.platform.startswith("linux"):
        raise SimulatorUnsupportedError(
            "the simulated device runs on Linux only",
            expected="Linux",
            received=sys.platform,
            fix="on a Mac use the real device; elsewhere use a Linux container",
        )
    try:
        import tensorflow as tf
    except ImportError as error:
        raise TensorFlowMissingError(
            "the simulated device needs TensorFlow, which cannot be imported",
            expected="the package tensorflow-cpu",
            received=str(error),
            fix="pip install tensorflow-cpu",
        ) from error
    if tf.test.is_built_with_cuda() or tf.test.is_built_with_rocm():
        maker = "CUDA" if tf.test.is_built_with_cuda() else "ROCm"
        # Each operation that the kernel table lacks would get this build's own GPU kernel, which
        # fails on host memory.
        raise SimulatorUnsupportedError(
            "the simulated device cannot run in a TensorFlow that has GPU kernels of its own",
            expected="the package tensorflow-cpu",
            received=f"TensorFlow {tf.__version__}, built for {maker}",
            fix="pip uninstall tensorflow && pip install tensorflow-cpu",
        )


def build() -> Library:
    """Return the library for the installed TensorFlow, building it if need be. Starts no device.

    Several processes may do so at once: the first builds, the others wait for it.

    Raises:
        CompilerMissingError: AP102, without a C++ compiler, where nothing is built yet.
        SimulatorBuildError: AP103, where the compiler fails.
    """
    import tensorflow as tf

    # As system headers: TensorFlow's own warnings are not ours.
    compile_flags = [
        f"-isystem{flag[2:]}" if flag.startswith("-I") else flag
        for flag in tf.sysconfig.get_compile_flags()
    ]
    link_flags = tf.sysconfig.get_link_flags()
    versions = (
        tf.__version__,
        tf.version.GIT_VERSION,
        tf.version.COMPILER_VERSION,
        platform.machine(),
    )
    digest = hashlib.sha256(repr((versions, FLAGS, compile_flags, link_flags)).encode())
    sources = resources.files("autoplace.sim").joinpath("native")
    for source in sorted(sources.iterdir(), key=lambda f: f.name):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    folder = _cache_or_temporary() / digest.hexdigest()[:32]
    if not _is_whole(folder):
        with _lock(folder.with_suffix(".lock")):
            if not _is_whole(folder):  # another process may have built it while this one waited
                with resources.as_file(sources) as native:
                    seconds = _compile(native / MAIN, folder, compile_flags, link_flags)
                return Library(path=folder / NAME, seconds=seconds)
    return Library(path=folder / NAME, seconds=0.0)


def open_native(library: Library) -> ctypes.CDLL:
    """Open the library and declare its functions.

    Raises:
        SimulatorBuildError: AP103, where the system refuses it.
    """
    try:
        native = ctypes.CDLL(str(library.path))
        native.AutoplaceSim_SetKernels.argtypes = [ctypes.c_char_p]
        native.AutoplaceSim_SetKernels.restype = None
        native.AutoplaceSim_Set.argtypes = [ctypes.c_char_p]
        native.AutoplaceSim_Set.restype = ctypes.c_int
        native.AutoplaceSim_Counters.argtypes = [ctypes.POINTER(ctypes.c_int64)]
        native.AutoplaceSim_Counters.restype = None
    except (OSError, AttributeError) as error:
        with contextlib.suppress(OSError):  # so that the next start builds it again
            library.path.with_name(RECORD).unlink()
        raise SimulatorBuildError(
            "the built simulated device could not be loaded",
            expected="a library for this TensorFlow",
            received=str(error),
            fix="start again: it is built anew; if that does not help, report these lines",
        ) from error
    return native


def _compile(main: Path, folder: Path, compile_flags: list[str], link_flags: list[str]) -> float:
    """Build into `folder`, replacing a broken build, and return the seconds."""
    compiler = shlex.split(os.environ.get("CXX") or "g++")
    if shutil.which(compiler[0]) is None:
        raise CompilerMissingError(
            "the simulated device has to be built, and there is no C++ compiler",
            expected="g++ on the PATH, or the name of a compiler in the environment variable CXX",
            received=f"no {compiler[0]} on the PATH",
            fix="install it, on Debian and Ubuntu with: apt-get install g++",
        )
    start = time.monotonic()
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".building-") as scratch:
        made = Path(scratch) / NAME
        command = [*compiler, *FLAGS, *compile_flags, str(main), *link_flags, "-o", str(made)]
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False
        )
        if done.returncode or not made.exists():
            said = (done.stderr or done.stdout).strip().splitlines()
            raise SimulatorBuildError(
                "the C++ compiler failed on the simulated device",
                expected=f"{compiler[0]} to build a library, as g++ 9 and newer do",
                received="\n".join(said[-SHOWN_LINES:])
                or f"exit status {done.returncode} and no message",
                fix="update the compiler; if it is new, report these lines",
            )
        seconds = time.monotonic() - start
        content = made.read_bytes()
        record = {
            "sha256": hashlib.sha256(content).hexdigest(),
            "bytes": len(content),
            "seconds": round(seconds, 1),
        }
        (made.with_name(RECORD)).write_text(json.dumps(record), "utf-8")
        folder.mkdir(exist_ok=True)
        # The record last: without it, or with one that does not fit, the library is not used.
        for name in (NAME, RECORD):
            os.replace(made.with_name(name), folder / name)
    return seconds


def _is_whole(folder: Path) -> bool:
    """Whether the library in `folder` is, byte for byte, what the compiler made."""
    try:
        record = json.loads((folder / RECORD).read_text("utf-8"))
        return bool(record["sha256"] == hashlib.sha256((folder / NAME).read_bytes()).hexdigest())
    except (OSError, ValueError, KeyError, TypeError):
        return False


@contextlib.contextmanager
def _lock(file: Path) -> Iterator[None]:
    """Hold a file lock. The system releases it when the process ends, however it ends."""
    with file.open("a") as handle:
        with contextlib.suppress(
            OSError
        ):  # no locks on this file system: two may build, and the last rename counts
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _cache_or_temporary() -> Path:
    """The cache folder, or one for this process where the cache cannot be written."""
    folder = cache_directory()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        warnings.warn(
            f"{CacheUnusableWarning.code}: the built simulated device cannot be kept, so each "
            f"process builds it: {error}",
            CacheUnusableWarning,
            stacklevel=2,
        )
        temporary = tempfile.mkdtemp(prefix="autoplace-sim-")
        atexit.register(shutil.rmtree, temporary, ignore_errors=True)
        return Path(temporary)
