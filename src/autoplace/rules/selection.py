"""Patterns over unit paths, resolved to exact units.

A pattern is a shell pattern (`*`, `?`, `[ab]`; case counts). It matches a unit if it matches the unit's
whole path or any leading part of it, so that ``encoder`` and ``lstm*`` take everything inside these containers.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from autoplace.errors import PinCannotHoldError
from autoplace.ir import Device
from autoplace.rules.policy import Policy


def resolve_pins(policy: Policy, paths: Sequence[str]) -> dict[str, Device]:
    """Return the device of each unit that ``policy.pins`` matches.

    Args:
        policy: Whose pins to resolve.
        paths: Paths of all units of the model.

    Raises:
        PinCannotHoldError: AP404, for a pattern that matches no unit, or two that disagree on one.
    """
    pins: dict[str, Device] = {}
    said: dict[str, str] = {}
    for pattern, name in policy.pins.items():
        device = Device.parse(name)
        for path in _matching(pattern, paths, "Policy.pins"):
            if pins.setdefault(path, device) != device:
                raise PinCannotHoldError(
                    "two pins ask for different devices for one unit",
                    expected="one device for each unit",
                    received=f"{path!r}: {said[path]!r} -> {pins[path]}, {pattern!r} -> {device}",
                    fix="make one of the patterns narrower, or drop one of the pins",
                )
            said.setdefault(path, pattern)
    return pins


def resolve_groups(policy: Policy, paths: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return the units of each group of ``policy.keep_together``, in the order of `paths`.

    Args:
        policy: Whose groups to resolve.
        paths: Paths of all units of the model.

    Raises:
        PinCannotHoldError: AP404, for a pattern that matches no unit.
    """
    groups = []
    for patterns in policy.keep_together:
        chosen: set[str] = set()
        for pattern in patterns:
            chosen.update(_matching(pattern, paths, "Policy.keep_together"))
        groups.append(tuple(path for path in paths if path in chosen))
    return tuple(groups)


def _matching(pattern: str, paths: Sequence[str], origin: str) -> tuple[str, ...]:
    found = tuple(path for path in paths if _matches(pattern, path))
    if found:
        return found
    raise PinCannotHoldError(
        f"a pattern in {origin} matches no unit of this model",
        expected=f"a pattern for some of the {len(paths)} units, e.g. {list(paths[:4])}",
        received=repr(pattern),
        fix="take names from model.plan.units, or from the names of the model's layers",
    )


def _matches(pattern: str, path: str) -> bool:
    parts = path.split("/")
    leading = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
    # Equality as well: a layer may be named `a[0]`, which as a pattern would match `a0` only.
    return pattern in leading or any(fnmatchcase(part, pattern) for part in leading)
