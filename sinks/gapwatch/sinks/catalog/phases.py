"""Phases of a monitored series: one word each, and the sentence that every reader shows for it."""

from __future__ import annotations

#: Phase to its sentence, about "the series"; the most urgent last. `api/overview.js` has the same.
PHASES = {
    "unwatched": "has data that no detector can monitor",
    "learning": "has too few units yet to look for a change; its bounds are checked all the same",
    "blind": "is monitored, but only a change larger than the portfolio's blind_above_ratio is found within a day",
    "calm": "is monitored, with less than a hundredth of the evidence that opens a ticket",
    "suspect": "has at least a hundredth of the evidence that opens a ticket; nobody is told",
    "noticed": "has moved, but not surely by more than min_change and a usual day; nobody is told",
    "ticket": "has moved, with evidence for a ticket; an alert of its metric tells of it",
    "page": "has moved, with evidence for a page; an alert of its metric tells of it",
}


def phases_text() -> str:
    """Return all phases with their sentences, in one line."""
    return "; ".join(f"{phase}: {sentence.replace('; ', ', ')}" for phase, sentence in PHASES.items())
