"""What the user asks for: constructor arguments, then environment variables, then defaults."""

from __future__ import annotations

import json
import math
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from autoplace.errors import InvalidPolicyError, UnknownDeviceError
from autoplace.ir import Device

Mode = Literal["auto", "cpu", "gpu", "off"]
Progress = Literal["auto", "on", "off"]


def _field(default: Any, read: Callable[[str], Any]) -> Any:
    """A field whose default is read from its environment variable when a `Policy` is made."""
    return field(default_factory=_FromEnvironment(default), metadata={"read": read})


class _FromEnvironment:
    """Stands for a value that was not given until ``Policy.__post_init__`` has looked it up."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self) -> _FromEnvironment:
        return self


def _read_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"no JSON: {error}") from None


def _read_switch(text: str) -> bool:
    switches = {"1": True, "true": True, "0": False, "false": False}
    try:
        return switches[text.strip().lower()]
    except KeyError:
        raise ValueError("neither 1, true, 0 nor false") from None


def _read_paths(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(os.pathsep) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How autoplace places a model.

    Every field that is not given comes from the environment variable ``AUTOPLACE_<FIELD>``, such as
    ``AUTOPLACE_BUDGET_S=5``, and from the default if that is not set either. `pins` and `keep_together`
    are JSON there; `cache` is 0, 1, true or false.

    Attributes:
        mode: ``auto`` measures and chooses; ``cpu`` and ``gpu`` force one device; ``off`` is plain Keras.
        budget_s: Seconds that the warmup may spend on measuring, >= 0.
        pins: Device by pattern of unit paths, such as ``{"lstm*": "cpu:0"}``.
        keep_together: Groups of patterns; all units that a group matches share a device.
        cache: Whether measured costs are kept for the next process.
        cache_dir: Folder of the cache; None for the one in which this system keeps caches.
        rules: Paths of rule files of your own, see docs/rules.md; in the environment separated as in `PATH`.
        progress: Whether the warmup shows a progress bar; ``auto`` does where someone can see it.

    Raises:
        InvalidPolicyError: AP405, for a value that a field cannot have.

    Example:
        >>> Policy(mode="cpu").mode
        'cpu'
    """

    mode: Mode = _field("auto", str)
    budget_s: float = _field(20.0, float)
    pins: Mapping[str, str] = _field({}, _read_json)
    keep_together: Sequence[Sequence[str]] = _field((), _read_json)
    cache: bool = _field(True, _read_switch)
    cache_dir: str | None = _field(None, str)
    rules: Sequence[str] = _field((), _read_paths)
    progress: Progress = _field("auto", str)

    def __post_init__(self) -> None:
        for entry in fields(self):
            value, origin = getattr(self, entry.name), f"Policy.{entry.name}"
            if isinstance(value, _FromEnvironment):
                variable = f"AUTOPLACE_{entry.name.upper()}"
                text = os.environ.get(variable, "")
                if text == "":
                    value = value.value
                else:
                    origin = f"environment variable {variable}"
                    try:
                        value = entry.metadata["read"](text)
                    except ValueError as error:
                        raise _invalid(origin, entry.name, f"{text!r} ({error})") from None
            object.__setattr__(self, entry.name, _check(entry.name, value, origin))


_EXPECTED = {
    "mode": f"one of {', '.join(map(repr, get_args(Mode)))}",
    "budget_s": "a finite number of seconds >= 0",
    "pins": "a mapping of patterns of unit paths to devices, such as {'lstm*': 'cpu:0'}",
    "keep_together": "a sequence of sequences of patterns, such as [['conv*', 'pool*']]",
    "cache": "True or False (1, true, 0 or false in the environment)",
    "cache_dir": "the path of a folder, or None",
    "rules": "paths of rule files",
    "progress": f"one of {', '.join(map(repr, get_args(Progress)))}",
}


def _invalid(origin: str, name: str, received: str) -> InvalidPolicyError:
    return InvalidPolicyError(
        f"{origin} has a value that it cannot have",
        expected=f"{name}: {_EXPECTED[name]}",
        received=received,
        fix=f"set {origin} to an allowed value, or leave it out",
    )


def _check(name: str, value: Any, origin: str) -> Any:
    """Return `value` in the form in which `Policy` keeps it."""
    try:
        return _CHECKS[name](value)
    except UnknownDeviceError as error:
        raise _invalid(origin, name, f"{value!r} ({error.expected} are devices)") from None
    except (TypeError, ValueError, AttributeError):
        raise _invalid(origin, name, repr(value)) from None


def _one_of(words: tuple[str, ...]) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if not isinstance(value, str) or value not in words:
            raise ValueError
        return value

    return check


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not math.isfinite(value) or value < 0:
        raise ValueError
    return float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError
    return value


def _patterns(value: Any) -> tuple[str, ...]:
    if isinstance(value, (str, Mapping)):
        raise TypeError
    return tuple(_text(pattern) for pattern in value)


def _pins(value: Any) -> dict[str, str]:
    return {
        _text(pattern): str(device if isinstance(device, Device) else Device.parse(_text(device)))
        for pattern, device in value.items()
    }


def _groups(value: Any) -> tuple[tuple[str, ...], ...]:
    if isinstance(value, (str, Mapping)):
        raise TypeError
    return tuple(_patterns(group) for group in value)


def _switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _folder(value: Any) -> str | None:
    return None if value is None else _text(os.fspath(value))


def _paths(value: Any) -> tuple[str, ...]:
    if isinstance(value, (str, bytes, Mapping)):
        raise TypeError
    return tuple(_text(os.fspath(path)) for path in value)


_CHECKS: Mapping[str, Callable[[Any], Any]] = {
    "mode": _one_of(get_args(Mode)),
    "budget_s": _seconds,
    "pins": _pins,
    "keep_together": _groups,
    "cache": _switch,
    "cache_dir": _folder,
    "rules": _paths,
    "progress": _one_of(get_args(Progress)),
}


# The only mutable thing here: what set_policy was last given. Written by set_policy alone.
_default: Policy | None = None
_lock = threading.Lock()


def set_policy(policy: Policy | None) -> None:
    """Make `policy` the default of models made from now on; None for the built-in default.

    Raises:
        InvalidPolicyError: AP405, for anything that is no `Policy`.
    """
    global _default
    if policy is not None and not isinstance(policy, Policy):
        raise InvalidPolicyError(
            "set_policy was given something else than a policy",
            expected="an autoplace.Policy, or None for the built-in default",
            received=repr(policy)[:200],
            fix="autoplace.set_policy(autoplace.Policy(mode='cpu'))",
        )
    with _lock:
        _default = policy


def get_policy() -> Policy:
    """Return the default policy: the one that `set_policy` was given, or else ``Policy()`` as of now."""
    with _lock:
        current = _default
    return Policy() if current is None else current
