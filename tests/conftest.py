"""What all tests share: markers from folders, quiet frameworks, nothing of the user's."""

from __future__ import annotations

import os
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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test the marker of its folder, so that neither can be forgotten."""
    for item in items:
        folder = item.path.relative_to(HERE).parts[0]
        if folder not in FOLDERS:
            raise pytest.UsageError(f"{item.path}: tests are in one of {', '.join(FOLDERS)}")
        item.add_marker(folder)


@pytest.fixture(scope="session", autouse=True)
def _own_environment(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tests see no `AUTOPLACE_*` variable of the user and never write to the user's cache."""
    for name in [name for name in os.environ if name.startswith("AUTOPLACE_")]:
        del os.environ[name]
    os.environ["AUTOPLACE_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))
