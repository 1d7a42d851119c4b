"""The log of traces and the journal: whatever was torn by a kill is cut off, whatever was committed stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapwatch.scorers.errors import JobError, UsageError
from gapwatch.streams.otlp.live import commit_journal
from gapwatch.streams.otlp.live.commit_journal import AssemblyCommit, CommitJournal
from gapwatch.streams.otlp.live.traces_log import LogPlace, TracesLog


def read_all(log: TracesLog) -> list[bytes]:
    found: list[bytes] = []
    while part := log.read(log.first + len(found), 3):
        found += part
    return found


@given(
    batches=st.lists(st.tuples(st.lists(st.sampled_from([b"a", b"bb", b"c" * 30]), max_size=5), st.booleans())),
    segment=st.integers(1, 60),
)
def test_committed_traces_survive_a_kill_and_others_are_cut_off(
    tmp_path_factory: pytest.TempPathFactory, batches: list[tuple[list[bytes], bool]], segment: int
) -> None:
    folder = tmp_path_factory.mktemp("traces")
    place, kept = LogPlace(), list[bytes]()
    for traces, is_killed in batches:
        log = TracesLog(folder, place, segment)
        written = log.append(traces)
        if not is_killed:
            log.commit(written)
            place, kept = written, kept + traces
        assert log.lines == len(kept)
        assert read_all(log) == kept
        log.close()


def test_traces_that_are_stored_are_deleted_file_by_file(tmp_path: Path) -> None:
    log = TracesLog(tmp_path, LogPlace(), 4)
    for number in range(10):
        log.commit(log.append([b"%d" % number]))
    log.trim(5)
    assert log.first == 4
    assert log.read(5, 10)[0] == b"5"
    with pytest.raises(UsageError, match="was deleted"):
        log.read(3, 1)
    log.close()
    log = TracesLog(tmp_path, LogPlace(10, 8, 4), 4)
    assert read_all(log) == [b"%d" % n for n in range(4, 10)]
    log.close()


def test_a_full_disk_leaves_the_log_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = TracesLog(tmp_path, LogPlace())
    log.commit(log.append([b"one"]))

    def torn(handle: int, data: bytes) -> None:
        import os

        os.write(handle, data[:2])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("gapwatch.streams.otlp.live.traces_log.write_all", torn)
        with pytest.raises(JobError, match="No space left"):
            log.append([b"two"])
    log.commit(log.append([b"three"]))
    assert read_all(log) == [b"one", b"three"]
    log.close()


def commit(number: int, closed: int = 1, held: int | None = None) -> AssemblyCommit:
    held = number * 10 if held is None else held
    ids = [f"{number:04d}-{one}" for one in range(closed)]
    return AssemblyCommit(number, 1.5, number * 10, held, LogPlace(number, 0, number), {"assembled:quiet": number}, ids)


@given(cut=st.integers(1, 150))
def test_a_torn_commit_never_happened(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    path = tmp_path_factory.mktemp("journal") / "commits"
    journal = CommitJournal(path)
    for number in (1, 2):
        journal.append(commit(number))
    journal.close()
    size = len(commit(2).line())
    path.write_bytes(path.read_bytes()[: -min(cut, size)])

    journal = CommitJournal(path)
    assert journal.last == commit(1)
    journal.append(commit(2))
    journal.close()
    journal = CommitJournal(path)
    assert journal.last == commit(2)
    journal.close()


def test_a_commit_damaged_before_the_end_is_named(tmp_path: Path) -> None:
    path = tmp_path / "commits"
    journal = CommitJournal(path)
    for number in (1, 2):
        journal.append(commit(number))
    journal.close()
    path.write_bytes(path.read_bytes().replace(b'"number":1', b'"number":7'))
    with pytest.raises(UsageError, match="damaged at byte 0"):
        CommitJournal(path)


def test_a_journal_keeps_what_a_start_needs_and_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_journal, "REMEMBERED_TRACES", 20)
    path = tmp_path / "commits"
    journal = CommitJournal(path, rewrite_bytes=4_000)
    for number in range(1, 400):
        # A long trace holds position 300 back for a while.
        journal.append(commit(number, held=300 if 30 < number < 200 else None))
        needed = [
            f"{one:04d}-0"
            for one in range(max(1, min(31, number - 19) if 30 < number < 200 else number - 19), number + 1)
        ]
        assert journal.closed_ids()[-len(needed) :] == needed
    assert path.stat().st_size < 10_000
    known = journal.closed_ids()
    journal.close()
    journal = CommitJournal(path)
    assert journal.last.number == 399
    assert journal.closed_ids()[-20:] == known[-20:]
    journal.close()
