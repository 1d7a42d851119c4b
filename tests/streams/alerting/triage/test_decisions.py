"""Decisions on alerts and answers to questions, by the commands, on a store that no process holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gapwatch.sinks.store.opening import open_for_reading
from gapwatch.sinks.store.store import Store
from gapwatch.streams.alerting.evaluation.shift_watch import ShiftWatch
from gapwatch.streams.alerting.incidents.links import trace_link
from gapwatch.streams.alerting.incidents.stored_alerts import StoredAlert, read_alerts
from tests.gapwatch_command import gapwatch
from tests.streams.alerting.breaking_stream import FALLBACK_ROSE, HOURS, keep, slices, slices_after_calm, stream
from tests.streams.alerting.builders import FALLBACK_IS_BAD, portfolio


@pytest.fixture
def store(fallback_store: Path) -> Path:
    return fallback_store


def alerts(store: Path) -> list[StoredAlert]:
    with open_for_reading(store) as con:
        return read_alerts(con)


def query(store: Path, sql: str) -> Any:
    with open_for_reading(store) as con:
        return con.execute(sql).fetchall()


def labels(store: Path) -> list[tuple[str, str | None, str | None]]:
    return [(a.facts.kind, a.facts.polarity, a.facts.question) for a in alerts(store)]


def test_an_answer_relabels_past_shifts_and_keeps_an_alert_open_under_its_new_name(store: Path) -> None:
    assert labels(store) == [("cascade", "unknown", "q-fallback")]
    done = gapwatch("answer", "q-fallback", "lower", "--store", store, "--by", "maria")

    assert done.status == 0, done.err
    assert "a lower failure rate is better, says maria; 1 past shift is relabelled" in done.out
    assert labels(store) == [("cascade", "worse", None)]
    assert [a.row.state for a in alerts(store)] == ["open"]
    assert query(store, "SELECT state, why, told->>'what' FROM incidents ORDER BY rowid") == [
        ("open", "opened", "CASCADE polarity unknown"),
        ("open", "renamed", "CASCADE worse"),
    ]
    assert query(store, 'SELECT metric, better, "by" FROM facts') == [("fallback_rate", "lower", "maria")]


def test_the_opposite_answer_relabels_the_opposite_way(store: Path) -> None:
    for value, expected in (("lower", "worse"), ("higher", "better"), ("neither", "unknown")):
        assert gapwatch("answer", "q-fallback", value, "--store", store, "--by", "maria").status == 0

        assert [verdict for _, verdict, _ in labels(store)] == [expected]


def test_an_answer_holds_from_then_on(store: Path) -> None:
    gapwatch("answer", "q-fallback", "lower", "--store", store, "--by", "maria")
    begin = FALLBACK_ROSE[-1][0] + 1
    first = len(slices_after_calm(FALLBACK_ROSE))
    later = slices(stream([(HOURS, 0.5)], seed=3, first=begin), metric="fallback_rate", first=first)
    with Store.open(store) as opened:
        watch = ShiftWatch.open(opened, [portfolio()])
        for scored in later:
            keep(opened, watch, scored)

    assert {(a.row.state, a.facts.kind, a.facts.polarity) for a in alerts(store)} == {
        ("open", "cascade", "worse"),
    }


@pytest.mark.parametrize(
    ("question", "value", "says"),
    [
        ("q-nobody", "lower", "the questions are: q-fallback"),
        ("q-fallback", "perhaps", "answer one of: lower, higher, neither"),
    ],
)
def test_an_answer_without_a_direction_is_refused(store: Path, question: str, value: str, says: str) -> None:
    done = gapwatch("answer", question, value, "--store", store, "--by", "maria")

    assert done.status == 2
    assert says in done.err
    assert query(store, "SELECT count(*) FROM facts") == [(0,)]


@pytest.mark.parametrize("by", ["me", "TODO", "?"])
def test_a_decision_without_a_name_is_refused(store: Path, by: str) -> None:
    (alert,) = alerts(store)
    for asked in (("answer", "q-fallback", "lower"), ("ack", alert.row.alert_id), ("accept", alert.row.alert_id)):
        done = gapwatch(*asked, "--store", store, "--by", by)

        assert (done.status, done.out) == (2, "")
        assert "has no author; give your name with --by, such as --by 'Ada Lovelace'" in done.err
        assert f"'{by}' can be anybody" in done.err


def test_a_stored_answer_whose_author_is_a_placeholder_does_not_count(store: Path) -> None:
    gapwatch("answer", "q-fallback", "higher", "--store", store, "--by", "maria")
    with Store.open(store) as opened:  # as an older version stored it
        opened.record("test", lambda con, _: con.execute("""UPDATE facts SET "by" = 'YOU'"""))

        assert ShiftWatch.open(opened, [portfolio()]).detectors[0].rows.rules["shop", "fallback_rate"].bad_side == 0


def test_a_portfolio_that_says_the_opposite_is_refused(store: Path) -> None:
    gapwatch("answer", "q-fallback", "higher", "--store", store, "--by", "maria")
    stated = portfolio(FALLBACK_IS_BAD.replace("2026-03-01", "2999-01-01"))
    with Store.open(store) as opened:
        watch = ShiftWatch.open(opened, [stated])

        # The later fact counts, whoever holds it.
        assert watch.detectors[0].rows.rules["shop", "fallback_rate"].bad_side == 1


def test_an_acknowledged_alert_stays_open(store: Path) -> None:
    (alert,) = alerts(store)
    done = gapwatch("ack", alert.row.alert_id[:5], "--store", store, "--by", "maria", "--why", "on it")

    assert done.status == 0
    (now,) = alerts(store)
    assert (now.row.state, now.is_open) == ("acknowledged", True)
    assert query(store, "SELECT topic, count(*) FROM internal.outbox GROUP BY ALL") == [("alerts", 2)]


def test_a_silence_ends_by_itself(store: Path) -> None:
    (alert,) = alerts(store)
    assert gapwatch("silence", alert.row.alert_id, "--store", store, "--by", "maria", "--for", "8h").status == 0
    (now,) = alerts(store)
    assert now.row.state == "silenced"
    with Store.open(store) as opened:
        past = json.dumps({"until": "2026-01-01T00:00:00Z"})
        opened.record(
            "test", lambda con, _: con.execute("UPDATE alerts SET attribution = ? WHERE state = 'silenced'", [past])
        )

    assert alerts(store)[0].row.state == "open"


def test_an_accepted_alert_is_closed_and_cannot_be_accepted_again(store: Path) -> None:
    (alert,) = alerts(store)
    asked = ("accept", alert.row.alert_id, "--store", store, "--by", "maria")
    assert gapwatch(*asked).status == 0
    again = gapwatch(*asked)

    assert (again.status, [a.row.state for a in alerts(store)]) == (2, ["accepted"])
    assert "only an open one takes a decision" in again.err


def test_explain_prints_one_page(store: Path) -> None:
    (alert,) = alerts(store)
    page = gapwatch("explain", alert.row.alert_id, "--store", store).out

    for words in (
        "polarity unknown",
        "Is the fallback degraded service?",
        "answer q-fallback lower",
        "accept",
        "Since",
        "How sure",
    ):
        assert words in page


def test_unmonitored_metrics_are_listed_and_each_series_has_a_detectable_change(store: Path) -> None:
    words = gapwatch("alerts", "--store", store, "--watched").out

    assert "\n  parses of agent (no trace was decided)\n  watched_by_eye of agent (no trace was decided)\n" in words
    (line,) = [line for line in words.splitlines() if "fallback_rate" in line and " rate " in line]
    assert "unverified" in line and " x" in line and "ticket" in line


def test_an_alert_carries_addresses_and_nothing_of_a_trace_id_changes_them(store: Path) -> None:
    (alert,) = alerts(store)

    assert alert.facts.cause is not None and alert.facts.cause.runbook_url is None
    assert trace_link(portfolio(), "a/../b?c#d") == "https://traces.example/a%2F..%2Fb%3Fc%23d"
