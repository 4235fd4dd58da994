"""Which rules apply: each condition holds, fails or stays open; nothing that a layer holds makes it raise."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoplace.ir import Edge, Machine
from autoplace.rules import (
    Conditions,
    Rule,
    Surroundings,
    UnitFacts,
    applies_around,
    built_in,
    by_unit,
    find_rule,
    surroundings,
    suspicions,
)

pytestmark = pytest.mark.pure

MAC = Surroundings(
    versions={"tensorflow": "2.18.1", "keras": "3.12.0", "python": "3.11.4", "macos": "14.5"},
    plugins={"tensorflow-metal": "1.2.0"},
    machine="arm64",
    chip="Apple M1 Pro",
    optimizer=("Adam",),
)
DENSE = UnitFacts(
    path="dense",
    classes=("Dense",),
    ops=frozenset({"MatMul", "BiasAdd", "Relu"}),
    op_chains=frozenset({("MatMul", "BiasAdd"), ("MatMul", "BiasAdd", "Relu")}),
    activation="relu",
    attributes={"use_bias": (True,), "units": (8,)},
    dtypes=frozenset({"float32"}),
    policy="float32",
    sizes={"batch": 32, "params": 72},
)
RELU = UnitFacts(path="re_lu", classes=("ReLU",), ops=frozenset({"Relu"}), activation="relu")


def found(*units: UnitFacts, around: Surroundings = MAC, edges: Any = ()) -> dict[str, list[str]]:
    got = by_unit(suspicions(built_in(), units, edges, around))
    return {path: [s.rule.id for s in many] for path, many in got.items()}


def test_dense_with_relu_is_suspected_on_a_mac_with_the_plugin() -> None:
    assert {"AP-R001", "AP-R003"} <= set(found(DENSE)["dense"])


@pytest.mark.parametrize(
    "changes",
    [
        {"attributes": {"use_bias": (False,)}},
        {"activation": "elu"},
        {"classes": ("Conv2D",)},
    ],
)
def test_what_was_reported_right_is_not_suspected(changes: dict[str, Any]) -> None:
    assert "AP-R001" not in found(replace(DENSE, **changes)).get("dense", [])


@pytest.mark.parametrize(
    "around",
    [
        replace(MAC, plugins={}),
        replace(MAC, plugins={"tensorflow-metal": "0.8.0"}),
        replace(MAC, plugins={"metal-pluggable-device": "1.2.0"}),
        replace(MAC, execution="eager"),
    ],
)
def test_elsewhere_the_rule_does_not_apply(around: Surroundings) -> None:
    assert "AP-R001" not in found(DENSE, around=around).get("dense", [])


def test_a_subclass_counts_as_its_bases() -> None:
    assert "AP-R001" in found(replace(DENSE, classes=("MyDense", "Dense")))["dense"]


def test_a_chain_is_suspected_only_where_one_feeds_the_other() -> None:
    plain = replace(DENSE, activation="linear", op_chains=frozenset())
    edge = Edge(source="dense", target="re_lu", size_bytes=4, tensor="t")
    assert "AP-R002" not in found(plain, RELU).get("dense", [])
    together = found(plain, RELU, edges=[edge])
    assert "AP-R002" in together["dense"]
    assert "AP-R002" in together["re_lu"]


@pytest.mark.parametrize(("k", "is_suspected"), [(15, False), (16, True), (20, True)])
def test_comparisons_of_attributes(k: int, is_suspected: bool) -> None:
    unit = UnitFacts(
        path="top",
        classes=("TopK",),
        ops=frozenset({"TopKV2"}),
        attributes={"k": (k,), "k_equals_axis": (False,)},
        dtypes=frozenset({"float32"}),
    )
    assert ("AP-R005" in found(unit).get("top", [])) is is_suspected


def test_what_is_not_known_leaves_a_rule_open() -> None:
    conv = UnitFacts(path="conv", classes=("Conv1D",), attributes={"filters": (70_000,)})
    unknown = replace(MAC, versions={})
    [suspicion] = [s for s in suspicions(built_in(), [conv], (), unknown) if s.rule.id == "AP-R007"]
    assert suspicion.open == ("macos",)
    assert "AP-R007" in found(conv)["conv"]  # 14.5 is before the repair
    newer = replace(MAC, versions={"macos": "15.2"})
    assert "AP-R007" not in found(conv, around=newer).get("conv", [])


def test_rules_about_the_machine_alone() -> None:
    rule = find_rule(built_in(), "AP-R059")
    assert applies_around(rule, replace(MAC, versions={"tensorflow": "2.20.0"})) is True
    assert applies_around(rule, MAC) is False
    assert applies_around(rule, replace(MAC, plugins=None)) is False
    assert applies_around(rule, replace(MAC, plugins=None, versions={})) is None
    two = {"tensorflow-metal": "1.2.0", "metal-pluggable-device": "0.1"}
    assert applies_around(find_rule(built_in(), "AP-R064"), replace(MAC, plugins=two)) is True


@pytest.mark.parametrize(("chip", "applies"), [("Apple M3 Max", True), ("Apple M1", False)])
def test_chips_by_their_names(chip: str, applies: bool) -> None:
    around = replace(MAC, chip=chip, versions={"tensorflow": "2.16.2"})
    open_or_false = applies_around(find_rule(built_in(), "AP-R057"), around)
    assert open_or_false is (None if applies else False)  # what stderr shows is open


def test_packages_absent_and_present() -> None:
    rule = find_rule(built_in(), "AP-R062")
    newer = {"python": "3.13.1"}
    absent = replace(MAC, versions=newer, packages={"tensorflow-metal": ""})
    assert applies_around(rule, absent) is True
    present = replace(absent, packages={"tensorflow-metal": "1.2.0"})
    assert applies_around(rule, present) is False


def test_a_simulated_mac_counts_as_that_mac() -> None:
    machine = Machine(
        fingerprint={
            "system": "Linux 6",
            "architecture": "x86_64",
            "tensorflow": "2.21.0",
            "simulation.kernels": "tensorflow-metal==1.2.0",
            "simulation.macos": "any",
            "simulation.profile": "Apple M1, 8-core GPU",
        },
        simulated=True,
    )
    around = surroundings(machine)
    assert around.plugins == {"tensorflow-metal": "1.2.0"}
    assert around.machine == "arm64"
    assert "macos" not in around.versions
    assert "AP-R001" in found(DENSE, around=around)["dense"]


def test_a_linux_machine_has_no_plugin() -> None:
    machine = Machine(fingerprint={"system": "Linux 6", "tensorflow": "2.21.0"})
    around = surroundings(machine)
    assert around.plugins == {}
    assert all(
        not rule.startswith("AP-R00") for rule in found(DENSE, around=around).get("dense", [])
    )


text = st.text(max_size=8)
scalars = st.one_of(st.booleans(), st.integers(), st.floats(), text)
units = st.builds(
    UnitFacts,
    path=text,
    classes=st.tuples(st.sampled_from(["Dense", "ReLU", "Conv2D", "Odd"])),
    ops=st.frozensets(st.sampled_from(["MatMul", "TopKV2", "Relu"]) | text, max_size=3),
    op_chains=st.frozensets(st.tuples(text, text), max_size=2),
    activation=st.sampled_from(["relu", "", "odd"]),
    attributes=st.dictionaries(
        st.sampled_from(["use_bias", "k", "filters", "k_equals_axis"]) | text,
        st.lists(scalars, max_size=3).map(tuple),
        max_size=4,
    ),
    dtypes=st.frozensets(st.sampled_from(["float32", "string"]), max_size=2),
    policy=text,
    sizes=st.dictionaries(st.sampled_from(["batch", "params"]), st.integers(), max_size=2),
)
arounds = st.builds(
    Surroundings,
    versions=st.dictionaries(
        st.sampled_from(["tensorflow", "keras", "macos", "python"]),
        st.sampled_from(["2.18.1", "3.5", "not a version", "", "14"]),
    ),
    plugins=st.none()
    | st.dictionaries(st.just("tensorflow-metal"), st.sampled_from(["1.2.0", "odd", ""])),
    machine=st.none() | text,
    chip=st.none() | text,
    optimizer=st.tuples(text),
    training=st.booleans(),
    execution=st.sampled_from(["graph", "eager"]),
    jit=st.booleans(),
)


@given(units=st.lists(units, max_size=4, unique_by=lambda unit: unit.path), around=arounds)
def test_matching_never_raises_and_names_only_units_of_the_model(
    units: list[UnitFacts], around: Surroundings
) -> None:
    paths = [unit.path for unit in units]
    edges = [
        Edge(source=a, target=b, size_bytes=1, tensor="t") for a, b in itertools.pairwise(paths)
    ]
    for suspicion in suspicions(built_in(), units, edges, around):
        assert suspicion.paths
        assert set(suspicion.paths) <= set(paths)


def test_a_rule_acts_alone_only_without_a_probe() -> None:
    rule = Rule(
        id="x",
        title="t",
        kind="crash",
        conditions=Conditions(layers=("Dense",)),
        probe="none",
        action="pin_cpu",
        remedy="r",
        confidence="medium",
        evidence=("a/b#1",),
    )
    assert rule.acts_alone
    assert not replace(rule, probe="parity").acts_alone
    assert not replace(rule, confidence="low", action="warn").acts_alone
