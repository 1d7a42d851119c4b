"""What a run says and shows while it works: few lines, all true, and one answer to what is monitored."""

from __future__ import annotations

import json
import re
import urllib.request
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from gapwatch.sinks.api.endpoint_note import read_note
from tests.gapwatch_command import gapwatch
from tests.kafka_broker import KafkaBroker
from tests.live_alerts import KeptAlerts
from tests.live_store import until
from tests.streams.alerting.breaking_stream import BROKEN, slices_after_calm
from tests.streams.alerting.builders import portfolio
from tests.streams.live.test_run_alerts import PORTFOLIO, shop_traces
from tests.streams.run_process import Watched, make_relayed_topics

Phases = Counter[str]
_BY_PHASE = "SELECT phase, count(*) AS n FROM watched WHERE lane = 'live' GROUP BY phase"
_SERIES = re.compile(r'gapwatch_series\{.*phase="(\w+)".*\} ([\d.]+)')


def of_metrics(page: str) -> Phases:
    found = Counter({phase: int(float(n)) for phase, n in _SERIES.findall(page)})
    return +found


def of_store(store: Path) -> Phases:
    rows = gapwatch("history", "--store", store, "--format", "json", _BY_PHASE).json()
    return Counter({row["phase"]: row["n"] for row in rows})


def of_command(store: Path) -> tuple[Phases, int]:
    """Return the phases that the command counts, and the rows that it lists."""
    words = gapwatch("alerts", "--watched", "--store", store, "--format", "table").out
    (line,) = re.findall(r"^\d+ series monitored: (.*);", words, re.MULTILINE)
    listed = sum(bool(re.search(r" (rate|unknown|numbers|labels|sessions) +\w", row)) for row in words.splitlines())
    counts = (part.split() for part in line.split(", "))
    return Counter({name: int(n) for n, *_, name in counts}), listed


def page_text(url: str, path: str) -> str:
    with urllib.request.urlopen(url + path, timeout=30) as answer:
        return str(answer.read().decode())


def test_every_view_shows_the_same_series_after_one_slice_and_after_a_page(tmp_path: Path) -> None:
    first, *rest = slices_after_calm(BROKEN)
    with KeptAlerts(tmp_path / "s.duckdb", portfolio()) as kept:
        for made in ([first], rest):
            kept.keep_all(made)
            # The page of metrics is renewed once a second at most.
            until(lambda: kept.alerts.show(kept.store, kept.metrics) or kept.alerts.shown_seq == kept.store.seq)
            shown = of_metrics(page_text(kept.server.url, "/metrics"))
            counted, listed = of_command(kept.path)

            assert sum(shown.values()) > 0
            assert shown == of_store(kept.path) == counted
            assert listed == sum(shown.values())
        assert shown["page"] == 1


@pytest.mark.slow
@pytest.mark.kafka
def test_a_run_shows_the_same_series_everywhere_from_its_first_slice_on(
    kafka_broker: KafkaBroker, watch: Callable[..., Watched]
) -> None:
    make_relayed_topics(kafka_broker)
    topic = kafka_broker.make_topic()
    made = shop_traces()
    watched = watch(kafka_broker, topic, [PORTFOLIO]).start()
    watched.wait_until_reading()
    url = getattr(read_note(watched.store), "url", "")

    for values in (made[:20], made[20:]):
        watched.commit_after(lambda values=values: kafka_broker.produce(topic, values))  # type: ignore[misc]
        watched.wait_until(lambda: json.loads(page_text(url, "/readyz"))["status"] == "ready")
        # The page of metrics is renewed about a second after a commit.
        watched.wait_until(lambda: sum(of_store(watched.store).values()) > 0)
        watched.wait_until(lambda: of_metrics(page_text(url, "/metrics")) == of_store(watched.store))
        assert "no series is monitored" not in gapwatch("alerts", "--store", watched.store).out
    watched.wait_until(lambda: of_store(watched.store)["page"] > 0)
    watched.wait_until(lambda: of_metrics(page_text(url, "/metrics")) == of_store(watched.store))
    assert of_command(watched.store)[0] == of_store(watched.store)
    assert watched.end() == 0
    opened = [line for line in watched.said().splitlines() if " opens, " in line]
    assert len(opened) == 1, "two alerts that began together are one incident"
    watched.start()
    watched.wait_until_reading()
    assert watched.end() == 0
    assert " opens, " not in watched.said()
    assert "2 alerts are open" in watched.said()


@pytest.mark.slow
@pytest.mark.kafka
def test_an_outage_of_the_broker_is_two_lines(own_kafka_broker: KafkaBroker, watch: Callable[..., Watched]) -> None:
    make_relayed_topics(own_kafka_broker)
    topic = own_kafka_broker.make_topic(partitions=4)
    made = shop_traces()
    watched = watch(own_kafka_broker, topic, [PORTFOLIO]).start()
    watched.wait_until_reading()
    watched.commit_after(lambda: own_kafka_broker.produce(topic, made[:100]))
    before = len(watched.said().splitlines())
    own_kafka_broker.stop()
    watched.wait_until(lambda: "no answer from Kafka" in watched.said())
    own_kafka_broker.start()
    watched.wait_until(lambda: "Kafka answers again" in watched.said(), 120.0)
    watched.commit_after(lambda: own_kafka_broker.produce(topic, made[100:200]), 120.0)
    assert watched.end() == 0

    lines = [line for line in watched.said().splitlines()[before:] if "SIGTERM" not in line and "stop" not in line]
    assert len(lines) <= 6, lines
    assert sum("no answer from Kafka" in line for line in lines) == 1, lines
    assert sum("Kafka answers again" in line for line in lines) == 1, lines
    assert not any("aiokafka" in line or "mode" in line or "faust" in line for line in lines), lines
