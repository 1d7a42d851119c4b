"""Finds the passages that a question is answered from."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rag_app.telemetry import note


@dataclass(frozen=True)
class Passage:
    """A piece of a document."""

    source: str
    text: str


class PassageIndex:
    """An index of words over passages that are kept in memory."""

    def __init__(self) -> None:
        self._passages: list[Passage] = []
        self._by_word: dict[str, set[int]] = {}

    def add(self, passage: Passage) -> None:
        """Put a passage into the index."""
        number = len(self._passages)
        self._passages.append(passage)
        for word in _words(passage.text):
            self._by_word.setdefault(word, set()).add(number)

    def retrieve(self, question: str, limit: int = 3) -> list[Passage]:
        """Return the passages that share most words with a question, best first."""
        scores: dict[int, int] = {}
        for word in _words(question):
            for number in self._by_word.get(word, ()):
                scores[number] = scores.get(number, 0) + 1
        best = sorted(scores, key=lambda number: (-scores[number], number))[:limit]
        note(retrieved_count=len(best))
        return [self._passages[number] for number in best]


def _words(text: str) -> set[str]:
    return {word for word in re.findall(r"[a-z]+", text.lower()) if len(word) > 3}
