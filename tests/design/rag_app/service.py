"""The service: from a question to an answer, over cache, index, model and store."""

from __future__ import annotations

import logging
import sqlite3
from typing import Any

from rag_app.answering import Answerer
from rag_app.model import ModelClient
from rag_app.retrieval import PassageIndex
from rag_app.store import AnswerStore
from rag_app.telemetry import note

logger = logging.getLogger(__name__)


class QuestionService:
    """Answers questions.

    Args:
        base_url: Of the model server.
        index: Passages to answer from.
        store: Where answers are kept.
    """

    def __init__(self, base_url: str, index: PassageIndex, store: AnswerStore) -> None:
        self.index = index
        self.store = store
        self.answerer = Answerer(ModelClient(base_url))
        self.cache: dict[str, dict[str, Any]] = {}

    def ask(self, question: str) -> dict[str, Any]:
        """Return the answer to a question, from the cache where it was asked before."""
        known = self.lookup(question)
        if known is not None:
            return known
        passages = self.index.retrieve(question)
        answer = self.answerer.answer(question, passages)
        self.cache[question] = answer
        self.keep(question, answer)
        return answer

    def lookup(self, question: str) -> dict[str, Any] | None:
        """Return a cached answer."""
        key = question
        found = self.cache.get(key)
        note(cache="hit" if found is not None else "miss")
        if found is not None:
            return found
        loaded = self._load(key)
        if loaded is not None:
            self.cache[key] = loaded
        return loaded

    def keep(self, question: str, answer: dict[str, Any]) -> None:
        """Store an answer; the user gets it even where that fails."""
        try:
            self.store.save(question, answer)
            note(swallowed_errors=0)
        except sqlite3.Error:
            note(swallowed_errors=1)
            logger.warning("an answer was not stored")

    def _load(self, question: str) -> dict[str, Any] | None:
        row = self.store.connection.execute("SELECT answer FROM answers WHERE question = ?", (question,)).fetchone()
        return {"answer": row[0], "citations": []} if row is not None else None
