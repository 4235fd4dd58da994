"""Builds the simulated device: `python -m autoplace.sim`."""

from __future__ import annotations

import sys

from autoplace.errors import AutoplaceError
from autoplace.sim import build


def main() -> int:
    """Build, and say where, how long it took and how large it is."""
    try:
        library = build.build()
    except AutoplaceError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    size = library.path.stat().st_size
    took = f"built in {library.seconds:.1f} s" if library.seconds else "built before"
    sys.stdout.write(f"{library.path}: {took}, {size // 1024} KiB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
