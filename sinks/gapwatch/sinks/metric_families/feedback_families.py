"""Metrics of feedback that people give about traces."""

from __future__ import annotations

from gapwatch.sinks.metric_families.family import own_family as _own

FEEDBACK = (
    _own(
        "feedback_total", "counter", "feedback",
        "Feedback by state: joined to its trace, orphan (no trace came within a day), duplicate (it came before), "
        "dead_letter (unreadable).", "state", lasting=True,
    ),
    _own("feedback_pending", "gauge", "feedback", "Feedback that waits for its trace."),
)  # fmt: skip
