"""Reads files of feedback, one JSON object a line."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gapwatch.scorers.errors import UsageError
from gapwatch.sinks.feedback.feedback import Feedback


def read_feedback_file(file: Path) -> list[Feedback]:
    """Return the feedback of a file.

    Raises:
        UsageError: The file cannot be read, or a line is no feedback; the message names it.
    """
    now = datetime.now(UTC).replace(tzinfo=None)
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    feedback = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            feedback.append(Feedback.from_json(line, now))
        except UsageError as error:
            raise UsageError(f"{file}, line {number}: {error}") from None
    return feedback


def as_request(feedback: Feedback) -> dict[str, Any]:
    """Return the JSON object of a feedback, as `Feedback.read` reads it."""
    value: str | float = feedback.value if feedback.value in ("up", "down") else feedback.number
    texts = {"comment": feedback.comment, "user": feedback.user, "pipeline": feedback.pipeline}
    given = {name: text for name, text in texts.items() if text is not None}
    return {"id": feedback.id, "trace_id": feedback.trace_id, "value": value, "at": feedback.at.isoformat(), **given}
