"""What the rules say before anything is measured: which units first, which not at all, and why one was wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from autoplace import rules
from autoplace.engines.protocol import Session
from autoplace.ir import Event, Machine, Unit, Verdict
from autoplace.rules import Policy, Suspicion

# Rules that can explain a verdict, by its state.
EXPLAINED_BY: Mapping[str, frozenset[str]] = {
    "wrong": frozenset({"wrong_result", "nan"}),
    "non_finite": frozenset({"nan", "wrong_result"}),
    "no_kernel": frozenset({"missing_kernel", "slow"}),
    "crashes": frozenset({"crash", "missing_kernel"}),
    "hangs": frozenset({"hang"}),
}
FIRST = frozenset({"wrong_result", "nan"})
LAST = frozenset({"crash", "hang", "memory"})


class Suspects:
    """The units of a model that rules apply to.

    Args:
        by_unit: Suspicions by unit path.
    """

    def __init__(self, by_unit: Mapping[str, tuple[Suspicion, ...]]) -> None:
        self._by_unit = by_unit

    @classmethod
    def of(
        cls, session: Session, machine: Machine, policy: Policy, *, is_training: bool
    ) -> Suspects:
        """Look up the rules in force for a session."""
        found = rules.suspicions(
            rules.load(policy.rules),
            session.facts,
            session.graph.edges,
            rules.surroundings(machine, optimizer=session.optimizers, training=is_training),
        )
        return cls(rules.by_unit(found))

    @property
    def acting(self) -> list[list[str]]:
        """Unit and rule of each pin that is made without a probe: a plan depends on these."""
        return sorted(
            [path, suspicion.rule.id] for path in self._by_unit for suspicion in self._acting(path)
        )

    def in_order(self, units: Sequence[Unit]) -> list[Unit]:
        """Units in the order in which to probe them.

        Those that are suspected of wrong results come first, so that they are judged also where the budget ends
        early; those that may end the process come last, when the others are in the cache.
        """

        def rank(unit: Unit) -> int:
            kinds = {suspicion.rule.kind for suspicion in self._by_unit.get(unit.path, ())}
            return 2 if kinds & LAST else 0 if kinds & FIRST else 1

        return sorted(units, key=rank)

    def verdict(self, path: str) -> Verdict | None:
        """What rules decide alone on a unit, because nothing can be run that would tell; None where nothing."""
        return rules.verdict_by([suspicion.rule for suspicion in self._acting(path)])

    def named(self, path: str, verdict: Verdict) -> Verdict:
        """Return a verdict with the rules that explain it behind its evidence."""
        kinds = EXPLAINED_BY.get(verdict.state, frozenset())
        known = [
            suspicion.rule.id
            for suspicion in self._by_unit.get(path, ())
            if suspicion.rule.kind in kinds and suspicion.rule.confidence != "low"
        ]
        if not known:
            return verdict
        return replace(verdict, evidence=f"{verdict.evidence} ({', '.join(known)})")

    def events(self, paths: Iterable[str]) -> list[Event]:
        """What is to be said where units run on the accelerator uncompared, because the policy forces them."""
        return [
            Event(
                step=0,
                kind="rule",
                unit=path,
                action="not compared: the policy forces the device",
                detail=suspicion.rule.named,
            )
            for path in paths
            for suspicion in self._by_unit.get(path, ())
            if suspicion.rule.forbids
        ]

    def _acting(self, path: str) -> list[Suspicion]:
        return [s for s in self._by_unit.get(path, ()) if s.rule.acts_alone and not s.open]
