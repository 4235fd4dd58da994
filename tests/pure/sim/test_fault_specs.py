"""How faults are written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoplace.errors import UnknownSimulationError
from autoplace.sim import fault_specs
from autoplace.sim.fault_specs import FaultSpec, parse

OPS = ("MatMul", "Conv2D")


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("dropped_relu", FaultSpec(kind="dropped_relu")),
        ("nan@MatMul", FaultSpec(kind="nan", op="MatMul")),
        ("nan@*", FaultSpec(kind="nan", op="*")),
        ("nan@MatMul:5", FaultSpec(kind="nan", op="MatMul", first_run=5)),
        ("nan@MatMul:5:1", FaultSpec(kind="nan", op="MatMul", first_run=5, argument=1)),
        ("hang@Conv2D:0:0.5", FaultSpec(kind="hang", op="Conv2D", argument=0.5)),
    ],
)
def test_what_can_be_written(text: str, spec: FaultSpec) -> None:
    assert parse([text], OPS) == (spec,)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nan",
        "NaN@MatMul",
        "nan@",
        "nan@matmul",
        "nan@MatMul:",
        "nan@MatMul:-1",
        "nan@MatMul:1.5",
        "nan@MatMul:1:2:3",
        "nan@MatMul:1:-2",
        "nan@MatMul:1:inf",
        "nan@MatMul:1:nan",
        "nan@MatMul\nlaunch_ns=5",
        "burns@MatMul",
        "dropped_relu@MatMul",
        "dropped_relu@",
        "missing_kernel@*",
        "missing_kernel@MatMul:3",
        "topk_over_16:3",
    ],
)
def test_what_cannot(text: str) -> None:
    with pytest.raises(UnknownSimulationError) as caught:
        parse(["nan@MatMul", text], OPS)
    assert caught.value.code == "AP106"
    assert caught.value.received == repr(text)


def test_a_single_string_is_not_a_sequence_of_faults() -> None:
    with pytest.raises(UnknownSimulationError, match="as one string"):
        parse("nan@MatMul", OPS)


def test_the_message_lists_all_kinds() -> None:
    with pytest.raises(UnknownSimulationError) as caught:
        parse(["burns@MatMul"], OPS)
    assert all(kind in caught.value.expected for kind in fault_specs.KINDS)


@given(
    kind=st.sampled_from(
        sorted(set(fault_specs.KINDS) - fault_specs.IN_THE_GRAPH - fault_specs.AT_START)
    ),
    op=st.sampled_from([*OPS, "*"]),
    run=st.integers(0, 2**40),
    argument=st.floats(0, 1e12),
)
def test_settings_say_the_same(kind: str, op: str, run: int, argument: float) -> None:
    """The native line is a spec again: nothing is lost on the way."""
    (spec,) = parse([f"{kind}@{op}:{run}:{argument!r}"], OPS)
    name, _, line = spec.setting().partition("=")
    assert name == "fault"
    assert parse([line], OPS) == (spec,)


@pytest.mark.parametrize("name", sorted(fault_specs.short_names()))
def test_short_names_stand_for_faults(name: str) -> None:
    """Each can be read on the newest table, and does something there."""
    from autoplace.sim import kernel_tables

    assert parse([name], kernel_tables.ops(kernel_tables.names()[-1])) or name == "missing_kernel"


def test_a_short_name_leaves_out_what_the_table_lacks() -> None:
    assert parse(["wrong_shape"], OPS) == (FaultSpec(kind="bad_batch", op="MatMul"),)
    assert parse(["topk_over_16"], OPS) == ()


def test_missing_kernels_are_named() -> None:
    assert fault_specs.missing_ops(parse(["missing_kernel@MatMul", "nan@Conv2D"], OPS)) == {
        "MatMul"
    }
