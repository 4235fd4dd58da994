"""What an installer resolves on each platform and Python, from pyproject.toml alone.

Asks the package index that uv is configured for; nothing is downloaded but metadata. Skipped where that index
cannot be reached, or uv is not installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

pytestmark = [pytest.mark.pure, pytest.mark.network]

ROOT = Path(__file__).parents[2]
MAC, LINUX, WINDOWS = (
    "aarch64-apple-darwin",
    "x86_64-unknown-linux-gnu",
    "x86_64-pc-windows-msvc",
)
OLD, NEW = ("3.10", "3.11", "3.12"), ("3.13",)
Key = tuple[str, str, str]

# What must be there, as regular expressions of versions; None for what must not.
EXPECTED: dict[Key, dict[str, str | None]] = {}
for python in OLD:
    EXPECTED[MAC, python, ""] = {
        "tensorflow": r"2\.(16\.[2-9]|1[789]\..*)",
        "tensorflow-metal": r"1\.2\..*",
    }
    EXPECTED[MAC, python, "macos"] = {
        "tensorflow-macos": r"2\.16\.2",
        "tensorflow-metal": r"1\.2\.0",
        "numpy": r"1\.26\..*",
        "ortools": r"9\.9\..*",
    }
for python in NEW:
    # No plugin has a wheel for it: the base installs without TensorFlow, and autoplace says AP101 when used.
    for extra in ("", "macos"):
        EXPECTED[MAC, python, extra] = {
            "tensorflow": None,
            "tensorflow-macos": None,
            "tensorflow-metal": None,
            "keras": r"3\..*",
        }
for python in (*OLD, *NEW):
    for platform in (LINUX, WINDOWS):
        EXPECTED[platform, python, ""] = {
            "tensorflow": None,
            "tensorflow-cpu": None,
            "tensorflow-metal": None,
            "keras": r"3\..*",
            "ortools": r"9\..*",
        }
        EXPECTED[platform, python, "cpu"] = {
            "tensorflow-cpu": r"2\.(1[6-9]|[2-9][0-9])\..*",
            "tensorflow-metal": None,
        }
    EXPECTED[LINUX, python, "cuda"] = {
        "tensorflow": r"2\.(1[6-9]|[2-9][0-9])\..*",
        "nvidia-cudnn-cu12": r".*",
        "tensorflow-metal": None,
    }
# What `make setup` takes on a Mac, where tensorflow-cpu has no wheels.
EXPECTED[MAC, "3.12", "cpu,demo"] = {
    "tensorflow": r"2\.19\..*",
    "tensorflow-metal": r"1\.2\..*",
    "tensorflow-cpu": None,
    "scikit-learn": r"1\..*",
}


def find_uv() -> str:
    """Return uv: that of this environment first."""
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not installed")
    return uv


def resolve(uv: str, key: Key) -> subprocess.CompletedProcess[str]:
    """Resolve one combination."""
    platform, python, extras = key
    command = [uv, "pip", "compile", "--quiet", "--no-header", "--no-annotate"]
    command += ["--python-platform", platform, "--python-version", python]
    # Wheels only, so that nothing is built, and no attempt to download that Python: it is only resolved for.
    command += ["--only-binary", ":all:", "--no-python-downloads"]
    for extra in filter(None, extras.split(",")):
        command += ["--extra", extra]
    return subprocess.run(
        [*command, "pyproject.toml"],
        cwd=ROOT,
        # The certificates that this system trusts; the second is the name in older versions of uv.
        env={"UV_SYSTEM_CERTS": "1", "UV_NATIVE_TLS": "1", **os.environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )


@pytest.fixture(scope="module")
def resolutions() -> dict[Key, Future[subprocess.CompletedProcess[str]]]:
    """All combinations, two at a time; the first alone, since it fills uv's cache for the others."""
    uv = find_uv()
    first = resolve(uv, (LINUX, "3.11", "cpu"))
    if first.returncode and re.search(
        r"[Ff]ailed to fetch|error sending request|[Cc]onnect|dns|not found in the package registry",
        first.stderr,
    ):
        reason = re.sub(r"\S+://\S+", "the index", " ".join(first.stderr.split()))
        pytest.skip(f"the package index cannot be reached: {reason[:200]}")
    pool = ThreadPoolExecutor(2)
    return {key: pool.submit(resolve, uv, key) for key in EXPECTED}


@pytest.mark.parametrize("key", EXPECTED, ids=lambda key: "-".join(filter(None, key)))
def test_resolves_to(
    resolutions: dict[Key, Future[subprocess.CompletedProcess[str]]], key: Key
) -> None:
    """Each combination resolves, with the TensorFlow and plugin that load together, or with none."""
    result = resolutions[key].result()
    assert result.returncode == 0, result.stderr
    versions = dict(
        line.split(";")[0].strip().split("==")
        for line in result.stdout.splitlines()
        if "==" in line
    )
    for package, pattern in EXPECTED[key].items():
        if pattern is None:
            assert package not in versions
        else:
            assert re.fullmatch(pattern, versions.get(package, "absent")), (package, versions)
