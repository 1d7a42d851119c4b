"""A run that starts while a command reads the store waits for it."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gapwatch.scorers.errors import JobError, StoreHeldError
from gapwatch.sinks.api.endpoint_note import ApiNote, write_note
from gapwatch.sinks.store.opening import MEMORY
from gapwatch.sinks.store.store import Store
from gapwatch.streams.live import held_store
from gapwatch.streams.live.held_store import open_when_free

_READER = """
import duckdb, sys
con = duckdb.connect(sys.argv[1], read_only=True)
print("held", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
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
    assert f"pid {reader.pid}" in caplog.text and "waiting up to 120 s" in caplog.text


def test_what_a_command_holds_for_ever_ends_the_run_so_that_a_supervisor_starts_it_again(
    tmp_path: Path, reader: subprocess.Popen[str]
) -> None:
    with pytest.raises(JobError, match=f"pid {reader.pid}") as ended:
        open_when_free(tmp_path / "s.duckdb", MEMORY, seconds=0.2)
    assert ended.value.exit_status == 1


def test_what_another_run_holds_is_refused_for_good(
    tmp_path: Path, reader: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_note(tmp_path / "s.duckdb", ApiNote("http://127.0.0.1:9464", reader.pid, "", ""))
    monkeypatch.setattr(held_store, "HELD_SECONDS", 0.2)
    with pytest.raises(StoreHeldError, match=f"pid {reader.pid}") as refused:
        open_when_free(tmp_path / "s.duckdb", MEMORY)
    assert refused.value.exit_status == 2


def test_a_live_store_has_a_short_log_which_a_crash_makes_others_read_again(tmp_path: Path) -> None:
    log = tmp_path / "s.duckdb.wal"
    with open_when_free(tmp_path / "s.duckdb", MEMORY) as store:
        for number in range(6):  # 3 MB each, as a crash may find them between two commits
            store._con.execute(f"CREATE TABLE texts_{number} AS SELECT uuid()::VARCHAR AS text FROM range(60_000)")
            assert not log.exists() or log.stat().st_size < 12_000_000
