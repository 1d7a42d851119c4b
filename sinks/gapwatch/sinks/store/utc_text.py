"""Converts UTC times to and from the texts in stored JSON and messages, such as `2026-03-02T10:00:00Z`."""

from __future__ import annotations

from datetime import datetime


def utc_text(moment: datetime) -> str:
    """Return a naive UTC time as text."""
    return moment.isoformat() + "Z"


def parse_utc(text: str) -> datetime:
    """Return the naive UTC time that `utc_text` wrote."""
    return datetime.fromisoformat(text.removesuffix("Z"))
