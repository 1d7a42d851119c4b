"""Counts of judges for `/metrics`, by this process since its start, updated when verdicts are stored."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from gapwatch.scorers.judges.chat_model import FAILURE_KINDS
from gapwatch.scorers.judges.judgement import Judgement
from gapwatch.scorers.judges.suspicion import suspicion_names
from gapwatch.sinks.verdicts.closing import Closed

#: Bucket bounds of the duration of a call, seconds.
SECONDS_BOUNDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 60.0, 120.0)
#: First words of reasons that have a label of their own; any other is `other`.
REASONS = frozenset(
    (
        *FAILURE_KINDS, "refusal", "cut_short", "not_json", "not_object", "wrong_call", "no_justification", "no_score",
        "off_scale", "score_before_justification", "schema", "no_model_id", "input_absent", "request_too_large",
    )
)  # fmt: skip
#: Seconds after which a worker without a report is no longer counted.
SILENT_SECONDS = 120.0
_STATES = ("closed", "half_open", "open")
Samples = dict[str, dict[tuple[str, ...], float]]


class JudgeSamples:
    """Counters and gauges by family. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended: Counter[tuple[str, ...]] = Counter()
        self._errors: Counter[tuple[str, ...]] = Counter()
        self._calls: Counter[tuple[str, ...]] = Counter()
        self._tokens: Counter[tuple[str, ...]] = Counter()
        self._usd: dict[tuple[str, ...], float] = {}
        self._seconds: Counter[tuple[str, ...]] = Counter()
        self._second_sums: dict[tuple[str, ...], float] = {}
        self._suspicions: Counter[tuple[str, ...]] = Counter()
        self._dropped = self._cached = 0
        self._breakers: dict[str, tuple[float, dict[str, str], tuple[str, ...]]] = {}
        self._agreement: dict[tuple[str, ...], float] = {}
        self._waiting, self._age = 0, 0.0
        self._left: dict[tuple[str, ...], float] = {}

    def count(self, closed: Closed, judgements: Sequence[Judgement]) -> None:
        """Count one batch.

        Args:
            closed: Result of the batch.
            judgements: All judgements of the batch, closed or dropped.
        """
        with self._lock:
            self._dropped += closed.dropped
            for judgement in judgements:
                request = closed.requests.get(judgement.id)
                if request is None:
                    continue
                who = (request.pipeline, request.metric, request.judge)
                self._ended[(*who, judgement.state)] += 1
                self._cached += bool(judgement.evidence.get("cached"))
                if judgement.state == "error":
                    word = (judgement.reason or "").partition(":")[0]
                    self._errors[(*who, word if word in REASONS else "other")] += 1
                known = set(suspicion_names())
                for kind in judgement.evidence.get("suspicions", ()):
                    self._suspicions[who[0], kind if kind in known else "other"] += 1
                for call in judgement.calls:
                    self._calls[(*who, call.kind if call.kind == "reply" or call.kind in REASONS else "other")] += 1
                    self._tokens[(*who, "in")] += call.input_tokens
                    self._tokens[(*who, "out")] += call.output_tokens
                    self._usd[who] = self._usd.get(who, 0.0) + call.usd
                    self._seconds[(*who, str(bisect_left(SECONDS_BOUNDS, call.seconds)))] += 1
                    self._second_sums[who] = self._second_sums.get(who, 0.0) + call.seconds

    def note(self, waiting: int, age: float, left: Mapping[tuple[str, ...], float]) -> None:
        """Set the number of waiting requests, the age of the oldest in seconds, and the money left under the caps."""
        with self._lock:
            self._waiting, self._age = waiting, age
            self._left = dict(left)

    @property
    def waits(self) -> bool:
        """True if a request waited at the last call of `note`."""
        return self._waiting > 0

    def breakers(self, worker: str, states: Mapping[str, str], outages: Sequence[str] = ()) -> None:
        """Set what one worker sees of its providers.

        Args:
            worker: Name of the worker.
            states: States of its circuit breakers by provider; empty if the worker has ended.
            outages: Present outages, in words.
        """
        with self._lock:
            self._breakers[worker] = (time.monotonic(), dict(states), tuple(outages))

    def outages(self) -> list[str]:
        """Return the present outages of providers that workers see, in words."""
        alive = time.monotonic() - SILENT_SECONDS
        with self._lock:
            return sorted({words for at, _, outages in self._breakers.values() if at >= alive for words in outages})

    def agreement(self, kappas: Mapping[tuple[str, ...], float]) -> None:
        """Set Cohen's kappa by (metric, first, second)."""
        with self._lock:
            self._agreement = dict(kappas)

    def families(self) -> Samples:
        """Return the samples of every family of judges except the histogram."""
        with self._lock:
            breakers: Counter[tuple[str, ...]] = Counter()
            alive = time.monotonic() - SILENT_SECONDS
            for _, states, _ in (said for said in self._breakers.values() if said[0] >= alive):
                breakers.update((provider, state) for provider, state in states.items())
            providers = {provider for provider, _ in breakers}
            return {
                "gapwatch_judge_verdicts_total": dict(self._ended),
                "gapwatch_judge_errors_total": dict(self._errors),
                "gapwatch_judge_calls_total": dict(self._calls),
                "gapwatch_judge_tokens_total": dict(self._tokens),
                "gapwatch_judge_usd_total": dict(self._usd),
                "gapwatch_judge_suspicions_total": dict(self._suspicions),
                "gapwatch_judge_dropped_total": {(): self._dropped},
                "gapwatch_judge_cached_total": {(): self._cached},
                "gapwatch_judge_breaker_workers": {(p, s): breakers[p, s] for p in sorted(providers) for s in _STATES},
                "gapwatch_judge_kappa": dict(self._agreement),
                "gapwatch_judge_queue_requests": {(): self._waiting},
                "gapwatch_judge_queue_age_seconds": {(): self._age},
                "gapwatch_judge_budget_left_usd": dict(self._left),
            }

    def histogram(self) -> Iterable[tuple[tuple[str, ...], list[int], float]]:
        """Return the durations of calls: labels; counts by bucket of `SECONDS_BOUNDS`, the last beyond; sum."""
        with self._lock:
            return [
                (who, [self._seconds[(*who, str(i))] for i in range(len(SECONDS_BOUNDS) + 1)], total)
                for who, total in self._second_sums.items()
            ]
