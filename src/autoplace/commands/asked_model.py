"""The model and the Mac that `plan` and `rules why` are asked about."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from autoplace.errors import FileProblem

# As in `autoplace.sim`, which is not imported for every `--help`; a test compares them.
TARGET, PROFILE = "tensorflow-metal==1.2.0", "m1"

ModelFile = Annotated[
    Path,
    typer.Argument(metavar="MODEL.keras", help="A saved Keras model.", exists=True, dir_okay=False),
]


def load_model(path: Path) -> Any:
    """Load a Keras model for a command.

    Raises:
        FileProblem: AP600, where Keras cannot.
    """
    import keras

    try:
        with warnings.catch_warnings():
            # Such as that the optimizer's state does not fit: it is not needed here.
            warnings.simplefilter("ignore")
            return keras.saving.load_model(path)
    except Exception as error:
        text = " ".join(str(error).split())[:300]
        raise FileProblem(
            f"Keras cannot load the model: {text}",
            expected="a .keras or .h5 file of a model whose layers Keras knows",
            received=str(path),
            fix="for custom layers, build the model in Python and call autoplace.what_if(model)",
        ) from error
