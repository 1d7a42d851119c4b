"""Answers questions from passages: quotes the sentence of the passages that shares most words with the question."""

from __future__ import annotations

import re
from typing import Any


def answer_question(query: str, passages: list[str]) -> dict[str, Any]:
    """Return an answer with the sentence it is quoted from, or say that the passages do not have it."""
    wanted = set(re.findall(r"\w{4,}", query.lower()))
    sentences = [one for passage in passages for one in re.split(r"(?<=[.!?])\s+", passage)]
    best = max(sentences, key=lambda one: len(wanted & set(re.findall(r"\w{4,}", one.lower()))))
    if not wanted & set(re.findall(r"\w{4,}", best.lower())):
        return {"answer": "The passages do not say.", "quotes": []}
    return {"answer": best, "quotes": [best]}
