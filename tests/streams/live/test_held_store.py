"""A run that starts while a command reads the store waits for it."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gapwatch.scorers.errors import StoreHeldError
from gapwatch.sinks.store.opening import MEMORY
from gapwatch.sinks.store.store import Store
from gapwatch.streams.live.held_store import open_when_free

_READER = """
import duckdb, sys
con = duckdb.connect(sys.argv[1], read_only=True)
print("held", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def reader(tmp_path: Path):
    """A process that holds the store until a line or the end of its input."""
    Store.open(tmp_path / "s.duckdb", create=True).close()
    command = [sys.executable, "-c", _READER, str(tmp_path / "s.duckdb")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        yield process


def test_it_waits_until_the_store_is_free_and_says_once_for_whom(
    tmp_path: Path, reader: subprocess.Popen[str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            reader.communicate("\n")

    monkeypatch.setattr(time, "sleep", sleep)
    with caplog.at_level(logging.WARNING), open_when_free(tmp_path / "s.duckdb", MEMORY):
        assert len(slept) >= 3

    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert f"pid {reader.pid}" in caplog.text and "waiting up to 10 s" in caplog.text


def test_what_stays_held_is_refused(tmp_path: Path, reader: subprocess.Popen[str]) -> None:
    with pytest.raises(StoreHeldError, match=f"pid {reader.pid}"):
        open_when_free(tmp_path / "s.duckdb", MEMORY, seconds=0.2)
