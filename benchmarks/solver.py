"""The planner's solver: how long a placement takes, and what SciPy in its place would do.

    .venv/bin/python benchmarks/solver.py [--small] [--sizes 1000 10000] [--out build/bench/solver.json]

Graphs are chains of random costs with skip connections and shared tensors. OR-tools and SciPy solve the same
network in turn; SciPy has 32-bit capacities, so it gets them scaled into 31 bits and rounded. Import times are of
fresh processes. SciPy is optional: without it only OR-tools is measured.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from autoplace import planner
from autoplace.ir import (
    CPU,
    GPU,
    INPUT,
    CostTable,
    Edge,
    LayerGraph,
    TransferCost,
    Unit,
    UnitCost,
)
from autoplace.planner.cut import SINK, SOURCE, Network, build_network
from autoplace.planner.groups import group_units

MODULES = (
    "ortools.graph.python.max_flow",
    "ortools.graph.python.min_cost_flow",
    "scipy.sparse.csgraph",
)


def problem(units: int, seed: int) -> tuple[LayerGraph, CostTable]:
    """Return a chain of `units` units in which every third has a skip connection."""
    rng = random.Random(seed)
    paths = [f"u{index}" for index in range(units)]
    edges = [Edge(source=INPUT, target=paths[0], size_bytes=2**20, tensor="in", has_gradient=False)]
    for index in range(1, units):
        reach = (1, rng.randint(2, 8)) if index % 3 == 0 else (1,)
        edges += [
            Edge(
                source=paths[max(index - back, 0)],
                target=paths[index],
                size_bytes=rng.randint(0, 2**22),
                tensor=f"t{max(index - back, 0)}",
            )
            for back in reach
        ]
    graph = LayerGraph(
        model_name="bench",
        model_kind="functional",
        batch_size=32,
        units=tuple(Unit(path=path, class_name="Dense", signature=path) for path in paths),
        edges=tuple(edges),
    )
    fee = TransferCost(fixed_ns=50_000, ns_per_mib=100_000)
    costs = CostTable(
        units={
            path: {
                CPU: UnitCost(forward_ns=rng.randint(1_000, 3_000_000)),
                GPU: UnitCost(forward_ns=50_000 + rng.randint(0, 2_000_000)),
            }
            for path in paths
        },
        transfers={CPU: {GPU: fee}, GPU: {CPU: fee}},
    )
    return graph, costs


def scipy_source_side(network: Network) -> set[int]:
    """Return the source's side of a minimum cut by SciPy, capacities scaled into 31 bits."""
    import numpy as np
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    ends = np.array(list(network.arcs), dtype=np.int32)
    capacities = np.array(list(network.arcs.values()), dtype=np.int64)
    divisor = max(1, -(-int(capacities.sum()) // (2**31 - 1)))
    capacities = np.round(capacities / divisor).astype(np.int32)
    size = int(ends.max()) + 1
    matrix = csr_array((capacities, (ends[:, 0], ends[:, 1])), shape=(size, size))
    flow = maximum_flow(matrix, SOURCE, SINK).flow
    residual = csr_array(matrix - flow)
    residual.data[residual.data < 0] = 0
    residual.eliminate_zeros()
    return {SOURCE, *breadth_first_order(residual, SOURCE, return_predecessors=False).tolist()}


def timed(call: Callable[[], object]) -> int:
    """Return the nanoseconds that `call` took."""
    start = time.perf_counter_ns()
    call()
    return time.perf_counter_ns() - start


def import_ns(module: str) -> int | None:
    """Return the nanoseconds of importing `module` in a fresh process; None where it is not installed."""
    code = (
        "import time; s = time.perf_counter_ns()\n"
        f"try: import {module}\nexcept ImportError: print('null')\n"
        "else: print(time.perf_counter_ns() - s)"
    )
    answer: int | None = json.loads(
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout
    )
    return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Samples of one size.

    Attributes:
        units: Number of units.
        samples_ns: Times by what was timed.
        scipy_worse_by: How much longer the step of SciPy's placement is, as a fraction of the best.
    """

    units: int
    samples_ns: dict[str, list[int]]
    scipy_worse_by: list[float]


def measure(units: int, rounds: int, with_scipy: bool) -> Result:
    """Return samples for one size, both solvers in turn."""
    names = ("planner.solve", "build_network", "ortools", *(("scipy",) if with_scipy else ()))
    samples: dict[str, list[int]] = {name: [] for name in names}
    worse: list[float] = []
    for seed in range(rounds):
        graph, costs = problem(units, seed)
        groups = group_units(graph, costs, fixed={}, together=(), devices=(CPU, GPU))
        samples["planner.solve"].append(timed(partial(planner.solve, graph, costs)))
        start = time.perf_counter_ns()
        network = build_network(graph, costs, groups, (CPU, GPU))
        samples["build_network"].append(time.perf_counter_ns() - start)
        samples["ortools"].append(timed(network.source_side))
        if with_scipy:
            samples["scipy"].append(timed(partial(scipy_source_side, network)))
            side = scipy_source_side(network)
            placement = {
                unit.path: GPU if network.nodes[unit.path] in side else CPU for unit in graph.units
            }
            best = planner.solve(graph, costs).step_ns
            worse.append(planner.predict_step_ns(graph, costs, placement) / best - 1)
    return Result(units=units, samples_ns=samples, scipy_worse_by=worse)


def main() -> None:
    """Measure, print a table, write the samples."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="only 1000 units, three rounds")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000], metavar="UNITS")
    parser.add_argument("--out", type=Path, default=Path("build/bench/solver.json"))
    arguments = parser.parse_args()
    imports = {
        module: [import_ns(module) for _ in range(3 if arguments.small else 7)]
        for module in MODULES
    }
    with_scipy = imports["scipy.sparse.csgraph"][0] is not None
    planner.solve(*problem(10, 0))
    sizes = [1_000] if arguments.small else arguments.sizes
    results = [measure(units, 3 if arguments.small else 5, with_scipy) for units in sizes]
    lines = ["import, fresh process, median ms"]
    for module, times in imports.items():
        known = [time_ns for time_ns in times if time_ns is not None]
        text = f"{statistics.median(known) / 1e6:8.0f}" if known else "  absent"
        lines.append(f"  {module:36}{text}")
    for result in results:
        lines.append(f"{result.units} units, median ms")
        for name, samples in result.samples_ns.items():
            lines.append(f"  {name:36}{statistics.median(samples) / 1e6:8.1f}")
        if with_scipy:
            worst = max(result.scipy_worse_by)
            lines.append(f"  scipy's step is longer by at most {worst:10.3%}")
    sys.stdout.write("\n".join(lines) + "\n")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    machine = {"python": platform.python_version(), "system": platform.platform()}
    content = {"machine": machine, "import_ns": imports, "sizes": [asdict(r) for r in results]}
    arguments.out.write_text(json.dumps(content, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
