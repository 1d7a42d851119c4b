"""Closes judge requests: verdicts become rows, ticks and ledger entries, and waiting composites are decided.

The first judgement of a request closes it; later ones are dropped and counted. A span of an ensemble closes with its
last member, a unit with its last span. Open requests are read from the store, so that a restart continues. The verdict
of a retry changes no count: it overrides the row of the error.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from gapwatch.scorers.judges.judgement import Judgement
from gapwatch.scorers.judges.request import JudgeRequest
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.store.transaction import Step
from gapwatch.sinks.verdicts.judged_record import JudgedRecord
from gapwatch.sinks.verdicts.retries import RetriedVotes, is_retry
from gapwatch.sinks.verdicts.verdict_batch import VERDICTS_TOPIC, VerdictBatch

RecordKey = tuple[str, str, int, int]
#: A function like `Store.write_slice`: slice, time, and further steps of the same transaction.
WriteSlice = Callable[[ScoredSlice, datetime, Sequence[tuple[str, Step]]], int]


@dataclass
class Closed:
    """Result of one batch of judgements.

    Attributes:
        closed: Number of closed requests.
        dropped: Number of judgements whose request was already closed or is not known here.
        outcomes: Number of spans by metric and state.
        usd: Cost in US dollars.
        requests: The closed requests, by id.
    """

    closed: int = 0
    dropped: int = 0
    outcomes: dict[str, Counter[str]] = field(default_factory=dict)
    usd: float = 0.0
    requests: dict[str, JudgeRequest] = field(default_factory=dict)


class JudgeClosing:
    """Holds the open requests and closes them, in the writer thread.

    Args:
        store: Store that is open for writing.
        keep: Writes a slice of verdicts and shows it to observers; None for `Store.write_slice`.
    """

    def __init__(self, store: Store, keep: WriteSlice | None = None) -> None:
        self._store = store
        self._keep: WriteSlice = keep or store.write_slice
        self._records: dict[RecordKey, JudgedRecord] = {}
        self._record_of: dict[str, RecordKey] = {}
        self._retries: dict[str, JudgeRequest] = {}
        self._triples: dict[tuple[Any, ...], tuple[str, str, str]] = {}
        self._seen_seq = 0
        self._unbooked: list[Judgement] = []
        self._load()

    def _load(self) -> None:
        """Read every record with an open request, with all its requests and the stored answers."""
        cursor = self._store.cursor()
        try:
            open_ = "SELECT id FROM internal.judge_requests ANTI JOIN internal.judge_closed USING (id)"
            rows = cursor.execute(
                f"""WITH open AS ({open_}), places AS (
                    SELECT DISTINCT r."key" AS trace, r.seq FROM internal.judge_requests r SEMI JOIN open USING (id))
                SELECT r.id, r."value", c.state, c.score, c.position, epoch(o.kept_at)
                FROM internal.judge_requests r LEFT JOIN internal.judge_closed c USING (id)
                LEFT JOIN offsets o ON o.seq = r.seq
                SEMI JOIN places ON places.trace = r."key" AND places.seq = r.seq ORDER BY r.seq"""
            ).fetchall()
            self._seen_seq = cursor.execute("SELECT coalesce(max(seq), 0) FROM internal.judge_requests").fetchall()[0][
                0
            ]
            for row in cursor.execute(_LAST_TRIPLES).fetchall():
                self._triples[row[:6]] = row[6:]
        finally:
            cursor.close()
        for id_, value, state, score, position, kept_at in rows:
            if is_retry(id_):
                if state is None:
                    self._retries[id_] = JudgeRequest.from_json(value).without_inputs()
                continue
            record = self._take(id_, JudgeRequest.from_json(value), kept_at)
            if state is not None:
                record.votes[id_] = (state, score, position)
        for record in self._records.values():
            record.restore()
        for key in [key for key, record in self._records.items() if record.is_done]:
            self._expire(key)

    def refresh(self) -> None:
        """Read the requests of slices that were stored since the last call."""
        cursor = self._store.cursor()
        try:
            rows = cursor.execute(
                'SELECT seq, id, "value" FROM internal.judge_requests WHERE seq > ? ORDER BY seq', [self._seen_seq]
            ).fetchall()
        finally:
            cursor.close()
        for seq, id_, value in rows:
            if is_retry(id_):
                self._retries[id_] = JudgeRequest.from_json(value).without_inputs()
            else:
                self._take(id_, JudgeRequest.from_json(value), time.time())
            self._seen_seq = max(self._seen_seq, seq)

    def _take(self, id_: str, request: JudgeRequest, asked_at: float) -> JudgedRecord:
        key = (request.lane, request.source_topic, request.source_partition, request.source_offset)
        record = self._records.setdefault(key, JudgedRecord(asked_at))
        record.add(id_, request.without_inputs())
        self._record_of[id_] = key
        return record

    def _expire(self, key: RecordKey) -> None:
        for id_ in self._records.pop(key).requests:
            del self._record_of[id_]

    @property
    def pending(self) -> int:
        """Number of open requests."""
        waiting = sum(len(record.requests) - len(record.votes) for record in self._records.values())
        return waiting + len(self._retries)

    @property
    def oldest_at(self) -> float | None:
        """Time at which the oldest open request was stored, seconds since 1970; None if none is open."""
        return next((record.asked_at for record in self._records.values()), None)

    def is_open(self, id_: str) -> bool:
        """Return whether a request still waits for its first judgement."""
        if id_ in self._retries:
            return True
        key = self._record_of.get(id_)
        return key is not None and id_ not in self._records[key].votes

    def close(
        self, judgements: Sequence[Judgement], closed_at: datetime, also: Sequence[tuple[str, Step]] = ()
    ) -> Closed:
        """Store judgements, in one transaction for each lane.

        Args:
            judgements: Judgements of any worker, in any order, repeated ones included.
            closed_at: Current time, with a time zone.
            also: Named steps of the last transaction, such as the position in the topic of judgements.

        Returns:
            The result of the batch.

        Raises:
            JobError: The store could not be written. Nothing is closed, and the same judgements may be given again.
        """
        self.refresh()
        closed = Closed()
        by_lane: dict[str, dict[str, Judgement]] = {}
        late: list[Judgement] = []
        for judgement in judgements:
            lane = self._lane_if_open(judgement.id)
            if lane is None or judgement.id in by_lane.get(lane, ()):
                late.append(judgement)
            else:
                by_lane.setdefault(lane, {})[judgement.id] = judgement
        closed.dropped = len(late)
        # Late judgements of this store's requests were paid for as well; their cost is booked with the next batch.
        mine_too = self._asked_here({judgement.id for judgement in late})
        self._unbooked += [judgement for judgement in late if judgement.id in mine_too]
        paid = [*(j for mine in by_lane.values() for j in mine.values()), *self._unbooked]
        closed.usd = sum(call.usd for judgement in paid for call in judgement.calls)
        left = len(by_lane)
        for lane, mine in by_lane.items():
            left -= 1
            self._close_lane(lane, list(mine.values()), closed_at, closed, () if left else also)
        if not by_lane and also:
            batch = VerdictBatch("", closed_at.astimezone(UTC).replace(tzinfo=None), self._triples)
            self._book_dropped(batch)
            self._store.apply([*also, ("judge_calls", batch.write)])
            self._unbooked.clear()
        return closed

    def _asked_here(self, ids: set[str]) -> set[str]:
        """Return the ids of this store's requests; a topic may carry the verdicts of other stores."""
        if not ids:
            return ids
        sql = "SELECT DISTINCT id FROM internal.judge_requests WHERE id IN (SELECT unnest(?))"
        return {id_ for (id_,) in self._store.query(sql, [sorted(ids)])}

    def _book_dropped(self, batch: VerdictBatch) -> None:
        for dropped in self._unbooked:
            batch.book(dropped, None)

    def _lane_if_open(self, id_: str) -> str | None:
        if id_ in self._retries:
            return self._retries[id_].lane
        return self._record_of[id_][0] if self.is_open(id_) else None

    def _close_lane(
        self, lane: str, judgements: list[Judgement], closed_at: datetime, closed: Closed,
        also: Sequence[tuple[str, Step]],
    ) -> None:  # fmt: skip
        at = closed_at.astimezone(UTC).replace(tzinfo=None)
        batch = VerdictBatch(lane, at, self._triples)
        try:
            self._book_dropped(batch)
            for judgement in judgements:
                if judgement.id not in self._retries:
                    batch.add(self._records[self._record_of[judgement.id]], judgement)
            again = [judgement for judgement in judgements if judgement.id in self._retries]
            votes = self._votes(again)
            for judgement in again:
                batch.add_retry(self._retries[judgement.id], judgement, votes)
            position = self._store.position(lane, VERDICTS_TOPIC, 0)
            start = 0 if position is None else position.to_offset
            scored = batch.scored(start, len(judgements))
            self._keep(scored, closed_at, [*also, ("judge_closed", batch.write)])
        except BaseException:
            # Drop the computed state: the store has the true one.
            self._records, self._record_of, self._retries = {}, {}, {}
            self._load()
            raise
        self._unbooked.clear()
        closed.closed += len(judgements)
        for judgement in again:
            closed.requests[judgement.id] = self._retries.pop(judgement.id)
        judgements = [judgement for judgement in judgements if not is_retry(judgement.id)]
        for judgement in judgements:
            closed.requests[judgement.id] = self._records[self._record_of[judgement.id]].requests[judgement.id]
        for (metric, state), n in batch.states.items():
            closed.outcomes.setdefault(metric, Counter())[state] += n
        for key in {self._record_of[judgement.id] for judgement in judgements}:
            if self._records[key].is_done:
                self._expire(key)

    def _votes(self, again: Sequence[Judgement]) -> RetriedVotes:
        """Return the stored answers of every member of the ensembles that retries belong to."""
        asked = [self._retries[judgement.id] for judgement in again]
        ids = {request.id_of(judge) for request in asked if len(request.members) > 1 for judge in request.members}
        votes = RetriedVotes()
        if ids:
            rows = self._store.query(
                """SELECT id, state, score, position FROM internal.judge_closed
                WHERE split_part(id, '-', 1) IN (SELECT unnest(?)) ORDER BY seq""",
                [sorted(ids)],
            )
            for id_, *vote in rows:
                votes.take(id_, *vote)
        return votes


_LAST_TRIPLES = """SELECT lane, pipeline, environment, metric, metric_version, judge,
    arg_max(judge_model_id, seq), arg_max(judge_prompt_sha, seq), arg_max(judge_sampling_params_sha, seq)
    FROM gaps WHERE judge IS NOT NULL AND judge_model_id IS NOT NULL GROUP BY ALL"""
