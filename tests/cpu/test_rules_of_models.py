"""What rules see of a real model: facts from its trace, and `autoplace rules why`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import keras
import pytest
from typer.testing import CliRunner

from autoplace import cli
from autoplace.forecast.what_if import suspicions


def rules_of(model: Any, **target: Any) -> dict[str, tuple[str, ...]]:
    """Unit paths by rule."""
    asked = {"target": "tensorflow-metal==1.2.0", "profile": "m1", "macos": None, **target}
    found = suspicions(model, optimizer="adam", files=(), **asked)
    return {s.rule.id: s.paths for s in found}


def dense(**arguments: Any) -> Any:
    return keras.Sequential(
        [keras.Input((6,)), keras.layers.Dense(4, name="a", **arguments), keras.layers.Dense(1)]
    )


@pytest.mark.parametrize(
    ("arguments", "is_suspected"),
    [
        ({"activation": "relu"}, True),
        ({"activation": "relu", "use_bias": False}, False),
        ({"activation": "elu"}, False),
        ({}, False),
    ],
    ids=["relu", "without bias", "elu", "linear"],
)
def test_dropped_relu_is_suspected_where_it_was_reported(
    arguments: dict[str, Any], is_suspected: bool
) -> None:
    """tensorflow/tensorflow#61650: only MatMul, BiasAdd and Relu together."""
    found = rules_of(dense(**arguments))
    assert ("AP-R001" in found) == is_suspected
    if is_suspected:
        assert found["AP-R001"] == ("a",)


def test_a_chain_over_the_border_of_layers() -> None:
    """keras-team/keras#19009: the relu is a layer of its own."""
    model = keras.Sequential(
        [keras.Input((6,)), keras.layers.Dense(4, name="a"), keras.layers.ReLU(name="b")]
    )
    found = rules_of(model)
    assert set(found["AP-R002"]) == {"a", "b"}
    assert "AP-R001" not in found


def test_an_activation_by_a_layer_other_than_relu_is_no_chain() -> None:
    model = keras.Sequential(
        [keras.Input((6,)), keras.layers.Dense(4), keras.layers.Activation("tanh")]
    )
    assert "AP-R002" not in rules_of(model)


def test_another_version_of_the_plugin() -> None:
    """The reports begin with 1.0.0."""
    assert "AP-R001" not in rules_of(dense(activation="relu"), target="tensorflow-metal==0.8.0")


def test_why_of_a_saved_model(tmp_path: Path) -> None:
    """The same from a terminal, as JSON and as a table."""
    path = tmp_path / "model.keras"
    dense(activation="relu").save(path)
    done = CliRunner().invoke(cli.app, ["rules", "why", str(path), "--optimizer", "adam", "--json"])
    assert done.exit_code == 0, done.output
    entries = {entry["rule"]: entry for entry in json.loads(done.stdout)}
    assert entries["AP-R001"]["units"] == ["a"]
    done = CliRunner().invoke(cli.app, ["rules", "why", str(path), "--optimizer", "adam"])
    assert "AP-R001" in done.stdout
