"""Kernel tables of tensorflow-metal, as data, and the part of one that can be simulated here.

The tables were read from the published wheels (tensorflow-metal is under the MIT licence, Apple
Inc.): every kernel that the plugin registers, with its dtypes and host-memory arguments.
`docs/simulator.md` says how.
"""

from __future__ import annotations

import functools
import json
import lzma
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from itertools import product
from typing import Any

from autoplace.errors import UnknownSimulationError

PLUGIN = "tensorflow-metal"
NEWEST = f"{PLUGIN}==1.2.0"  # what is simulated where nothing else is asked for
COMPOSED = frozenset({"_FusedBatchNormEx"})  # has no CPU kernel; native/delegate.h composes it


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One entry of a table: an operation, for all combinations of its dtypes.

    Attributes:
        op: The operation.
        dtypes: Allowed dtypes by attribute; an attribute that is not named may have any.
        host_memory: Arguments that live in host memory.
    """

    op: str
    dtypes: Mapping[str, tuple[str, ...]]
    host_memory: tuple[str, ...]


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
    plugin, _, version = name.partition("==")
    if plugin != PLUGIN or version not in _tables():
        raise UnknownSimulationError(
            "there is no kernel table of this name",
            expected=f"one of {', '.join(names())}",
            received=repr(name),
            fix=f"use kernels='{names()[-1]}'",
        )
    return (
        Kernel(
            op=op,
            dtypes={
                attribute: tuple(dtypes) for attribute, dtypes in variant["constraints"].items()
            },
            host_memory=tuple(variant["host_memory"]),
        )
        for op, variants in _tables()[version]["ops"].items()
        for variant in variants
    )


def simulated(name: str, *, without: frozenset[str] = frozenset()) -> SimulatedTable:
    """Return what of a table can be simulated: where there is a CPU kernel to delegate to.

    Starts no device. Operations of `without` are left out, as a fault.

    Raises:
        UnknownSimulationError: AP106, for a table that there is not.
    """
    lines: dict[str, str] = {}
    left_out: set[str] = set()
    left_out.update(f"{op}: taken away by a fault" for op in without)
    for kernel in kernels(name):
        if kernel.op in without:
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


@functools.cache
def _tables() -> dict[str, Any]:
    packed = resources.files("autoplace.sim").joinpath("data", "kernels.json.xz").read_bytes()
    tables: dict[str, Any] = json.loads(lzma.decompress(packed))["versions"]
    return tables
