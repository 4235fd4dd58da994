"""Kernel tables as data: what they have, and from which macOS on."""

from __future__ import annotations

import pytest

from autoplace.errors import UnknownSimulationError
from autoplace.sim import kernel_tables
from autoplace.sim.kernel_tables import NEWEST, lookup

RANDOM = ("StatelessRandomUniformV2", {"dtype": "float32", "Tshape": "int32"})


def test_the_plugins_own_kernel_comes_first() -> None:
    assert lookup(NEWEST, "MatMul", {"T": "float32"}) == "own"


def test_tensorflow_has_some_for_any_device() -> None:
    """In that version the plugin registers no Identity, and TensorFlow does for DEVICE_DEFAULT."""
    assert lookup(NEWEST, "Identity", {"T": "float32"}) == "default"


@pytest.mark.parametrize(
    ("op", "dtypes"),
    [
        ("MatMul", {"T": "float64"}),  # another dtype than the kernel takes
        ("ReverseV2", {"T": "float32", "Tidx": "int32"}),
        ("Einsum", {"T": "float32"}),
        ("NoSuchOperation", {}),
    ],
)
def test_what_is_missing(op: str, dtypes: dict[str, str]) -> None:
    assert lookup(NEWEST, op, dtypes) == "none"


def test_of_a_list_of_types_all_have_to_fit() -> None:
    allowed = kernel_tables.Kernel(op="X", dtypes={"T": ("int8", "half")}, host_memory=())
    assert allowed.allows({"T": ("int8", "half"), "other": "string"})
    assert not allowed.allows({"T": ("int8", "string")})


@pytest.mark.parametrize(
    ("macos", "found"),
    [(None, "own"), ("15", "own"), ("13", "own"), ("13.0", "own"), ("12.6", "none")],
)
def test_random_kernels_need_macos_13(macos: str | None, found: str) -> None:
    op, dtypes = RANDOM
    assert lookup(NEWEST, op, dtypes, macos=macos) == found


def test_a_gate_of_an_older_plugin() -> None:
    arguments = ("tensorflow-metal==1.1.0", "ArgMax", {"T": "float32", "Tidx": "int32"})
    assert lookup(*arguments, macos="11.3") == "none"
    assert lookup(*arguments, macos="12") == "own"


@pytest.mark.parametrize("macos", ["11", "12.0.1", "", "Sonoma", "13.", "-13", "1.2.3.4"])
def test_a_macos_that_cannot_be(macos: str) -> None:
    with pytest.raises(UnknownSimulationError) as caught:
        lookup(NEWEST, "MatMul", {"T": "float32"}, macos=macos)
    assert caught.value.code == "AP106"


def test_every_gate_of_every_table_is_known() -> None:
    for name in kernel_tables.names():
        assert list(kernel_tables.kernels(name))
