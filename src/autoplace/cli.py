"""The command line: `autoplace demo`, `autoplace plan`, `autoplace rules`.

Data goes to stdout, messages to stderr. Exit codes: 0 fine, 1 findings or an error, 2 wrong usage.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autoplace.commands import plan, rules
from autoplace.commands.console import FINDINGS, Debug, errors, quiet_tensorflow, say, show

MODELS = ("dnn9", "three_inputs", "crnn")

app = typer.Typer(
    name="autoplace",
    help="Keras with automatic device placement.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


app.command("plan")(plan.plan)
app.add_typer(rules.app)


@app.command()
def demo(
    models: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Of {', '.join(MODELS)}; repeat, or separate by commas. All by default."
        ),
    ] = None,
    sim: Annotated[
        str | None,
        typer.Option(
            help="Simulate the GPU of this chip, such as m1, even if there is a real one."
        ),
    ] = None,
    no_sim: Annotated[
        bool, typer.Option("--no-sim", help="Use what is there, perhaps the CPU alone.")
    ] = False,
    out: Annotated[
        Path, typer.Option(help="Folder for report.html and report.json.", file_okay=False)
    ] = Path("build/demo"),
    as_json: Annotated[
        bool, typer.Option("--json", help="Print report.json on stdout, and nothing else.")
    ] = False,
    epochs: Annotated[int, typer.Option(min=1, help="Epochs of each training.")] = 3,
    small: Annotated[
        bool, typer.Option("--small", help="Less data and fewer rounds, for a quick look.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Train three models on handwritten digits: plain Keras on each device, and as planned.

    Without an accelerator a simulated Apple M1 is used. Example: autoplace demo --models dnn9,crnn
    """
    names = _names(models)
    if sim is not None and no_sim:
        raise typer.BadParameter("give --sim or --no-sim, not both", param_hint="--no-sim")
    quiet_tensorflow(debug=debug)
    with errors(debug=debug):
        from autoplace.demo import results
        from autoplace.demo.run import Settings, findings, run

        found = run(
            Settings(
                models=names, profile=sim, may_simulate=not no_sim, epochs=epochs, is_small=small
            ),
            say,
        )
        written = results.write(found, out)
        if as_json:
            print(results.text(found), end="")
        else:
            show(results.table(found))
        say(f"wrote {' and '.join(str(path) for path in written)}")
        wrong = findings(found)
        for sentence in wrong:
            say(sentence)
    if wrong:
        raise typer.Exit(FINDINGS)


def main() -> None:
    """Run the command line; ends the process."""
    app(prog_name="autoplace")


def _names(models: list[str] | None) -> tuple[str, ...]:
    """Split at commas, drop repetitions, keep the order."""
    given = [name.strip() for part in models or [] for name in part.split(",") if name.strip()]
    unknown = [name for name in given if name not in MODELS]
    if unknown or (models and not given):
        raise typer.BadParameter(
            f"{', '.join(unknown) or 'nothing'} is not one of {', '.join(MODELS)}",
            param_hint="--models",
        )
    return tuple(dict.fromkeys(given)) or MODELS


if __name__ == "__main__":
    main()
