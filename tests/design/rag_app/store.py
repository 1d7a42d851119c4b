"""Keeps what was asked and answered."""

from __future__ import annotations

import sqlite3
from typing import Any

from rag_app.telemetry import note


class AnswerStore:
    """A table of questions and answers in SQLite."""

    def __init__(self, path: str = ":memory:") -> None:
        self.connection = sqlite3.connect(path)
        self.connection.execute("CREATE TABLE IF NOT EXISTS answers (question TEXT, answer TEXT)")

    def save(self, question: str, answer: dict[str, Any]) -> None:
        """Keep one answer."""
        cursor = self.connection.execute("INSERT INTO answers VALUES (?, ?)", (question, str(answer["answer"])))
        note(rows_written=cursor.rowcount)
        self.connection.commit()
