"""`autoplace plan MODEL.keras`: what a model would do on a Mac that is not here."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from autoplace.commands.asked_model import PROFILE, TARGET, ModelFile, load_model
from autoplace.commands.console import AsJson, Debug, errors, quiet_tensorflow, show


def plan(
    model: ModelFile,
    target: Annotated[str, typer.Option(help="Plugin and version whose kernels count.")] = TARGET,
    profile: Annotated[str, typer.Option(help="Chip, such as m1, m2_pro or m4_max.")] = PROFILE,
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
    as_json: AsJson = False,
    debug: Debug = False,
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
