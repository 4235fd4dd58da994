"""Timing profiles: how fast a chip's GPU and its CPU are."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import resources

from autoplace.errors import UnknownSimulationError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A chip.

    Attributes:
        name: Name by which it is asked for.
        title: Name for people.
        peak_gflops: Peak rate of the GPU in fp32, GFLOP/s.
        efficiency: Part of the peak that contractions reach, 0 to 1.
        bandwidth_gb_s: Memory bandwidth that kernels reach, GB/s.
        launch_us: Cost of every kernel, microseconds.
        copy_us: Cost of every copy between the CPU's and the GPU's tensors, microseconds.
        cpu_matmul_gflops: Rate of TensorFlow's matrix products on the chip's CPU, GFLOP/s.
    """

    name: str
    title: str
    peak_gflops: float
    efficiency: float
    bandwidth_gb_s: float
    launch_us: float
    copy_us: float
    cpu_matmul_gflops: float


def names() -> list[str]:
    """Return the names of all profiles."""
    folder = resources.files("autoplace.sim").joinpath("chips")
    return sorted(
        f.name.removesuffix(".toml") for f in folder.iterdir() if f.name.endswith(".toml")
    )


def load(name: str) -> Profile:
    """Read a profile.

    Raises:
        UnknownSimulationError: AP106, for one that there is not.
    """
    if name not in names():
        raise UnknownSimulationError(
            "there is no timing profile of this name",
            expected=f"one of {', '.join(names())}",
            received=repr(name),
            fix="use profile='m1'",
        )
    text = resources.files("autoplace.sim").joinpath(f"chips/{name}.toml").read_text("utf-8")
    content = tomllib.loads(text)
    gpu, cpu = content["gpu"], content["cpu"]
    return Profile(
        name=content["name"],
        title=content["title"],
        peak_gflops=gpu["peak_gflops"],
        efficiency=gpu["efficiency"],
        bandwidth_gb_s=gpu["bandwidth_gb_s"],
        launch_us=gpu["launch_us"],
        copy_us=gpu["copy_us"],
        cpu_matmul_gflops=cpu["matmul_gflops"],
    )
