"""Which rules apply to which units. Never raises, whatever a layer's config holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from autoplace.ir import Edge
from autoplace.rules.facts import Scalar, Surroundings, UnitFacts
from autoplace.rules.reading import COMPARISON, holds
from autoplace.rules.rule import Conditions, Rule

Holds = bool | None
"""None where it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspicion:
    """A rule that applies to some units of a model.

    Attributes:
        rule: The rule.
        paths: The units, in the order of the model; those of a chain together.
        open: Conditions that could not be looked up, such as ``macos`` or ``stderr``; they may hold.
    """

    rule: Rule
    paths: tuple[str, ...]
    open: tuple[str, ...] = ()


def suspicions(
    rules: Iterable[Rule],
    units: Sequence[UnitFacts],
    edges: Iterable[Edge],
    around: Surroundings,
) -> tuple[Suspicion, ...]:
    """Return the rules that apply to units of a model.

    Args:
        rules: Rules in force.
        units: All units of the model, in order.
        edges: What they hand on to each other.
        around: The machine and the run.
    """
    by_path = {unit.path: unit for unit in units}
    following: dict[str, list[UnitFacts]] = {}
    for edge in edges:
        if edge.source in by_path and edge.target in by_path:
            following.setdefault(edge.source, []).append(by_path[edge.target])
    found = []
    for rule in rules:
        if not rule.enabled or not rule.conditions.are_of_units:
            continue
        verdicts = dict(_around(rule.conditions, around))
        if False in verdicts.values():
            continue
        open_ = tuple(name for name, verdict in verdicts.items() if verdict is None)
        paths = {
            part.path
            for unit in units
            for chain in _chains(unit, rule.conditions, following)
            if all(_of_units(rule.conditions, chain))
            for part in chain
        }
        if paths:
            ordered = tuple(unit.path for unit in units if unit.path in paths)
            found.append(Suspicion(rule=rule, paths=ordered, open=open_))
    return tuple(found)


def by_unit(found: Iterable[Suspicion]) -> dict[str, tuple[Suspicion, ...]]:
    """Return the suspicions of each unit that has some."""
    result: dict[str, tuple[Suspicion, ...]] = {}
    for suspicion in found:
        for path in suspicion.paths:
            result[path] = (*result.get(path, ()), suspicion)
    return result


def applies_around(rule: Rule, around: Surroundings) -> Holds:
    """Return whether the conditions on machine and run hold; None where one is not known and none fails."""
    verdicts = [verdict for _, verdict in _around(rule.conditions, around)]
    return False if False in verdicts else (None if None in verdicts else True)


# ----------------------------------------------------------------------------- machine and run


def _around(wanted: Conditions, around: Surroundings) -> Iterator[tuple[str, Holds]]:
    for name, specifier in wanted.versions.items():
        yield name, _version(specifier, around.versions.get(name))
    if wanted.plugin is not None:
        name, specifier = wanted.plugin
        if around.plugins is None:
            yield "plugin", None
        else:
            yield "plugin", name in around.plugins and _version(specifier, around.plugins[name])
    if wanted.plugins_installed:
        known = around.plugins
        yield (
            "plugins_installed",
            None if known is None else holds(wanted.plugins_installed, len(known)),
        )
    for name, specifier in wanted.packages.items():
        version = around.packages.get(name)
        if version is None:
            yield name, None
        elif specifier == "absent" or version == "":
            yield name, (specifier == "absent") == (version == "")
        else:
            yield name, _version(specifier, version)
    if wanted.machine:
        yield "machine", None if around.machine is None else around.machine == wanted.machine
    if wanted.chip and "any" not in wanted.chip:
        yield "chip", None if around.chip is None else _is_chip(around.chip, wanted.chip)
    if wanted.optimizer:
        yield "optimizer", bool(set(wanted.optimizer) & set(around.optimizer))
    if wanted.training is not None:
        yield "training", around.training == wanted.training
    if wanted.execution:
        yield "execution", around.execution == wanted.execution
    if wanted.jit is not None:
        yield "jit", around.jit == wanted.jit
    # Only a run can tell.
    if wanted.stderr:
        yield "stderr", None
    if wanted.error:
        yield "error", None


def _version(specifier: str, version: str | None) -> Holds:
    if version is None:
        return None
    try:
        return SpecifierSet(specifier).contains(Version(version), prereleases=True)
    except InvalidVersion:
        return None


def _is_chip(chip: str, wanted: tuple[str, ...]) -> bool:
    words = chip.replace("_", " ").split()
    return any(name in words for name in wanted)


# ----------------------------------------------------------------------------------------- units


def _chains(
    unit: UnitFacts, wanted: Conditions, following: dict[str, list[UnitFacts]]
) -> Iterator[tuple[UnitFacts, ...]]:
    """Units in a row, from `unit` on, of the classes that are asked for; for most rules the unit alone."""
    steps = wanted.layer_chain or (wanted.layers,)
    rows: list[tuple[UnitFacts, ...]] = [(unit,)] if _is_one_of(unit, steps[0]) else []
    for names in steps[1:]:
        rows = [
            (*row, follower)
            for row in rows
            for follower in following.get(row[-1].path, [])
            if _is_one_of(follower, names)
        ]
    yield from rows


def _is_one_of(unit: UnitFacts, names: tuple[str, ...]) -> bool:
    return not names or bool(set(names) & set(unit.classes))


def _of_units(wanted: Conditions, chain: tuple[UnitFacts, ...]) -> Iterator[bool]:
    if wanted.layer_chain and wanted.layers:
        yield any(_is_one_of(unit, wanted.layers) for unit in chain)
    if wanted.ops:
        yield any(unit.ops & set(wanted.ops) for unit in chain)
    if wanted.op_chain:
        yield any(_contains(row, wanted.op_chain) for unit in chain for row in unit.op_chains)
    if wanted.activation:
        yield chain[-1].activation in wanted.activation
    for name, value in wanted.attrs.items():
        yield any(
            _is_value(value, given) for unit in chain for given in unit.attributes.get(name, ())
        )
    if wanted.dtype:
        yield any(unit.dtypes & set(wanted.dtype) for unit in chain)
    if wanted.policy:
        yield any(unit.policy in wanted.policy for unit in chain)
    for name, comparison in wanted.shape.items():
        yield any(name in unit.sizes and holds(comparison, unit.sizes[name]) for unit in chain)


def _contains(row: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    return row[: len(wanted)] == wanted


def _is_value(wanted: bool | str, given: Scalar) -> bool:
    if isinstance(wanted, bool):
        return given is wanted
    if COMPARISON.fullmatch(wanted):
        return (
            isinstance(given, (int, float)) and not isinstance(given, bool) and holds(wanted, given)
        )
    return given == wanted
