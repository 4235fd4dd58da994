"""The plan: which unit runs where, and the evidence for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from autoplace.errors import PlanDoesNotFitError, PlannerInputError, UnknownUnitError
from autoplace.ir.costs import CostTable
from autoplace.ir.devices import CPU, Device
from autoplace.ir.evidence import (
    Event,
    GateResult,
    Machine,
    Parity,
    ProbeSummary,
    StepTime,
    Verdict,
)
from autoplace.ir.graph import Edge, LayerGraph, unknown_unit

ALL_CPU = "all-cpu"
ALL_GPU = "all-gpu"
MIXED = "mixed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Where one unit runs, and why.

    Attributes:
        path: Path of the unit.
        device: Its device.
        reason: A sentence that a user understands.
    """

    path: str
    device: Device
    reason: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The placement of a whole model, with everything that led to it.

    Attributes:
        graph: Units and edges that the plan is for.
        units: One assignment per unit of `graph`, in its order.
        kind: ``train``, or ``predict`` for a model that was only used for inference.
        costs: What units and transfers cost.
        verdicts: By unit path, what is known of the unit on the accelerator.
        step_times: By choice, the time of a whole step as the gate measured it.
        gate: The comparison that decided, or None where nothing had to be compared.
        parity: The whole-step comparison with the CPU, or None where nothing runs elsewhere.
        probe: What measuring took.
        machine: Where it was measured.
        events: What happened on the way, such as a candidate that was refused.

    Raises:
        PlannerInputError: AP406, where the assignments are not exactly one per unit.
    """

    graph: LayerGraph
    units: tuple[Assignment, ...]
    kind: str = "train"
    costs: CostTable = field(default_factory=lambda: CostTable(units={}))
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    step_times: Mapping[str, StepTime] = field(default_factory=dict)
    gate: GateResult | None = None
    parity: Parity | None = None
    probe: ProbeSummary = field(default_factory=ProbeSummary)
    machine: Machine = field(default_factory=Machine)
    events: tuple[Event, ...] = ()

    def __post_init__(self) -> None:
        assigned = [assignment.path for assignment in self.units]
        expected = [unit.path for unit in self.graph.units]
        if assigned != expected:
            raise PlannerInputError(
                "the assignments of a plan are not one per unit, in order",
                expected=f"{len(expected)} units, e.g. {expected[:3]}",
                received=f"{len(assigned)} assignments, e.g. {assigned[:3]}",
                fix="make plans with the planner, or keep the order of graph.units",
            )

    @cached_property
    def devices(self) -> Mapping[str, Device]:
        """Device by unit path."""
        return {assignment.path: assignment.device for assignment in self.units}

    @property
    def choice(self) -> str:
        """``all-cpu``, ``all-gpu`` or ``mixed``."""
        kinds = {device.kind for device in self.devices.values()} or {"cpu"}
        if len(kinds) > 1:
            return MIXED
        return ALL_CPU if kinds == {"cpu"} else ALL_GPU

    def device_of(self, path: str) -> str:
        """Return the device of a unit, such as ``gpu:0``.

        A container's path stands for all units inside it, if these share a device.

        Raises:
            UnknownUnitError: AP403, for a path that is neither, or a container on two devices.
        """
        if path in self.devices:
            return str(self.devices[path])
        inside = {str(self.devices[p]) for p in self.devices if p.startswith(f"{path}/")}
        if len(inside) == 1:
            return inside.pop()
        if inside:
            raise UnknownUnitError(
                "the units inside this container are on different devices",
                expected="the path of a single unit",
                received=f"{path!r}, with units on {sorted(inside)}",
                fix=f"ask for one of {[p for p in self.devices if p.startswith(f'{path}/')][:4]}",
            )
        raise unknown_unit(path, self.graph)

    def crosses(self, edge: Edge) -> bool:
        """Return whether `edge` leads from one device to another."""
        return self.devices.get(edge.source, CPU) != self.devices[edge.target]

    def check_fits(self, graph: LayerGraph) -> None:
        """Raise if this plan cannot be used for a model with the given graph.

        Raises:
            PlanDoesNotFitError: AP402, if the unit paths or classes differ.
        """
        own = {unit.path: unit.class_name for unit in self.graph.units}
        other = {unit.path: unit.class_name for unit in graph.units}
        if own == other:
            return
        different = sorted(dict(own.items() ^ other.items()))
        raise PlanDoesNotFitError(
            "the plan was made for another model",
            expected=f"the {len(other)} units of {graph.model_name!r}",
            received=f"a plan of {self.graph.model_name!r} with {len(own)} units; "
            f"they differ in {different[:3]}",
            fix="run model.warmup(x, y) for a new plan, or load the plan of this model",
        )

    def for_graph(self, graph: LayerGraph) -> Plan:
        """Return this plan for a model that has the same units, perhaps at another batch size."""
        self.check_fits(graph)
        return replace(
            self, graph=graph, units=tuple(self._assignment(u.path) for u in graph.units)
        )

    def _assignment(self, path: str) -> Assignment:
        return next(a for a in self.units if a.path == path)

    def save(self, path: str | Path) -> None:
        """Write the plan as JSON, to a temporary name first, so that no half file is ever left.

        Raises:
            OSError: If the folder cannot be written.
        """
        from autoplace.ir import plan_json

        plan_json.save(self, Path(path))

    @staticmethod
    def load(path: str | Path) -> Plan:
        """Read a plan that `save` wrote.

        Raises:
            BrokenPlanFileError: AP601, for anything that is not a whole, known plan.
            FileNotFoundError: If there is no such file.
        """
        from autoplace.ir import plan_json

        return plan_json.load(Path(path))
