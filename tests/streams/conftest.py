"""Stores that several tests begin with: each is filled once for a worker, and copied for every test."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.streams.alerting.breaking_stream import BROKEN, FALLBACK_ROSE, keep_all, slices_after_calm
from tests.streams.alerting.builders import portfolio
from tests.streams.run_fixtures import broker, children, watch

__all__ = ["broker", "children", "watch"]


@pytest.fixture(scope="session")
def broken_store_made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("broken") / "s.duckdb"
    keep_all(path, slices_after_calm(BROKEN), portfolio())
    return path


@pytest.fixture
def broken_store(broken_store_made: Path, tmp_path: Path) -> Path:
    """A store at rest that has kept the stream that breaks; its page is in the outbox."""
    return Path(shutil.copy(broken_store_made, tmp_path))


@pytest.fixture(scope="session")
def fallback_store_made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fallback") / "s.duckdb"
    keep_all(path, slices_after_calm(FALLBACK_ROSE, metric="fallback_rate"), portfolio())
    return path


@pytest.fixture
def fallback_store(fallback_store_made: Path, tmp_path: Path) -> Path:
    """A store at rest in which the fallback rate rose; nobody said which way is better."""
    return Path(shutil.copy(fallback_store_made, tmp_path))
