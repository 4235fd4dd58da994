"""The simulated device, started once; and children, for what needs a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ParamSpec, TypeVar, cast

import pytest
import tensorflow as tf

from autoplace import sim

SOURCE = Path(__file__).resolve().parent.parent.parent / "src"
HEAD = """
import os, sys, time
import numpy as np
import tensorflow as tf
from autoplace import sim
from autoplace.errors import *
"""
Child = Callable[..., subprocess.CompletedProcess[str]]
P = ParamSpec("P")
R = TypeVar("R")


def graph(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function to a graph of TensorFlow, as it is written."""
    return cast("Callable[P, R]", tf.function(function, jit_compile=False, autograph=False))


@pytest.fixture(scope="session", autouse=True)
def simulated() -> sim.SimulatedDevice:
    """The device of this process, at the default arguments."""
    return sim.start()


@pytest.fixture(autouse=True)
def _no_leftovers(simulated: sim.SimulatedDevice) -> None:
    """Each test begins without faults."""
    sim.set_faults([])


@pytest.fixture
def child(tmp_path: Path) -> Child:
    """Run code in a fresh process, in an empty folder; nothing is started there."""

    def run(code: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", HEAD + code],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=300,
            check=False,
            env={**os.environ, "PYTHONPATH": str(SOURCE), **(env or {})},
        )

    return run
