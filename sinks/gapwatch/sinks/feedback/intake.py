"""Stores feedback and joins it to its trace, in the writer thread, whichever of the two comes first.

    feedback ─▶ repeated? ─▶ its trace is stored ─▶ joined: a row and ticks, in one transaction
                  │            └─ not yet ─▶ pending ─▶ trace comes ─▶ joined
                  └─▶ counted                  └─▶ a day later ─▶ orphan

The state is what the tables `feedback` and `feedback_joins` say, so that a restart continues: each feedback is joined
once or counted as an orphan, and the ledger has all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.scoring.redaction import Redactor
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.sinks.feedback.feedback import Feedback
from gapwatch.sinks.feedback.feedback_rows import (
    FEEDBACK,
    Marks,
    count_step,
    feedback_step,
    joins_step,
    marks_step,
    orphans_step,
)
from gapwatch.sinks.feedback.feedback_slice import JOINED_TOPIC, JoinedFeedback, feedback_slice
from gapwatch.sinks.feedback.traces import FoundTrace, find_traces
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.store.transaction import Step

FEEDBACK_PATH = "/v1/feedback"
#: Time after which a feedback without its trace is an orphan. Shorter: a feedback that overtakes a long outage of the
#: pipeline's broker is lost to the series. Longer: more of them are held in memory.
WAIT = timedelta(days=1)
#: Most feedback that waits; beyond it, the oldest become orphans. Each takes about 1 KB of memory.
WAITING_LIMIT = 100_000
#: Most feedback of one request.
REQUEST_LIMIT = 1_000

#: A function like `Store.write_slice`: slice, time, and further steps of the same transaction.
WriteSlice = Callable[[ScoredSlice, datetime, Sequence[tuple[str, Step]]], int]


@dataclass(frozen=True)
class _Waiting:
    feedback: Feedback
    since: datetime


class FeedbackIntake:
    """Stores feedback of one store; all methods run in the writer thread.

    Args:
        store: Store that is open for writing.
        portfolios: Portfolios in force.
        write: Writes a slice and shows it to detectors and observers; None for `Store.write_slice`.
    """

    def __init__(self, store: Store, portfolios: Sequence[Portfolio], write: WriteSlice | None = None) -> None:
        self._store = store
        self._write: WriteSlice = write or store.write_slice
        self._portfolios: tuple[Portfolio, ...] = ()
        self._seen_seq = 0
        self.portfolios_changed(portfolios)
        rows = store.query(
            """SELECT feedback_id, trace_id, "value", number, comment, "by", pipeline, "at", kept_at
                FROM feedback ANTI JOIN feedback_joins USING (feedback_id) ORDER BY seq"""
        )
        self._waiting = {row[0]: _Waiting(Feedback(*row[:-1]), row[-1]) for row in rows}

    def portfolios_changed(self, portfolios: Sequence[Portfolio]) -> None:
        """Count by these portfolios from now on."""
        self._portfolios = tuple(portfolios)
        self._redactor = Redactor([pattern for one in portfolios for pattern in one.redact])

    @property
    def waiting(self) -> int:
        """Number of feedback that waits for its trace."""
        return len(self._waiting)

    def counts(self) -> dict[str, int]:
        """Return the number of feedback by state; `consumed` is the sum of the others."""
        sql = "SELECT state, sum(n)::BIGINT FROM span_ledger WHERE item = ? GROUP BY ALL"
        return dict(self._store.query(sql, [FEEDBACK]))

    # --- what comes

    def take(
        self, feedback: Sequence[Feedback], came_by: str, read: Marks | None = None, unreadable: int = 0
    ) -> dict[str, int]:
        """Store feedback, joined to its traces as far as these are stored.

        Args:
            feedback: Feedback in any order, repeated ones included.
            came_by: topic, api, otlp or file.
            read: Next offsets of the topic after these.
            unreadable: Number of records among them that could not be read; only counted.

        Returns:
            The number of feedback by state: joined, pending or duplicate.

        Raises:
            JobError: The store could not be written. What is stored is stored once if the same is given again.
        """
        new = {one.id: one for one in reversed(feedback)}
        known = self._store.query(
            "SELECT DISTINCT feedback_id FROM feedback WHERE feedback_id IN (SELECT unnest(?))", [sorted(new)]
        )
        for (id_,) in known:
            del new[id_]
        comments = self._redactor.redact([one.comment for one in new.values()]).to_pylist()
        fresh = [one.with_comment(said) for one, said in zip(new.values(), comments, strict=True)]
        joined, waiting = _matched(fresh, self._find([one.trace_hash for one in fresh]))
        repeated = len(feedback) - len(fresh)
        ends = Counter({"pending": len(waiting), "duplicate": repeated, "dead_letter": unreadable})
        last: list[tuple[str, Step]] = []
        if waiting:
            last.append(("feedback", feedback_step(waiting, came_by)))
        if read:
            last.append(("feedback_offsets", marks_step(read)))
        if ends.total():
            last.append(("feedback_counts", count_step({**ends, "consumed": ends.total()})))
        self._store_joined(joined, came_by, {one.feedback.id for one in joined}, last)
        now = _now()
        self._waiting.update({one.id: _Waiting(one, now) for one in waiting})
        counted = {"joined": len(joined), "pending": len(waiting), "duplicate": repeated}
        return {state: n for state, n in counted.items() if n}

    def _find(self, hashes: Iterable[int], after: int = 0) -> dict[int, list[FoundTrace]]:
        with closing(self._store.cursor()) as con:
            return find_traces(con, set(hashes), after)

    def look(self) -> int:
        """Join waiting feedback to traces that were stored since the last look, and count old ones as orphans.

        Returns:
            The number of feedback that was joined.
        """
        seq = self._store.seq
        joined: list[JoinedFeedback] = []
        if self._waiting and seq > self._seen_seq:
            fresh = [one.feedback for one in self._waiting.values()]
            joined, _ = _matched(fresh, self._find((one.trace_hash for one in fresh), self._seen_seq))
        ids = {one.feedback.id for one in joined}
        oldest = _now() - WAIT
        left = [one for id_, one in self._waiting.items() if id_ not in ids]
        orphans = [one.feedback for i, one in enumerate(left) if one.since < oldest or i < len(left) - WAITING_LIMIT]
        last: list[tuple[str, Step]] = []
        if orphans:
            last.append(("feedback_joins", orphans_step(orphans)))
            last.append(("feedback_counts", count_step({"pending": -len(orphans), "orphan": len(orphans)})))
        self._store_joined(joined, "", set(), last)
        for id_ in (*ids, *(one.id for one in orphans)):
            del self._waiting[id_]
        self._seen_seq = seq
        return len(joined)

    def _store_joined(
        self, joined: Sequence[JoinedFeedback], came_by: str, new: set[str], last: list[tuple[str, Step]]
    ) -> None:
        """Write joined feedback, in one transaction for each lane; the last one has further steps.

        Args:
            joined: Feedback with its traces.
            came_by: How the new ones came.
            new: Ids of those that are not stored yet.
            last: Steps of the last transaction.
        """
        lanes: dict[str, list[JoinedFeedback]] = {}
        for one in joined:
            lanes.setdefault(one.trace.lane, []).append(one)
        for number, (lane, mine) in enumerate(lanes.items(), start=1):
            position = self._store.position(lane, JOINED_TOPIC, 0)
            start = 0 if position is None else position.to_offset
            scored = feedback_slice(mine, self._portfolios, self._named(lane, mine), start, _now())
            fresh = [one.feedback for one in mine if one.feedback.id in new]
            moved = {"consumed": len(fresh), "joined": len(mine), "pending": len(fresh) - len(mine)}
            steps = [("feedback_joins", joins_step(mine)), ("feedback_joined", count_step(moved))]
            if fresh:
                steps.append(("feedback", feedback_step(fresh, came_by)))
            self._write(scored, datetime.now(UTC), [*steps, *(last if number == len(lanes) else [])])
        if not lanes and last:
            self._store.apply(last, "storing feedback")

    def _named(self, lane: str, joined: Sequence[JoinedFeedback]) -> set[tuple[str, str]]:
        """Return the names of environments and releases that the lane counts apart."""
        values = {one.trace.environment for one in joined} | {one.trace.release or "" for one in joined}
        rows = self._store.query(
            """SELECT DISTINCT facet, "value" FROM internal.facet_names
                WHERE lane = ? AND sightings = 2 AND "value" IN (SELECT unnest(?))""",
            [lane, sorted(values)],
        )
        return set(rows)

    # --- the topic and the API

    def read_up_to(self) -> dict[tuple[str, int], int]:
        """Return the next offset to read of the topic of feedback, by topic and partition."""
        rows = self._store.query("SELECT topic, partition, max(to_offset) FROM internal.judge_offsets GROUP BY ALL")
        return {(topic, partition): to_offset for topic, partition, to_offset in rows}

    def posts(self) -> dict[str, Callable[[dict[str, Any]], dict[str, Any]]]:
        """Return the handler of POST requests with feedback, by path."""
        return {FEEDBACK_PATH: self._post}

    def _post(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Store one feedback, or those of the list `feedback`; all or none."""
        given = asked.get("feedback", [asked])
        if not isinstance(given, list) or not 0 < len(given) <= REQUEST_LIMIT:
            raise UsageError(f"send one feedback, or `feedback`: a list of 1 to {REQUEST_LIMIT:,}")
        if not all(isinstance(one, dict) for one in given):
            raise UsageError("each feedback is a JSON object")
        feedback = [Feedback.read(one, _now()) for one in given]
        return {"ids": [one.id for one in feedback], "states": self.take(feedback, "api")}


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


def _matched(
    feedback: Sequence[Feedback], found: Mapping[int, Sequence[FoundTrace]]
) -> tuple[list[JoinedFeedback], list[Feedback]]:
    """Return those whose trace is among the found ones, with it, and the others."""
    joined, waiting = [], []
    for one in feedback:
        traces = found.get(one.trace_hash, ())
        trace = next((trace for trace in traces if one.pipeline in (None, trace.pipeline)), None)
        if trace is None:
            waiting.append(one)
        else:
            joined.append(JoinedFeedback(one, trace))
    return joined, waiting
