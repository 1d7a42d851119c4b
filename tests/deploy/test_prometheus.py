"""The page as Prometheus sees it: promtool has nothing to object to, and a real server scrapes and answers."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator

import pytest

from gapwatch.sinks.api.access import ApiOptions
from tests.deploy.alerting_servers import PrometheusServer
from tests.http_client import get
from tests.live_store import Kept, airline_slices, until
from tests.prometheus import promtool

HOSTILE = 'x"} 1\nevil_total 9 \\'
RECORD = {
    "trace_id": "h", "pipeline": "airline-agent", "environment": HOSTILE,
    "spans": [{"span_id": "s", "component": "agent", "kind": "llm", "output": "yes", "tier": HOSTILE}],
}  # fmt: skip


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    """A store of real conversations, the second half of them still to come."""
    folder = tmp_path_factory.mktemp("prometheus")
    with Kept(folder / "s.duckdb", ApiOptions(port=0, read_token="read-me")) as opened:
        for scored in airline_slices(more=[b"{", json.dumps(RECORD).encode()]):
            opened.write_slice(scored)
        opened.metrics.source_state("running", {("traces", 0): (72, 80)}, 0)
        yield opened


def test_promtool_has_nothing_to_object_to(kept: Kept) -> None:
    page = get(kept.server.url, "/metrics")
    done = promtool("check", "metrics", text=page.body.decode())

    assert page.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert page.body.count(b"\n") > 400


def test_a_scraper_is_given_the_format_and_encoding_that_it_asks_for(kept: Kept) -> None:
    plain = get(kept.server.url, "/metrics").body.decode()
    asked = {"Accept": "application/openmetrics-text; version=1.0.0", "Accept-Encoding": "gzip"}
    page = get(kept.server.url, "/metrics", asked)
    text = gzip.decompress(page.body).decode()

    assert page.headers["Content-Encoding"] == "gzip"
    assert page.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert text.endswith("# EOF\n")
    samples = [{line.rpartition(" ")[0] for line in one.splitlines() if line[0] != "#"} for one in (plain, text)]
    assert samples[0] == samples[1]
    assert not any("_created" in line for line in samples[1])


def test_promtool_would_object() -> None:
    """So that the test above can fail."""
    done = promtool("check", "metrics", text="# TYPE x counter\nx 1\n")
    assert done.returncode != 0


@pytest.fixture(scope="module")
def prometheus(kept: Kept, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusServer]:
    with PrometheusServer(tmp_path_factory.mktemp("server"), kept.server.url.removeprefix("http://")) as server:
        until(lambda: [value for _, value in server.ask("up")] == [1.0])
        yield server


def test_a_real_prometheus_has_every_sample_of_the_page(kept: Kept, prometheus: PrometheusServer) -> None:
    lines = [line for line in get(kept.server.url, "/metrics").body.decode().splitlines() if line[0] != "#"]
    until(lambda: [value for _, value in prometheus.ask("scrape_samples_scraped")] == [len(lines)])


def test_a_failing_metric_can_be_asked_for_with_its_interval(kept: Kept, prometheus: PrometheusServer) -> None:
    labels = '{metric="tool_calls_succeed",environment="production"}'
    [(names, rate)] = prometheus.ask(f"gapwatch_failure_ratio{labels}")
    [(_, lower)] = prometheus.ask(f"gapwatch_failure_ratio_lower{labels}")
    [(_, upper)] = prometheus.ask(f"gapwatch_failure_ratio_upper{labels}")
    [(_, bad)] = prometheus.ask(f"sum(gapwatch_units_total{labels[:-1]},outcome='bad'}})")

    assert (names["pipeline"], names["component"]) == ("airline-agent", "tools")
    assert 0 < lower < rate < upper < 1
    assert bad == kept.store.query(
        """SELECT sum(n) FROM ticks WHERE metric = 'tool_calls_succeed' AND level = 'unit' AND facet = 'all'
            AND outcome = 'bad' AND environment = 'production'"""
    )[0][0]  # fmt: skip


def test_a_quantile_of_measured_values_can_be_asked_for(prometheus: PrometheusServer) -> None:
    expression = 'histogram_quantile(0.5, sum by (le) (gapwatch_value_bucket{metric="reply_latency"}))'
    [(_, median)] = prometheus.ask(expression)
    assert 0.5 < median < 30


def test_a_hostile_environment_arrives_as_one_label(prometheus: PrometheusServer) -> None:
    environments = {names["environment"] for names, _ in prometheus.ask("gapwatch_units_total")}
    assert environments == {"production", HOSTILE}
    assert prometheus.ask("evil_total") == []
    assert {names["tier"] for names, _ in prometheus.ask("gapwatch_tier_spans_total")} <= {"other", "none", "primary"}


def test_what_is_kept_later_is_scraped_later(kept: Kept, prometheus: PrometheusServer) -> None:
    from tests.builders import scored_slice

    kept.write_slice(scored_slice(72, 75, ledger=[{"state": "read", "n": 3}]))
    expression = 'gapwatch_records_total{state="read"}'
    until(lambda: [value for _, value in prometheus.ask(expression)] == [74])
