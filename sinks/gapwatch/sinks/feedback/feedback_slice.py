"""Converts joined feedback to rows, ticks and ledger entries: a slice of its own source, as verdicts are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import orjson
import pyarrow as pa

from gapwatch.scorers.portfolio.claim import FeedbackClaim
from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.slices.columns import BUCKET_SECONDS
from gapwatch.scorers.slices.facet_names import OTHER
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.scorers.slices.tables import GAPS, LEDGER, SCORED_TABLES, TICKS
from gapwatch.sinks.feedback.feedback import Feedback
from gapwatch.sinks.feedback.traces import FoundTrace

#: Source of the slices that hold feedback. Its offsets number the joined feedback of a lane.
JOINED_TOPIC = "joined-feedback"
#: Seconds after which live feedback counts when it comes and not when it was given. More: one that comes late holds
#: event time back, and with it the detectors of every metric.
_LATE_SECONDS = 120.0
_EPOCH = datetime(1970, 1, 1)
_OBSERVED = 300


@dataclass(frozen=True)
class JoinedFeedback:
    """A feedback and the trace that it is about."""

    feedback: Feedback
    trace: FoundTrace


def feedback_metrics(portfolios: Sequence[Portfolio], pipeline: str) -> list[tuple[Portfolio, Metric]]:
    """Return the metrics of a pipeline that count feedback, with their portfolios."""
    return [
        (portfolio, metric)
        for portfolio in portfolios
        if portfolio.pipeline == pipeline
        for metric in portfolio.metrics
        if isinstance(metric.claim, FeedbackClaim)
    ]


def passes(metric: Metric, number: float) -> bool:
    """Return whether a number passes a metric of feedback."""
    assert isinstance(metric.claim, FeedbackClaim)
    return number > 0 if metric.claim.pass_at is None else number >= metric.claim.pass_at


def feedback_slice(
    joined: Sequence[JoinedFeedback],
    portfolios: Sequence[Portfolio],
    named: Collection[tuple[str, str]],
    start: int,
    now: datetime,
) -> ScoredSlice:
    """Return the slice of some joined feedback of one lane.

    Args:
        joined: Feedback with its traces, at least one.
        portfolios: Portfolios whose metrics count it.
        named: Pairs of a facet (environment, release) and a name that is counted apart; others count as `other`.
        start: Number of joined feedback of the lane before these.
        now: Current time, naive UTC.
    """
    lane = joined[0].trace.lane
    rows: list[dict[str, Any]] = []
    ticks: Counter[tuple[Any, ...]] = Counter()
    ledger: Counter[tuple[Any, ...]] = Counter()
    for number, one in enumerate(joined, start=start):
        trace = one.trace
        bucket = _bucket(one.feedback.at, now, is_live=lane == "live")
        environment = trace.environment if ("environment", trace.environment) in named else OTHER
        for portfolio, metric in feedback_metrics(portfolios, trace.pipeline):
            outcome = "pass" if passes(metric, one.feedback.number) else "fail"
            rows.append(_row(one, portfolio, metric, outcome, number))
            series = (lane, trace.pipeline, environment, metric.component, metric.name, metric.version, None, "1")
            facets: list[tuple[str, str | None]] = [("all", None)]
            if trace.release is not None:
                facets.append(("release", trace.release if ("release", trace.release) in named else OTHER))
            for facet, value in facets:
                ticks[*series, bucket, bucket, "span", facet, value, outcome, 1.0] += 1
                unit = "good" if outcome == "pass" else "bad"
                ticks[*series, bucket, bucket, "unit", facet, value, unit, 1.0] += 1
            ledger[lane, *_place(trace, number)[:2], trace.pipeline, metric.name, outcome] += 1
    tables = {name: schema.empty_table() for name, schema in SCORED_TABLES.items()}
    tables["gaps"] = pa.Table.from_pylist(rows, schema=GAPS)
    tables["ticks"] = _table([(*key, n, None, None, None) for key, n in ticks.items()], TICKS)
    tables["ledger"] = _table([(*key, n) for key, n in ledger.items()], LEDGER)
    return ScoredSlice(lane, JOINED_TOPIC, 0, start, start + len(joined), records=0, spans=0, tables=tables)


def _bucket(at: datetime, now: datetime, *, is_live: bool) -> datetime:
    moment = at
    if is_live and not timedelta(0) <= now - at <= timedelta(seconds=_LATE_SECONDS):
        moment = now
    return _EPOCH + timedelta(seconds=(moment - _EPOCH).total_seconds() // BUCKET_SECONDS * BUCKET_SECONDS)


def _place(trace: FoundTrace, number: int) -> tuple[str, int, int]:
    """Return the place of the record of a trace; of a record without one, that of the feedback in its own source."""
    if trace.topic is None or trace.partition is None or trace.offset is None:
        return JOINED_TOPIC, 0, number
    return trace.topic, trace.partition, trace.offset


def _row(one: JoinedFeedback, portfolio: Portfolio, metric: Metric, outcome: str, number: int) -> dict[str, Any]:
    feedback, trace = one.feedback, one.trace
    topic, partition, offset = _place(trace, number)
    evidence = {"feedback": feedback.id, "by": feedback.user, "at": f"{feedback.at.isoformat()}Z"}
    return {
        "pipeline": trace.pipeline, "environment": trace.environment, "release": trace.release,
        "trace_id": feedback.trace_id, "component": metric.component, "metric": metric.name,
        "metric_version": metric.version, "portfolio_sha": portfolio.sha, "outcome": outcome,
        "score": feedback.number, "label": feedback.value,
        "observed": (feedback.comment or feedback.value)[:_OBSERVED], "evidence": orjson.dumps(evidence).decode(),
        "p_evaluated": 1.0, "p_kept": 1.0, "lane": trace.lane, "source_topic": topic, "source_partition": partition,
        "source_offset": offset, "span_index": -1, "event_at": feedback.at,
    }  # fmt: skip


def _table(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(schema)]
    return pa.table(columns, schema=schema)
