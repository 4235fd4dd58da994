"""Measures what it costs to move a tensor, in each direction, as `fixed + slope * bytes`."""

from __future__ import annotations

import statistics

from autoplace.engines.protocol import Engine
from autoplace.ir import CPU, MIB, Device, TransferCost
from autoplace.probe.cache import Cache
from autoplace.probe.clock import interleaved

SMALL_BYTES, LARGE_BYTES = 4096, 4 * MIB
FEW, MANY = 1, 9
ROUNDS = 9


def measure(
    engine: Engine, accelerator: Device, cache: Cache
) -> dict[Device, dict[Device, TransferCost]]:
    """Return the costs between the CPU and `accelerator`, both ways."""
    return {
        source: {target: _direction(engine, source, target, cache)}
        for source, target in ((CPU, accelerator), (accelerator, CPU))
    }


def _direction(engine: Engine, source: Device, target: Device, cache: Cache) -> TransferCost:
    known = cache.transfer(source, target)
    if known is not None:
        return known
    runs = {
        (size, repeats): engine.transfer(source, target, size, repeats)
        for size in (SMALL_BYTES, LARGE_BYTES)
        for repeats in (FEW, MANY)
    }
    times = interleaved(runs, rounds=ROUNDS, deadline=float("inf"))
    per_transfer = {
        size: max(
            0.0,
            statistics.median(
                (many - few) / (MANY - FEW)
                for few, many in zip(times[size, FEW], times[size, MANY], strict=True)
            ),
        )
        for size in (SMALL_BYTES, LARGE_BYTES)
    }
    slope = max(0.0, per_transfer[LARGE_BYTES] - per_transfer[SMALL_BYTES])
    cost = TransferCost(
        fixed_ns=round(per_transfer[SMALL_BYTES]),
        ns_per_mib=round(slope * MIB / (LARGE_BYTES - SMALL_BYTES)),
    )
    cache.put_transfer(source, target, cost)
    return cost
