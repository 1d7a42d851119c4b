"""Life of an incident: what people receive of it, in which words, and the same words everywhere."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.sinks.store.outbox import outbox_rows
from gapwatch.sinks.store.store import Store
from gapwatch.streams.alerting.delivery.message import message_text
from gapwatch.streams.alerting.delivery.webhook import is_quiet
from gapwatch.streams.alerting.evaluation.shift_watch import ShiftWatch
from tests.gapwatch_command import gapwatch
from tests.http_client import get
from tests.live_alerts import KeptAlerts
from tests.streams.alerting.breaking_stream import BEFORE, BROKEN, DAY, HOURS, keep, slices_after_calm, stream
from tests.streams.alerting.builders import FALLBACK_IS_BAD, portfolio, units_slice

SAID = portfolio(FALLBACK_IS_BAD)
_TOLD = "SELECT why, state, severity, json_array_length(members), name FROM incidents ORDER BY rowid"


def two_metrics(parses: list[tuple[int, float]], fallback: list[tuple[int, float]]) -> Iterator[ScoredSlice]:
    """Slices of two metrics of one component, each in a partition of its own: a day at once, then each half hour."""
    both = [stream(rates, seed=seed) for seed, rates in ((1, parses), (2, fallback))]
    begins = [0, *range(DAY, len(both[0]), 6)]
    for number, (begin, end) in enumerate(zip(begins, [*begins[1:], None], strict=True)):
        for partition, (name, units) in enumerate(zip(("parses", "fallback_rate"), both, strict=True)):
            yield units_slice(number, units[begin:end], metric=name, partition=partition)


@dataclass(frozen=True)
class Story:
    """Steps and messages of a store."""

    steps: list[tuple[Any, ...]]
    messages: list[dict[str, Any]]

    @property
    def heard(self) -> list[tuple[str, str]]:
        """News and severity of the messages that call somebody."""
        return [(one["news"], one["severity"]) for one in self.messages if not one.get("quiet")]


def story(store: Store) -> Story:
    with store.cursor() as cursor:
        seqs = [seq for (seq,) in store.query("SELECT DISTINCT seq FROM internal.outbox ORDER BY 1")]
        rows = [row for seq in seqs for row in outbox_rows(cursor, "alerts", seq)]
    messages = [json.loads(row.value) for row in rows]
    assert [bool(one.get("quiet")) for one in messages] == [is_quiet(row) for row in rows]
    assert len({row.id for row in rows}) == len(rows)
    return Story(store.query(_TOLD), messages)


def play(path: Path, made: Iterator[ScoredSlice]) -> Story:
    with Store.open(path, create=True) as store:
        store.register(SAID, [])
        watch = ShiftWatch.open(store, [SAID])
        for scored in made:
            keep(store, watch, scored)
        watch.save(store)
        return story(store)


_CALM, _BAD = 0.02, 0.3


@pytest.mark.slow
def test_two_metrics_that_move_together_are_one_page_and_end_with_the_last(tmp_path: Path) -> None:
    told = play(
        tmp_path / "s.duckdb",
        two_metrics(
            [(BEFORE, _CALM), (HOURS, _BAD), (120, _CALM)], [(BEFORE, 0.1), (2 * HOURS, 0.5), (120 - HOURS, 0.1)]
        ),
    )

    news = [step[0] for step in told.steps]
    assert [one for one in told.heard if one[1] == "page" and one[0] != "resolved"] in (
        [("opened", "page")],
        [("grew", "page")],
    )
    assert told.heard[-1] == ("resolved", "page") and news[-1] == "resolved"
    assert [step[3] for step in told.steps][-1] == 2 and told.steps[-1][4].endswith(" and 1 more")
    assert len({one["incident_id"] for one in told.messages}) == 1
    assert news.count("resolved") == 1 and "left" not in [news for news, _ in told.heard]


@pytest.mark.slow
def test_a_metric_that_joins_an_acknowledged_incident_calls_nobody(tmp_path: Path) -> None:
    """The page is acknowledged before the ticket is found: its move is small at first, and of the same time."""
    path = tmp_path / "s.duckdb"
    made = list(two_metrics([(BEFORE, _CALM), (4 * HOURS, _BAD)], [(BEFORE, 0.1), (HOURS, 0.13), (3 * HOURS, 0.18)]))
    first = len(made) - 2 * (4 * HOURS // 6) + 2
    play(path, iter(made[:first]))
    ack = gapwatch("ack", _incident(path), "--store", path, "--by", "maria", "--why", "on it")
    assert ack.status == 0, ack.err
    with Store.open(path) as store:
        watch = ShiftWatch.open(store, [SAID])
        for scored in made[first:]:
            keep(store, watch, scored)
        told = story(store)
        alerts = store.query("SELECT state, incident_id FROM alerts_open ORDER BY found_at")

    assert told.heard == [("opened", "page"), ("acknowledged", "ticket")]
    assert ("acknowledged: on it", "acknowledged", "page", 1) in [step[:4] for step in told.steps]
    joined = [step for step in told.steps if step[0] == "joined"]
    assert {step[1] for step in joined} <= {"acknowledged"} and {state for state, _ in alerts} == {"acknowledged"}
    assert len(alerts) == 1 + len(joined)


def _incident(path: Path) -> str:
    with Store.open(path) as store:
        ((incident_id,),) = store.query("SELECT DISTINCT incident_id FROM incidents_open")
    return str(incident_id)


def test_a_decision_on_an_incident_is_one_on_all_of_its_alerts(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    play(path, two_metrics([(BEFORE, _CALM), (HOURS, _BAD)], [(BEFORE, 0.1), (HOURS, 0.5)]))
    accepted = gapwatch("accept", _incident(path), "--store", path, "--by", "maria")
    with Store.open(path) as store:
        told = story(store)
        states = store.query("SELECT DISTINCT arg_max(state, rowid) FROM alerts GROUP BY alert_id")

    assert [severity for _, severity in told.heard].count("page") == 2  # opened (or grew), and accepted
    assert "and 1 more: accepted as the new baseline by maria" in accepted.out, accepted.err
    assert states == [("accepted",)] and told.steps[-1][1] == "accepted"
    assert told.heard[-1][0] == "accepted" and [one[0] for one in told.heard].count("accepted") == 1


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeptAlerts]:
    with KeptAlerts(tmp_path_factory.mktemp("told") / "s.duckdb", SAID) as opened:
        opened.keep_all(slices_after_calm(BROKEN))
        yield opened


def test_the_same_is_told_by_store_topic_text_prometheus_and_explain(kept: KeptAlerts) -> None:
    ((told,),) = kept.store.query("SELECT told FROM incidents_open")
    stored: dict[str, Any] = json.loads(told)
    (message,) = story(kept.store).messages
    metrics = get(kept.server.url, "/metrics").body.decode()
    (info,) = [line for line in metrics.splitlines() if line.startswith("gapwatch_incident_info{")]
    page = html.unescape(get(kept.server.url, f"/alerts/{message['incident_id']}").body.decode())
    text = message_text(message)

    assert message["told"] == stored
    must = (
        "name",
        "what",
        "share",
        "before",
        "after",
        "ratio",
        "interval",
        "since",
        "between",
        "units",
        "first",
        "cause",
    )
    assert all(stored[name] for name in must)
    for name in (*must, "metrics"):
        assert f'{name}="{stored[name]}"' in info, name
        assert str(stored[name]) in page, name
    for name in ("name", "what", "share", "before", "after", "interval", "since", "first"):
        assert str(stored[name]) in text, name
    assert text.startswith(f"PAGE: SHIFT worse: parses of agent: failing traces {stored['before']} -> ")


def test_explain_of_an_incident_is_one_page_with_what_to_do(kept: KeptAlerts) -> None:
    ((incident_id,),) = kept.store.query("SELECT incident_id FROM incidents_open")
    page = get(kept.server.url, f"/alerts/{incident_id}").body.decode()

    assert f"gapwatch ack {incident_id}" in page or "ack i" in page
    assert "parses of agent" in page and "moved first" in page
