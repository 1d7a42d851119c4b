"""Converts a batch of judgements to rows, ticks, ledger entries, closed requests, costs and annotations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from gapwatch.scorers.judges.ensemble import ENSEMBLE
from gapwatch.scorers.judges.judgement import Judgement
from gapwatch.scorers.judges.request import AwaitedComposite, JudgeRequest
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.scorers.slices.tables import GAPS, LEDGER, SCORED_TABLES
from gapwatch.sinks.store.row_inserts import insert_rows
from gapwatch.sinks.store.transaction import StoreTransaction
from gapwatch.sinks.verdicts.judge_rows import composite_row, ensemble_row, judge_row, series_epoch
from gapwatch.sinks.verdicts.judged_record import JudgedRecord, MetricKey
from gapwatch.sinks.verdicts.retries import DECIDED, RetriedVotes, insert_retried, retried_override
from gapwatch.sinks.verdicts.verdict_ticks import VerdictTicks

#: Source of the slices that hold verdicts. Its offsets number the judgements of a lane.
VERDICTS_TOPIC = "judge-verdicts"
_OUTCOMES = ("pass", "warn", "fail", "unknown", "skip", "error")
#: States of the spans of a trace and the outcome of the trace, the strongest first, as `ticks.unit_folds` has it.
_UNITS = (({"fail"}, "bad"), ({"pass", "warn"}, "good"), ({"error"}, "error"))
#: Columns of the rows written in addition to the slice, in the order in which this file collects their values.
_CLOSED_COLUMNS = ("seq", "id", "state", "score", "position")
_CALL_COLUMNS = (
    "seq", "request_id", "portfolio_sha", "pipeline", "metric", "judge", "model", "kind", "input_tokens",
    "output_tokens", "usd", "seconds", "kept_at",
)  # fmt: skip


class VerdictBatch:
    """Judgements of one lane that are stored in one transaction.

    Args:
        lane: Lane of all judgements.
        at: Time of closing, naive UTC.
        triples: Last model id, prompt sha and sampling sha of each judge; updated as verdicts are added.

    Attributes:
        states: Number of spans by metric and state.
    """

    def __init__(self, lane: str, at: datetime, triples: dict[tuple[Any, ...], tuple[str, str, str]]) -> None:
        self._triples = triples
        self._lane = lane
        self._at = at
        self._ticks = VerdictTicks(at)
        self._rows: list[dict[str, Any]] = []
        self._closed: list[tuple[Any, ...]] = []
        self._calls: list[tuple[Any, ...]] = []
        self._annotations: list[tuple[Any, ...]] = []
        self._overrides: dict[str, tuple[dict[str, Any], Judgement]] = {}
        self._ledger: Counter[tuple[str, int, str, str, str]] = Counter()
        self.states: Counter[tuple[str, str]] = Counter()

    def add(self, record: JudgedRecord, judgement: Judgement) -> None:
        """Close one request of a record, and the span, unit and composites that it completes."""
        request = record.requests[judgement.id]
        record.votes[judgement.id] = (judgement.state, judgement.score, judgement.position)
        self._closed.append((judgement.id, judgement.state, judgement.score, judgement.position))
        self.book(judgement, request)
        if not judgement.state.startswith("shed_"):
            self._rows.append(judge_row(request, judgement))
        self._note_triple(request, judgement)
        key = (request.span_index, request.metric)
        if record.is_closed(key):
            self._close_span(record, key, judgement)

    def add_retry(self, request: JudgeRequest, judgement: Judgement, votes: RetriedVotes) -> None:
        """Close a request that was asked again: its verdict overrides the row of the error, and no count changes.

        The row of an ensemble is overridden where it had no decision and now has one. A further error, or a request
        that the budget sheds, changes nothing but the cost.
        """
        self._closed.append((judgement.id, judgement.state, judgement.score, judgement.position))
        self.book(judgement, request)
        self.states[request.metric, judgement.state] += 1
        votes.take(judgement.id, judgement.state, judgement.score, judgement.position)
        if judgement.state != "error" and not judgement.state.startswith("shed_"):
            decided = (judgement.state, judgement.score, judgement.band)
            self._override(request, request.judge, judgement, decided)
        if len(request.members) > 1:
            before, now = votes.decisions(request)
            if before[0] not in DECIDED and now[0] in DECIDED:
                self._override(request, ENSEMBLE, judgement, (*now, None))

    def _override(
        self, request: JudgeRequest, judge: str, judgement: Judgement, decided: tuple[str, float | None, str | None]
    ) -> None:
        # One for each row: of several members that answer in one batch, the last decision counts.
        row = retried_override(request, judge, judgement, self._at, *decided)
        self._overrides[request.id_of(judge)] = row, judgement

    def book(self, judgement: Judgement, request: JudgeRequest | None) -> None:
        """Record the cost of a judgement; `request` is None for one that came too late, whose request is not known."""
        who: tuple[str | None, ...] = (None,) * 4
        if request is not None:
            who = (request.portfolio_sha, request.pipeline, request.metric, request.judge)
        for call in judgement.calls:
            self._calls.append(
                (
                    judgement.id, *who, call.model, call.kind, call.input_tokens, call.output_tokens, call.usd,
                    call.seconds,
                )
            )  # fmt: skip

    def _close_span(self, record: JudgedRecord, key: MetricKey, last: Judgement) -> None:
        ids = record.spans[key]
        request = record.requests[ids[0]]
        state, score = record.decided[key] = record.decision(key)
        judge, label = request.judge, last.band
        if len(ids) > 1:
            judge, label = ENSEMBLE, None
            if not state.startswith("shed_"):
                votes = [(record.requests[i].judge, *record.votes[i]) for i in ids]
                self._rows.append(ensemble_row(request, votes, self._triples_of(record, ids)))
        epoch = series_epoch(request.epoch, self._triples_of(record, ids))
        series = (request.metric, request.metric_version, judge, epoch)
        self._move_from_pending(request, request.metric, state)
        if state in _OUTCOMES:
            self._ticks.add_span(request, series, state, score, label, request.p_evaluated)
        self._close_unit(record, request, series)
        for composite in request.composites:
            self._close_composite(record, request, composite)

    def _close_unit(
        self, record: JudgedRecord, request: JudgeRequest, series: tuple[str, str, str | None, str]
    ) -> None:
        keys = [key for key in record.spans if key[1] == request.metric]
        if not all(key in record.decided for key in keys):
            return
        p = max(record.requests[record.spans[key][0]].p_evaluated for key in keys)
        self._count_unit(request, series, [record.decided[key] for key in keys], set(), p)

    def _count_unit(
        self, request: JudgeRequest, series: tuple[str, str, str | None, str],
        decided: list[tuple[str, float | None]], before: set[str], p: float,
    ) -> None:  # fmt: skip
        states = {state for state, _ in decided if not state.startswith(("shed_", "sampled_"))} | before
        if not states:
            return
        unit = next((unit for states_of, unit in _UNITS if states & states_of), "unknown")
        scores = [score for state, score in decided if score is not None and state in ("pass", "warn", "fail")]
        self._ticks.add_unit(request, series, unit, max(scores) if scores else None, p)

    def _close_composite(self, record: JudgedRecord, request: JudgeRequest, composite: AwaitedComposite) -> None:
        span = request.span_index
        key = (span, composite.metric)
        if key in record.composites or not all((span, name) in record.decided for name in composite.awaited):
            return
        state, score = record.composites[key] = record.composed(composite, span)
        series = (composite.metric, composite.metric_version, None, composite.epoch)
        self._move_from_pending(request, composite.metric, state)
        if state in _OUTCOMES:
            self._ticks.add_span(request, series, state, score, None, composite.p_evaluated)
            row = composite_row(request, composite, state, score)
            if row is not None:
                self._rows.append(row)
        waiting = record.waiting_composites(composite.metric)
        if all((index, composite.metric) in record.composites for index in waiting):
            decided = [record.composites[index, composite.metric] for index in waiting]
            self._count_unit(request, series, decided, set(composite.decided), composite.p_evaluated)

    def _move_from_pending(self, request: JudgeRequest, metric: str, state: str) -> None:
        place = (request.source_topic, request.source_partition, request.pipeline, metric)
        self._ledger[(*place, "pending")] -= 1
        self._ledger[(*place, state)] += 1
        self.states[metric, state] += 1

    def _triples_of(self, record: JudgedRecord, ids: Sequence[str]) -> dict[str, tuple[str, str, str]]:
        """Return the last known triple of each member that has ever answered."""
        known = ((record.requests[i].judge, self._triples.get(judge_key(record.requests[i]))) for i in ids)
        return {judge: triple for judge, triple in known if triple is not None}

    def _note_triple(self, request: JudgeRequest, judgement: Judgement) -> None:
        """Remember the judge's triple. A change begins a new series and adds an annotation."""
        if judgement.triple is None:
            return
        triple = judgement.triple
        now = (triple.model_id, triple.prompt_sha, triple.sampling_params_sha)
        key = judge_key(request)
        before = self._triples.get(key)
        if before is not None and before != now:
            names = ("model", "template", "sampling parameters")
            what = "; ".join(f"{n}: {b} -> {a}" for n, b, a in zip(names, before, now, strict=True) if a != b)
            text = f"The judge {request.judge} of {request.metric} changed ({what}); a new series begins"
            self._annotations.append((self._at, request.pipeline, text, "gapwatch"))
        self._triples[key] = now

    def scored(self, start: int, judgements: int) -> ScoredSlice:
        """Return the slice to store."""
        ledger = [
            dict(zip(LEDGER.names, (self._lane, *place, n), strict=True))
            for place, n in sorted(self._ledger.items())
            if n
        ]
        tables = {name: schema.empty_table() for name, schema in SCORED_TABLES.items()}
        tables["gaps"] = pa.Table.from_pylist(self._rows, schema=GAPS)
        tables["ticks"] = self._ticks.table()
        tables["session_ticks"] = self._ticks.session_table()
        tables["ledger"] = pa.Table.from_pylist(ledger, schema=LEDGER)
        end = start + judgements
        return ScoredSlice(self._lane, VERDICTS_TOPIC, 0, start, end, records=0, spans=0, tables=tables)

    def write(self, transaction: StoreTransaction) -> None:
        """Write closed requests, costs and changes of judges, in the transaction of the slice."""
        con, seq = transaction.con, transaction.seq
        insert_rows(con, "judge_closed", _CLOSED_COLUMNS, [(seq, *row) for row in self._closed])
        insert_rows(con, "judge_calls", _CALL_COLUMNS, [(seq, *row, transaction.kept_at) for row in self._calls])
        insert_rows(con, "annotations", ("at", "pipeline", "text", "by"), self._annotations)
        insert_retried(con, [row for row, _ in self._overrides.values()], [j for _, j in self._overrides.values()])


def judge_key(request: JudgeRequest) -> tuple[Any, ...]:
    """Return the identity of one judge of one metric: lane, pipeline, environment, metric, version, judge."""
    series = (request.lane, request.pipeline, request.series_environment)
    return (*series, request.metric, request.metric_version, request.judge)
