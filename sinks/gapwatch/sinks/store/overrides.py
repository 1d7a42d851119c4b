"""A person's word on a row, beside the judge's, which stays; said in a command, or to the API of a kept store."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gapwatch.scorers.errors import UsageError
from gapwatch.sinks.store.row_inserts import insert_row
from gapwatch.sinks.store.row_place import find_row, place_of
from gapwatch.sinks.store.store import Store

OVERRIDES_PATH = "/v1/overrides"
#: What a person may say of a row.
OUTCOMES = ("pass", "warn", "fail", "skip", "unknown")
_TEXT_LIMIT = 2_000
_IDENTITY = (
    "lane", "source_topic", "source_partition", "source_offset", "span_index", "metric", "metric_version", "judge",
)  # fmt: skip


@dataclass(frozen=True)
class Override:
    """A person's word.

    Attributes:
        row: Place of the row: topic/partition/offset/span/metric, and /judge where there are several.
        outcome: One of `OUTCOMES`.
        why: What speaks for it.
        score: On the scale of the metric; None: none given.
        label: Word of the scale, or label; None: none given.
        by: Who says so.
    """

    row: str
    outcome: str
    why: str
    score: float | None = None
    label: str | None = None
    by: str | None = None

    @classmethod
    def read(cls, asked: Mapping[str, Any]) -> Override:
        """Make one of what was posted, or given on a command line.

        Raises:
            UsageError: It says too little, or what cannot be said.
        """
        texts = {name: asked.get(name) for name in ("row", "outcome", "why", "label", "by")}
        for name, value in texts.items():
            if value is not None and (not isinstance(value, str) or len(value) > _TEXT_LIMIT):
                raise UsageError(f"{name} is a text of at most {_TEXT_LIMIT} characters")
        row, outcome, why = (texts[name] or "" for name in ("row", "outcome", "why"))
        if not row or not why.strip():
            raise UsageError("name the row, and say in `why` what speaks for your verdict")
        if outcome not in OUTCOMES:
            raise UsageError(f"outcome is one of {', '.join(OUTCOMES)}")
        score = asked.get("score")
        if score is not None and (isinstance(score, bool) or not isinstance(score, int | float)):
            raise UsageError("score is a number")
        if score is not None and not math.isfinite(score):
            raise UsageError("score is no finite number")
        return cls(row, outcome, why, score, texts["label"], texts["by"])

    def apply(self, store: Store, at: datetime) -> str:
        """Record it; what others said of the row stays.

        Args:
            store: Open for keeping.
            at: Now, with a time zone.

        Returns:
            The place of the row, in full.

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
        store.change("recording an override", lambda con: insert_row(con, "overrides", override))
        return place_of(row)


def override_posts(store: Store) -> dict[str, Callable[[dict[str, Any]], dict[str, Any]]]:
    """Return what may be posted to the keeper of a store, by path."""
    return {OVERRIDES_PATH: lambda asked: {"row": Override.read(asked).apply(store, datetime.now(UTC))}}
