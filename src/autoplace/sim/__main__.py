"""Builds the simulated device for the installed TensorFlow: `python -m autoplace.sim`."""

from __future__ import annotations

import sys

from autoplace.errors import AutoplaceError
from autoplace.sim import library


def main() -> int:
    """Build, and say where the library is, how long it took and how large it is."""
    try:
        library.check_platform()
        built = library.build()
    except AutoplaceError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    took = f"built in {built.seconds:.1f} s" if built.seconds else "built before"
    sys.stdout.write(f"{built.path}: {took}, {built.path.stat().st_size // 1024} KiB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
