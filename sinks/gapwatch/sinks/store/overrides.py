"""Overrides: a person's outcome for a row, stored beside the scored outcome, given by command or over the API."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.portfolio.author import check_author
from gapwatch.sinks.store.row_inserts import insert_row
from gapwatch.sinks.store.row_place import find_row, place_of
from gapwatch.sinks.store.store import Store

OVERRIDES_PATH = "/v1/overrides"
#: Outcomes that a person may give a row.
OUTCOMES = ("pass", "warn", "fail", "skip", "unknown")
_TEXT_LIMIT = 2_000
_IDENTITY = (
    "lane", "source_topic", "source_partition", "source_offset", "span_index", "metric", "metric_version", "judge",
)  # fmt: skip


@dataclass(frozen=True)
class Override:
    """A person's outcome for one row.

    Attributes:
        row: Place of the row: topic/partition/offset/span/metric, and /judge where there are several.
        outcome: One of `OUTCOMES`.
        why: Reason for it.
        score: Score on the scale of the metric; None if not given.
        label: Word of the scale, or label; None if not given.
        by: Name of the person.
    """

    row: str
    outcome: str
    why: str
    score: float | None = None
    label: str | None = None
    by: str | None = None

    @classmethod
    def read(cls, asked: Mapping[str, Any]) -> Override:
        """Return the override from the values of a request or of a command line.

        Raises:
            UsageError: A value is missing or not allowed.
        """
        texts = {name: asked.get(name) for name in ("row", "outcome", "why", "label", "by")}
        for name, value in texts.items():
            if value is not None and (not isinstance(value, str) or len(value) > _TEXT_LIMIT):
                raise UsageError(f"{name} must be a text of at most {_TEXT_LIMIT} characters")
        row, outcome, why = (texts[name] or "" for name in ("row", "outcome", "why"))
        if not row or not why.strip():
            raise UsageError("name the row, and give the reason for your outcome as `why`")
        if outcome not in OUTCOMES:
            raise UsageError(f"outcome must be one of {', '.join(OUTCOMES)}")
        if texts["by"] is not None:
            check_author(texts["by"], "override")
        score = asked.get("score")
        if score is not None and (isinstance(score, bool) or not isinstance(score, int | float)):
            raise UsageError("score must be a number")
        if score is not None and not math.isfinite(score):
            raise UsageError("score must be a finite number")
        return cls(row, outcome, why, score, texts["label"], texts["by"])

    def apply(self, store: Store, at: datetime) -> str:
        """Store the override. Earlier overrides of the row stay in the store.

        Args:
            store: Store that is open for writing.
            at: Current time, with a time zone.

        Returns:
            The full place of the row.

        Raises:
            UsageError: There is no such row.
        """
        cursor = store.cursor()
        try:
            row = find_row(cursor, self.row)
        finally:
            cursor.close()
        stamp = at.astimezone(UTC).replace(tzinfo=None)
        override = {
            "override_id": secrets.token_hex(16), **{name: row[name] for name in _IDENTITY}, "outcome": self.outcome,
            "score": self.score, "label": self.label, "why": self.why, "by": self.by, "at": stamp,
        }  # fmt: skip
        store.change("storing an override", lambda con: insert_row(con, "overrides", override))
        return place_of(row)


def override_posts(store: Store) -> dict[str, Callable[[dict[str, Any]], dict[str, Any]]]:
    """Return the handlers of POST requests that override a row, by path."""
    return {OVERRIDES_PATH: lambda asked: {"row": Override.read(asked).apply(store, datetime.now(UTC))}}
