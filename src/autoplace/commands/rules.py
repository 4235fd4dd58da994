"""`autoplace rules`: what is suspected of which layers, on what evidence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from autoplace.commands.asked_model import PROFILE, TARGET, ModelFile, load_model
from autoplace.commands.console import (
    FINDINGS,
    AsJson,
    Debug,
    errors,
    quiet_tensorflow,
    say,
    show,
)

app = typer.Typer(
    name="rules",
    help="Rules: suspicions from public reports, and what is done about them.",
    no_args_is_help=True,
)

Files = Annotated[
    list[Path] | None,
    typer.Option("--file", help="A rules file of your own, besides AUTOPLACE_RULES; repeat."),
]
Tracebacks = Annotated[bool, typer.Option("--debug", help="Show tracebacks.")]


@app.command("list")
def list_(
    kind: Annotated[
        str | None, typer.Option(help="Only of this kind, such as wrong_result.")
    ] = None,
    file: Files = None,
    as_json: AsJson = False,
    debug: Tracebacks = False,
) -> None:
    """List the rules in force.

    Example: autoplace rules list --kind wrong_result
    """
    with errors(debug=debug):
        from typing import get_args

        from autoplace.rules.rule import Kind

        if kind is not None and kind not in get_args(Kind):
            raise typer.BadParameter(f"{kind!r} is not one of {', '.join(get_args(Kind))}")
        found = [rule for rule in _in_force(file) if kind in (None, rule.kind)]
        if as_json:
            typer.echo(json.dumps([_plain(rule) for rule in found], indent=2))
            return
        from rich.table import Table

        table = Table("id", "kind", "title", "probe", "action", "confidence")
        for rule in found:
            table.add_row(rule.id, rule.kind, rule.title, rule.probe, rule.action, rule.confidence)
        show(table)


@app.command("show")
def show_(
    identity: Annotated[str, typer.Argument(metavar="ID", help="Such as AP-R001.")],
    file: Files = None,
    as_json: AsJson = False,
    debug: Tracebacks = False,
) -> None:
    """Show all of one rule, with its evidence.

    Example: autoplace rules show AP-R001
    """
    with errors(debug=debug):
        from autoplace.rules import find_rule

        rule = _plain(find_rule(_in_force(file), identity))
        if as_json:
            typer.echo(json.dumps(rule, indent=2))
            return
        from rich.table import Table

        table = Table.grid(padding=(0, 2))
        for name, value in rule.items():
            if value not in ("", [], {}):
                table.add_row(name, _text(value))
        show(table)


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Rules files.")],
    as_json: AsJson = False,
    debug: Tracebacks = False,
) -> None:
    """Say whether rules files are valid.

    Example: autoplace rules check my_rules.toml
    """
    with errors(debug=debug):
        found = [_checked(path) for path in files]
        for entry in found if not as_json else ():
            if entry["valid"]:
                replaced = ", ".join(entry["replaces"])
                typer.echo(
                    f"{entry['file']}: {entry['rules']} rules"
                    + (f", in place of {replaced}" if replaced else "")
                )
            else:
                say(entry["error"]["message"])
        if as_json:
            typer.echo(json.dumps(found, indent=2))
    if not all(entry["valid"] for entry in found):
        raise typer.Exit(FINDINGS)


@app.command()
def why(
    model: ModelFile,
    target: Annotated[str, typer.Option(help="Plugin and version that is asked about.")] = TARGET,
    profile: Annotated[str, typer.Option(help="Chip, such as m1 or m3_max.")] = PROFILE,
    macos: Annotated[str | None, typer.Option(help="macOS version, such as 13.")] = None,
    optimizer: Annotated[
        str | None, typer.Option(help="For a model that is not compiled, e.g. adam.")
    ] = None,
    file: Files = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Say which rules apply to the layers of a model, on a machine that need not be here.

    Example: autoplace rules why model.keras --target tensorflow-metal==1.2.0
    """
    quiet_tensorflow(debug=debug)
    with errors(debug=debug):
        from autoplace.forecast.what_if import suspicions

        found = suspicions(
            load_model(model),
            target=target,
            profile=profile,
            macos=macos,
            optimizer=optimizer,
            files=tuple(map(str, file or ())),
        )
        if as_json:
            entries = [
                {
                    "rule": s.rule.id,
                    "title": s.rule.title,
                    "kind": s.rule.kind,
                    "units": list(s.paths),
                    "open": list(s.open),
                    "probe": s.rule.probe,
                    "action": s.rule.action,
                    "remedy": s.rule.remedy,
                }
                for s in found
            ]
            typer.echo(json.dumps(entries, indent=2))
            return
        if not found:
            typer.echo("no rule applies to any layer of this model there")
            return
        from rich.table import Table

        table = Table("rule", "what", "layers", "if also", "found out by", "what helps")
        for s in found:
            table.add_row(
                s.rule.id,
                s.rule.title,
                _few(s.paths),
                ", ".join(s.open),
                s.rule.probe,
                s.rule.remedy,
            )
        show(table)


def _checked(path: Path) -> dict[str, Any]:
    from autoplace.errors import BrokenRulesFileError
    from autoplace.rules import built_in, read_file

    try:
        rules = read_file(path)
    except BrokenRulesFileError as error:
        told = {**error.to_dict(), "message": str(error)}
        return {"file": str(path), "valid": False, "error": told}
    ours = {rule.id for rule in built_in()}
    replaced = [rule.id for rule in rules if rule.id in ours]
    return {"file": str(path), "valid": True, "rules": len(rules), "replaces": replaced}


def _in_force(files: list[Path] | None) -> tuple[Any, ...]:
    from autoplace.rules import get_policy, load

    return load((*get_policy().rules, *map(str, files or ())))


def _plain(rule: Any) -> dict[str, Any]:
    """A rule as JSON has it, with only the conditions that it makes."""
    whole = asdict(rule)
    conditions = whole.pop("conditions")
    given = {name: value for name, value in conditions.items() if value not in ("", (), {}, None)}
    return json.loads(json.dumps({**whole, "match": given}))  # type: ignore[no-any-return]


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return "\n".join(f"{name} = {_text(part)}" for name, part in value.items())
    return ", ".join(map(_text, value)) if isinstance(value, list) else str(value)


def _few(paths: tuple[str, ...], most: int = 5) -> str:
    rest = f" and {len(paths) - most} more" if len(paths) > most else ""
    return ", ".join(paths[:most]) + rest
