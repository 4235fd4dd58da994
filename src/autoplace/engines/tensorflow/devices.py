"""The devices of this process, and the machine that they belong to."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from autoplace.errors import TensorFlowMissingError, UnknownDeviceError
from autoplace.ir import CPU, GPU, Device, Machine
from autoplace.rules import PLUGINS


def check_backend() -> None:
    """Raise unless Keras runs on TensorFlow.

    Raises:
        TensorFlowMissingError: AP101.
    """
    if keras.backend.backend() != "tensorflow":
        raise TensorFlowMissingError(
            "Keras runs on a backend for which autoplace has no engine",
            expected="the TensorFlow backend",
            received=f"KERAS_BACKEND={keras.backend.backend()}",
            fix="set KERAS_BACKEND=tensorflow, or use plain Keras",
        )


def tf_name(device: Device) -> str:
    """The only spelling that `op._set_device` takes: `/device:GPU:0`."""
    return f"/device:{device.kind.upper()}:{device.index}"


def of_tf(name: str) -> Device | None:
    """Read any of TensorFlow's spellings; None for an unplaced operation or another kind of device."""
    kind, _, index = name.rpartition("device:")[2].partition(":")
    return Device(kind.lower(), int(index)) if kind.lower() in ("cpu", "gpu") and index else None


def accelerator() -> Device | None:
    """The accelerator of this process, or None. Starts TensorFlow's devices."""
    return GPU if tf.config.list_logical_devices("GPU") else None


def check_device(device: Device) -> None:
    """Raise unless this process has `device`.

    Raises:
        UnknownDeviceError: AP401.
    """
    available = [CPU] + [GPU for _ in [accelerator()] if _]
    if device not in available:
        raise UnknownDeviceError(
            "a device is asked for that this machine does not have",
            expected=f"one of {[str(d) for d in available]}",
            received=f"'{device}'",
            fix="use a listed device, or run where TensorFlow lists the accelerator",
        )


def describe_accelerator() -> str:
    """What TensorFlow says of the accelerator, such as its name."""
    physical = tf.config.list_physical_devices("GPU")
    if not physical:
        return "none"
    details = tf.config.experimental.get_device_details(physical[0])
    return str(details.get("device_name") or physical[0].name)


def machine(simulation: Mapping[str, str] | None = None) -> Machine:
    """Describe this machine by all that measured costs depend on; `simulation` describes a simulated device."""
    listed = {"cpu:0": platform.processor() or platform.machine()}
    if accelerator():
        listed["gpu:0"] = describe_accelerator()
    fingerprint = {
        "system": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        **({"macos": platform.mac_ver()[0]} if platform.system() == "Darwin" else {}),
        "chip": _chip(),
        "cores": str(len(_usable_cores())),
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "numpy": np.__version__,
        "accelerator": listed.get("gpu:0", "none"),
        **{name: version for name in PLUGINS if (version := _version(name))},
        **{f"simulation.{key}": value for key, value in (simulation or {}).items()},
    }
    return Machine(fingerprint=fingerprint, devices=listed, simulated=bool(simulation))


def _usable_cores() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _chip() -> str:
    """The processor's brand name."""
    if platform.system() == "Darwin":
        shown = subprocess.run(
            ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"],
            capture_output=True,
            text=True,
            check=False,
        )
        return shown.stdout.strip() or platform.machine()
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8", "replace")
    except OSError:
        text = ""
    named = (line for line in text.splitlines() if line.startswith("model name"))
    return next((line.split(":", 1)[1].strip() for line in named), platform.machine())


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""
