"""Notes of wrong times and late data: logged once by pipeline, and in `/healthz` above 1 % of the last hour."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.sinks.metrics.source_state import SourceState
from gapwatch.streams.live.wrong_times import WrongTimes
from tests.streams.alerting.builders import MONDAY, at, units_slice


class Noted:
    def __init__(self) -> None:
        self.text, self.now = "", 0.0
        self.times = WrongTimes(self.take, lambda: self.now)

    def take(self, text: str) -> None:
        self.text = text

    def see(self, *slices: ScoredSlice) -> str:
        for one in slices:
            self.times.slice_stored(one, {})
        self.times.source_state(SourceState(state="running"))
        return self.text


def counted(number: int, read: int, **states: int) -> ScoredSlice:
    made = units_slice(number, [(MONDAY, read, 0, 0)])
    source = {"lane": "live", "source_topic": "traces", "source_partition": 0, "pipeline": "shop", "metric": None}
    rows: list[dict[str, Any]] = [{**source, "state": state, "n": n} for state, n in {"read": read, **states}.items()]
    table = made.tables["ledger"]
    return ScoredSlice(**{**vars(made), "tables": {**made.tables, "ledger": table.from_pylist(rows, table.schema)}})


def test_up_to_one_per_cent_there_is_no_note_and_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    noted = Noted()
    with caplog.at_level(logging.WARNING):
        assert noted.see(counted(0, 1_000, ahead=5), counted(1, 1_000, ahead=15)) == ""

    (line,) = caplog.messages
    assert "pipeline shop: 5 records in traces [0], offsets 0 to 0, with a time half an hour or more ahead" in line


def test_above_one_per_cent_there_is_a_note_for_an_hour() -> None:
    noted = Noted()

    assert "shop: 3% of the records of the last hour are two hours or more behind" in noted.see(
        counted(0, 100, behind=3)
    )
    noted.now = 3_500.0
    assert noted.see(counted(1, 50)) != ""
    noted.now = 3_700.0
    assert noted.see() == ""


def test_late_units_have_a_note() -> None:
    noted = Noted()
    made = units_slice(0, [(MONDAY, 95, 0, 0), (MONDAY - 30, 5, 0, 0)])
    ticks = made.tables["ticks"].to_pylist()
    folded = [{**row, "fold_bucket": at(MONDAY)} for row in ticks]
    table = made.tables["ticks"].from_pylist(folded, made.tables["ticks"].schema)
    late = ScoredSlice(**{**vars(made), "tables": {**made.tables, "ticks": table}})

    assert noted.see(late) == "pipeline shop: 5% of the units of the last hour came late"
