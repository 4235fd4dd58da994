"""Devices, spelled `cpu:0` and `gpu:0`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from autoplace.errors import UnknownDeviceError

_SPELLING = re.compile(r"(?:/device:)?([a-zA-Z]+):(\d+)")


@dataclass(frozen=True, slots=True, order=True)
class Device:
    """A place where a unit can run.

    Attributes:
        kind: ``cpu`` or ``gpu``; any accelerator that TensorFlow lists as GPU, Metal's included.
        index: Number within the kind, from 0.
    """

    kind: str
    index: int = 0

    def __post_init__(self) -> None:
        if self.kind not in ("cpu", "gpu") or self.index < 0:
            raise UnknownDeviceError(
                "a device has an unknown name",
                expected="'cpu:0', 'gpu:0' or another index",
                received=f"{self.kind}:{self.index}",
                fix="use one of the devices that autoplace.report(model) lists",
            )

    @classmethod
    def parse(cls, text: str) -> Device:
        """Read `cpu:0`, `GPU:0` or `/device:GPU:0`; a bare `cpu` means index 0.

        Raises:
            UnknownDeviceError: AP401, for anything else.
        """
        match = _SPELLING.fullmatch(text if ":" in text else f"{text}:0")
        if match is None:
            raise UnknownDeviceError(
                "a device name could not be read",
                expected="'cpu:0', 'gpu:0' or another index",
                received=repr(text),
                fix="write the device as kind:index",
            )
        return cls(match[1].lower(), int(match[2]))

    def __str__(self) -> str:
        return f"{self.kind}:{self.index}"


CPU = Device("cpu")
GPU = Device("gpu")
