"""What was measured before on this machine: a SQLite file in the user's cache directory.

The only writer of that file. It is never needed: a file that is broken is set aside, one that cannot be written
is done without, both with one warning (AP602). Rows are JSON, checked when they are read.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import cattrs
from cattrs.preconf.json import make_converter

from autoplace.errors import AutoplaceError, CacheUnusableWarning
from autoplace.ir import Device, Machine, Plan, TransferCost, UnitCost, Verdict, plan_json

SCHEMA = 1
FILE = f"costs-{SCHEMA}.sqlite"
_TABLES = """
CREATE TABLE IF NOT EXISTS units (machine TEXT, signature TEXT, context TEXT, costs TEXT, verdict TEXT,
    written REAL, PRIMARY KEY (machine, signature, context));
CREATE TABLE IF NOT EXISTS transfers (machine TEXT, source TEXT, target TEXT, cost TEXT,
    written REAL, PRIMARY KEY (machine, source, target));
CREATE TABLE IF NOT EXISTS plans (machine TEXT, key TEXT, plan TEXT, written REAL, PRIMARY KEY (machine, key));
"""

_converter = make_converter(forbid_extra_keys=True)
_converter.register_unstructure_hook(Device, str)
_converter.register_structure_hook(Device, lambda text, _: Device.parse(text))

UnitRow = tuple[dict[Device, UnitCost], Verdict]


def directory(chosen: str | None = None) -> Path:
    """Return the cache directory: `chosen`, else `AUTOPLACE_CACHE_DIR`, else the system's place for caches."""
    from platformdirs import user_cache_dir

    return Path(chosen or os.environ.get("AUTOPLACE_CACHE_DIR") or user_cache_dir("autoplace"))


class Cache:
    """Costs, verdicts and plans of one machine.

    Args:
        folder: Where the file is or will be; None for a cache that remembers nothing.
        machine: The machine; rows of others are not seen.
    """

    def __init__(self, folder: Path | None, machine: Machine) -> None:
        described = json.dumps(dict(machine.fingerprint), sort_keys=True)
        self._machine = hashlib.sha256(described.encode()).hexdigest()[:32]
        self._path = None if folder is None else folder / FILE
        self._connection = None if self._path is None else self._open(self._path)

    def unit(self, signature: str, context: str) -> UnitRow | None:
        """Return costs by device and the verdict of a unit, or None."""
        rows = self._read(
            "SELECT costs, verdict FROM units WHERE machine=? AND signature=? AND context=?",
            (self._machine, signature, context),
        )
        for costs, verdict in rows:
            with _readable():
                return (
                    _converter.loads(costs, dict[Device, UnitCost]),
                    _converter.loads(verdict, Verdict),
                )
        return None

    def put_unit(self, signature: str, context: str, row: UnitRow) -> None:
        """Remember costs and verdict of a unit."""
        costs, verdict = row
        self._write(
            "INSERT OR REPLACE INTO units VALUES (?,?,?,?,?,?)",
            (self._machine, signature, context, _dump(costs), _dump(verdict), time.time()),
        )

    def transfer(self, source: Device, target: Device) -> TransferCost | None:
        """Return the cost of a direction, or None."""
        rows = self._read(
            "SELECT cost FROM transfers WHERE machine=? AND source=? AND target=?",
            (self._machine, str(source), str(target)),
        )
        for (cost,) in rows:
            with _readable():
                return _converter.loads(cost, TransferCost)
        return None

    def put_transfer(self, source: Device, target: Device, cost: TransferCost) -> None:
        """Remember the cost of a direction."""
        self._write(
            "INSERT OR REPLACE INTO transfers VALUES (?,?,?,?,?)",
            (self._machine, str(source), str(target), _dump(cost), time.time()),
        )

    def plan(self, key: str) -> Plan | None:
        """Return the plan that was decided for `key`, or None."""
        for (text,) in self._read(
            "SELECT plan FROM plans WHERE machine=? AND key=?", (self._machine, key)
        ):
            with _readable():
                return plan_json.from_json(text, str(self._path))
        return None

    def put_plan(self, key: str, plan: Plan) -> None:
        """Remember a decided plan."""
        self._write(
            "INSERT OR REPLACE INTO plans VALUES (?,?,?,?)",
            (self._machine, key, plan_json.to_json(plan), time.time()),
        )

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # ------------------------------------------------------------------------------------ inside

    def _open(self, path: Path) -> sqlite3.Connection | None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            return _connect(path)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                return self._give_up(f"{path} cannot be opened ({error})")
            aside = path.with_name(f"{path.name}.broken-{os.getpid()}-{time.time_ns()}")
            with contextlib.suppress(OSError):
                path.replace(aside)
            _warn(f"{path} is no SQLite file ({error}); set aside as {aside.name}")
            with contextlib.suppress(sqlite3.Error):
                return _connect(path)
            return None
        except OSError as error:
            return self._give_up(f"{path.parent} cannot be used ({error})")

    def _read(self, query: str, values: tuple[str, ...]) -> list[tuple[str, ...]]:
        if self._connection is None:
            return []
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            self._connection = self._give_up(f"{self._path} cannot be read ({error})")
            return []

    def _write(self, query: str, values: tuple[object, ...]) -> None:
        if self._connection is None:
            return
        try:
            with self._connection:
                self._connection.execute(query, values)
        except sqlite3.Error as error:  # a full disk, a read-only file, a lock held too long
            self._connection = self._give_up(f"{self._path} cannot be written ({error})")

    @staticmethod
    def _give_up(what: str) -> None:
        _warn(f"{what}; going on without it")


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=2.0)
    try:
        connection.executescript(_TABLES)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


@contextlib.contextmanager
def _readable() -> Iterator[None]:
    """A row that another version wrote, or that is damaged, counts as not there."""
    with contextlib.suppress(
        json.JSONDecodeError,
        cattrs.BaseValidationError,
        AutoplaceError,
        KeyError,
        TypeError,
        ValueError,
    ):
        yield


def _dump(value: object) -> str:
    return str(_converter.dumps(value))


def _warn(what: str) -> None:
    warnings.warn(f"AP602: the cost cache: {what}", CacheUnusableWarning, stacklevel=2)
