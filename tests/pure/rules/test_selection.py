"""Patterns to units."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoplace.errors import PinCannotHoldError
from autoplace.ir import CPU, GPU
from autoplace.rules import Policy, resolve_groups, resolve_pins

pytestmark = pytest.mark.pure

PATHS = ("conv2d", "conv2d_1", "lstm_1/cell", "encoder/dense", "encoder/block/lstm", "head[0]")


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        ("head[[]0]", {"head[0]"}),
        ("conv2d", {"conv2d"}),
        ("conv2d*", {"conv2d", "conv2d_1"}),
        ("lstm*", {"lstm_1/cell"}),
        ("encoder", {"encoder/dense", "encoder/block/lstm"}),
        ("encoder/block", {"encoder/block/lstm"}),
        ("*lstm", {"encoder/block/lstm"}),
        ("*/lstm", {"encoder/block/lstm"}),
        ("enc?der/d*", {"encoder/dense"}),
        ("*", set(PATHS)),
    ],
)
def test_patterns(pattern: str, matched: set[str]) -> None:
    """Whole paths, leading parts, and wildcards that also span parts."""
    assert set(resolve_pins(Policy(pins={pattern: "gpu:0"}), PATHS)) == matched


@given(st.sampled_from(PATHS))
def test_a_path_is_a_pattern_for_itself(path: str) -> None:
    """Whatever the report prints can be pinned by copying it."""
    assert resolve_pins(Policy(pins={path: "cpu:0"}), PATHS) == {path: CPU}


@pytest.mark.parametrize("pattern", ["Head", "dense", "lstm", "nothing*"])
def test_no_match_is_an_error(pattern: str) -> None:
    """A pin that does nothing is a spelling mistake; case counts; inner names need a wildcard."""
    with pytest.raises(PinCannotHoldError, match="matches no unit") as caught:
        resolve_pins(Policy(pins={pattern: "cpu:0"}), PATHS)
    assert repr(pattern) in caught.value.received
    with pytest.raises(PinCannotHoldError, match="keep_together"):
        resolve_groups(Policy(keep_together=[["head*", pattern]]), PATHS)


def test_disagreement_names_both_patterns() -> None:
    """Two patterns may overlap only if they agree."""
    agreed = resolve_pins(Policy(pins={"conv*": "gpu:0", "conv*_1": "GPU:0"}), PATHS)
    assert agreed == {"conv2d": GPU, "conv2d_1": GPU}
    with pytest.raises(PinCannotHoldError, match="different devices") as caught:
        resolve_pins(Policy(pins={"conv*": "gpu:0", "conv2d_1": "cpu:0"}), PATHS)
    assert "'conv*' -> gpu:0, 'conv2d_1' -> cpu:0" in caught.value.received


def test_groups_keep_the_order_of_the_model() -> None:
    """Each unit once, whichever pattern matched it."""
    policy = Policy(keep_together=[["head[0]", "conv2d*", "conv2d"], ["encoder"], []])
    assert resolve_groups(policy, PATHS) == (
        ("conv2d", "conv2d_1", "head[0]"),
        ("encoder/dense", "encoder/block/lstm"),
        (),
    )
