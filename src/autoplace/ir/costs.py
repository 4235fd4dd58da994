"""What units and transfers cost, in integer nanoseconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autoplace.errors import PlannerInputError
from autoplace.ir.devices import Device

MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCost:
    """Cost of one call of a unit on one device; its update happens once per step.

    Attributes:
        forward_ns: Forward pass in nanoseconds, >= 0.
        backward_ns: Gradient computation, >= 0; 0 for inference.
        update_ns: Optimizer update of its weights, >= 0.
        measured: False where the cost was predicted instead of measured.
    """

    forward_ns: int
    backward_ns: int = 0
    update_ns: int = 0
    measured: bool = True

    def __post_init__(self) -> None:
        if min(self.forward_ns, self.backward_ns, self.update_ns) < 0:
            raise PlannerInputError(
                "a cost is negative",
                expected="nanoseconds >= 0",
                received=f"{self.forward_ns}, {self.backward_ns}, {self.update_ns}",
                fix="clip measurement noise at 0",
            )

    @property
    def total_ns(self) -> int:
        """Forward, backward and update together."""
        return self.forward_ns + self.backward_ns + self.update_ns

    def times(self, calls: int) -> UnitCost:
        """Return the cost of `calls` calls in one step; the update happens once."""
        return UnitCost(
            forward_ns=self.forward_ns * calls,
            backward_ns=self.backward_ns * calls,
            update_ns=self.update_ns,
            measured=self.measured,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferCost:
    """One-way cost of moving a tensor between two devices, as fitted by the probe.

    Attributes:
        fixed_ns: Cost of an empty transfer in nanoseconds, >= 0.
        ns_per_mib: Slope in nanoseconds per 2**20 bytes, >= 0.
    """

    fixed_ns: int
    ns_per_mib: int

    def at(self, size_bytes: int) -> int:
        """Return the cost in ns, rounded up: a transfer of one byte is never free."""
        return self.fixed_ns - (-size_bytes * self.ns_per_mib // MIB)


@dataclass(frozen=True, kw_only=True)
class CostTable:
    """Costs of all units on all devices, and of transfers in both directions.

    Attributes:
        units: Cost by unit path, then device.
        transfers: Cost by source device, then target device.
    """

    units: Mapping[str, Mapping[Device, UnitCost]]
    transfers: Mapping[Device, Mapping[Device, TransferCost]] = field(default_factory=dict)

    def transfer_ns(self, source: Device, target: Device, size_bytes: int) -> int:
        """Return the cost of moving `size_bytes` from `source` to `target`; 0 on one device."""
        if source == target:
            return 0
        return self.transfers[source][target].at(size_bytes)
