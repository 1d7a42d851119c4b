"""Turns a question and passages into an answer with its sources."""

from __future__ import annotations

import json
from typing import Any

from rag_app.model import ModelClient, ModelError
from rag_app.retrieval import Passage
from rag_app.telemetry import note

PROMPT = """You answer questions of customers from the passages below and from nothing else.
If the passages do not hold the answer, say "I cannot answer this".
Return JSON with the members answer (a sentence) and citations (a list of sources).

Passages:
{passages}

Question: {question}"""


class UnreadableAnswerError(Exception):
    """The model's answer was no JSON of the agreed shape."""


class Answerer:
    """Asks the large model first and the small one where that fails."""

    def __init__(self, client: ModelClient) -> None:
        self.client = client

    def answer(self, question: str, passages: list[Passage]) -> dict[str, Any]:
        """Return the answer of the first model that gives one."""
        try:
            text = self.ask_large(question, passages)
            note(tier="ask_large", fallback_depth=0)
        except ModelError:
            text = self.ask_small(question, passages)
            note(tier="ask_small", fallback_depth=1)
        return self.parse(text)

    def ask_large(self, question: str, passages: list[Passage]) -> str:
        """Ask the model that knows more."""
        return self.client.complete("large", self._messages(question, passages))

    def ask_small(self, question: str, passages: list[Passage]) -> str:
        """Ask the model that is always there."""
        return self.client.complete("small", self._messages(question, passages[:1]))

    def parse(self, text: str) -> dict[str, Any]:
        """Read the model's JSON."""
        note(parsed_text=text)
        try:
            data = json.loads(text)
        except ValueError as error:
            raise UnreadableAnswerError(text[:80]) from error
        return {"answer": data["answer"], "citations": data["citations"]}

    def _messages(self, question: str, passages: list[Passage]) -> list[dict[str, str]]:
        listed = "\n".join(f"[{p.source}] {p.text}" for p in passages)
        return [{"role": "user", "content": PROMPT.format(passages=listed, question=question)}]
