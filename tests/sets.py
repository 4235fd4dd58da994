"""Runs the sets of tests, each in a process of its own, and adds them up in one closing line.

    .venv/bin/python tests/sets.py [set ...]

A set is a folder of tests/. Processes are separate because the simulated device has to be there before
TensorFlow starts, while the other sets must not see it. A set whose need is absent is named and left out; a
set that should run and of which no test passed is a failure.
"""

from __future__ import annotations

import argparse
import importlib.util
import platform
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SETS = ("pure", "golden", "contract", "cpu", "sim", "metal", "cuda")
NEVER_EMPTY = ("pure", "cpu", "sim")
WORDS = ("failed", "passed", "skipped", "error")


def missing_need(name: str) -> str | None:
    """Return why the set `name` cannot run here, or None where it can."""
    if name in ("pure", "golden"):
        return None
    if importlib.util.find_spec("tensorflow") is None:
        return "TensorFlow is not installed"
    if name == "sim":
        if sys.platform != "linux":
            return "the simulated device is built on Linux only"
        return None if shutil.which("g++") else "there is no g++"
    if name == "metal":
        if (sys.platform, platform.machine()) != ("darwin", "arm64"):
            return "this is no Mac with Apple silicon"
        return None if importlib.util.find_spec("tensorflow-plugins") else "no plugin installed"
    if name == "cuda":
        return None if shutil.which("nvidia-smi") else "there is no nvidia-smi"
    return None


def count(report: Path) -> Counter[str]:
    """Return how many tests of a JUnit file passed, failed, were skipped, or had errors."""
    totals: Counter[str] = Counter()
    for case in ET.parse(report).getroot().iter("testcase"):  # noqa: S314 - written by pytest just now
        kinds = {child.tag for child in case}
        if "failure" in kinds:
            totals["failed"] += 1
        elif "error" in kinds:
            totals["error"] += 1
        elif "skipped" in kinds:
            totals["skipped"] += 1
        else:
            totals["passed"] += 1
    return totals


def run_set(
    name: str, folder: Path, out: Path, extra: list[str]
) -> tuple[Counter[str], str | None]:
    """Run the tests in `folder`; return their counts, and what is wrong with the set as a whole."""
    report = out / f"{name}.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", str(folder), f"--junitxml={report}", *extra]
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    if not report.exists():
        return Counter(error=1), f"pytest ended with {code} and left no report"
    totals = count(report)
    if not totals["passed"]:
        return totals, "no test passed, though all that the set needs is here"
    if code and not (totals["failed"] or totals["error"]):
        return totals, f"pytest ended with {code}"
    return totals, None


def closing_line(totals: Counter[str], seconds: float) -> str:
    """Return a line in the form of pytest's last one."""
    parts = [f"{totals[word]} {word}" for word in WORDS if totals[word]] or ["no tests ran"]
    return f" {', '.join(parts)} in {seconds:.2f}s ".center(80, "=")


def main(arguments: list[str] | None = None, tests: Path = ROOT / "tests") -> int:
    """Run the sets asked for; return 1 if any test or set failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", metavar="set", help=f"of {', '.join(SETS)}; all if none")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "tests")
    asked, extra = parser.parse_known_args(arguments)
    unknown = set(asked.sets) - set(SETS)
    if unknown:
        parser.error(f"unknown set: {', '.join(sorted(unknown))}; there are {', '.join(SETS)}")
    asked.out.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    totals: Counter[str] = Counter()
    notes: list[str] = []
    for name in asked.sets or SETS:
        reason = missing_need(name)
        if reason is not None:
            notes.append(f"left out {name}: {reason}")
        elif not any((tests / name).rglob("test_*.py")):
            if name in NEVER_EMPTY:
                totals["error"] += 1
                notes.append(f"FAILED {name}: there are no tests in {tests.name}/{name}")
            else:
                notes.append(f"left out {name}: has no tests yet")
        else:
            sys.stdout.write(f"\n--- {name}\n")
            sys.stdout.flush()
            counts, wrong = run_set(name, tests / name, asked.out, extra)
            totals.update(counts)
            if wrong is not None:
                totals["error"] += not (counts["failed"] or counts["error"])
                notes.append(f"FAILED {name}: {wrong}")
    sys.stdout.write("\n" + "".join(f"{note}\n" for note in notes))
    sys.stdout.write(closing_line(totals, time.monotonic() - start) + "\n")
    return int(bool(totals["failed"] or totals["error"]) or not totals["passed"])


if __name__ == "__main__":
    sys.exit(main())
