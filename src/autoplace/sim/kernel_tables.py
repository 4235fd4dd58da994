"""Kernel tables of tensorflow-metal, as data, and the part of one that can be simulated here.

The tables were read from the published wheels (tensorflow-metal is under the MIT licence, Apple
Inc.): every kernel that the plugin registers, with its dtypes and host-memory arguments.
`docs/simulator.md` says how.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

from autoplace.errors import UnknownSimulationError
from autoplace.sim import package_data

PLUGIN = "tensorflow-metal"
NEWEST = f"{PLUGIN}==1.2.0"  # what is simulated where nothing else is asked for
COMPOSED = frozenset({"_FusedBatchNormEx"})  # has no CPU kernel; native/delegate.h composes it


Dtypes = Mapping[str, "str | tuple[str, ...]"]
Version = tuple[int, ...]

Match = Literal["own", "default", "none"]
"""Where an operation on the GPU finds its kernel: the plugin's own, TensorFlow's for any device, or nowhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One entry of a table: an operation, for all combinations of its dtypes.

    Attributes:
        op: The operation.
        dtypes: Allowed dtypes by attribute; an attribute that is not named may have any.
        host_memory: Arguments that live in host memory.
        macos: The macOS version from which on the plugin registers it, empty for all that it runs on.
    """

    op: str
    dtypes: Mapping[str, tuple[str, ...]]
    host_memory: tuple[str, ...]
    macos: Version = ()

    def allows(self, dtypes: Dtypes) -> bool:
        """Whether it takes an operation with these type attributes; of a list of types, all have to fit."""
        return all(
            set((given,) if isinstance(given, str) else given) <= set(self.dtypes[attribute])
            for attribute, given in dtypes.items()
            if attribute in self.dtypes
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedTable:
    """What of a table this TensorFlow can run.

    Attributes:
        lines: A line for the native device per kernel, sorted.
        ops: The operations.
        left_out: Why something is missing, sorted.
    """

    lines: tuple[str, ...]
    ops: frozenset[str]
    left_out: tuple[str, ...]


def names() -> list[str]:
    """Return the names of all tables, oldest first, such as ``tensorflow-metal==1.2.0``."""
    return [f"{PLUGIN}=={version}" for version in _tables()]


def ops(name: str) -> frozenset[str]:
    """Return the operations of a table, simulated or not.

    Raises:
        UnknownSimulationError: AP106, for a table that there is not.
    """
    return frozenset(kernel.op for kernel in kernels(name))


def kernels(name: str) -> Iterator[Kernel]:
    """Return the entries of a table.

    Raises:
        UnknownSimulationError: AP106, for a table that there is not.
    """
    return (
        _kernel(op, variant) for op, variants in _table(name)["ops"].items() for variant in variants
    )


def lookup(name: str, op: str, dtypes: Dtypes, *, macos: str | None = None) -> Match:
    """Return where an operation on the GPU would find its kernel, as TensorFlow looks for it.

    No TensorFlow and no device is needed. Kernels for any device are those of TensorFlow 2.18.1.

    Args:
        name: The table.
        op: The operation, such as ``MatMul``.
        dtypes: Its type attributes, such as ``{"T": "float32"}``; a tuple for a list of types.
        macos: macOS version, such as ``"13.1"``; None for one that meets all conditions.

    Raises:
        UnknownSimulationError: AP106, for a table that there is not, or a macOS on which the plugin does not run.
    """
    system = macos_version(name, macos)
    own = [_kernel(op, variant) for variant in _table(name)["ops"].get(op, ())]
    if any(kernel.allows(dtypes) for kernel in own if is_registered(kernel, system)):
        return "own"
    return "default" if any(kernel.allows(dtypes) for kernel in _defaults(op)) else "none"


def macos_version(name: str, macos: str | None) -> Version | None:
    """Read a macOS version, such as ``"13"`` or ``"13.1"``; None stays None: one that meets all conditions.

    Raises:
        UnknownSimulationError: AP106, for what is no version, or one that the plugin's file does not load on.
    """
    oldest = tuple(int(part) for part in _table(name)["min_macos"].split("."))
    if macos is None:
        return None
    parts = macos.split(".")
    version = tuple(int(part) for part in parts if part.isascii() and part.isdigit())
    if len(version) != len(parts) or len(parts) > 3:
        raise UnknownSimulationError(
            "this is no macOS version",
            expected="a version such as '13' or '13.1'",
            received=repr(macos),
            fix="give what `sw_vers -productVersion` prints on the Mac",
        )
    if version < oldest[: len(version)]:
        raise UnknownSimulationError(
            "the plugin does not load on this macOS",
            expected=f"macOS {'.'.join(map(str, oldest))} or newer for {name}",
            received=f"macOS {macos}",
            fix="take a newer macOS, or an older plugin",
        )
    return version


def is_registered(kernel: Kernel, system: Version | None) -> bool:
    """Whether the plugin registers a kernel on a macOS version; None is one that meets all conditions."""
    # "13" stands for the newest 13.x, so only what it says is compared.
    return system is None or system >= kernel.macos[: len(system)]


def simulated(
    name: str, *, without: frozenset[str] = frozenset(), macos: str | None = None
) -> SimulatedTable:
    """Return what of a table can be simulated: where there is a CPU kernel to delegate to.

    Starts no device. Operations of `without` are left out, as a fault, and kernels that the plugin does not
    register on `macos`.

    Raises:
        UnknownSimulationError: AP106, as `lookup`.
    """
    system = macos_version(name, macos)
    lines: dict[str, str] = {}
    left_out: set[str] = set()
    left_out.update(f"{op}: taken away by a fault" for op in without)
    for kernel in kernels(name):
        if kernel.op in without:
            continue
        if not is_registered(kernel, system):
            left_out.add(f"{kernel.op}: from macOS {'.'.join(map(str, kernel.macos))} on")
            continue
        kept, notes = _runnable_dtypes(kernel)
        left_out.update(notes)
        if kept is None:
            continue
        # One line per combination: variants that overlap would be ambiguous at equal priority.
        for combination in product(*kept.values()):
            pairs = ";".join(f"{a}={d}" for a, d in zip(kept, combination, strict=True))
            lines[f"{kernel.op}|{pairs}|{','.join(kernel.host_memory)}"] = kernel.op
    return SimulatedTable(
        lines=tuple(sorted(lines)), ops=frozenset(lines.values()), left_out=tuple(sorted(left_out))
    )


def _runnable_dtypes(kernel: Kernel) -> tuple[dict[str, list[str]] | None, list[str]]:
    """The dtypes that can run on the CPU, None if there are none, and what was left out."""
    from tensorflow.python.framework import kernels as tf_kernels
    from tensorflow.python.framework import op_def_registry

    op = kernel.op
    definition = op_def_registry.get(op)
    if definition is None:
        return None, [f"{op}: this TensorFlow does not know the operation"]
    registered = [
        k for k in tf_kernels.get_registered_kernels_for_op(op).kernel if k.device_type == "CPU"
    ]
    if op not in COMPOSED and not registered:
        return None, [f"{op}: no CPU kernel to delegate to"]
    unknown = set(kernel.dtypes) - {attribute.name for attribute in definition.attr}
    if unknown:
        return None, [f"{op}: this TensorFlow has no attributes {sorted(unknown)}"]
    kept: dict[str, list[str]] = {}
    left_out = []
    for attribute, dtypes in kernel.dtypes.items():
        allowed = None if op in COMPOSED else _cpu_dtypes(registered, attribute)
        kept[attribute] = [d for d in dtypes if allowed is None or d in allowed]
        left_out += [
            f"{op}: no CPU kernel for {attribute}={d}" for d in dtypes if d not in kept[attribute]
        ]
    return (kept if all(kept.values()) else None), left_out


def _cpu_dtypes(registered: list[Any], attribute: str) -> set[str] | None:
    """The dtypes for which there is a CPU kernel; None where the attribute is not constrained."""
    import tensorflow as tf

    found: set[str] = set()
    for kernel in registered:
        allowed = [c.allowed_values.list.type for c in kernel.constraint if c.name == attribute]
        if not allowed:
            return None
        found.update(tf.as_dtype(number).name for number in allowed[0])
    return found


def _table(name: str) -> dict[str, Any]:
    plugin, _, version = name.partition("==")
    if plugin != PLUGIN or version not in _tables():
        raise UnknownSimulationError(
            "there is no kernel table of this name",
            expected=f"one of {', '.join(names())}",
            received=repr(name),
            fix=f"use kernels='{names()[-1]}'",
        )
    table: dict[str, Any] = _tables()[version]
    return table


def _kernel(op: str, variant: Mapping[str, Any]) -> Kernel:
    return Kernel(
        op=op,
        dtypes={attribute: tuple(dtypes) for attribute, dtypes in variant["constraints"].items()},
        host_memory=tuple(variant["host_memory"]),
        macos=max((_gates()[question] for question in variant.get("requires", ())), default=()),
    )


@functools.cache
def _defaults(op: str) -> tuple[Kernel, ...]:
    return tuple(
        _kernel(op, variant) for variant in _packed("default_kernels.json.xz")["ops"].get(op, ())
    )


@functools.cache
def _gates() -> dict[str, Version]:
    """The macOS version that answers yes to a question that the plugin asks before it registers a kernel."""
    gates = package_data.toml("data", "macos_gates.toml")["gate"]
    return {gate["question"]: tuple(gate["macos"]) for gate in gates}


def _tables() -> dict[str, Any]:
    tables: dict[str, Any] = _packed("kernels.json.xz")["versions"]
    return tables


@functools.cache
def _packed(file: str) -> dict[str, Any]:
    return package_data.packed_json("data", file)
