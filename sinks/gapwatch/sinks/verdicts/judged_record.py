"""One source record that waits for judges: its requests, their answers, and the outcomes that follow."""

from __future__ import annotations

from dataclasses import dataclass, field

from gapwatch.scorers.judges.ensemble import Vote, decide
from gapwatch.scorers.judges.request import AwaitedComposite, JudgeRequest

MetricKey = tuple[int, str]


@dataclass
class JudgedRecord:
    """Requests of one source record and their answers so far.

    Attributes:
        asked_at: Time at which the requests were stored, seconds since 1970.
        requests: Requests by id, without their inputs.
        votes: State, score and position of each answer, by the id of the request.
        spans: Ids of the requests by span and metric.
        decided: State and score by span and metric, for those that are closed.
        composites: The same for the composites that waited.
    """

    asked_at: float
    requests: dict[str, JudgeRequest] = field(default_factory=dict)
    votes: dict[str, tuple[str, float | None, float | None]] = field(default_factory=dict)
    spans: dict[MetricKey, list[str]] = field(default_factory=dict)
    decided: dict[MetricKey, tuple[str, float | None]] = field(default_factory=dict)
    composites: dict[MetricKey, tuple[str, float | None]] = field(default_factory=dict)

    def add(self, id_: str, request: JudgeRequest) -> None:
        """Add one request of the record."""
        self.requests[id_] = request
        ids = self.spans.setdefault((request.span_index, request.metric), [])
        ids.append(id_)
        # In the order of the portfolio, independent of the order in the store or topic.
        ids.sort(key=lambda i: request.members.index(self.requests[i].judge))

    def is_closed(self, key: MetricKey) -> bool:
        """Return whether every judge of a span has answered."""
        return all(id_ in self.votes for id_ in self.spans[key])

    @property
    def is_done(self) -> bool:
        """Return whether every request is answered."""
        return len(self.votes) == len(self.requests)

    def waiting_composites(self, metric: str) -> set[int]:
        """Return the spans whose composite waited when the record was scored."""
        return {
            request.span_index
            for request in self.requests.values()
            for composite in request.composites
            if composite.metric == metric
        }

    def decision(self, key: MetricKey) -> tuple[str, float | None]:
        """Return state and score of a span whose judges have all answered."""
        ids = self.spans[key]
        if len(ids) == 1:
            state, score, _ = self.votes[ids[0]]
            return state, score
        votes = [Vote(self.requests[i].judge, self.votes[i][0], self.votes[i][2]) for i in ids]
        first = self.requests[ids[0]]
        decision = decide(votes, first.quorum, first.passes_from)
        return decision.state, decision.score

    def composed(self, composite: AwaitedComposite, span: int) -> tuple[str, float | None]:
        """Return state and score of a composite whose judges have answered; unknown if a part has no value."""
        if composite.sampled_out:
            return "sampled_out", None
        total = 0.0
        for name, weight in composite.weights.items():
            if name in composite.awaited:
                state, score = self.decided[span, name]
                if state.startswith("shed_"):
                    return state, None
                worth = score if state in ("pass", "warn", "fail") else None
            else:
                worth = composite.worths[name]
            if worth is None:
                return "unknown", None
            total += weight * worth
        passes = composite.pass_at is None or total >= composite.pass_at - 1e-12
        return ("pass" if passes else "fail"), total

    def restore(self) -> None:
        """Restore the decisions that were stored before a restart, without counting them again."""
        for key in self.spans:
            if self.is_closed(key):
                self.decided[key] = self.decision(key)
        for request in self.requests.values():
            for composite in request.composites:
                key = (request.span_index, composite.metric)
                if all((request.span_index, name) in self.decided for name in composite.awaited):
                    self.composites[key] = self.composed(composite, request.span_index)
