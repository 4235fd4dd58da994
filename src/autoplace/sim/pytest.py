"""A pytest plugin: tests that run on a simulated Mac, each in a process of its own.

Switch it on with ``-p autoplace.sim.pytest``, or ``pytest_plugins = ["autoplace.sim.pytest"]`` in
the top `conftest.py`. A test marked ``metal_sim`` runs in a child process that has the simulated
device, with all its fixtures; a crash or hang of the child is one failed test. The fixture
`metal_sim` gives the device.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autoplace.sim import isolated
from autoplace.sim.simulated_device import SimulatedDevice, device

REPORTS = "AUTOPLACE_SIM_REPORTS"  # in a child: the file that its reports go to
TIMEOUT_S = 600.0
MARK = "metal_sim"


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        f"{MARK}(kernels=..., profile=..., macos=..., scale=..., faults=..., timeout_s=...): run the test in "
        "a process of its own, on a simulated Metal device",
    )


@pytest.fixture(name="metal_sim")
def _metal_sim() -> SimulatedDevice:
    """The simulated device of a test that is marked metal_sim."""
    started = device()
    if started is None:
        raise pytest.UsageError("the fixture metal_sim is for tests marked @pytest.mark.metal_sim")
    return started


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a marked test in a child, and report what the child reported."""
    del nextitem
    mark = item.get_closest_marker(MARK)
    if mark is None or REPORTS in os.environ:
        return None
    hook = item.ihook
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in _reports_of_child(item, dict(mark.kwargs)):
        hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """In a child: leave the report for the parent, a line each."""
    file = os.environ.get(REPORTS)
    if file:
        with Path(file).open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(report._to_json()) + "\n")  # noqa: SLF001 - as xdist does


def run_tests(arguments: list[str]) -> None:
    """In a child: run pytest with `arguments`."""
    raise SystemExit(pytest.main(arguments))


def _reports_of_child(item: pytest.Item, options: dict[str, Any]) -> Iterator[pytest.TestReport]:
    timeout_s = options.pop("timeout_s", TIMEOUT_S)
    with tempfile.TemporaryDirectory(prefix="autoplace-sim-") as folder:
        file = Path(folder, "reports.jsonl")
        arguments = [
            item.nodeid,
            f"--rootdir={item.config.rootpath}",
            "-p",
            "autoplace.sim.pytest",
            "-p",
            "no:cacheprovider",
            "-q",
        ]
        if item.config.inipath:
            arguments += ["-c", str(item.config.inipath)]
        try:
            done = isolated.run(
                run_tests,
                arguments,
                timeout_s=timeout_s,
                environment={REPORTS: str(file)},
                **options,
            )
        except TypeError as error:
            yield _failed(item, f"@pytest.mark.{MARK}: {error}")
            return
        lines = file.read_text("utf-8").splitlines() if file.exists() else []
    reports = [_read(line) for line in lines]
    yield from reports
    if not reports or reports[-1].when != "teardown":
        ended = "ran past its time" if done.exit_status is None else f"ended {done.exit_status}"
        yield _failed(
            item, f"the child process {ended}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
        )


def _read(line: str) -> pytest.TestReport:
    """The report of `line`, with the tuples that JSON made lists."""
    data = json.loads(line)
    data["location"] = tuple(data["location"])
    if isinstance(data["longrepr"], list):  # of a skipped test: file, line, reason
        data["longrepr"] = tuple(data["longrepr"])
    return pytest.TestReport._from_json(data)  # noqa: SLF001 - as xdist does


def _failed(item: pytest.Item, why: str) -> pytest.TestReport:
    return pytest.TestReport(
        nodeid=item.nodeid,
        location=item.location,
        keywords={},
        outcome="failed",
        longrepr=why,
        when="call",
    )
