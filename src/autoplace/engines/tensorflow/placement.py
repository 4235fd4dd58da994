"""Reads from the graphs that TensorFlow executed where the operations of each unit really ran.

Soft placement moves operations in silence, so that a plan is only proven by what was executed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from autoplace.engines.tensorflow import seams
from autoplace.engines.tensorflow.devices import of_tf
from autoplace.engines.tensorflow.pins import MARKER
from autoplace.ir import Device

TRANSFERS = frozenset({"_Send", "_Recv", "_HostSend", "_HostRecv"})


@dataclass(kw_only=True)
class Executed:
    """Where one run's operations were executed.

    Attributes:
        operations: Number of operations by unit path, pass and device; the pass is ``forward`` or
            ``backward``, with `` loop body`` behind it inside a while loop.
        types: Operation types by unit path and device.
        loop_transfers: Transfers between devices inside of loop bodies.
    """

    operations: Counter[tuple[str, str, Device]] = field(default_factory=Counter)
    types: dict[tuple[str, Device], Counter[str]] = field(default_factory=dict)
    loop_transfers: int = 0

    def passes(self, path: str) -> set[str]:
        """Return the passes in which a unit was seen."""
        return {which for seen, which, _ in self.operations if seen == path}

    def misplaced(self, devices: Mapping[str, Device]) -> dict[str, Counter[str]]:
        """Return operations that ran elsewhere than planned: types by unit path."""
        return {
            path: types
            for (path, device), types in self.types.items()
            if path in devices and device != devices[path]
        }


def executed(run: Callable[[], Any], paths: list[str]) -> Executed:
    """Run something that executes a placed step, and read where its operations ran.

    Args:
        run: Runs at least one step that was not traced before; TensorFlow hands out a graph only then.
        paths: Unit paths in the order of the plan; the markers in the graph are positions in it.
    """
    found = Executed()
    for node in seams.executed_nodes(run):
        in_loop = "/while" in node.name and "/body" in node.name
        if node.op in TRANSFERS:
            found.loop_transfers += in_loop
            continue
        markers = MARKER.findall(node.name)
        device = of_tf(node.device)
        if not markers or device is None:
            continue
        path = paths[int(markers[-1])]
        which = ("backward" if "gradient" in node.name else "forward") + " loop body" * in_loop
        found.operations[path, which, device] += 1
        found.types.setdefault((path, device), Counter())[node.op] += 1
    return found
