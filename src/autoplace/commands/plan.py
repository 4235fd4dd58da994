"""`autoplace plan MODEL.keras`: what a model would do on a Mac that is not here."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from autoplace.commands.console import errors, quiet_tensorflow, show
from autoplace.errors import FileProblem


def plan(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL.keras", help="A saved Keras model.", exists=True, dir_okay=False
        ),
    ],
    target: Annotated[
        str, typer.Option(help="Plugin and version whose kernels count.")
    ] = "tensorflow-metal==1.2.0",
    profile: Annotated[str, typer.Option(help="Chip, such as m1, m2_pro or m4_max.")] = "m1",
    batch: Annotated[int, typer.Option(min=1, help="Rows per batch.")] = 32,
    macos: Annotated[
        str | None, typer.Option(help="macOS version, such as 13; the newest by default.")
    ] = None,
    optimizer: Annotated[
        str | None,
        typer.Option(
            help="For a model that is not compiled: forecast training with it, e.g. adam."
        ),
    ] = None,
    open_size: Annotated[
        int | None,
        typer.Option(
            min=1, help="Size of dimensions that the model leaves open, besides the batch."
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON on stdout, and nothing else.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks and TensorFlow's own messages.")
    ] = False,
) -> None:
    """Predict where a model's layers would run on a Mac, which kernels are missing, and the step time.

    Nothing is run, and no Mac or compiler is needed. Example: autoplace plan model.keras --profile m2 --batch 64
    """
    quiet_tensorflow(debug=debug)
    with errors(debug=debug):
        from autoplace.forecast.what_if import what_if

        forecast = what_if(
            load_model(model),
            target=target,
            profile=profile,
            batch=batch,
            macos=macos,
            optimizer=optimizer,
            open_size=open_size,
        )
        if as_json:
            typer.echo(json.dumps(forecast.to_dict(), indent=2))
        else:
            show(forecast)


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
