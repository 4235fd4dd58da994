"""What all commands share: data on stdout, messages on stderr, exit codes, errors without a traceback.

Exit codes: 0 fine, 1 findings or an error, 2 wrong usage.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from autoplace.errors import AutoplaceError, UnknownSimulationError

FINDINGS, USAGE = 1, 2
WIDTH_WITHOUT_TERMINAL = 160

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout, and nothing else.")]
Debug = Annotated[
    bool, typer.Option("--debug", help="Show tracebacks and TensorFlow's own messages.")
]


def say(message: str) -> None:
    """Tell the person at the terminal, on stderr."""
    print(message, file=sys.stderr, flush=True)


def show(renderable: Any) -> None:
    """Print something of rich on stdout; wide enough for tables where that is no terminal."""
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL).print(renderable)


def quiet_tensorflow(*, debug: bool) -> None:
    """Keep TensorFlow's own messages off the terminal; before it is imported."""
    if not debug:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


@contextmanager
def errors(*, debug: bool) -> Iterator[None]:
    """Show an error as a message, and a traceback only where it was asked for."""
    try:
        yield
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise  # typer says these itself, the last as wrong usage
    except Exception as error:  # noqa: BLE001 - the border of the program: what is left is shown to a person
        if debug:
            traceback.print_exc()
        elif isinstance(error, AutoplaceError):
            say(f"{error}")
        else:
            say(f"{type(error).__name__}: {error}\n  Fix: --debug shows where it happened")
        code = USAGE if isinstance(error, UnknownSimulationError) else FINDINGS
        raise typer.Exit(code) from None
