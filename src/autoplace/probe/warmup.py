"""The warmup: from a traced model to a plan and the arm that carries it out.

    trace -> probe and judge units -> solve -> gate -> plan

Nothing here changes the model: `Outcome.arm.adopt()` does, once, at the end.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace

from autoplace import planner
from autoplace.engines.protocol import Arm, Engine, Session
from autoplace.errors import PinCannotHoldError
from autoplace.ir import (
    ALL_CPU,
    ALL_GPU,
    CPU,
    MIXED,
    Assignment,
    CostTable,
    Device,
    Event,
    Machine,
    Plan,
    ProbeSummary,
    TransferCost,
    Unit,
    Verdict,
)
from autoplace.probe import gate, transfers
from autoplace.probe.cache import Cache
from autoplace.probe.progress import progress
from autoplace.probe.reasons import reason
from autoplace.probe.suspects import Suspects
from autoplace.probe.units import Measured, UnitMeter
from autoplace.rules import Policy, resolve_groups, resolve_pins

# Shares of the budget: units first, the gate has the rest. Each may finish what it has begun.
UNITS_SHARE = 0.5
CANARY_UNITS = 2
CANARY_NS = 5_000_000


@dataclass(kw_only=True)
class Outcome:
    """A plan, and the arm that carries it out."""

    plan: Plan
    arm: Arm


def make_plan(
    engine: Engine,
    session: Session,
    policy: Policy,
    cache: Cache,
    machine: Machine,
    *,
    timing: Callable[[], AbstractContextManager[object]],
    kind: str,
) -> Outcome:
    """Find the placement for a session.

    Args:
        engine: The framework.
        session: The traced model and its batches.
        policy: What the user decided.
        cache: What was measured before.
        machine: This machine.
        timing: Context in which times are a device's true ones.
        kind: ``train`` or ``predict``.

    Raises:
        PinCannotHoldError: AP404, for pins that match nothing, contradict each other, or ask for a device
            on which the unit is wrong or has no kernel.
    """
    warmup = _Warmup(engine, session, policy, cache, machine, timing, kind)
    if policy.mode in ("cpu", "gpu"):
        return warmup.forced(Device(policy.mode))
    if policy.budget_s == 0:
        return warmup.unmeasured()
    return warmup.cached() or warmup.measured()


class _Warmup:
    def __init__(
        self,
        engine: Engine,
        session: Session,
        policy: Policy,
        cache: Cache,
        machine: Machine,
        timing: Callable[[], AbstractContextManager[object]],
        kind: str,
    ) -> None:
        self._start = time.monotonic()
        self._engine, self._session, self._policy = engine, session, policy
        self._cache, self._machine, self._timing, self._kind = cache, machine, timing, kind
        accelerator = engine.accelerator()
        self._accelerator = accelerator or CPU
        self._graph = session.graph
        paths = [unit.path for unit in self._graph.units]
        self._pins = resolve_pins(policy, paths)
        for device in set(self._pins.values()):
            engine.check_device(device)
        self._groups = resolve_groups(policy, paths)
        self._suspects = Suspects.of(session, machine, policy, is_training=kind == "train")

    # ------------------------------------------------------------------------- without measuring

    def forced(self, device: Device) -> Outcome:
        """Everything on one device but for the pins, as the policy's mode says."""
        self._engine.check_device(device)
        devices = {u.path: self._pins.get(u.path, device) for u in self._graph.units}
        plan = self._plan(
            devices,
            reasons={
                path: f"pinned to {d} by the policy"
                if path in self._pins
                else f"on {device} by the policy's mode"
                for path, d in devices.items()
            },
            events=self._suspects.events(path for path, d in devices.items() if d != CPU),
        )
        return Outcome(plan=plan, arm=self._arm(devices, plan.choice))

    def unmeasured(self) -> Outcome:
        """A budget of 0: nothing may be measured, so nothing can be known to be right elsewhere."""
        devices = {u.path: self._pins.get(u.path, CPU) for u in self._graph.units}
        plan = self._plan(
            devices,
            reasons={
                path: f"pinned to {d} by the policy"
                if path in self._pins
                else "on the CPU: nothing was measured (budget_s=0)"
                for path, d in devices.items()
            },
            events=[
                Event(
                    step=0,
                    kind="fallback",
                    unit="",
                    action="all on the CPU",
                    detail="budget_s=0 leaves no time to measure or to compare results",
                )
            ],
        )
        return Outcome(plan=plan, arm=self._arm(devices, plan.choice))

    def cached(self) -> Outcome | None:
        """The plan decided for this model on this machine, if a few units still behave as they did."""
        known = self._cache.plan(self._key())
        if known is None or len(known.graph.units) != len(self._graph.units):
            return None
        # The same model built again has other layer names; the order of its units is the same.
        name = {
            old.path: new.path
            for old, new in zip(known.graph.units, self._graph.units, strict=True)
        }
        costs = CostTable(
            units={name[path]: row for path, row in known.costs.units.items()},
            transfers=known.costs.transfers,
        )
        verdicts = {name[path]: verdict for path, verdict in known.verdicts.items()}
        meter = UnitMeter(self._engine, self._session, self._accelerator, self._timing, self._cache)
        with self._session.undisturbed():
            for unit in self._canaries(costs, verdicts):
                if not meter.check(unit, costs.units[unit.path]):
                    return None
        devices = {name[path]: device for path, device in known.devices.items()}
        plan = self._plan(
            devices,
            costs=costs,
            verdicts=verdicts,
            step_times=known.step_times,
            gate=known.gate,
            parity=known.parity,
            events=list(known.events),
        )
        arm = self._arm(devices, plan.choice)
        found = len({unit.signature for unit in self._graph.units})
        probe = ProbeSummary(seconds=time.monotonic() - self._start, from_cache=found)
        return Outcome(plan=replace(plan, probe=probe), arm=arm)

    # ---------------------------------------------------------------------------- with measuring

    def measured(self) -> Outcome:
        """Measure units and transfers, solve, and let the gate decide."""
        total = len(self._graph.units) + 2 + 2 * len(gate.SIMPLEST)
        with progress(self._policy.progress, total) as advance:
            units = self._measure_units(advance)
            advance("transfers")
            costs = CostTable(units=units.costs, transfers=self._transfers())
            fixed = self._fixed(units)
            candidates = self._candidates(units, costs, fixed)
            arms: dict[str, Arm] = {}
            for name, devices in candidates.items():
                arms[name] = self._arm(devices, name)
            outcome = gate.run_gate(
                self._engine,
                self._session,
                arms,
                self._timing,
                # What the units were late with is not taken from the gate: a decision on too few rounds
                # would throw away what they found.
                max(
                    self._start + self._policy.budget_s,
                    time.monotonic() + (1 - UNITS_SHARE) * self._policy.budget_s,
                ),
                advance,
            )
        devices = candidates[outcome.winner]
        plan = self._plan(
            devices,
            costs=costs,
            verdicts=units.verdicts,
            step_times=outcome.step_times,
            gate=outcome.result,
            parity=outcome.parity.get(outcome.winner),
            events=outcome.events,
            probe=ProbeSummary(
                seconds=time.monotonic() - self._start,
                measured=units.measured,
                from_cache=units.from_cache,
                predicted=units.predicted,
            ),
        )
        if not units.predicted:  # a plan made in a hurry is not worth keeping
            self._cache.put_plan(self._key(), plan)
        return Outcome(plan=plan, arm=arms[outcome.winner])

    def _measure_units(self, advance: Callable[[str], None]) -> Measured:
        pinned = frozenset(path for path, device in self._pins.items() if device == CPU)
        meter = UnitMeter(
            self._engine,
            self._session,
            self._accelerator,
            self._timing,
            self._cache,
            pinned,
            self._suspects,
        )
        deadline = self._start + UNITS_SHARE * self._policy.budget_s
        with self._session.undisturbed():
            return meter.measure(deadline, advance)

    def _transfers(self) -> dict[Device, dict[Device, TransferCost]]:
        with self._timing():
            return transfers.measure(self._engine, self._accelerator, self._cache)

    def _fixed(self, units: Measured) -> dict[str, Device]:
        """Where units have to be: the user's pins, and the CPU for what is not known to be right elsewhere."""
        for path, device in self._pins.items():
            verdict = units.verdicts.get(path)
            if device != CPU and verdict is not None and verdict.state in _FORBIDDING:
                raise PinCannotHoldError(
                    "a pin asks for a device on which the unit does not work",
                    expected=f"{path!r} on cpu:0, or no pin",
                    received=f"a pin to {device}; there it is {verdict.state}: {verdict.evidence}",
                    fix="take the pin out of Policy.pins",
                )
        unfit = {path: CPU for path, verdict in units.verdicts.items() if not verdict.is_ok}
        fixed = {**unfit, **self._pins}
        for group in self._groups:  # a group is where its strictest member has to be
            if any(fixed.get(path) == CPU for path in group):
                fixed.update({path: CPU for path in group if path not in self._pins})
        return fixed

    def _candidates(
        self, units: Measured, costs: CostTable, fixed: Mapping[str, Device]
    ) -> dict[str, Mapping[str, Device]]:
        """The placements to compare, by choice."""
        paths = [unit.path for unit in self._graph.units]
        solution = planner.solve(
            self._graph,
            costs,
            fixed=fixed,
            together=self._groups,
            devices=(CPU, self._accelerator),
        )
        found: dict[str, Mapping[str, Device]] = {}
        broken = [path for path, v in units.verdicts.items() if v.state in _WRONG]
        for device in (CPU, self._accelerator):
            if device != CPU and broken:
                continue  # a unit is wrong there: a whole model on it is out of the question
            if all(self._pins.get(path, device) == device for path in paths):
                found[ALL_CPU if device == CPU else ALL_GPU] = dict.fromkeys(paths, device)
        if len(set(solution.devices.values())) > 1:
            found[MIXED] = solution.devices
        if ALL_CPU not in found:
            # With pins to the accelerator there is no all-CPU plan to run, but still one to compare with.
            found[ALL_CPU] = {path: self._pins.get(path, CPU) for path in paths}
        return found

    # ------------------------------------------------------------------------------------ common

    def _arm(self, devices: Mapping[str, Device], choice: str) -> Arm:
        # All on the accelerator is what plain Keras does by itself, soft placement included: nothing is pinned.
        plain = choice == ALL_GPU and self._policy.mode != "gpu"
        with self._session.undisturbed():
            return self._session.arm(None if plain else devices)

    def _plan(
        self,
        devices: Mapping[str, Device],
        *,
        costs: CostTable | None = None,
        verdicts: Mapping[str, Verdict] | None = None,
        reasons: Mapping[str, str] | None = None,
        events: list[Event] | None = None,
        **evidence: object,
    ) -> Plan:
        costs, verdicts = costs or CostTable(units={}), verdicts or {}
        assignments = tuple(
            Assignment(
                path=unit.path,
                device=devices[unit.path],
                reason=(reasons or {}).get(unit.path)
                or reason(
                    unit,
                    devices[unit.path],
                    graph=self._graph,
                    costs=costs,
                    verdict=verdicts.get(unit.path),
                    devices=devices,
                    pinned=unit.path in self._pins,
                ),
            )
            for unit in self._graph.units
        )
        evidence.setdefault("probe", ProbeSummary(seconds=time.monotonic() - self._start))
        return Plan(
            graph=self._graph,
            units=assignments,
            kind=self._kind,
            costs=costs,
            verdicts=verdicts,
            machine=self._machine,
            events=tuple(events or ()),
            **evidence,  # type: ignore[arg-type]  # checked by Plan's own field types below
        )

    def _key(self) -> str:
        """What a decided plan depends on besides the machine."""
        parts = [
            self._graph.signature,
            self._session.context,
            self._kind,
            sorted((path, str(device)) for path, device in self._pins.items()),
            [list(group) for group in self._groups],
            self._suspects.acting,
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]

    def _canaries(self, costs: CostTable, verdicts: Mapping[str, Verdict]) -> list[Unit]:
        """The few cheap units on which most depends: where the two devices differ most."""
        differences: list[tuple[int, Unit]] = []
        for unit in self._graph.units:
            row, verdict = costs.units.get(unit.path, {}), verdicts.get(unit.path)
            if len(row) < 2 or verdict is None or not verdict.is_ok:
                continue
            times = [cost.total_ns for cost in row.values()]
            if sum(times) <= CANARY_NS:
                differences.append((abs(times[0] - times[1]), unit))
        differences.sort(key=lambda pair: -pair[0])
        return [unit for _, unit in differences[:CANARY_UNITS]]


_WRONG = frozenset({"wrong", "non_finite", "crashes", "hangs"})
_FORBIDDING = _WRONG | {"no_kernel"}


@contextmanager
def untimed() -> Iterator[None]:
    """A timing context for real devices: their time is always true."""
    yield
