"""Notes of wrong times and late data: logged once by pipeline, and in `/healthz` above 1 % of the last hour."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.scorers.slices.wrong_clocks import WrongClock
from gapwatch.sinks.metrics.families import FAMILIES
from gapwatch.sinks.metrics.source_state import SourceState
from gapwatch.streams.live.wrong_times import WrongTimes
from tests.streams.alerting.builders import MONDAY, at, units_slice


class Noted:
    def __init__(self) -> None:
        self.text, self.now = "", 0.0
        self.samples: dict[tuple[str, ...], float] = {}
        self.times = WrongTimes(self.take, self.show, lambda: self.now)

    def show(self, name: str, samples: Mapping[tuple[str, ...], float]) -> None:
        assert len(FAMILIES[name].labels) == 3
        self.samples = dict(samples)

    def take(self, text: str) -> None:
        self.text = text

    def see(self, *slices: ScoredSlice) -> str:
        for one in slices:
            self.times.slice_stored(one, {})
        self.times.source_state(SourceState(state="running"))
        return self.text


def counted(number: int, read: int, host: str = "host.name=web-7", **states: int) -> ScoredSlice:
    made = units_slice(number, [(MONDAY, read, 0, 0)])
    source = {"lane": "live", "source_topic": "traces", "source_partition": 0, "pipeline": "shop", "metric": None}
    rows: list[dict[str, Any]] = [{**source, "state": state, "n": n} for state, n in {"read": read, **states}.items()]
    table = made.tables["ledger"]
    tables = {**made.tables, "ledger": table.from_pylist(rows, table.schema)}
    wrong = [WrongClock("shop", state, host, "t-1", n) for state, n in states.items()]
    return ScoredSlice(**{**vars(made), "tables": tables, "wrong_clocks": wrong})


def test_up_to_one_per_cent_there_is_no_note_and_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    noted = Noted()
    with caplog.at_level(logging.WARNING):
        assert noted.see(counted(0, 1_000, ahead=5), counted(1, 1_000, ahead=15)) == ""

    (line,) = caplog.messages
    assert "pipeline shop: 5 records of host.name=web-7 in traces [0], offsets 0 to 0, with a time half an hour" in line
    assert "such as trace t-1" in line
    assert noted.samples == {("shop", "host.name=web-7", "ahead"): 20.0}


def test_each_host_is_named_in_the_log_the_note_and_the_metrics_up_to_twenty(caplog: pytest.LogCaptureFixture) -> None:
    noted = Noted()
    with caplog.at_level(logging.WARNING):
        note = noted.see(*(counted(i, 100, f"host.name=web-{i}", ahead=25 - i) for i in range(24)), counted(24, 1, ""))

    assert len(caplog.messages) == 20
    assert "(25 of host.name=web-0; 24 of host.name=web-1; 23 of host.name=web-2)" in note
    assert len(noted.samples) == 21
    assert noted.samples["shop", "other", "ahead"] == 2 + 3 + 4 + 5


def test_a_host_without_a_name_is_told_how_to_have_one(caplog: pytest.LogCaptureFixture) -> None:
    noted = Noted()
    with caplog.at_level(logging.WARNING):
        noted.see(counted(0, 100, "", behind=1))

    assert "1 record of a host that they do not name (publish an attribute host.name)" in caplog.messages[0]
    assert noted.samples == {("shop", "unnamed", "behind"): 1.0}


def test_above_one_per_cent_there_is_a_note_for_an_hour() -> None:
    noted = Noted()

    assert "shop: 3% of the records of the last hour are two hours or more behind" in noted.see(
        counted(0, 100, behind=3)
    )
    noted.now = 3_500.0
    assert noted.see(counted(1, 50)).endswith("(3 of host.name=web-7)")
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
