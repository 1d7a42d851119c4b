"""Record of the topic `feedback`: what a person says of a trace."""

from __future__ import annotations

import math
import os
from datetime import UTC, datetime

import orjson

#: Characters of a comment; the rest of a longer one is left out.
_COMMENT = 10_000


def feedback_record(
    pipeline: str, trace_id: str, value: bool | str | float, comment: str | None, user: str | None
) -> tuple[str, bytes]:
    """Return the id and the JSON of a feedback.

    Args:
        pipeline: Pipeline of the trace.
        trace_id: Id of the trace.
        value: True or `up`, False or `down`, or a finite number.
        comment: What the person wrote.
        user: Who gave it.

    Raises:
        ValueError: The value is none of these, or the id of the trace is empty.
    """
    is_number = isinstance(value, int | float) and math.isfinite(value)
    if not is_number and value not in ("up", "down"):
        raise ValueError(f'value of a feedback is {value!r}; give True, False, "up", "down" or a number')
    if not trace_id:
        raise ValueError("a feedback needs the id of its trace")
    id_ = os.urandom(16).hex()
    record = {
        "id": id_, "trace_id": str(trace_id), "value": value, "pipeline": pipeline,
        "comment": None if comment is None else str(comment)[:_COMMENT], "user": None if user is None else str(user),
        "at": datetime.now(UTC).isoformat(),
    }  # fmt: skip
    return id_, orjson.dumps({key: text for key, text in record.items() if text is not None})
