"""Alerts on the airline's agent while its releases are replayed one after the other."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import pytest

from gapwatch.scorers.loading.load import load_portfolio
from gapwatch.sinks.store.opening import open_for_reading
from gapwatch.streams.alerting.incidents.alert_cause import Cause, NewValue
from gapwatch.streams.alerting.incidents.alert_facts import AlertFacts, ChangePoint
from gapwatch.streams.alerting.incidents.stored_alerts import StoredAlert, read_alerts
from gapwatch.streams.batch.replay import ReplayOptions, replay
from tests.deploy.demo_traces import TRACES, run_script
from tests.paths import AIRLINE

START = "2026-03-02T07:40:00Z"
GOOD = ("gpt-4.1", "ft-gpt-4.1-sft", "claude-sonnet-4-5", "gpt-4o-2024-11-20")
#: 140 conversations of the good releases, one a minute from `START` on, and then the bad one.
RELEASED = datetime(2026, 3, 2, 10, 0)


def alerts_of(folder: Path, releases: tuple[str, ...], *more: str) -> list[StoredAlert]:
    files = [str(TRACES / f"airline_{name}.jsonl.gz") for name in releases]
    played = run_script(AIRLINE / "play.py", "--start", START, "--every", "60", *more, *files)
    (folder / "stream.jsonl").write_text(played.stdout)
    store = folder / "demo.duckdb"
    portfolio = load_portfolio(AIRLINE / "portfolio.yaml")
    replay([str(folder / "stream.jsonl")], [portfolio], store, ReplayOptions(alerts=True))
    with open_for_reading(store) as con:
        return read_alerts(con)


@pytest.fixture(scope="module")
def alerts(tmp_path_factory: pytest.TempPathFactory) -> list[StoredAlert]:
    return alerts_of(tmp_path_factory.mktemp("airline"), (*GOOD, "qwen2.5-7b"))


def cause_of(alert: StoredAlert) -> Cause:
    assert alert.facts.cause is not None
    return alert.facts.cause


def change_of(alert: StoredAlert) -> ChangePoint:
    assert alert.facts.change is not None
    return alert.facts.change


def evidence_of(alert: StoredAlert) -> float:
    assert alert.facts.evidence is not None and alert.facts.evidence.log10 is not None
    return alert.facts.evidence.log10


def test_the_bad_release_pages_as_a_shift_for_the_worse(alerts: list[StoredAlert]) -> None:
    pages = {a.row.metric: a for a in alerts if a.row.severity == "page" and a.facts.kind != "bound"}

    # `ends_by_customer` moved as well: its few conversations are no evidence beyond what days usually differ by.
    assert set(pages) == {"ids_known", "tool_calls_succeed"}
    for page in pages.values():
        facts, change, cause = page.facts, change_of(page), cause_of(page)
        assert (facts.kind, facts.polarity, facts.went_up) == (
            "cascade" if facts.is_cascade else "shift",
            "worse",
            True,
        )
        assert change.earliest <= RELEASED <= change.latest
        assert cause.shares["release"][0].value == "qwen2.5-7b"
        assert NewValue("release", "qwen2.5-7b", datetime(2026, 3, 2, 10, 0)) in cause.new
        assert 3 <= len(cause.examples) <= 5
        assert all(quote(e.trace_id, safe="") in e.url for e in cause.examples if e.url)


def test_a_fallback_that_shifts_pages_because_a_fact_says_that_it_is_worse(tmp_path: Path) -> None:
    found = alerts_of(tmp_path, (*GOOD, "qwen2.5-7b"), "--fallback", "qwen2.5-7b")
    (page,) = (a for a in found if a.row.metric == "fallback_rate")

    assert (page.row.severity, page.facts.polarity) == ("page", "worse")
    assert change_of(page).earliest <= RELEASED <= change_of(page).latest
    shares = cause_of(page).shares
    assert shares["release"][0].value == "qwen2.5-7b"
    assert "tier" not in shares, "the metric counts a tier, so a tier is no cause of it"


def test_the_good_releases_raise_nothing_before_but_what_they_leave_undecided(alerts: list[StoredAlert]) -> None:
    """The recordings of the third and fourth release hold no cost or no rejected replies."""
    before = [a for a in alerts if a.row.found_at < RELEASED]

    assert {a.facts.kind for a in before} <= {"unknown"}
    assert {a.row.metric for a in before} <= {"agent_cost", "rejected_reply_rate"}
    assert "page" not in {a.row.severity for a in before}


def test_all_that_moved_with_the_bad_release_is_one_incident(alerts: list[StoredAlert]) -> None:
    since = [a for a in alerts if a.row.state == "open" and a.row.found_at >= RELEASED]

    assert len(since) >= 3
    assert len({a.row.incident_id for a in since}) == 1


def test_good_releases_alone_raise_nothing_but_what_they_leave_undecided(tmp_path: Path) -> None:
    """The last release reports no cost, and two metrics decide on fewer of its conversations."""
    found = alerts_of(tmp_path, (*GOOD, "two-tier_opus-4-6_sonnet-4-6"))

    assert {a.row.metric for a in found} <= {"agent_cost", "rejected_reply_rate"}
    assert {a.facts.kind for a in found} <= {"unknown"}
    assert "page" not in {a.row.severity for a in found}


@pytest.mark.slow
def test_drawn_to_a_longer_stream_the_bad_release_pages_at_its_begin(tmp_path: Path) -> None:
    """200 of the 50 recorded conversations of each, drawn with replacement; they say no more than the recording."""
    found = alerts_of(tmp_path, ("gpt-4o-2024-11-20", "qwen2.5-7b"), "--draw", "200")
    released = datetime(2026, 3, 2, 7, 40) + timedelta(minutes=200)
    pages = [a for a in found if a.row.severity == "page" and a.facts.kind in ("cascade", "shift")]

    assert {"ids_known", "tool_calls_succeed"} <= {a.row.metric for a in pages}
    assert all(a.row.found_at > released for a in found)
    # A rare failure shows its change some conversations late; the set of the largest one holds the release.
    assert all(abs(change_of(page).at - released) < timedelta(minutes=30) for page in pages)
    largest = change_of(max(pages, key=evidence_of))
    assert largest.earliest <= released <= largest.latest


@pytest.mark.parametrize(
    "releases", [("claude-sonnet-4-5", "claude-sonnet-4-5"), ("gpt-4.1", "ft-gpt-4.1-sft")], ids=" ".join
)
@pytest.mark.slow
def test_drawn_releases_that_are_as_good_page_nobody(tmp_path: Path, releases: tuple[str, str]) -> None:
    found = alerts_of(tmp_path, releases, "--draw", "200")

    assert [a.row.metric for a in found if a.row.severity == "page"] == []


def test_the_facts_of_an_alert_are_json(alerts: list[StoredAlert]) -> None:
    for facts in (a.facts for a in alerts):
        assert AlertFacts.from_json(json.loads(json.dumps(facts.to_json()))) == facts
