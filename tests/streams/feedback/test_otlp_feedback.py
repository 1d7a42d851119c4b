"""Feedback from the logger of a real OpenTelemetry SDK in a live run, over kills, and from topics of a Collector."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from gapwatch.scorers.errors import JobError
from gapwatch.sinks.feedback.feedback import Feedback
from gapwatch.streams.commands.otlp_options import local_feed
from gapwatch.streams.live.run_parts import RunInput, RunOptions, RunOutput, build_parts
from gapwatch.streams.otlp.assembly.assembler import Assembler
from gapwatch.streams.otlp.assembly.close_rules import CloseRules
from gapwatch.streams.otlp.live.span_topics import SpanTopics
from gapwatch.streams.otlp.live.topic_assembly import TopicAssembly
from gapwatch.streams.otlp.mapping.mapper import TraceMapper
from gapwatch.streams.sources.faust_slices import SliceAppOptions
from tests.gapwatch_command import gapwatch
from tests.http_client import post
from tests.kafka_broker import KafkaBroker
from tests.streams.otlp.assembly.test_evaluation_events import BAD, PREFIX, evaluation
from tests.streams.otlp.ports import free_port

PORTFOLIO = """
gapwatch: 1
portfolio: shop
version: 1
pipeline: shop
components: [{id: agent, role: ai_core, kind: llm}]
metrics:
  - {name: answers, component: agent, claim: {form: check, field: output, present: true}}
  - {name: thumbs, scope: trace, claim: {form: feedback, pass_at: 0.5}, alert: {severity: page}}
"""
#: Runs the command line, and kills itself at a step of a commit.
CHILD = """
import functools, os, signal, sys
from gapwatch.scorers.command_line import run
from gapwatch.streams.otlp.live import spool_feed
def at_step(step):
    if step == sys.argv[1]:
        os.kill(os.getpid(), signal.SIGKILL)
spool_feed.SpoolFeed = functools.partial(spool_feed.SpoolFeed, at_step=at_step)
sys.exit(run(sys.argv[2:]))
"""
STATES = "SELECT item, state, sum(n)::BIGINT AS n FROM span_ledger GROUP BY ALL HAVING sum(n) <> 0"


class Watched:
    """A run that listens for OTLP, and a program that sends to it."""

    def __init__(self, folder: Path) -> None:
        self.store, self.address = folder / "s.duckdb", f"127.0.0.1:{free_port()}"
        self.portfolio = folder / "p.yaml"
        self.portfolio.write_text(PORTFOLIO)

    @contextmanager
    def running(self, die_at: str = "") -> Iterator[subprocess.Popen[str]]:
        process = subprocess.Popen(
            [
                sys.executable, "-c", CHILD, die_at, "run", "--otlp", self.address, "--portfolio", str(self.portfolio),
                "--store", str(self.store), "--listen", "127.0.0.1:0", "--close", "quiet=1s",
            ],
            stderr=subprocess.PIPE, text=True, cwd=self.store.parent,
        )  # fmt: skip
        assert process.stderr is not None
        try:
            assert any("type next" in line for line in process.stderr)
            yield process
            process.terminate()
            assert process.wait(20) == (-9 if die_at else 0)
        finally:
            process.kill()
            process.wait()
            process.stderr.close()

    def trace(self, trace_id: str = "") -> str:
        """Send a trace of one model call from an SDK; return its id."""
        provider = TracerProvider(resource=Resource({"service.name": "shop"}))
        if trace_id:
            provider.id_generator.generate_trace_id = lambda: int(trace_id, 16)  # type: ignore[method-assign]
        provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"http://{self.address}/v1/traces")))
        with provider.get_tracer("t").start_as_current_span("agent") as span:
            span.set_attributes({"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"})
        provider.shutdown()
        return f"{span.get_span_context().trace_id:032x}"

    def evaluate(self, trace_id: str, **attributes: str | float) -> None:
        """Emit an evaluation from the logger of an SDK, in the context of a span of the trace."""
        provider = LoggerProvider(resource=Resource({"service.name": "judge"}))
        provider.add_log_record_processor(SimpleLogRecordProcessor(OTLPLogExporter(f"http://{self.address}/v1/logs")))
        judged = SpanContext(int(trace_id, 16), 1, is_remote=True, trace_flags=TraceFlags(1))
        provider.get_logger("judge").emit(
            context=set_span_in_context(NonRecordingSpan(judged)), event_name=PREFIX + "result",
            timestamp=time.time_ns(), attributes={PREFIX + key.replace("__", "."): v for key, v in attributes.items()},
        )  # fmt: skip
        provider.shutdown()

    def post(self, trace_id: str) -> None:
        body = evaluation(int(trace_id, 16), BAD).body
        assert (
            post(f"http://{self.address}", "/v1/logs", body, {"Content-Type": "application/x-protobuf"}).status == 200
        )

    def states(self) -> dict[tuple[str, str], int]:
        ran = gapwatch("history", STATES, "--store", self.store, "--format", "json")
        return {(row["item"], row["state"]): row["n"] for row in ran.json()} if ran.status == 0 else {}

    def until_stored(self, trace_id: str) -> None:
        sql = "SELECT trace_id FROM gaps"
        until(lambda: trace_id in gapwatch("history", sql, "--store", self.store).out, self.states)

    def until(self, item: str, state: str, n: int) -> None:
        until(lambda: self.states().get((item, state)) == n, self.states)


def until(is_so: Callable[[], bool], found: Callable[[], object], seconds: float = 40.0) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, found()
        time.sleep(0.2)


@pytest.mark.slow
def test_an_evaluation_before_its_trace_and_one_long_after_it_are_joined(tmp_path: Path) -> None:
    watched, early = Watched(tmp_path), f"{7:032x}"
    with watched.running():
        watched.evaluate(early, name="helpful", score__value=0.9)
        watched.until("feedback", "pending", 1)
        assert watched.trace(early) == early
        watched.until("feedback", "joined", 1)
        late = watched.trace()
        watched.until_stored(late)
        for _ in range(2):
            watched.post(late)
        watched.evaluate(late, name="helpful", score__value="much")
        watched.until("feedback", "duplicate", 1)
    assert watched.states() == {
        ("span", "consumed"): 2, ("span", "assembled"): 2,
        ("log_record", "consumed"): 4, ("log_record", "feedback"): 3, ("log_record", "dead_letter"): 1,
        ("feedback", "consumed"): 3, ("feedback", "joined"): 2, ("feedback", "duplicate"): 1,
    }  # fmt: skip
    ledger = gapwatch("ledger", "--store", watched.store)
    assert (ledger.status, "dead letter (bad feedback)" in ledger.out) == (0, True), ledger.out
    sql = "SELECT trace_id, outcome, observed FROM gaps WHERE metric = 'thumbs' ORDER BY ALL"
    rows = gapwatch("history", sql, "--store", watched.store, "--format", "json").json()
    assert {(row["trace_id"], row["outcome"], row["observed"]) for row in rows} == {
        (early, "pass", "helpful"), (late, "fail", "helpful (fail): wrong day"),
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("step", ["feedback stored", "traces written"])
def test_a_kill_around_the_storing_of_feedback_joins_it_once(tmp_path: Path, step: str) -> None:
    watched = Watched(tmp_path)
    with watched.running():
        trace = watched.trace()
        watched.until_stored(trace)
    with watched.running(die_at=step) as process:
        watched.post(trace)
        assert process.wait(20) == -9
    again = int(step == "feedback stored")
    with watched.running():
        watched.until("feedback", "consumed", 1 + again)
    states = watched.states()
    assert states["log_record", "consumed"] == states["log_record", "feedback"] == 1
    assert (states["feedback", "joined"], states.get(("feedback", "duplicate"), 0)) == (1, again)
    once = "SELECT count(*) AS n, count(DISTINCT feedback_id) AS ids, any_value(came_by) AS way FROM feedback"
    (row,) = gapwatch("history", once, "--store", watched.store, "--format", "json").json()
    assert row == {"n": 1, "ids": 1, "way": "otlp"}
    assert gapwatch("ledger", "--store", watched.store).status == 0


def test_a_run_that_ends_before_it_begins_releases_its_feed_and_stores_nothing(tmp_path: Path) -> None:
    portfolio, store = tmp_path / "p.yaml", tmp_path / "s.duckdb"
    portfolio.write_text(PORTFOLIO)
    make_feed = local_feed(f"127.0.0.1:{free_port()}", None, "traces", ())
    given = RunInput(None, SliceAppOptions("traces", "g"), (portfolio,), make_feed=make_feed)
    parts = build_parts(given, RunOutput(store), RunOptions(has_alerts=False))
    early = Feedback.read({"trace_id": "t", "value": 1}, datetime(2026, 11, 24))
    with ThreadPoolExecutor(1) as feed:
        waiting = feed.submit(parts.feedback.take_from_feed, [early])
        assert not wait([waiting], 0.1).done
        parts.feedback.close()
        with pytest.raises(JobError, match="the next start reads it again"):
            waiting.result(10)
    assert parts.feedback.intake.counts() == {}
    assert parts.feed is not None
    assert parts.feed.stop(10)
    parts.thread.store.close()
    parts.thread.close()


@pytest.mark.slow
@pytest.mark.kafka
def test_feedback_of_a_topic_comes_again_with_its_id_where_the_transaction_did_not_end(
    kafka_broker: KafkaBroker,
) -> None:
    spans, logs, traces = (kafka_broker.make_topic() for _ in range(3))
    topics = SpanTopics(spans, logs, traces, uuid.uuid4().hex, store_id="store-1")
    kafka_broker.produce(logs, [evaluation(1, BAD).body, evaluation(2, BAD).body])
    came = list[str]()

    def take(feedback: Sequence[Feedback]) -> None:
        came.extend(one.id for one in feedback)

    def dies(step: str) -> None:
        if step == "offsets written":
            raise JobError("killed")

    for at_step in (dies, lambda step: None):
        running = TopicAssembly(
            kafka_broker.settings, topics, lambda: Assembler(TraceMapper.of([]), CloseRules()), at_step
        )
        failed = list[BaseException]()
        running.start(failed.append, take)
        until(lambda: bool(failed or (running.is_done and running.counts)), lambda: running.waiting_for)  # noqa: B023
        assert running.stop(20)
    assert (len(came), len(set(came))) == (4, 2)
    assert dict(running.counts) == {"log_record.consumed.": 2, "log_record.feedback.": 2}
