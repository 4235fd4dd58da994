"""Rule files: ours are valid and true to the kernel tables; broken ones are told in words and set aside."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from autoplace.errors import BrokenRulesFileError, RulesSetAsideWarning, UnknownRuleError
from autoplace.rules import Policy, Rule, built_in, find_rule, load
from autoplace.rules.reading import read
from autoplace.sim import kernel_tables

pytestmark = pytest.mark.pure

VALID = """
schema = 1

[[rule]]
id = "MY-1"
title = "Our layer is wrong on the accelerator"
kind = "wrong_result"
probe = "parity"
action = "pin_cpu"
remedy = "Wait for the repair."
confidence = "high"
evidence = ["us/ours#1"]

[rule.match]
layers = ["OurLayer"]
"""


def test_our_files_are_valid_and_ids_are_unique_across_them() -> None:
    ids = [rule.id for rule in built_in()]
    assert len(ids) == len(set(ids)) == 70


def test_each_of_our_rules_is_about_units_the_machine_or_what_a_run_shows() -> None:
    for rule in built_in():
        wanted = rule.conditions
        said = wanted.are_of_units or wanted.versions or wanted.stderr or wanted.error
        assert (
            said or wanted.plugin or wanted.chip or wanted.plugins_installed or wanted.packages
        ), rule.id


KERNEL_RULES = [
    rule
    for rule in built_in()
    if rule.probe == "kernel_lookup"
    and rule.conditions.ops
    and rule.conditions.plugin is not None
    # About operations that exist from some macOS on, or that TensorFlow itself has too often.
    and not {"macos", "tensorflow"} & set(rule.conditions.versions)
]


@pytest.mark.parametrize("rule", KERNEL_RULES, ids=lambda rule: rule.id)
def test_a_rule_about_missing_kernels_agrees_with_the_kernel_tables(rule: Rule) -> None:
    """Fires where an operation is missing from the plugin's table; is cleared by the version that has it."""
    assert rule.conditions.plugin is not None
    versions = SpecifierSet(rule.conditions.plugin[1])
    for name in kernel_tables.names():
        version = Version(name.partition("==")[2].split()[0])
        has = {
            op
            for op in rule.conditions.ops
            if any(
                _allows(kernel, rule) for kernel in kernel_tables.kernels(name) if kernel.op == op
            )
        }
        if versions.contains(version):
            assert has != set(rule.conditions.ops), name
        elif version > max(Version(s.version) for s in versions):
            assert has == set(rule.conditions.ops), name


def _allows(kernel: kernel_tables.Kernel, rule: Rule) -> bool:
    """Whether a kernel takes one of the dtypes that the rule is about."""
    wanted = set(rule.conditions.dtype)
    limits = [set(dtypes) for dtypes in kernel.dtypes.values()]
    return not wanted or not limits or any(wanted & allowed for allowed in limits)


def change(field: str, value: str) -> str:
    lines = [line for line in VALID.splitlines() if not line.startswith(f"{field} =")]
    place = lines.index("[rule.match]")
    new = [f"{field} = {value}"] if value else []
    return "\n".join([*lines[:place], *new, *lines[place:]])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("schema = ", "TOML"),
        ("schema = 2", "schema = 1"),
        ("schema = 1\nextra = 1", "'extra'"),
        ("schema = 1\nrule = 3", "[[rule]]"),
        (VALID + VALID.replace("schema = 1", ""), "twice"),
        (change("kind", '"odd"'), "wrong_result"),
        (change("kind", ""), "kind"),
        (change("probe", '"guess"'), "probe"),
        (change("action", '"os.system"'), "pin_cpu"),
        (change("confidence", '"low"'), "warn"),
        (change("evidence", '["someone said so"]'), "owner/repository#number"),
        (change("evidence", "[]"), "evidence"),
        (change("title", "3"), "text"),
        (change("nonsense", "3"), "'nonsense'"),
        (change("enabled", '"no"'), "true or false"),
        (VALID.replace('layers = ["OurLayer"]', ""), "at least one condition"),
        (VALID + 'colour = "red"', "'colour'"),
        (VALID + 'ops = "MatMul"', "list of names"),
        (VALID + 'plugin = { name = "x" }', "version"),
        (VALID + 'plugin = { name = "x", version = "new" }', ">=1.0"),
        (VALID + 'tf_version = "2,"', ">=1.0"),
        (VALID + 'shape = { batch = "many" }', "comparison"),
        (VALID + 'shape = { weight = ">1" }', "sizes of"),
        (VALID + "attrs = { k = 3 }", "true, false, a text"),
        (VALID + 'layer_chain = ["Dense"]', "list of lists"),
        (VALID + 'plugins_installed = "two"', "comparison"),
        (VALID + 'execution = "lazy"', "graph"),
    ],
)
def test_a_broken_file_is_told_in_words(text: str, said: str) -> None:
    with pytest.raises(BrokenRulesFileError) as caught:
        read(text, "mine.toml")
    assert said in str(caught.value)
    assert caught.value.code == "AP603"
    assert "mine.toml" in caught.value.what


def test_own_rules_are_added_and_replace_ours_by_id(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(VALID.replace("MY-1", "AP-R005"))
    known = {rule.id: rule for rule in load([str(file)])}
    assert known["AP-R005"].conditions.layers == ("OurLayer",)
    assert len(known) == len(built_in())


def test_a_rule_of_ours_can_be_switched_off(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('schema = 1\n[[rule]]\nid = "AP-R001"\nenabled = false\n')
    assert "AP-R001" not in {rule.id for rule in load([str(file)])}


@pytest.mark.parametrize("content", [b"schema = ", b"\xff\xfe\x00", None])
def test_a_broken_file_is_set_aside_with_a_warning(tmp_path: Path, content: bytes | None) -> None:
    good, broken = tmp_path / "good.toml", tmp_path / "broken.toml"
    good.write_text(VALID)
    if content is not None:
        broken.write_bytes(content)
    with pytest.warns(RulesSetAsideWarning, match="AP604: AP603"):
        known = {rule.id for rule in load([str(broken), str(good)])}
    assert "MY-1" in known


def test_without_own_files_nothing_is_said() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load() == tuple(sorted(built_in(), key=lambda rule: rule.id))


def test_a_rule_is_found_by_its_id_in_any_case() -> None:
    assert find_rule(built_in(), "ap-r001").id == "AP-R001"
    with pytest.raises(UnknownRuleError, match="AP605"):
        find_rule(built_in(), "AP-R999")


def test_rule_files_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    monkeypatch.setenv("AUTOPLACE_RULES", os.pathsep.join(["a.toml", "b.toml"]))
    assert Policy().rules == ("a.toml", "b.toml")


@pytest.mark.parametrize("value", ["a.toml", {"a.toml": 1}, [3], b"a"])
def test_rules_of_a_policy_are_paths(value: Any) -> None:
    from autoplace.errors import InvalidPolicyError

    with pytest.raises(InvalidPolicyError, match="paths of rule files"):
        Policy(rules=value)
