"""Closes what waits for judges: verdicts become rows, ticks and ledger entries, and composites get their missing part.

The first judgement of a request closes it; a later one is dropped and counted. A span of an ensemble closes with its
last member, a unit with its last span. What is open is read from the store, so that a restart goes on where it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import duckdb
import orjson
import pyarrow as pa

from scorers.judges.ensemble import ENSEMBLE, Vote, decide
from scorers.judges.judgement import Judgement
from scorers.slices import ScoredSlice
from scorers.tables import GAPS, LEDGER, SCORED_TABLES
from sinks.judge_rows import composite_row, ensemble_row, judge_row, series_epoch
from sinks.keeping import Keeping
from sinks.store import Store
from sinks.verdict_ticks import VerdictTicks

#: Source of the slices in which verdicts are kept: they count judgements, one after the other, in each lane.
VERDICTS_TOPIC = "judge-verdicts"
_OUTCOMES = ("pass", "warn", "fail", "unknown", "skip", "error")
RecordKey = tuple[str, str, int, int]
MetricKey = tuple[int, str]


@dataclass
class _Record:
    """The requests of one source record and what is known of their answers."""

    requests: dict[str, dict[str, Any]] = field(default_factory=dict)
    votes: dict[str, tuple[str, float | None, float | None]] = field(default_factory=dict)
    spans: dict[MetricKey, list[str]] = field(default_factory=dict)
    decided: dict[MetricKey, tuple[str, float | None]] = field(default_factory=dict)
    composites: dict[MetricKey, tuple[str, float | None]] = field(default_factory=dict)

    def add(self, id_: str, request: dict[str, Any]) -> None:
        self.requests[id_] = request
        self.spans.setdefault((request["span_index"], request["metric"]), []).append(id_)

    def is_closed(self, key: MetricKey) -> bool:
        return all(id_ in self.votes for id_ in self.spans[key])

    @property
    def is_done(self) -> bool:
        return len(self.votes) == len(self.requests)

    def waiting_composites(self, metric: str) -> set[int]:
        """Return the spans on which a composite waited when the record was scored."""
        return {
            request["span_index"]
            for request in self.requests.values()
            for composite in request["composites"]
            if composite["metric"] == metric
        }


@dataclass
class Closed:
    """What one batch of judgements did.

    Attributes:
        closed: Requests that it closed.
        dropped: Judgements of requests that were closed before, or are not known here.
        outcomes: Metric to state to number of spans.
        usd: What was paid.
    """

    closed: int = 0
    dropped: int = 0
    outcomes: dict[str, Counter[str]] = field(default_factory=dict)
    usd: float = 0.0


class JudgeClosing:
    """Holds what is open, and closes it; for the keeper's thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._records: dict[RecordKey, _Record] = {}
        self._record_of: dict[str, RecordKey] = {}
        self._triples: dict[tuple[Any, ...], tuple[str, str, str]] = {}
        self._seen_seq = 0
        self._unbooked: list[Judgement] = []
        self._load()

    def _load(self) -> None:
        """Read every record that has an open request, with all its requests and the answers there are."""
        cursor = self._store.cursor()
        try:
            open_ = "SELECT id FROM judge_requests ANTI JOIN judge_closed USING (id)"
            rows = cursor.execute(
                f"""WITH open AS ({open_}), places AS (
                    SELECT DISTINCT r."key" AS trace, r.seq FROM judge_requests r SEMI JOIN open USING (id))
                SELECT r.id, r."value", c.state, c.score, c.position
                FROM judge_requests r LEFT JOIN judge_closed c USING (id)
                SEMI JOIN places ON places.trace = r."key" AND places.seq = r.seq"""
            ).fetchall()
            self._seen_seq = cursor.execute("SELECT coalesce(max(seq), 0) FROM judge_requests").fetchall()[0][0]
            for row in cursor.execute(_LAST_TRIPLES).fetchall():
                self._triples[row[:6]] = row[6:]
        finally:
            cursor.close()
        for id_, value, state, score, position in rows:
            record = self._take(id_, orjson.loads(value))
            if state is not None:
                record.votes[id_] = (state, score, position)
        for record in self._records.values():
            self._restore(record)
        for key in [key for key, record in self._records.items() if record.is_done]:
            self._forget(key)

    def _restore(self, record: _Record) -> None:
        """Decide again, without counting, the spans that were closed before the restart."""
        for key in record.spans:
            if record.is_closed(key):
                record.decided[key] = self._decision(record, key)
        for request in record.requests.values():
            for composite in request["composites"]:
                key = (request["span_index"], composite["metric"])
                if all((request["span_index"], name) in record.decided for name in composite["awaited"]):
                    record.composites[key] = _composed(composite, record, request["span_index"])

    def refresh(self) -> None:
        """Take up the requests of slices that were kept since."""
        cursor = self._store.cursor()
        try:
            rows = cursor.execute(
                'SELECT seq, id, "value" FROM judge_requests WHERE seq > ? ORDER BY seq', [self._seen_seq]
            ).fetchall()
        finally:
            cursor.close()
        for seq, id_, value in rows:
            self._take(id_, orjson.loads(value))
            self._seen_seq = max(self._seen_seq, seq)

    def _take(self, id_: str, request: dict[str, Any]) -> _Record:
        request.pop("inputs", None)
        key = (request["lane"], request["source_topic"], request["source_partition"], request["source_offset"])
        record = self._records.setdefault(key, _Record())
        record.add(id_, request)
        self._record_of[id_] = key
        return record

    def _forget(self, key: RecordKey) -> None:
        for id_ in self._records.pop(key).requests:
            del self._record_of[id_]

    @property
    def pending(self) -> int:
        """Requests that are open."""
        return sum(len(record.requests) - len(record.votes) for record in self._records.values())

    def is_open(self, id_: str) -> bool:
        """Whether a request still waits for its first judgement."""
        key = self._record_of.get(id_)
        return key is not None and id_ not in self._records[key].votes

    def open_requests(self, batch: int = 500) -> Iterator[tuple[str, bytes]]:
        """Yield the id and the value of every request that is open now, in the order in which they were asked."""
        cursor = self._store.cursor()
        try:
            cursor.execute('SELECT id, "value" FROM judge_requests ANTI JOIN judge_closed USING (id) ORDER BY seq, id')
            while rows := cursor.fetchmany(batch):
                yield from rows
        finally:
            cursor.close()

    def close(self, judgements: Sequence[Judgement], closed_at: datetime) -> Closed:
        """Put judgements into the store, all of them in one transaction a lane.

        Args:
            judgements: Of any worker, in any order, also twice.
            closed_at: Now, with a time zone.

        Returns:
            What became of them.

        Raises:
            JobError: The store could not be written; nothing is closed, and the same judgements may be given again.
        """
        self.refresh()
        closed = Closed()
        by_lane: dict[str, dict[str, Judgement]] = {}
        for judgement in judgements:
            closed.usd += sum(call.usd for call in judgement.calls)
            lane = self._lane_if_open(judgement.id)
            if lane is None or judgement.id in by_lane.get(lane, ()):
                closed.dropped += 1
                self._unbooked.append(judgement)  # it was paid for all the same: booked with the next batch
            else:
                by_lane.setdefault(lane, {})[judgement.id] = judgement
        for lane, mine in by_lane.items():
            self._close_lane(lane, list(mine.values()), closed_at, closed)
        return closed

    def _lane_if_open(self, id_: str) -> str | None:
        return self._record_of[id_][0] if self.is_open(id_) else None

    def _close_lane(self, lane: str, judgements: list[Judgement], closed_at: datetime, closed: Closed) -> None:
        at = closed_at.astimezone(UTC).replace(tzinfo=None)
        batch = _Batch(self, lane, at)
        try:
            for dropped in self._unbooked:
                batch.book(dropped, {})
            for judgement in judgements:
                batch.add(judgement)
            position = self._store.position(lane, VERDICTS_TOPIC, 0)
            start = 0 if position is None else position.to_offset
            scored = batch.scored(start, len(judgements))
            self._store.keep(scored, closed_at, also=[("judge_closed", batch.write)])
        except BaseException:
            # What was worked out is forgotten; the store says what is true.
            self._records, self._record_of = {}, {}
            self._load()
            raise
        self._unbooked.clear()
        closed.closed += len(judgements)
        for (metric, state), n in batch.states.items():
            closed.outcomes.setdefault(metric, Counter())[state] += n
        for key in {self._record_of[judgement.id] for judgement in judgements}:
            if self._records[key].is_done:
                self._forget(key)

    def _decision(self, record: _Record, key: MetricKey) -> tuple[str, float | None]:
        ids = record.spans[key]
        if len(ids) == 1:
            state, score, _ = record.votes[ids[0]]
            return state, score
        votes = [Vote(record.requests[i]["judge"], record.votes[i][0], record.votes[i][2]) for i in ids]
        decision = decide(votes, record.requests[ids[0]]["quorum"])
        return decision.state, decision.score


_LAST_TRIPLES = """SELECT lane, pipeline, environment, metric, metric_version, judge,
    arg_max(judge_model_id, seq), arg_max(judge_prompt_sha, seq), arg_max(judge_sampling_params_sha, seq)
    FROM gaps WHERE judge IS NOT NULL AND judge_model_id IS NOT NULL GROUP BY ALL"""


class _Batch:
    """The judgements of one lane that are kept in one transaction."""

    def __init__(self, closing: JudgeClosing, lane: str, at: datetime) -> None:
        self._closing = closing
        self._lane = lane
        self._at = at
        self._ticks = VerdictTicks(at)
        self._rows: list[dict[str, Any]] = []
        self._closed: list[tuple[Any, ...]] = []
        self._calls: list[tuple[Any, ...]] = []
        self._annotations: list[tuple[Any, ...]] = []
        self._ledger: Counter[tuple[str, int, str, str, str]] = Counter()
        self.states: Counter[tuple[str, str]] = Counter()

    def add(self, judgement: Judgement) -> None:
        """Close one request and all that hangs on it."""
        record = self._closing._records[self._closing._record_of[judgement.id]]
        request = record.requests[judgement.id]
        record.votes[judgement.id] = (judgement.state, judgement.score, judgement.position)
        self._closed.append((judgement.id, judgement.state, judgement.score, judgement.position))
        self.book(judgement, request)
        if not judgement.state.startswith("shed_"):
            self._rows.append(judge_row(request, judgement))
        self._note_triple(request, judgement)
        key = (request["span_index"], request["metric"])
        if record.is_closed(key):
            self._close_span(record, key, judgement)

    def book(self, judgement: Judgement, request: dict[str, Any]) -> None:
        """Book what a judgement cost; of one that came too late only the model is known."""
        for call in judgement.calls:
            self._calls.append(
                (
                    judgement.id, *(request.get(n) for n in ("portfolio_sha", "pipeline", "metric", "judge")),
                    call.model, call.kind, call.input_tokens, call.output_tokens, call.usd, call.seconds,
                )
            )  # fmt: skip

    def _close_span(self, record: _Record, key: MetricKey, last: Judgement) -> None:
        ids = record.spans[key]
        request = record.requests[ids[0]]
        state, score = record.decided[key] = self._closing._decision(record, key)
        judge, label = request["judge"], last.band
        if len(ids) > 1:
            judge, label = ENSEMBLE, None
            if not state.startswith("shed_"):
                votes = [(record.requests[i]["judge"], *record.votes[i]) for i in ids]
                self._rows.append(ensemble_row(request, votes, self._triples_of(record, ids)))
        epoch = series_epoch(request["epoch"], self._triples_of(record, ids))
        series = (request["metric"], request["metric_version"], judge, epoch)
        self._settle(request, request["metric"], state)
        if state in _OUTCOMES:
            self._ticks.add_span(request, series, state, score, label, request["p_evaluated"])
        self._close_unit(record, request, series)
        for composite in request["composites"]:
            self._close_composite(record, request, composite)

    def _close_unit(self, record: _Record, request: dict[str, Any], series: tuple[str, str, str | None, str]) -> None:
        keys = [key for key in record.spans if key[1] == request["metric"]]
        if not all(key in record.decided for key in keys):
            return
        p = max(record.requests[record.spans[key][0]]["p_evaluated"] for key in keys)
        self._count_unit(request, series, [record.decided[key] for key in keys], set(), p)

    def _count_unit(
        self, request: dict[str, Any], series: tuple[str, str, str | None, str],
        decided: list[tuple[str, float | None]], before: set[str], p: float,
    ) -> None:  # fmt: skip
        states = {state for state, _ in decided if not state.startswith(("shed_", "sampled_"))} | before
        if not states:
            return
        unit = "bad" if "fail" in states else "good" if states & {"pass", "warn"} else "unknown"
        scores = [score for state, score in decided if score is not None and state in ("pass", "warn", "fail")]
        self._ticks.add_unit(request, series, unit, max(scores) if scores else None, p)

    def _close_composite(self, record: _Record, request: dict[str, Any], composite: dict[str, Any]) -> None:
        span = request["span_index"]
        key = (span, composite["metric"])
        if key in record.composites or not all((span, name) in record.decided for name in composite["awaited"]):
            return
        state, score = record.composites[key] = _composed(composite, record, span)
        series = (composite["metric"], composite["metric_version"], None, composite["epoch"])
        self._settle(request, composite["metric"], state)
        if state in _OUTCOMES:
            self._ticks.add_span(request, series, state, score, None, composite["p_evaluated"])
            row = composite_row(request, composite, state, score)
            if row is not None:
                self._rows.append(row)
        waiting = record.waiting_composites(composite["metric"])
        if all((index, composite["metric"]) in record.composites for index in waiting):
            decided = [record.composites[index, composite["metric"]] for index in waiting]
            self._count_unit(request, series, decided, set(composite["decided"]), composite["p_evaluated"])

    def _settle(self, request: dict[str, Any], metric: str, state: str) -> None:
        place = (request["source_topic"], request["source_partition"], request["pipeline"], metric)
        self._ledger[(*place, "pending")] -= 1
        self._ledger[(*place, state)] += 1
        self.states[metric, state] += 1

    def _triples_of(self, record: _Record, ids: Sequence[str]) -> dict[str, tuple[str, str, str]]:
        """Return the last known triple of each member; one that has never answered has none."""
        known = ((record.requests[i]["judge"], self._closing._triples.get(_judge_key(record.requests[i]))) for i in ids)
        return {judge: triple for judge, triple in known if triple is not None}

    def _note_triple(self, request: dict[str, Any], judgement: Judgement) -> None:
        """Remember what pins this judge's verdicts; a change of it begins a new series and is an annotation."""
        if judgement.triple is None:
            return
        triple = judgement.triple
        now = (triple.model_id, triple.prompt_sha, triple.sampling_params_sha)
        key = _judge_key(request)
        before = self._closing._triples.get(key)
        if before is not None and before != now:
            names = ("model", "template", "sampling parameters")
            what = "; ".join(f"{n}: {b} -> {a}" for n, b, a in zip(names, before, now, strict=True) if a != b)
            text = f"The judge {request['judge']} of {request['metric']} changed ({what}); a new series begins"
            self._annotations.append((self._at, request["pipeline"], text, "gapwatch"))
        self._closing._triples[key] = now

    def scored(self, start: int, judgements: int) -> ScoredSlice:
        """Return the slice that is kept."""
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

    def write(self, keeping: Keeping) -> None:
        """Write, in the transaction of the slice, which requests are closed, what was paid, and which judge changed."""
        con, seq = keeping.con, keeping.seq
        _insert(con, "judge_closed", [(seq, *row) for row in self._closed])
        _insert(con, "judge_calls", [(seq, *row, keeping.kept_at) for row in self._calls])
        _insert(con, "annotations", self._annotations)


def _insert(con: duckdb.DuckDBPyConnection, table: str, rows: list[tuple[Any, ...]]) -> None:
    """Insert many rows with one statement; `executemany` plans each of them anew."""
    if not rows:
        return
    one = f"({', '.join('?' * len(rows[0]))})"
    for begin in range(0, len(rows), 500):
        some = rows[begin : begin + 500]
        con.execute(f"INSERT INTO {table} VALUES {', '.join([one] * len(some))}", [v for row in some for v in row])


def _judge_key(request: dict[str, Any]) -> tuple[Any, ...]:
    environment = request["environment"] or "production"
    names = ("metric", "metric_version", "judge")
    return (request["lane"], request["pipeline"], environment, *(request[name] for name in names))


def _composed(composite: dict[str, Any], record: _Record, span: int) -> tuple[str, float | None]:
    """Return the outcome of a composite whose judges have answered; a part without a value makes it unknown."""
    if composite["sampled_out"]:
        return "sampled_out", None
    total = 0.0
    for name, weight in composite["weights"].items():
        if name in composite["awaited"]:
            state, score = record.decided[span, name]
            if state.startswith("shed_"):
                return state, None
            worth = score if state in ("pass", "warn", "fail") else None
        else:
            worth = composite["worths"][name]
        if worth is None:
            return "unknown", None
        total += weight * worth
    passes = composite["pass_at"] is None or total >= composite["pass_at"] - 1e-12
    return ("pass" if passes else "fail"), total
