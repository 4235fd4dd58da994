"""Plans as JSON: schema 1, strict in both directions.

cattrs does the structuring; an unknown field is an error, since a plan file that is only half understood
must not be obeyed.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import cattrs
from cattrs.gen import make_dict_structure_fn
from cattrs.preconf.json import make_converter

from autoplace.errors import AutoplaceError, BrokenPlanFileError
from autoplace.ir.devices import Device
from autoplace.ir.plan import Plan

SCHEMA = 1

_converter = make_converter(forbid_extra_keys=True)
_converter.register_unstructure_hook(Device, str)
_converter.register_structure_hook(Device, lambda text, _: Device.parse(text))
_converter.register_structure_hook(
    Plan, make_dict_structure_fn(Plan, _converter, _cattrs_forbid_extra_keys=True)
)


def to_json(plan: Plan) -> str:
    """Return `plan` as JSON text."""
    return json.dumps({"schema": SCHEMA, **_converter.unstructure(plan)}, indent=1)


def from_json(text: str, origin: str) -> Plan:
    """Read JSON text that `to_json` made; `origin` names it in errors.

    Raises:
        BrokenPlanFileError: AP601.
    """
    try:
        content: Any = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise _broken(f"{origin} is no JSON: {error}") from None
    if not isinstance(content, dict) or content.pop("schema", None) != SCHEMA:
        raise _broken(f"{origin} has no 'schema': {SCHEMA}")
    try:
        return _converter.structure(content, Plan)
    except (cattrs.BaseValidationError, AutoplaceError, TypeError, ValueError) as error:
        reasons = cattrs.transform_error(error)
        raise _broken(f"{origin}: {'; '.join(reasons[:3])}") from None


def save(plan: Plan, path: Path) -> None:
    """Write `plan` to `path`; the file is whole or not there."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(to_json(plan))
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def load(path: Path) -> Plan:
    """Read the plan in `path`.

    Raises:
        BrokenPlanFileError: AP601.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise _broken(f"{path} is no text: {error}") from None
    return from_json(text, str(path))


def _broken(received: str) -> BrokenPlanFileError:
    return BrokenPlanFileError(
        "a plan file cannot be read",
        expected=f"a whole JSON file of schema {SCHEMA}, as Plan.save writes it",
        received=received,
        fix="make a new plan with model.warmup(x, y) and save it again",
    )
