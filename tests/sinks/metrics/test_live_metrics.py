"""Counts on `/metrics`: equal to those of the store, after restarts too, and within the limit of the page."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gapwatch.scorers.loading.load import parse_portfolio
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.sinks.metrics.families import FAMILIES
from gapwatch.sinks.metrics.live_metrics import LiveMetrics
from gapwatch.sinks.store.store import Store
from tests.builders import KEPT_AT, NOON, scored_slice
from tests.live_store import airline_portfolio, airline_slices
from tests.prometheus import page_of

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]
#: The ones whose value is of the moment, not of what was counted.
MOMENTARY = re.compile(r"process_|gapwatch_(slice_seconds|last_commit|store_bytes|lag_|source_)")


def samples(page: str) -> Samples:
    """Return the samples of a page, with unescaped labels."""
    found: Samples = {}
    for line in page.splitlines():
        if line.startswith("#"):
            continue
        name, labels, value = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line).groups()  # type: ignore[union-attr]
        pairs = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or "")
        key = (name, frozenset((label, text.encode().decode("unicode_escape")) for label, text in pairs))
        assert key not in found, f"twice: {line}"
        found[key] = float(value)
    return found


def only(found: Samples, name: str, **labels: str) -> list[float]:
    """Return the values of a family's samples that have these labels."""
    wanted = set(labels.items())
    return [value for (family, pairs), value in found.items() if family == name and wanted <= pairs]


def portfolio(metrics: str = "", tiers: str = "[]") -> Portfolio:
    return parse_portfolio(
        f"""
gapwatch: 1
portfolio: p
version: 1
pipeline: airline-agent
components:
  - {{id: agent, role: ai_core, kind: llm, tiers: {tiers}}}
  - {{id: idle, role: supporting, kind: tool}}
edges: []
metrics:
  - {{name: answer_parses, component: agent, claim: {{form: check, field: output, format: json}}}}
{metrics}
"""
    )


def version_of(one: Portfolio, name: str = "answer_parses") -> str:
    return next(metric.version for metric in one.metrics if metric.name == name)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "s.duckdb", create=True) as opened:
        yield opened


def keep(store: Store, metrics: LiveMetrics, scored: ScoredSlice) -> None:
    store.write_slice(scored, KEPT_AT)
    metrics.slice_stored(scored, {"keep": 0.003})


def ticks(one: Portfolio, *rows: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"metric_version": version_of(one), **row} for row in rows]


@pytest.fixture(scope="module")
def airline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, LiveMetrics]]:
    """Yield a store with real conversations and three unreadable records."""
    folder = tmp_path_factory.mktemp("airline")
    metrics = LiveMetrics([airline_portfolio()])
    with Store.open(folder / "s.duckdb", create=True) as opened:
        metrics.rebuild(opened)
        broken = [b"{", b'{"trace_id": "x"}', b'{"trace_id": "x", "pipeline": "strange", "spans": []}']
        for scored in airline_slices(more=broken):
            keep(opened, metrics, scored)
        yield opened, metrics


def test_counts_are_those_of_the_store(airline: tuple[Store, LiveMetrics]) -> None:
    store, metrics = airline
    found = samples(page_of(metrics))
    by_outcome = store.query(
        """SELECT metric, level, outcome, sum(n), sum(n / p) FROM ticks WHERE facet = 'all' GROUP BY ALL"""
    )

    assert len(by_outcome) > 60
    for metric, level, outcome, n, weighted in by_outcome:
        name = "gapwatch_spans_total" if level == "span" else "gapwatch_units_total"
        assert only(found, name, metric=metric, outcome=outcome) == [n]
        if level == "unit":
            assert only(found, "gapwatch_weighted_units_total", metric=metric, outcome=outcome) == [
                pytest.approx(weighted)
            ]
    assert only(found, "gapwatch_records_total", state="read", pipeline="airline-agent") == [70]
    assert only(found, "gapwatch_records_total", state="foreign") == [1]
    assert only(found, "gapwatch_records_total", state="dead_letter") == [2]
    assert only(found, "gapwatch_dead_letters_total", cause="not_json") == [1]
    assert only(found, "gapwatch_dead_letters_total", cause="missing_field") == [1]
    assert only(found, "gapwatch_consumed_spans_total") == [store.query("SELECT sum(spans) FROM offsets")[0][0]]
    assert only(found, "gapwatch_ledger_imbalance") == [0]


def test_rates_of_the_last_hour_are_those_that_the_store_computes(airline: tuple[Store, LiveMetrics]) -> None:
    from gapwatch.sinks.catalog.rate_interval import rates_sql

    store, metrics = airline
    found = samples(page_of(metrics))
    newest = store.query("SELECT max(epoch(bucket)) FROM ticks")[0][0] // 300 - 12
    rows = store.query(
        'SELECT metric, units, unknown, rate, "lower", "upper", effective_units, unknown_share FROM ('
        + rates_sql("metric", f"epoch(bucket) >= {newest * 300}") + ") WHERE units > 0"
    )  # fmt: skip

    assert len(rows) > 15
    for metric, units, _, rate, lower, upper, effective, unknown in rows:
        told = {
            name: only(found, f"gapwatch_{name}", metric=metric)
            for name in (
                "window_units", "failure_ratio", "failure_ratio_lower", "failure_ratio_upper", "effective_units",
                "unknown_ratio",
            )
        }  # fmt: skip
        assert all(len(values) == 1 for values in told.values()), metric
        assert [values[0] for values in told.values()] == pytest.approx([units, rate, lower, upper, effective, unknown])


def test_a_value_histogram_holds_every_number_and_their_sum(airline: tuple[Store, LiveMetrics]) -> None:
    store, metrics = airline
    found = samples(page_of(metrics))
    for metric, n, total, below in store.query(
        """SELECT metric, sum(n), sum(score_sum), sum(list_sum(map_values(map_from_entries(list_filter(
                map_entries(histogram), lambda e: pow(1.01, e.key - 2778) <= 5)))))
            FROM ticks WHERE metric = 'reply_latency' AND level = 'span' AND facet = 'all' AND score_sum IS NOT NULL
            GROUP BY ALL"""
    ):
        assert only(found, "gapwatch_value_count", metric=metric) == [n]
        assert only(found, "gapwatch_value_sum", metric=metric) == pytest.approx([total])
        assert only(found, "gapwatch_value_bucket", metric=metric, le="5") == [below]
        assert only(found, "gapwatch_value_bucket", metric=metric, le="+Inf") == [n]


def test_a_restart_changes_no_counter_and_no_rate(airline: tuple[Store, LiveMetrics]) -> None:
    store, metrics = airline
    again = LiveMetrics([airline_portfolio()])
    again.rebuild(store)

    before, after = (
        {key: value for key, value in samples(page_of(one)).items() if not MOMENTARY.match(key[0])}
        for one in (metrics, again)
    )
    assert before.keys() == after.keys()
    assert all(after[key] == pytest.approx(value) for key, value in before.items())


def test_where_slices_begin_and_when_pages_are_asked_for_changes_nothing() -> None:
    pages = []
    for records, pages_between in ((8, True), (1000, False)):
        metrics = LiveMetrics([airline_portfolio()])
        for scored in airline_slices(records):
            metrics.slice_stored(scored, {})
            if pages_between:
                page_of(metrics)
        pages.append({key: value for key, value in samples(page_of(metrics)).items() if not MOMENTARY.match(key[0])})
    assert pages[0].keys() == pages[1].keys()
    assert all(pages[1][key] == pytest.approx(value) for key, value in pages[0].items())


def test_every_family_that_is_told_stands_in_the_table_with_its_labels(airline: tuple[Store, LiveMetrics]) -> None:
    for name, pairs in samples(page_of(airline[1])):
        family = FAMILIES.get(name) or FAMILIES[re.sub(r"_(bucket|sum|count)$", "", name)]
        labels = {label for label, _ in pairs} - ({"le"} if family.kind == "histogram" else set())
        assert labels <= set(family.labels), name


def test_weights_count_for_all_traces_made(store: Store) -> None:
    one = portfolio()
    metrics = LiveMetrics([one])
    rows = ticks(one, {"outcome": "bad", "n": 2, "p": 0.1}, {"outcome": "good", "n": 20, "p": 1.0})
    keep(store, metrics, scored_slice(ticks=rows))
    found = samples(page_of(metrics))

    assert only(found, "gapwatch_weighted_units_total", outcome="bad") == [20]
    assert only(found, "gapwatch_failure_ratio") == [0.5]
    assert only(found, "gapwatch_failure_ratio_lower")[0] < 0.2
    assert only(found, "gapwatch_effective_units")[0] < 22


def test_a_rate_forgets_after_an_hour_of_event_time_and_a_counter_does_not(store: Store) -> None:
    one = portfolio()
    metrics = LiveMetrics([one])
    keep(store, metrics, scored_slice(0, 1, ticks=ticks(one, {"outcome": "bad", "n": 5})))
    late = {"outcome": "good", "n": 3, "bucket": NOON + timedelta(minutes=90)}
    keep(store, metrics, scored_slice(1, 2, ticks=ticks(one, late)))
    found = samples(page_of(metrics))

    assert only(found, "gapwatch_window_units") == [3]
    assert only(found, "gapwatch_failure_ratio") == [0]
    assert only(found, "gapwatch_units_total", outcome="bad") == [5]


def test_a_late_trace_lands_in_its_own_slot(store: Store) -> None:
    one = portfolio()
    metrics = LiveMetrics([one])
    for offset, minutes in enumerate((0, 50, 10, -200)):
        row = {"outcome": "good", "bucket": NOON + timedelta(minutes=minutes)}
        keep(store, metrics, scored_slice(offset, offset + 1, ticks=ticks(one, row)))
        page_of(metrics)

    assert only(samples(page_of(metrics)), "gapwatch_window_units") == [3]
    last = {"outcome": "good", "bucket": NOON + timedelta(minutes=68)}
    keep(store, metrics, scored_slice(4, 5, ticks=ticks(one, last)))
    assert only(samples(page_of(metrics)), "gapwatch_window_units") == [3]  # the one at 0 is gone, the one at 10 is not


def test_a_trace_from_the_future_moves_no_clock(store: Store) -> None:
    one = portfolio()
    metrics = LiveMetrics([one])
    keep(store, metrics, scored_slice(0, 1, ticks=ticks(one, {"outcome": "bad", "n": 5})))
    future = {"outcome": "good", "bucket": datetime(2199, 1, 1)}
    keep(store, metrics, scored_slice(1, 2, ticks=ticks(one, future)))
    found = samples(page_of(metrics))

    assert only(found, "gapwatch_failure_ratio") == [1]
    assert only(found, "gapwatch_units_total", outcome="good") == [1]
    assert only(found, "gapwatch_newest_event_timestamp_seconds")[0] < time.time()


def test_ticks_of_another_version_of_the_metric_are_in_no_rate(store: Store) -> None:
    one = portfolio()
    metrics = LiveMetrics([one])
    rows = [*ticks(one, {"outcome": "good"}), {"metric_version": "0" * 12, "outcome": "bad", "n": 9}]
    keep(store, metrics, scored_slice(ticks=rows))
    assert only(samples(page_of(metrics)), "gapwatch_failure_ratio") == [0]


def test_labels_come_from_closed_sets(store: Store) -> None:
    one = portfolio(tiers="[{id: primary, by: llm}]")
    metrics = LiveMetrics([one])
    environments = [f"env-{n:02}" for n in range(40)] + ["x" * 5000]
    rows = [{"environment": name, "outcome": "bad"} for name in environments]
    rows += [{"environment": "production", "level": "span", "outcome": "pass", "n": 100}]
    rows += [
        {"environment": "production", "level": "span", "facet": "tier", "value": f"t{n}", "outcome": "pass"}
        for n in range(60)
    ]
    rows += [{"level": "span", "facet": "tier", "value": "primary", "outcome": "pass", "n": 30}]
    rows += [{"metric": "no such metric", "outcome": "bad"}, {"pipeline": "strange", "outcome": "bad"}]
    rows += [{"judge": "stranger", "outcome": "good"}]
    keep(store, metrics, scored_slice(ticks=ticks(one, *rows)))
    found = samples(page_of(metrics))
    again = LiveMetrics([one])
    again.rebuild(store)

    told = {dict(pairs)["environment"] for name, pairs in found if name == "gapwatch_units_total"}
    assert told == {"production", *environments[:15], "other"}
    assert only(found, "gapwatch_units_total", environment="other", outcome="bad") == [26]
    assert only(found, "gapwatch_tier_spans_total", tier="primary") == [30]
    assert only(found, "gapwatch_tier_spans_total", tier="other") == [60]
    assert only(found, "gapwatch_tier_spans_total", tier="none") == [10]
    assert only(found, "gapwatch_tier_ratio", tier="other") == [pytest.approx(0.6)]
    assert only(found, "gapwatch_units_total", judge="other", outcome="good") == [1]
    assert not only(found, "gapwatch_units_total", pipeline="strange")
    assert not only(found, "gapwatch_units_total", metric="no such metric")
    assert samples(page_of(again)).keys() >= {key for key in found if key[0] == "gapwatch_units_total"}


def test_a_hostile_environment_stays_one_label(store: Store) -> None:
    one = portfolio()
    metrics = LiveMetrics([one])
    hostile = 'a"} 1\nevil_total 9 \\ \x1b[31m\u202e'
    keep(store, metrics, scored_slice(ticks=ticks(one, {"environment": hostile, "outcome": "bad"})))
    page = page_of(metrics)

    assert "\nevil_total" not in page
    assert r'environment="a\"} 1\nevil_total 9 \\ ' in page


def test_only_the_live_lane_is_counted(store: Store) -> None:
    one = portfolio()
    metrics = LiveMetrics([one])
    keep(store, metrics, scored_slice(lane="backfill:x", ticks=ticks(one, {"lane": "backfill:x", "outcome": "bad"})))
    metrics_again = LiveMetrics([one])
    metrics_again.rebuild(store)
    assert not only(samples(page_of(metrics)), "gapwatch_units_total")
    assert not only(samples(page_of(metrics_again)), "gapwatch_units_total")


def test_what_nobody_watches_is_told(store: Store) -> None:
    one = portfolio("  - {name: other_one, component: agent, claim: {form: check, field: output, present: true}}")
    metrics = LiveMetrics([one])
    unknown = {"metric": "other_one", "metric_version": version_of(one, "other_one"), "outcome": "unknown"}
    rows = [{"outcome": "good"}, {"level": "span", "outcome": "pass"}, unknown, {**unknown, "level": "span"}]
    keep(store, metrics, scored_slice(ticks=ticks(one, *rows)))
    found = samples(page_of(metrics))

    assert only(found, "gapwatch_component_unwatched", component="agent") == [0]
    assert only(found, "gapwatch_component_unwatched", component="idle") == [1]
    assert only(found, "gapwatch_metric_unwatched", metric="answer_parses") == [0]
    assert only(found, "gapwatch_metric_unwatched", metric="other_one") == [1]
    assert only(found, "gapwatch_unknown_ratio", metric="other_one") == [1]
    assert not only(found, "gapwatch_failure_ratio", metric="other_one")


def test_what_waits_for_a_judge_goes_up_and_down_and_what_was_left_out_is_counted(store: Store) -> None:
    one = portfolio()
    metrics = LiveMetrics([one])
    name = {"metric": "answer_parses"}
    first = [{**name, "state": "pending", "n": 5}, {**name, "state": "shed_load", "n": 7}]
    keep(store, metrics, scored_slice(0, 1, ledger=[*first, {"state": "read"}]))
    assert only(samples(page_of(metrics)), "gapwatch_judge_requests_pending") == [5]

    verdict = [{**name, "state": "pending", "n": -2}, {**name, "state": "pass", "n": 2}]
    passed = ticks(one, {"level": "span", "outcome": "pass", "n": 2})
    keep(store, metrics, scored_slice(1, 2, ledger=[*verdict, {"state": "read"}], ticks=passed))
    found = samples(page_of(metrics))
    assert only(found, "gapwatch_judge_requests_pending") == [3]
    assert only(found, "gapwatch_unscored_spans_total", state="shed_load") == [7]
    assert only(found, "gapwatch_ledger_imbalance") == [0]


def test_an_imbalance_shows_at_once_and_after_a_restart(store: Store) -> None:
    one = portfolio()
    metrics = LiveMetrics([one])
    ledger = [{"metric": "answer_parses", "state": "fail", "n": 3}, {"state": "read"}]
    keep(store, metrics, scored_slice(ledger=ledger, ticks=ticks(one, {"level": "span", "outcome": "fail", "n": 2})))
    again = LiveMetrics([one])
    again.rebuild(store)

    assert only(samples(page_of(metrics)), "gapwatch_ledger_imbalance") == [1]
    assert only(samples(page_of(again)), "gapwatch_ledger_imbalance") == [1]


def test_lag_is_in_records_and_in_seconds_since_the_end_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = LiveMetrics([portfolio()])
    now = time.time()

    def look(seconds: float, kept: int, end: int) -> tuple[list[float], list[float]]:
        monkeypatch.setattr("gapwatch.sinks.metrics.live_metrics.time.time", lambda: now + seconds)
        metrics.source_state("running", {("traces", 3): (kept, end)}, 0)
        found = samples(page_of(metrics))
        return tuple(only(found, name, partition="3") for name in ("gapwatch_lag_records", "gapwatch_lag_seconds"))  # type: ignore[return-value]

    assert look(0, 10, 10) == ([0], [0])
    assert look(5, 10, 14) == ([4], [0])
    assert look(9, 10, 20) == ([10], [pytest.approx(4, abs=0.01)])
    assert look(12, 14, 20) == ([6], [pytest.approx(3, abs=0.01)])  # what came at 9 is the oldest that waits
    assert look(13, 20, 20) == ([0], [0])
    metrics.source_state("running", {}, 0)
    assert not only(samples(page_of(metrics)), "gapwatch_lag_records")  # it is another's now


def test_the_state_of_the_source_is_one_of_a_closed_set() -> None:
    metrics = LiveMetrics([portfolio()])
    metrics.source_state("joining", {}, 7)
    found = samples(page_of(metrics))
    assert only(found, "gapwatch_source_state", state="joining") == [1]
    assert sum(only(found, "gapwatch_source_state")) == 1
    assert only(found, "gapwatch_records_lost_total") == [7]


def test_a_new_portfolio_has_its_own_labels_from_then_on(store: Store) -> None:
    metrics = LiveMetrics([portfolio()])
    newer = portfolio("  - {name: other_one, component: agent, claim: {form: check, field: output, present: true}}")
    metrics.portfolios_changed([newer])
    row = {"metric": "other_one", "metric_version": version_of(newer, "other_one"), "outcome": "bad"}
    keep(store, metrics, scored_slice(ticks=[row]))
    assert only(samples(page_of(metrics)), "gapwatch_failure_ratio", metric="other_one") == [1]


def test_a_page_stays_within_its_bound_and_says_what_it_leaves_out(store: Store) -> None:
    names = [f"m{n:03}" for n in range(200)]
    one = portfolio(
        "\n".join(
            f"  - {{name: {n}, component: agent, claim: {{form: check, field: output, present: true}}}}" for n in names
        )
    )
    metrics = LiveMetrics([one], sample_limit=1_000)
    old = [{"metric": name, "metric_version": version_of(one, name), "outcome": "bad"} for name in names]
    new = [{**row, "bucket": NOON + timedelta(hours=9)} for row in old[:20]]
    keep(store, metrics, scored_slice(ticks=[*old, *new]))
    found = samples(page_of(metrics))

    watched = [key for key in found if "metric" in dict(key[1]) and "unwatched" not in key[0]]
    assert 900 < len(watched) <= 1_000
    assert only(found, "gapwatch_samples_left_out")[0] > 100
    # What moves has its rate; what rests has its counters, and its rates are asked of the store.
    assert len(only(found, "gapwatch_failure_ratio")) == 20
    assert len(only(found, "gapwatch_units_total", outcome="bad")) == 200


def test_many_slices_between_two_scrapes_are_counted_on_the_way(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gapwatch.sinks.metrics.live_metrics._WAITING_LIMIT", 3)
    one = portfolio()
    metrics = LiveMetrics([one])
    for offset in range(10):
        keep(store, metrics, scored_slice(offset, offset + 1, ticks=ticks(one, {"outcome": "bad"})))
        assert metrics._waiting_rows <= 3
    assert only(samples(page_of(metrics)), "gapwatch_units_total", outcome="bad") == [10]


def test_what_a_judge_left_out_is_told_as_none_before_it_is_some(store: Store) -> None:
    judged = """  - name: helpful
    component: agent
    claim: {form: judge, rubric: {criterion: "helps", inputs: [output]}, judges: [{model: a/b}]}
"""
    one = portfolio(judged)
    metrics = LiveMetrics([one])
    none = only(samples(page_of(metrics)), "gapwatch_unscored_spans_total", metric="helpful", state="shed_budget")
    keep(store, metrics, scored_slice(0, 1, ledger=[{"metric": "helpful", "state": "shed_budget", "n": 7}]))

    assert none == [0]
    found = samples(page_of(metrics))
    assert only(found, "gapwatch_unscored_spans_total", metric="helpful", state="shed_budget") == [7]
    assert only(found, "gapwatch_unscored_spans_total", metric="helpful", state="shed_load") == [0]
