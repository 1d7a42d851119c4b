"""Reads decisions that were sent to the API or typed, and gives them the watches that they change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any, Protocol

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.loading.load import parse_stored_portfolio
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.reading.stored_portfolios import latest_portfolio_texts
from gapwatch.sinks.store.decisions import HumanDecision
from gapwatch.sinks.store.detector_states import lanes_with_detectors
from gapwatch.sinks.store.store import Store
from gapwatch.streams.alerting.evaluation.shift_watch import ShiftWatch
from gapwatch.streams.alerting.triage.decisions import AlertDecision, QuestionAnswer, parse_duration

#: Action to the path of the API that takes it, while a process holds the store.
PATHS = {
    "ack": "/v1/alerts/ack",
    "silence": "/v1/alerts/silence",
    "accept": "/v1/alerts/accept",
    "answer": "/v1/answers",
}
_FIELDS = {
    "ack": ("alert", "by", "why"),
    "silence": ("alert", "by", "why", "for"),
    "accept": ("alert", "by", "why"),
    "answer": ("question", "value", "by"),
}


class Watches(Protocol):
    """The watches of a process."""

    def of(self, lane: str) -> ShiftWatch | None:
        """Return the watch of a lane; None where this process has none for it."""

    def all(self) -> Sequence[ShiftWatch]:
        """Return all watches of this process."""

    def portfolios(self) -> Sequence[Portfolio]:
        """Return the portfolios in force."""


def read_decision(action: str, asked: Mapping[str, Any], watches: Watches) -> HumanDecision:
    """Return the decision that a request states.

    Args:
        action: ack, silence, accept or answer.
        asked: Fields of the request, all of them texts; `why` may be missing.
        watches: Watches that the decision changes; looked up when it is applied.

    Raises:
        UsageError: A field is missing, unknown, or not a text.
    """
    fields = _FIELDS[action]
    texts = {name: asked.get(name, "" if name == "why" else None) for name in fields}
    if unknown := sorted(set(asked) - set(fields)):
        raise UsageError(f"unknown field {unknown[0]!r}; give {', '.join(fields)}")
    for name, text in texts.items():
        if not isinstance(text, str):
            raise UsageError(f"the field `{name}` is missing or not a text; give {', '.join(fields)}")
    if action == "answer":
        return QuestionAnswer(texts["question"], texts["value"], texts["by"], watches.all, watches.portfolios)
    duration = parse_duration(texts["for"]) if action == "silence" else None
    kind = next(one for one in ("ack", "silence", "accept") if one == action)
    return AlertDecision(kind, texts["alert"], texts["by"], texts["why"], duration, watches.of)


def readers(watches: Watches) -> dict[str, Callable[[Mapping[str, Any]], HumanDecision]]:
    """Return the reader of each path of the API."""

    def reader(action: str) -> Callable[[Mapping[str, Any]], HumanDecision]:
        return lambda asked: read_decision(action, asked, watches)

    return {path: reader(action) for action, path in PATHS.items()}


class OfflineWatches:
    """Watches of a store that no other process holds.

    They are opened before the transaction of a decision, because opening a watch may write to the store.

    Args:
        store: Store, open for writing.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._open: dict[str, ShiftWatch] = {}
        self._portfolios: list[Portfolio] = []

    def open(self, action: str) -> None:
        """Open the watches that such a decision may change."""
        if action not in ("accept", "answer"):
            return
        with closing(self._store.cursor()) as cursor:
            lanes = lanes_with_detectors(cursor)
            self._portfolios = [parse_stored_portfolio(text) for text in latest_portfolio_texts(cursor)]
        self._open = {lane: ShiftWatch.open(self._store, None, lane) for lane in lanes}

    def of(self, lane: str) -> ShiftWatch | None:
        """Return the watch of a lane; None where the store has no detectors of it."""
        return self._open.get(lane)

    def all(self) -> Sequence[ShiftWatch]:
        """Return all watches that are open."""
        return list(self._open.values())

    def portfolios(self) -> Sequence[Portfolio]:
        """Return the latest portfolio of each pipeline."""
        return self._portfolios
