"""Where a policy's fields come from, and what they may be."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path
from typing import Any

import pytest

from autoplace.errors import InvalidPolicyError
from autoplace.rules import Policy, get_policy, set_policy

pytestmark = pytest.mark.pure


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No variable and no default of another test."""
    for name in [name for name in os.environ if name.startswith("AUTOPLACE_")]:
        monkeypatch.delenv(name)
    yield
    set_policy(None)


def test_defaults() -> None:
    """Nothing given, nothing set."""
    policy = Policy()
    assert {entry.name: getattr(policy, entry.name) for entry in fields(policy)} == {
        "mode": "auto",
        "budget_s": 20.0,
        "pins": {},
        "keep_together": (),
        "cache": True,
        "cache_dir": None,
        "rules": (),
        "progress": "auto",
    }
    assert policy == Policy(mode="auto", budget_s=20)
    with pytest.raises(FrozenInstanceError):
        policy.mode = "cpu"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("mode", "gpu", "gpu"),
        ("budget_s", "2.5", 2.5),
        ("budget_s", "0", 0.0),
        ("pins", '{"lstm*": "CPU"}', {"lstm*": "cpu:0"}),
        ("keep_together", '[["a*", "b"], ["c"]]', (("a*", "b"), ("c",))),
        ("cache", "0", False),
        ("cache", "TRUE", True),
        ("cache_dir", "somewhere", "somewhere"),
        ("progress", "off", "off"),
        ("mode", "", "auto"),
    ],
)
def test_environment_wins_over_default(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str, value: object
) -> None:
    """Each field has its variable; an empty one counts as not set."""
    monkeypatch.setenv(f"AUTOPLACE_{name.upper()}", text)
    assert getattr(Policy(), name) == value


def test_every_field_has_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new field cannot be forgotten: a value that no field can have is refused by name."""
    for entry in fields(Policy):
        if entry.name in ("cache_dir", "rules"):  # any text is the name of a folder or file
            continue
        variable = f"AUTOPLACE_{entry.name.upper()}"
        with monkeypatch.context() as patch:
            patch.setenv(variable, "@nonsense")
            with pytest.raises(InvalidPolicyError, match=variable) as caught:
                Policy()
        assert "@nonsense" in caught.value.received
        assert entry.name in caught.value.expected


def test_argument_wins_over_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the argument equals the default, and where the variable is broken."""
    monkeypatch.setenv("AUTOPLACE_MODE", "gpu")
    monkeypatch.setenv("AUTOPLACE_PINS", "broken")
    assert Policy(mode="auto", pins={}).mode == "auto"


def test_replace_keeps_the_other_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    """`dataclasses.replace` passes every field, so the environment is not asked again."""
    policy = Policy(budget_s=1)
    monkeypatch.setenv("AUTOPLACE_BUDGET_S", "9")
    assert replace(policy, mode="cpu").budget_s == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mode", "tpu"),
        ("mode", None),
        ("budget_s", -1),
        ("budget_s", math.inf),
        ("budget_s", math.nan),
        ("budget_s", "20"),
        ("budget_s", True),
        ("pins", {"a": "tpu:0"}),
        ("pins", {"a": 1}),
        ("pins", {"": "cpu"}),
        ("pins", ["a"]),
        ("keep_together", ["conv*"]),
        ("keep_together", "conv*"),
        ("keep_together", {"a": "b"}),
        ("keep_together", [[1]]),
        ("cache", "yes"),
        ("cache", 1),
        ("cache_dir", ""),
        ("cache_dir", 3),
        ("progress", "bar"),
    ],
)
def test_bad_values_are_named(name: str, value: Any) -> None:
    """AP405 with the field, the value and what is allowed."""
    with pytest.raises(InvalidPolicyError, match=f"Policy.{name}") as caught:
        Policy(**{name: value})
    assert repr(value) in caught.value.received
    assert name in caught.value.expected


def test_containers_are_kept_apart_from_the_users() -> None:
    """Changing what was passed in does not change the policy."""
    pins = {"a": "cpu:0"}
    policy = Policy(pins=pins, keep_together=[["a", "b"]], cache_dir=Path("x"))  # type: ignore[arg-type]
    pins["b"] = "gpu:0"
    assert policy.pins == {"a": "cpu:0"}
    assert policy.keep_together == (("a", "b"),)
    assert policy.cache_dir == "x"


def test_default_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """set_policy holds until it is taken back; without it the environment of now counts."""
    assert get_policy().mode == "auto"
    monkeypatch.setenv("AUTOPLACE_MODE", "cpu")
    assert get_policy().mode == "cpu"
    set_policy(Policy(mode="off"))
    assert get_policy().mode == "off"
    set_policy(None)
    assert get_policy().mode == "cpu"
    with pytest.raises(InvalidPolicyError, match="something else"):
        set_policy("cpu")  # type: ignore[arg-type]
