"""Block at the start of a run: every address, and what to type next."""

from __future__ import annotations

from pathlib import Path

from gapwatch.scorers.version import program_version
from gapwatch.streams.live.outbox_relay import needed_topics
from gapwatch.streams.live.start_block import StartFacts, drawn, start_line, start_rows
from tests.streams.alerting.builders import portfolio


def test_the_block_shows_what_is_read_where_results_are_and_what_to_type() -> None:
    facts = StartFacts(
        "traces", "127.0.0.1:9092", "gapwatch", Path("s.duckdb"), "http://127.0.0.1:9464", [portfolio()], 2
    )

    assert (start_line(facts) + drawn(start_rows(facts))).splitlines() == [
        f"gapwatch {program_version()} monitors topic traces at 127.0.0.1:9092 as group gapwatch",
        "  portfolio  p version 1, pipeline shop: 3 metrics, 2 with an alert",
        "  store      s.duckdb (2 alerts are open)",
        "  page       http://127.0.0.1:9464/",
        "  metrics    http://127.0.0.1:9464/metrics",
        "  API        http://127.0.0.1:9464/v1/about",
        "  type next  gapwatch alerts --watched --store s.duckdb",
        "             gapwatch publish FILE --brokers 127.0.0.1:9092 --topic traces",
    ]


def test_a_run_that_listens_nowhere_and_alerts_on_nothing_says_so() -> None:
    silent = portfolio()
    silent = silent.model_copy(update={"metrics": [m.model_copy(update={"alert": None}) for m in silent.metrics]})
    rows = start_rows(StartFacts("traces", "b:1", "g", Path("s.duckdb"), "", [silent], None))

    assert rows["portfolio"] == ["p version 1, pipeline shop: 3 metrics, none with an alert: nobody will be told"]
    assert rows["store"] == ["s.duckdb (alerts are off)"]
    assert "page" not in rows


def test_only_topics_that_the_portfolios_need_are_missed() -> None:
    assert needed_topics([portfolio()], True) == ("alerts", "dead-letters")
    assert needed_topics([portfolio()], False) == ("dead-letters",)
