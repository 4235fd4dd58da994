"""Writes files that are whole or not there."""

from __future__ import annotations

import os
import uuid
from pathlib import Path


def write_whole(path: str | Path, text: str) -> None:
    """Write `text` to `path` as UTF-8: to a temporary name first, then renamed.

    Raises:
        OSError: If the parent folder does not exist or cannot be written.
    """
    target = Path(path)
    # Not mkstemp, whose files only their owner can read: a report is meant to be shared.
    temporary = target.parent / f".{uuid.uuid4().hex}.tmp"
    try:
        with temporary.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
