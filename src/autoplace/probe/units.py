"""Measures and judges units: each signature once, on both devices in turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from autoplace.engines.protocol import Array, Engine, NotProbeableError, Run, Session, UnitProbe
from autoplace.ir import CPU, Device, Unit, UnitCost, Verdict
from autoplace.probe.cache import Cache
from autoplace.probe.clock import WARM_RUNS, interleaved, time_once
from autoplace.probe.suspects import Suspects

# Below this a call's own overhead (0.1-0.3 ms) would be a large part of the cost, so it is measured as a
# difference of repeats; above, a repeat costs more time than it adds precision.
SMALL_NS = 3_000_000
REPEATS = 5
ROUNDS = 7
ROUNDS_LARGE = 2  # after the one that showed that it is large
# The canary of a cached plan complains where a unit was faster by this factor and now is slower.
CLEAR = 1.5

Timing = Callable[[], AbstractContextManager[object]]


@dataclass(kw_only=True)
class Measured:
    """Costs and verdicts by unit path, and where they came from."""

    costs: dict[str, dict[Device, UnitCost]] = field(default_factory=dict)
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    measured: int = 0
    from_cache: int = 0
    predicted: int = 0


class UnitMeter:
    """Measures the units of one session.

    Args:
        engine: The framework.
        session: The traced model.
        accelerator: The device to compare with the CPU.
        timing: Context in which times are a device's true ones (see `autoplace.sim.timing`).
        cache: Where results are looked up and kept.
        pinned: Paths that the policy fixed to the CPU: these are not tried on the accelerator.
        suspects: What the rules say of the units.
    """

    def __init__(
        self,
        engine: Engine,
        session: Session,
        accelerator: Device,
        timing: Timing,
        cache: Cache,
        pinned: frozenset[str] = frozenset(),
        suspects: Suspects | None = None,
    ) -> None:
        self._engine, self._session, self._accelerator = engine, session, accelerator
        self._timing, self._cache, self._pinned = timing, cache, pinned
        self._suspects = suspects or Suspects({})

    def measure(self, deadline: float, advance: Callable[[str], None]) -> Measured:
        """Measure every signature until `deadline`, and predict the rest.

        Args:
            deadline: `time.monotonic()` after which no further unit is begun.
            advance: Called with the path of each unit that is begun.
        """
        result = Measured()
        rows: dict[str, tuple[dict[Device, UnitCost], Verdict]] = {}
        context = self._session.context
        for unit in self._suspects.in_order(self._session.graph.units):
            advance(unit.path)
            untried = self._untried(unit)
            if untried is not None:
                if time.monotonic() < deadline:
                    result.costs[unit.path] = self._measure_on_cpu(unit, deadline)
                result.verdicts[unit.path] = untried
                continue
            if unit.signature not in rows:
                known = self._cache.unit(unit.signature, context)
                if known is not None:
                    result.from_cache += 1
                elif time.monotonic() < deadline:
                    known = self._measure(unit, deadline)
                    result.measured += 1
                    self._cache.put_unit(unit.signature, context, known)
                else:
                    continue
                rows[unit.signature] = known
            costs, verdict = rows[unit.signature]
            if costs:
                result.costs[unit.path] = costs
            result.verdicts[unit.path] = self._suspects.named(unit.path, verdict)
        self._predict(result)
        return result

    def _untried(self, unit: Unit) -> Verdict | None:
        """The verdict on a unit that may not be tried on the accelerator, or None."""
        if unit.path in self._pinned:
            return Verdict(state="unchecked", source="policy", evidence="pinned to the CPU")
        return self._suspects.verdict(unit.path)

    def check(self, unit: Unit, known: Mapping[Device, UnitCost]) -> bool:
        """Return whether a unit is still right, and still faster on the device on which it was.

        Only its forward pass is compiled and run. Times of a machine drift twofold between days; what must
        hold is which device is faster, where that was clear.
        """
        try:
            probes = dict(self._session.probes(unit.path))
            got, want = probes[self._accelerator].outputs(), probes[CPU].outputs()
            if self._compare("output", got, want, is_gradient=False) is not None:
                return False
            times = self._time_pass(
                {device: probe.forward for device, probe in probes.items()}, deadline=0.0
            )
        except NotProbeableError:
            return False
        before = known[self._accelerator].forward_ns / max(known[CPU].forward_ns, 1)
        now = times[self._accelerator] / max(times[CPU], 1)
        return not (before > CLEAR and now < 1) and not (before < 1 / CLEAR and now > 1)

    # ------------------------------------------------------------------------------------ inside

    def _measure(self, unit: Unit, deadline: float) -> tuple[dict[Device, UnitCost], Verdict]:
        try:
            probes = dict(self._session.probes(unit.path))
            verdict = self._judge(unit, probes)
        except NotProbeableError as error:
            return {}, Verdict(state="unchecked", source="probe", evidence=str(error))
        if not verdict.is_ok:
            probes = {CPU: probes[CPU]}
        try:
            return self._time(probes, deadline), verdict
        except NotProbeableError as error:
            return {}, Verdict(state="unchecked", source="probe", evidence=str(error))

    def _measure_on_cpu(self, unit: Unit, deadline: float) -> dict[Device, UnitCost]:
        """Measure a unit that may not be tried on the accelerator: it may hang or crash there."""
        try:
            probes = self._session.probes(unit.path)
            return self._time({CPU: probes[CPU]}, deadline)
        except NotProbeableError:
            return {}

    def _judge(self, unit: Unit, probes: Mapping[Device, UnitProbe]) -> Verdict:
        """Compare the compiled forward pass and gradients with the CPU's."""
        missing = probes[self._accelerator].missing_kernels()
        if missing:
            return Verdict(state="no_kernel", source="registry", evidence=", ".join(missing))
        want_out, want_grad = probes[CPU].results()
        try:
            got_out, got_grad = probes[self._accelerator].results()
        except NotProbeableError as error:
            return Verdict(state="crashes", source="parity", evidence=str(error))
        forward = self._compare("output", got_out, want_out, is_gradient=False)
        verdict = forward or self._compare("gradient", got_grad, want_grad, is_gradient=True)
        if verdict is None:
            return Verdict(state="ok", source="parity")
        if unit.is_random:
            # Not wrong, but training would not give what plain Keras gives on the CPU.
            return Verdict(
                state="unchecked",
                source="parity",
                evidence=f"other random numbers than on the CPU ({verdict.evidence})",
            )
        return verdict

    def _compare(
        self, what: str, got: list[Array], want: list[Array], *, is_gradient: bool
    ) -> Verdict | None:
        allowed = self._engine.tolerance(want, is_gradient=is_gradient)
        difference = self._engine.difference(got, want, is_gradient=is_gradient)
        if difference <= allowed:
            return None
        if self._engine.lost_finiteness(got, want):
            return Verdict(
                state="non_finite", source="parity", evidence=f"NaN or Inf in its {what}"
            )
        return Verdict(
            state="wrong",
            source="parity",
            evidence=f"its {what} is off by {difference:.2g} of its scale, {allowed:.2g} is allowed",
        )

    def _time(self, probes: Mapping[Device, UnitProbe], deadline: float) -> dict[Device, UnitCost]:
        by_pass = {
            name: self._time_pass(
                {device: getattr(probe, name) for device, probe in probes.items()}, deadline
            )
            for name in ("forward", "train", "update")
        }
        return {
            device: UnitCost(
                forward_ns=by_pass["forward"].get(device, 0),
                backward_ns=max(
                    0, by_pass["train"].get(device, 0) - by_pass["forward"].get(device, 0)
                ),
                update_ns=by_pass["update"].get(device, 0),
            )
            for device in probes
        }

    def _time_pass(
        self, makers: Mapping[Device, Callable[[int], Run | None]], deadline: float
    ) -> dict[Device, int]:
        """Return nanoseconds of one pass by device; nothing where the unit has no such pass."""
        once = {device: run for device, make in makers.items() if (run := make(1)) is not None}
        if not once:
            return {}
        with self._timing():
            for run in once.values():
                for _ in range(WARM_RUNS):
                    run()
            first = {device: time_once(run) for device, run in once.items()}
            if max(first.values()) > SMALL_NS:
                more = interleaved(once, rounds=ROUNDS_LARGE, deadline=deadline, warm_runs=0)
                return {
                    device: round(statistics.median([first[device], *more[device]]))
                    for device in once
                }
        runs: dict[tuple[Device, int], Run] = {(device, 1): run for device, run in once.items()}
        for device in once:
            many = makers[device](REPEATS)
            if many is not None:
                runs[device, REPEATS] = many
        with self._timing():
            times = interleaved(runs, rounds=ROUNDS, deadline=deadline)
        return {
            device: max(
                0,
                round(
                    statistics.median(
                        (b - a) / (REPEATS - 1)
                        for a, b in zip(times[device, 1], times[device, REPEATS], strict=True)
                    )
                ),
            )
            for device in once
        }

    def _predict(self, result: Measured) -> None:
        """Give units that were not reached a CPU cost like that of the nearest measured ones.

        Only for the report: a unit that was not compared is not placed on the accelerator.
        """
        graph = self._session.graph
        rates: dict[str, list[float]] = {}
        for unit in graph.units:
            if unit.path in result.costs:
                rate = result.costs[unit.path][CPU].total_ns / _size(unit)
                rates.setdefault(unit.class_name, []).append(rate)
        everything = [rate for found in rates.values() for rate in found]
        for unit in graph.units:
            if unit.path in result.verdicts:
                continue
            result.predicted += 1
            result.verdicts[unit.path] = Verdict(
                state="unchecked", source="budget", evidence="the budget of the warmup was used up"
            )
            like = rates.get(unit.class_name, everything)
            if like:
                total_ns = round(statistics.median(like) * _size(unit))
                result.costs[unit.path] = {CPU: UnitCost(forward_ns=total_ns, measured=False)}


def _size(unit: Unit) -> int:
    """Bytes that a unit handles, as a measure of its work."""
    outputs = 0
    for shape in unit.output_shapes:
        elements = 4
        for dimension in shape:
            elements *= abs(dimension)
        outputs += elements
    return max(1, outputs + unit.parameter_bytes)
