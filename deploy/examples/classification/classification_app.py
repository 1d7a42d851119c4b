"""Classifies messages to a shop by words."""

from __future__ import annotations

WORDS = {"refund": "billing", "invoice": "billing", "broken": "repair", "crash": "repair"}


def classify(text: str) -> str:
    """Return billing, repair or other."""
    return next((label for word, label in WORDS.items() if word in text.lower()), "other")
