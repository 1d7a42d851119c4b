"""A run that reads only traces of pipelines without a portfolio says so, once for each name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.sinks.metrics.source_state import SourceState
from gapwatch.streams.live.foreign_traces import MOST_NAMES, WARN_SECONDS, ForeignTraces
from tests.gapwatch_command import gapwatch
from tests.live_alerts import KeptAlerts
from tests.live_store import live_slices
from tests.streams.alerting.builders import portfolio

RUNNING = SourceState("running")


def scored(folder: Path, *pipelines: str) -> Iterator[ScoredSlice]:
    """Yield slices with a trace of each of these pipelines."""
    times = {"started_at": 1772600000, "ended_at": 1772600001}
    made = [{"trace_id": f"t{n}", "pipeline": name, **times, "spans": []} for n, name in enumerate(pipelines)]
    path = folder / "traces.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in made))
    return live_slices(path, portfolio(), max(len(pipelines), 1))


class Said:
    """A watch with a clock of its own."""

    def __init__(self, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
        self.folder, self.caplog, self.now = folder, caplog, 0.0
        self.watch = ForeignTraces(lambda: self.now)
        self.watch.portfolios_changed([portfolio()])

    def after(self, *pipelines: str) -> list[str]:
        """Return what is logged after traces of these pipelines and the time that a warning waits."""
        return self.after_slices(*scored(self.folder, *pipelines))

    def after_slices(self, *made: ScoredSlice) -> list[str]:
        """Return what is logged after these slices and the time that a warning waits."""
        self.caplog.clear()
        for one in made:
            self.watch.slice_stored(one, {})
        self.watch.source_state(RUNNING)
        self.now += WARN_SECONDS
        self.watch.source_state(RUNNING)
        return self.caplog.messages


def test_it_is_said_once_and_again_only_for_a_new_name(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    said = Said(tmp_path, caplog)
    own = portfolio().pipeline

    (first,) = said.after("bto", "bto")
    assert f"the traces name 'bto' (2), the portfolio names '{own}'" in first
    assert said.after("bto") == []
    assert "'other' (1)" in said.after("other")[0]
    assert said.after(own) == []
    assert said.after("third") == []


def test_a_shared_topic_says_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    said = Said(tmp_path, caplog)

    assert said.after("another", portfolio().pipeline) == []


def test_a_name_in_each_trace_does_not_fill_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    said = Said(tmp_path, caplog)

    (made,) = scored(tmp_path, "one")
    others = (replace(made, foreign={f"name-{n}": 1}) for n in range(2 * MOST_NAMES))
    assert sum(len(said.after_slices(one)) for one in others) == MOST_NAMES


def test_the_list_of_alerts_says_it_too(tmp_path: Path) -> None:
    with KeptAlerts(tmp_path / "s.duckdb", portfolio()) as kept:
        kept.keep_all(scored(tmp_path, "bto", "bto"))

        listed = gapwatch("alerts", "--store", tmp_path / "s.duckdb")
    said = " ".join((listed.out + listed.err).split())
    assert f"all 2 stored traces are of another pipeline than the portfolio's, '{portfolio().pipeline}'" in said
