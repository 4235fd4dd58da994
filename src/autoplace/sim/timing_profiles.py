"""Timing profiles: how fast a chip's GPU and its CPU are, from `profiles/*.toml`."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from autoplace.errors import FileProblem, UnknownSimulationError
from autoplace.sim import package_data

SCHEMA = 1
CONTRACTION = "contraction"
DEFAULT = "m1"  # the chip where nothing else is asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingProfile:
    """A chip.

    Attributes:
        name: Name by which it is asked for.
        title: Name for people.
        fp32_gflops: Peak rate of the GPU in float32, 10**9 operations per second.
        fp16_gflops: The same in float16 and bfloat16.
        mbytes_per_s: Memory bandwidth that GPU kernels reach, 10**6 bytes per second.
        launch_ns: Cost of every kernel.
        copy_ns: Cost of every copy between the CPU's and the GPU's tensors, without its bytes.
        efficiency: Part of the peak that contractions reach, above 0 and at most 1.
        efficiency_of: The same for single operations, pairs of operation and part.
        cpu_cores: Cores of the chip.
        cpu_matmul_gflops: Rate of TensorFlow's matrix products on all cores, 10**9 operations per
            second.
        cpu_mbytes_per_s: Memory bandwidth that the cores reach, 10**6 bytes per second.
        cpu_op_ns: Cost of every operation on the CPU besides its work; only forecasts use it.
    """

    name: str
    title: str
    fp32_gflops: int
    fp16_gflops: int
    mbytes_per_s: int
    launch_ns: int
    copy_ns: int
    efficiency: float
    efficiency_of: tuple[tuple[str, float], ...]
    cpu_cores: int
    cpu_matmul_gflops: int
    cpu_mbytes_per_s: int
    cpu_op_ns: int

    def settings(self, factor: float) -> list[str]:
        """Return the lines that tell the native device its times, all multiplied by `factor`."""
        return [
            f"launch_ns={round(self.launch_ns * factor)}",
            f"copy_ns={round(self.copy_ns * factor)}",
            f"flops={self.fp32_gflops * 1e9 / factor!r}",
            f"half_flops={self.fp16_gflops * 1e9 / factor!r}",
            f"bytes_per_s={self.mbytes_per_s * 1e6 / factor!r}",
            f"efficiency={self.efficiency!r}",
            *(f"efficiency_of={op}:{part!r}" for op, part in self.efficiency_of),
        ]


def names() -> list[str]:
    """Return the names of all profiles, sorted."""
    folder = resources.files("autoplace.sim").joinpath("profiles")
    return sorted(
        f.name.removesuffix(".toml") for f in folder.iterdir() if f.name.endswith(".toml")
    )


@functools.cache
def load(name: str) -> TimingProfile:
    """Read a profile.

    Raises:
        UnknownSimulationError: AP106, for one that there is not.
        FileProblem: AP600, for a file that is no profile.
    """
    if name not in names():
        raise UnknownSimulationError(
            "there is no timing profile of this name",
            expected=f"one of {', '.join(names())}",
            received=repr(name),
            fix=f"use profile={DEFAULT!r}",
        )
    return parse(package_data.toml("profiles", f"{name}.toml"))


def parse(content: Mapping[str, Any]) -> TimingProfile:
    """Make a profile of a file's content.

    Raises:
        FileProblem: AP600, for a field that is unknown, missing, or of an impossible value.
    """
    _check_fields(content, {"schema", "name", "title", "gpu", "cpu"}, "the file")
    gpu, cpu = content["gpu"], content["cpu"]
    _check_fields(
        gpu,
        {"fp32_gflops", "fp16_gflops", "mbytes_per_s", "launch_ns", "copy_ns", "efficiency"},
        "[gpu]",
    )
    _check_fields(cpu, {"cores", "matmul_gflops", "mbytes_per_s", "op_ns"}, "[cpu]")
    efficiency = dict(gpu["efficiency"])
    whole = [v for table in (gpu, cpu) for k, v in table.items() if k != "efficiency"]
    is_right = (
        content["schema"] == SCHEMA
        and all(isinstance(v, int) and v > 0 for v in whole)
        and CONTRACTION in efficiency
        and all(0 < part <= 1 for part in efficiency.values())
    )
    if not is_right:
        raise FileProblem(
            "a timing profile has an impossible value",
            expected=f"schema {SCHEMA}, whole figures above 0, parts of the peak up to 1",
            received=str(dict(content)),
            fix="correct the file",
        )
    return TimingProfile(
        name=content["name"],
        title=content["title"],
        fp32_gflops=gpu["fp32_gflops"],
        fp16_gflops=gpu["fp16_gflops"],
        mbytes_per_s=gpu["mbytes_per_s"],
        launch_ns=gpu["launch_ns"],
        copy_ns=gpu["copy_ns"],
        efficiency=efficiency.pop(CONTRACTION),
        efficiency_of=tuple(sorted(efficiency.items())),
        cpu_cores=cpu["cores"],
        cpu_matmul_gflops=cpu["matmul_gflops"],
        cpu_mbytes_per_s=cpu["mbytes_per_s"],
        cpu_op_ns=cpu["op_ns"],
    )


def _check_fields(table: Mapping[str, Any], wanted: set[str], where: str) -> None:
    if set(table) != wanted:
        raise FileProblem(
            f"a timing profile has other fields than it should, in {where}",
            expected=", ".join(sorted(wanted)),
            received=", ".join(sorted(table)),
            fix="correct the file",
        )
