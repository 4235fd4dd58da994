"""Reads rule files, and says in the reader's words what is wrong with one."""

from __future__ import annotations

import contextlib
import operator
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, get_args

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from autoplace.errors import BrokenRulesFileError
from autoplace.rules.rule import Conditions, Confidence, Kind, Probe, Rule

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SCHEMA = 1
VERSIONS = {
    "tf_version": "tensorflow",
    "keras_version": "keras",
    "python": "python",
    "macos": "macos",
}
SIZES = ("batch", "steps", "units", "params", "batch_elements")
EXECUTIONS = ("graph", "eager", "v1_graph")
ACTION = re.compile(r"pin_cpu|warn|refuse|rewrite:[a-z_]+|set:[a-z_]+(=[a-z_]+)?")
EVIDENCE = re.compile(r"[\w.-]+/[\w.-]+#\d+|(apple-forum|discuss-tf|docs|wheel|file):\S.*")
COMPARISON = re.compile(r"\s*(<=|>=|==|!=|<|>)\s*(-?\d+(?:\.\d+)?)\s*")
COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


def read(text: str, file: str) -> tuple[Rule, ...]:
    """Return the rules of a file.

    Args:
        text: Its text, TOML.
        file: Its name, for messages.

    Raises:
        BrokenRulesFileError: AP603, with the rule and the field that is wrong.
    """
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise _broken(file, "", "TOML", str(error)[:200]) from None
    if content.get("schema") != SCHEMA:
        raise _broken(file, "schema", f"schema = {SCHEMA}", f"schema = {content.get('schema')!r}")
    unknown = sorted(set(content) - {"schema", "rule"})
    if unknown:
        raise _broken(file, "", "`schema` and [[rule]] only", f"{unknown[0]!r}")
    entries = content.get("rule", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise _broken(file, "", "rules as [[rule]]", repr(entries)[:80])
    rules = tuple(_rule(entry, file, number) for number, entry in enumerate(entries, 1))
    seen: set[str] = set()
    for rule in rules:
        if rule.id in seen:
            raise _broken(file, f"rule {rule.id}", "each id once in a file", "the id twice")
        seen.add(rule.id)
    return rules


def holds(comparison: str, value: float) -> bool:
    """Return whether a comparison such as ``>16`` holds for a value; False for one that is none."""
    found = COMPARISON.fullmatch(comparison)
    return found is not None and COMPARISONS[found[1]](value, float(found[2]))


# ----------------------------------------------------------------------------------------- inside


class _Entry:
    """One table of a rules file, read field by field."""

    def __init__(self, table: Mapping[str, Any], file: str, where: str) -> None:
        self.table, self._file, self._where = table, file, where

    def broken(self, name: str, expected: str, received: str | None = None) -> BrokenRulesFileError:
        given = repr(self.table.get(name, "nothing"))[:120] if received is None else received
        return _broken(
            self._file, f"{self._where}, {name}" if name else self._where, expected, given
        )

    def only(self, allowed: set[str]) -> None:
        unknown = sorted(set(self.table) - allowed)
        if unknown:
            raise self.broken("", f"fields of {sorted(allowed)}", f"the field {unknown[0]!r}")

    def text(self, name: str, default: str | None = None) -> str:
        value = self.table.get(name, default)
        if not isinstance(value, str) or (default is None and not value.strip()):
            raise self.broken(name, "a text that is not empty")
        return value

    def one_of(self, name: str, words: tuple[str, ...], default: str | None = None) -> Any:
        value = self.table.get(name, default)
        if value not in words and not (value == "" and default == ""):
            raise self.broken(name, f"one of {', '.join(words)}")
        return value

    def switch(self, name: str, default: bool | None) -> Any:
        value = self.table.get(name, default)
        if value is not default and not isinstance(value, bool):
            raise self.broken(name, "true or false")
        return value

    def names(self, name: str) -> tuple[str, ...]:
        value = self.table.get(name, [])
        is_list = isinstance(value, list) and all(isinstance(n, str) and n for n in value)
        if not is_list or (name in self.table and not value):
            raise self.broken(name, "a list of names that is not empty")
        return tuple(value)

    def mapping(self, name: str) -> Mapping[str, Any]:
        value = self.table.get(name, {})
        if not isinstance(value, dict):
            raise self.broken(name, "a table")
        return value

    def specifier(self, name: str, value: Any) -> str:
        if isinstance(value, str) and value:
            with contextlib.suppress(InvalidSpecifier):
                return str(SpecifierSet(value))
        raise self.broken(name, "versions such as '>=1.0,<2'", repr(value))

    def comparison(self, name: str, value: Any) -> str:
        if not isinstance(value, str) or COMPARISON.fullmatch(value) is None:
            raise self.broken(name, "a comparison such as '>16'", repr(value))
        return value


def _rule(table: Mapping[str, Any], file: str, number: int) -> Rule:
    entry = _Entry(table, file, f"rule {table.get('id') or number}")
    allowed = {f.name for f in fields(Rule)} - {"conditions", "file"} | {"match"}
    entry.only(allowed)
    identity = entry.text("id")
    if entry.switch("enabled", default=True) is False:
        return _switched_off(identity, entry, file)
    action = entry.text("action")
    if ACTION.fullmatch(action) is None:
        raise entry.broken("action", "pin_cpu, warn, refuse, rewrite:<name> or set:<option>")
    confidence = entry.one_of("confidence", get_args(Confidence))
    if confidence == "low" and action != "warn":
        raise entry.broken("action", "warn, as the confidence is low")
    evidence = entry.names("evidence")
    for source in evidence:
        if EVIDENCE.fullmatch(source) is None:
            raise entry.broken(
                "evidence",
                "owner/repository#number, or docs:, apple-forum:, wheel:, file:",
                repr(source),
            )
    if not evidence:
        raise entry.broken("evidence", "at least one source")
    return Rule(
        id=identity,
        title=entry.text("title"),
        kind=entry.one_of("kind", get_args(Kind)),
        conditions=_conditions(
            _Entry(entry.mapping("match"), file, f"rule {identity}, match"), entry
        ),
        probe=entry.one_of("probe", get_args(Probe)),
        action=action,
        remedy=entry.text("remedy"),
        confidence=confidence,
        evidence=evidence,
        note=entry.text("note", ""),
        file=file,
    )


def _switched_off(identity: str, entry: _Entry, file: str) -> Rule:
    """A rule that only says that another one of its id is not wanted."""
    return Rule(
        id=identity,
        title=entry.text("title", "") or "switched off",
        kind="slow",
        conditions=Conditions(),
        probe="none",
        action="warn",
        remedy="",
        confidence="low",
        evidence=(),
        enabled=False,
        file=file,
    )


def _conditions(match: _Entry, rule: _Entry) -> Conditions:
    if not match.table:
        raise rule.broken("match", "at least one condition")
    plain = {f.name for f in fields(Conditions)} - {"versions"}
    match.only(plain | set(VERSIONS))
    plugin = match.mapping("plugin")
    if plugin and (set(plugin) != {"name", "version"} or not isinstance(plugin["name"], str)):
        raise match.broken("plugin", "{ name = ..., version = ... }")
    chain = match.table.get("layer_chain", [])
    if not isinstance(chain, list) or not all(
        isinstance(part, list) and part and all(isinstance(n, str) for n in part) for part in chain
    ):
        raise match.broken("layer_chain", "a list of lists of layer classes")
    attrs = match.mapping("attrs")
    for name, value in attrs.items():
        if not isinstance(value, (bool, str)):
            raise match.broken(f"attrs.{name}", "true, false, a text or a comparison", repr(value))
    shape = match.mapping("shape")
    if set(shape) - set(SIZES):
        raise match.broken("shape", f"sizes of {', '.join(SIZES)}")
    installed = match.table.get("plugins_installed", "")
    packages = match.mapping("packages")
    return Conditions(
        layers=match.names("layers"),
        ops=match.names("ops"),
        layer_chain=tuple(tuple(part) for part in chain),
        op_chain=match.names("op_chain"),
        activation=match.names("activation"),
        attrs=dict(attrs),
        dtype=match.names("dtype"),
        policy=match.names("policy"),
        optimizer=match.names("optimizer"),
        jit=match.switch("jit", default=None),
        execution=match.one_of("execution", EXECUTIONS, ""),
        training=match.switch("training", default=None),
        shape={name: match.comparison(f"shape.{name}", value) for name, value in shape.items()},
        versions={
            VERSIONS[name]: match.specifier(name, match.table[name])
            for name in VERSIONS
            if name in match.table
        },
        plugin=(plugin["name"], match.specifier("plugin.version", plugin["version"]))
        if plugin
        else None,
        plugins_installed=match.comparison("plugins_installed", installed) if installed else "",
        packages={
            name: value if value == "absent" else match.specifier(f"packages.{name}", value)
            for name, value in packages.items()
        },
        machine=match.text("machine", ""),
        chip=match.names("chip"),
        stderr=match.text("stderr", ""),
        error=match.text("error", ""),
    )


def _broken(file: str, where: str, expected: str, received: str) -> BrokenRulesFileError:
    return BrokenRulesFileError(
        f"the rules file {file} is not valid" + (f": {where}" if where else ""),
        expected=expected,
        received=received,
        fix="correct the file; `autoplace rules check FILE` says whether it is right, docs/rules.md has the format",
    )
