"""Reads the data files of this room."""

from __future__ import annotations

import json
import lzma
import sys
from importlib import resources
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def toml(folder: str, file: str) -> dict[str, Any]:
    """Return the content of a TOML file."""
    return tomllib.loads(_path(folder, file).read_text("utf-8"))


def packed_json(folder: str, file: str) -> dict[str, Any]:
    """Return the content of a compressed JSON file."""
    content: dict[str, Any] = json.loads(lzma.decompress(_path(folder, file).read_bytes()))
    return content


def _path(folder: str, file: str) -> Any:
    return resources.files("autoplace.sim").joinpath(folder, file)
