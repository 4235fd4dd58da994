"""Kernel tables of tensorflow-metal, as data, and the part of one that can be simulated here.

The tables were read from the published wheels (tensorflow-metal is under the MIT licence, Apple Inc.): every kernel
that the plugin registers, with its dtypes and host-memory arguments.
"""

from __future__ import annotations

import functools
import json
import lzma
from collections.abc import Iterator, Mapping
from importlib import resources
from itertools import product
from typing import Any

from autoplace.errors import UnknownSimulationError

PLUGIN = "tensorflow-metal"
COMPOSED = frozenset({"_FusedBatchNormEx"})  # has no CPU kernel; native/delegate.h composes it

Constraints = Mapping[str, list[str]]


@functools.cache
def _tables() -> dict[str, Any]:
    packed = resources.files("autoplace.sim").joinpath("data/kernels.json.xz").read_bytes()
    tables: dict[str, Any] = json.loads(lzma.decompress(packed))["versions"]
    return tables


def names() -> list[str]:
    """Return the names of all tables, such as ``tensorflow-metal==1.2.0``."""
    return [f"{PLUGIN}=={version}" for version in _tables()]


def kernels(name: str) -> Iterator[tuple[str, Constraints, list[str]]]:
    """Yield (operation, allowed dtypes by attribute, host-memory arguments) of every kernel of a table.

    Raises:
        UnknownSimulationError: AP106, for a table that there is not.
    """
    plugin, _, version = name.partition("==")
    if plugin != PLUGIN or version not in _tables():
        raise UnknownSimulationError(
            "there is no kernel table of this name",
            expected=f"one of {', '.join(names())}",
            received=repr(name),
            fix=f"use kernels='{PLUGIN}==1.2.0'",
        )
    for op, variants in _tables()[version]["ops"].items():
        for variant in variants:
            yield op, variant["constraints"], variant["host_memory"]


def simulated_lines(name: str) -> tuple[list[str], list[str]]:
    """Return the table's lines for the native device, and a note on each kernel that is left out.

    An entry can be simulated where this TensorFlow knows the operation and has a CPU kernel to delegate to.
    """
    from tensorflow.python.framework import kernels as tf_kernels
    from tensorflow.python.framework import op_def_registry

    lines: set[str] = set()
    left_out: set[str] = set()
    for op, constraints, host_memory in kernels(name):
        definition = op_def_registry.get(op)
        if definition is None:
            left_out.add(f"{op}: TensorFlow does not know this operation")
            continue
        registered = [
            k for k in tf_kernels.get_registered_kernels_for_op(op).kernel if k.device_type == "CPU"
        ]
        if op not in COMPOSED and not registered:
            left_out.add(f"{op}: no CPU kernel to delegate to")
            continue
        unknown = set(constraints) - {attribute.name for attribute in definition.attr}
        if unknown:
            left_out.add(f"{op}: this TensorFlow has no attributes {sorted(unknown)}")
            continue
        kept: dict[str, list[str]] = {}
        for attribute, dtypes in constraints.items():
            allowed = None if op in COMPOSED else _cpu_dtypes(registered, attribute)
            kept[attribute] = [d for d in dtypes if allowed is None or d in allowed]
            left_out.update(
                f"{op}: no CPU kernel for {attribute}={d}"
                for d in dtypes
                if d not in kept[attribute]
            )
        # One line per combination: variants that overlap would be ambiguous at equal priority.
        for combination in product(*kept.values()):
            pairs = ";".join(f"{a}={d}" for a, d in zip(kept, combination, strict=True))
            lines.add(f"{op}|{pairs}|{','.join(host_memory)}")
    return sorted(lines), sorted(left_out)


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
