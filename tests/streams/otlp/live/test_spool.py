"""The spool: what was answered survives, what was torn is cut off, what is assembled is deleted."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapwatch.scorers.errors import JobError
from gapwatch.streams.otlp.live.spool import Spool
from gapwatch.streams.otlp.receiving.intake import OtlpRequest, Signal

REQUESTS = st.builds(OtlpRequest, st.sampled_from([Signal.TRACES, Signal.LOGS]), st.booleans(), st.binary(max_size=300))


def everything(spool: Spool) -> list[OtlpRequest]:
    return [one.request for one in spool.read(spool.first, 1 << 30)]


@given(batches=st.lists(st.lists(REQUESTS, min_size=1, max_size=4), max_size=6), segment=st.integers(1, 900))
def test_requests_are_read_in_order_over_files_and_starts(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[OtlpRequest]], segment: int
) -> None:
    folder = tmp_path_factory.mktemp("spool")
    for number, batch in enumerate(batches):
        spool = Spool(folder, segment)
        assert spool.last_clock == pytest.approx(number)
        spool.append(batch, 1e9, number + 1.0)
        spool.close()
    spool = Spool(folder, segment)
    found = list(spool.read(0, 1 << 30))
    assert [one.request for one in found] == [one for batch in batches for one in batch]
    assert [one.position for one in found] == [0, *(one.end for one in found)][: len(found)]
    for one in found:
        assert next(iter(spool.read(one.position, 1))) == one
    spool.close()


@given(cut=st.integers(1, 40))
def test_a_torn_end_is_cut_off_and_written_anew(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    folder = tmp_path_factory.mktemp("spool")
    first, second = (OtlpRequest(Signal.TRACES, False, text) for text in (b"first", b"second" * 4))
    spool = Spool(folder)
    spool.append([first], 1.0, 1.0)
    spool.append([second], 2.0, 2.0)
    spool.close()
    (file,) = folder.iterdir()
    file.write_bytes(file.read_bytes()[:-cut])

    spool = Spool(folder)
    assert everything(spool) == [first]
    assert spool.last_clock == 1.0
    spool.append([second], 3.0, 3.0)
    assert everything(spool) == [first, second]
    spool.close()


def test_files_before_a_position_are_deleted(tmp_path: Path) -> None:
    spool = Spool(tmp_path, segment_bytes=10)
    for number in range(5):
        spool.append([OtlpRequest(Signal.TRACES, False, b"%d" % number)], 1.0, 1.0)
    found = list(spool.read(0, 1 << 30))
    spool.trim(found[2].end - 1)
    assert [one.body for one in everything(spool)] == [b"2", b"3", b"4"]
    spool.trim(spool.end)
    assert len(list(tmp_path.iterdir())) == 1
    spool.close()
    again = Spool(tmp_path)
    assert again.end == found[-1].end
    again.close()


def test_a_damaged_request_in_the_middle_is_named(tmp_path: Path) -> None:
    spool = Spool(tmp_path, segment_bytes=10)
    for text in (b"one", b"two"):
        spool.append([OtlpRequest(Signal.TRACES, False, text)], 1.0, 1.0)
    spool.close()
    first = min(tmp_path.iterdir())
    first.write_bytes(first.read_bytes()[:-1] + b"!")
    spool = Spool(tmp_path)
    with pytest.raises(JobError, match="position 0 is damaged"):
        everything(spool)
    spool.close()
