"""What rules are compared with: plain values about units and about the machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autoplace.ir import Machine

PLUGINS = ("tensorflow-metal", "metal-pluggable-device", "tensorflow-metal-plugin")

Scalar = bool | int | float | str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitFacts:
    """What is known of a unit before it is run.

    Attributes:
        path: Path of the unit.
        classes: Class names of the layer and of the layers that it derives from.
        ops: Types of its operations, those of its gradients included where it is trained.
        op_chains: Types of operations in a row that begins in it, of two to four operations.
        activation: Name of its activation, or an empty string.
        attributes: Values by name, from the layer's config and from its operations.
        dtypes: Names of the dtypes of its tensors.
        policy: Name of its dtype policy.
        sizes: ``batch``, ``steps``, ``units``, ``params``, ``batch_elements``, as far as it has them.
    """

    path: str
    classes: tuple[str, ...]
    ops: frozenset[str] = frozenset()
    op_chains: frozenset[tuple[str, ...]] = frozenset()
    activation: str = ""
    attributes: Mapping[str, tuple[Scalar, ...]] = field(default_factory=dict)
    dtypes: frozenset[str] = frozenset()
    policy: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What is known of the machine and of the run; None where it is not known, which leaves a rule open.

    Attributes:
        versions: Of ``tensorflow``, ``keras``, ``python`` and ``macos``; one that is missing is not known.
        plugins: Versions of plugins by distribution; None where unknown.
        packages: Versions of other distributions, as far as they were looked up; empty text for absent.
        machine: Architecture of the interpreter.
        chip: Name of the chip.
        optimizer: Class names of the optimizers.
        training: Whether a train step is meant.
        execution: ``graph`` or ``eager``.
        jit: Whether `jit_compile` was asked for.
    """

    versions: Mapping[str, str] = field(default_factory=dict)
    plugins: Mapping[str, str] | None = None
    packages: Mapping[str, str] = field(default_factory=dict)
    machine: str | None = None
    chip: str | None = None
    optimizer: tuple[str, ...] = ()
    training: bool = True
    execution: str = "graph"
    jit: bool = False


def surroundings(
    machine: Machine,
    *,
    optimizer: tuple[str, ...] = (),
    training: bool = True,
    execution: str = "graph",
) -> Surroundings:
    """Return what a `Machine` says; on a simulated Mac that Mac's versions, and no macOS version unless given."""
    known = machine.fingerprint
    versions = {name: known[name] for name in ("tensorflow", "keras", "python") if known.get(name)}
    simulated = known.get("simulation.kernels", "")
    if machine.simulated:
        name, _, version = simulated.partition("==")
        plugins = {name: version} if name and version else {}
        if known.get("simulation.macos", "any") != "any":
            versions["macos"] = known["simulation.macos"]
        chip: str | None = known.get("simulation.profile")
        architecture: str | None = "arm64"
    else:
        plugins = {name: known[name] for name in PLUGINS if known.get(name)}
        if known.get("system", "").startswith("Darwin") and known.get("macos"):
            versions["macos"] = known["macos"]
        chip, architecture = known.get("chip"), known.get("architecture")
    return Surroundings(
        versions=versions,
        plugins=plugins,
        machine=architecture,
        chip=chip,
        optimizer=optimizer,
        training=training,
        execution=execution,
    )
