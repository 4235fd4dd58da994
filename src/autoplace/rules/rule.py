"""What a rule is: a suspicion from public reports, where it applies, and how to find out whether it is true here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from autoplace.ir import Verdict

Kind = Literal[
    "wrong_result",
    "nan",
    "missing_kernel",
    "slow",
    "memory",
    "hang",
    "crash",
    "version",
    "install",
]
Probe = Literal["parity", "parity_grad", "kernel_lookup", "timing", "metadata", "none"]
Confidence = Literal["high", "medium", "low"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Where a rule applies. All that are given must hold; within a tuple of names, one of them.

    Attributes:
        layers: Class names of Keras layers; a subclass counts as its bases.
        ops: Types of TensorFlow operations.
        layer_chain: Layers in a row, each a tuple of class names, each feeding the next.
        op_chain: Types of operations in a row, each feeding the next.
        activation: Names of Keras activations.
        attrs: Attribute of the layer or of its operations -> a literal, or a comparison such as ``>16``.
        dtype: Dtypes of tensors that the unit handles.
        policy: Names of Keras dtype policies.
        optimizer: Class names of Keras optimizers.
        jit: Whether `jit_compile` was asked for.
        execution: ``graph``, ``eager`` or ``v1_graph``.
        training: True for rules about train steps only.
        shape: ``batch``, ``steps``, ``units``, ``params`` or ``batch_elements`` -> a comparison.
        versions: ``tensorflow``, ``keras``, ``python`` or ``macos`` -> a specifier as in PEP 440.
        plugin: Distribution and specifier of the plugin, or None.
        plugins_installed: Comparison with the number of plugins, or an empty string.
        packages: Distribution -> a specifier, or ``absent``.
        machine: Architecture of the interpreter, or an empty string.
        chip: Names that the chip's name begins with behind ``Apple``, such as ``M1``.
        stderr: What the standard error stream shows, or an empty string.
        error: What an exception says, or an empty string.
    """

    layers: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()
    layer_chain: tuple[tuple[str, ...], ...] = ()
    op_chain: tuple[str, ...] = ()
    activation: tuple[str, ...] = ()
    attrs: Mapping[str, bool | str] = field(default_factory=dict)
    dtype: tuple[str, ...] = ()
    policy: tuple[str, ...] = ()
    optimizer: tuple[str, ...] = ()
    jit: bool | None = None
    execution: str = ""
    training: bool | None = None
    shape: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    plugin: tuple[str, str] | None = None
    plugins_installed: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    machine: str = ""
    chip: tuple[str, ...] = ()
    stderr: str = ""
    error: str = ""

    @property
    def are_of_units(self) -> bool:
        """Whether they say something about a single unit; others are about the machine or the run."""
        return bool(
            self.layers
            or self.ops
            or self.layer_chain
            or self.op_chain
            or self.activation
            or self.attrs
            or self.dtype
            or self.policy
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A suspicion with a probe.

    Attributes:
        id: Unique, such as ``AP-R001``; a user's rule of the same id replaces ours.
        title: One line.
        kind: What goes wrong.
        conditions: Where it applies.
        probe: How a machine finds out; ``none`` where nothing can be run, so that the rule acts alone.
        action: What is done where the probe agrees: ``pin_cpu``, ``warn``, ``refuse``, ``rewrite:<name>``
            or ``set:<option>``.
        remedy: What a person can do.
        confidence: Of the reports; a rule of low confidence only warns.
        evidence: The reports.
        note: What is not sure.
        enabled: False to take a rule of this id out.
        file: Name of the file that it came from.
    """

    id: str
    title: str
    kind: Kind
    conditions: Conditions
    probe: Probe
    action: str
    remedy: str
    confidence: Confidence
    evidence: tuple[str, ...]
    note: str = ""
    enabled: bool = True
    file: str = ""

    @property
    def named(self) -> str:
        """Its title and its id, for a sentence."""
        return f"{self.title} ({self.id})"

    @property
    def acts_alone(self) -> bool:
        """Whether it pins a unit without a probe: nothing can be run that would tell."""
        return self.probe == "none" and self.action == "pin_cpu" and self.confidence != "low"

    @property
    def forbids(self) -> bool:
        """Whether a unit that it is true of must not run on the accelerator."""
        pins = self.action == "pin_cpu" or self.action.startswith("rewrite:")
        return pins and self.kind in FORBIDDING and self.confidence != "low"


FORBIDDING = frozenset({"wrong_result", "nan", "memory", "hang", "crash"})
"""Kinds for which a unit may not run on the accelerator; a slow or missing kernel is only slow."""


def verdict_by(acting: Sequence[Rule]) -> Verdict | None:
    """Return the verdict of rules that act alone on a unit, where nothing is run; None where there is none."""
    if not acting:
        return None
    evidence = "; ".join(rule.named for rule in acting)
    return Verdict(state="unchecked", source="rules", evidence=evidence)
