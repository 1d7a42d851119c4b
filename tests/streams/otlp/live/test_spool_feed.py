"""A feed without Kafka: from a request to a whole trace, over restarts, late spans, a full disk and a new mapping."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from gapwatch.scorers.errors import JobError, UsageError
from gapwatch.scorers.loading.load import parse_portfolio
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.streams.otlp.assembly.close_rules import CloseRules
from gapwatch.streams.otlp.live.spool_feed import SpoolFeed, SpoolOptions
from gapwatch.streams.otlp.receiving.http_receiver import OtlpAddress
from tests.http_client import post
from tests.streams.otlp.receiving.receivers import JSON
from tests.streams.otlp.receiving.test_bad_input import TRACE, span, spans_json

CHILD = {"spanId": "a" * 16, "parentSpanId": "eee19b7ec3c1b174"}


@contextlib.contextmanager
def feeding(folder: Path, quiet: float = 0.3, portfolios: tuple[Portfolio, ...] = ()) -> Iterator[SpoolFeed]:
    rules = CloseRules(quiet=quiet, orphan=10.0)
    feed = SpoolFeed(SpoolOptions(OtlpAddress("127.0.0.1", 0), rules=rules), folder, portfolios, "traces")
    feed.start()
    try:
        yield feed
    finally:
        assert feed.stop(10)


def send(feed: SpoolFeed, *spans: dict[str, object]) -> None:
    assert post(feed.url, "/v1/traces", spans_json(*spans), JSON).status == 200


def until(feed: SpoolFeed, state: str, n: int) -> None:
    end = time.monotonic() + 10
    while sum(found for key, found in feed.counts().items() if key[:2] == ("span", state)) < n:
        assert time.monotonic() < end, feed.counts()
        time.sleep(0.02)


def traces(folder: Path) -> list[dict[str, object]]:
    files = sorted((folder / "traces").iterdir())
    return [orjson.loads(line) for file in files for line in file.read_bytes().splitlines()]


def ids(trace: dict[str, object]) -> list[str]:
    spans: list[dict[str, str]] = trace["spans"]  # type: ignore[assignment]
    return sorted(one["span_id"] for one in spans)


def test_a_late_span_is_counted_and_its_trace_comes_once(tmp_path: Path) -> None:
    with feeding(tmp_path) as feed:
        send(feed, span())
        until(feed, "assembled", 1)
        send(feed, span(**CHILD), span())
        until(feed, "late", 1)
        assert feed.counts()["span", "duplicate", ""] == 1
        assert feed.late.count == 1
        assert 0.3 <= feed.late.quiet_for(0.99) < 20
        (late,) = feed.take_late_spans()
        assert (late.trace_id, late.span_id, late.service) == (TRACE, CHILD["spanId"], "support")
        assert late.gap >= 0.3 + late.delay
    assert [one["trace_id"] for one in traces(tmp_path)] == [TRACE]


def test_a_trace_goes_on_over_a_restart_however_long_nothing_could_be_received(tmp_path: Path) -> None:
    with feeding(tmp_path, quiet=1.0) as feed:
        send(feed, span())
        until(feed, "pending", 1)
    time.sleep(1.2)  # longer than the quiet time
    with feeding(tmp_path, quiet=1.0) as feed:
        send(feed, span(**CHILD))
        until(feed, "assembled", 2)
    (trace,) = traces(tmp_path)
    assert ids(trace) == ["a" * 16, "eee19b7ec3c1b174"]


def test_a_full_disk_ends_the_assembly_and_the_next_start_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched, feeding(tmp_path) as feed:
        send(feed, span())
        until(feed, "pending", 1)
        patched.setattr("gapwatch.streams.otlp.live.traces_log.write_all", full)
        with pytest.raises(JobError, match="No space left"):
            asyncio.run(asyncio.wait_for(feed.until_failed(), 10))
    with feeding(tmp_path) as feed:
        until(feed, "assembled", 1)
    assert len(traces(tmp_path)) == 1


def test_requests_that_are_assembled_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gapwatch.streams.otlp.live.spool_feed.Spool.__init__.__defaults__", (1,), raising=False)
    with feeding(tmp_path) as feed:
        for number in range(3):
            send(feed, span(traceId=f"{number + 1:032x}"))
        until(feed, "assembled", 3)
    assert len(list((tmp_path / "spool").iterdir())) == 1


def test_another_mapping_holds_for_the_traces_that_are_closed_after_it(tmp_path: Path) -> None:
    text = """
gapwatch: 1
portfolio: support
version: 1
pipeline: renamed
spans: {pipeline: {names: {support: renamed}}}
components: [{id: chat, kind: llm}]
metrics:
  - name: ends
    component: chat
    claim: {form: check, field: output, format: json}
    alert: {severity: page}
"""
    with feeding(tmp_path) as feed:
        send(feed, span())
        until(feed, "assembled", 1)
        feed.switch([parse_portfolio(text, "p.yaml")])
        time.sleep(0.5)
        send(feed, span(traceId="c" * 32))
        until(feed, "assembled", 2)
    assert [one["pipeline"] for one in traces(tmp_path)] == ["support", "renamed"]


def test_a_folder_whose_spool_is_gone_is_refused(tmp_path: Path) -> None:
    with feeding(tmp_path) as feed:
        send(feed, span())
        until(feed, "assembled", 1)
    shutil.rmtree(tmp_path / "spool")
    with pytest.raises(UsageError, match="restore the folder"):
        SpoolFeed(SpoolOptions(), tmp_path, (), "traces")
