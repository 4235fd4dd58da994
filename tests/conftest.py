"""What all tests share: markers from folders, quiet frameworks, nothing of the user's."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Before anything imports TensorFlow.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

HERE = Path(__file__).parent
FOLDERS = ("pure", "golden", "contract", "cpu", "sim", "metal", "cuda")

# No test asserts a time, and the machine may be shared: hypothesis must not either.
settings.register_profile(
    "autoplace", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("autoplace")


def pytest_configure(config: pytest.Config) -> None:
    """Show tests no `AUTOPLACE_*` variable of the user, and give them a cache of their own.

    Only built simulated devices are kept from one run to the next: their names have a hash of all they are built from.
    """
    for name in [name for name in os.environ if name.startswith("AUTOPLACE_")]:
        del os.environ[name]
    cache = tempfile.TemporaryDirectory(prefix="autoplace-tests-")
    config.add_cleanup(cache.cleanup)
    os.environ["AUTOPLACE_CACHE_DIR"] = cache.name
    built = HERE.parent / "build" / "sim"
    built.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(OSError):  # a system without symbolic links builds once per run
        (Path(cache.name) / "sim").symlink_to(built, target_is_directory=True)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test the marker of its folder, so that neither can be forgotten."""
    for item in items:
        folder = item.path.relative_to(HERE).parts[0]
        if folder not in FOLDERS:
            raise pytest.UsageError(f"{item.path}: tests are in one of {', '.join(FOLDERS)}")
        item.add_marker(folder)
