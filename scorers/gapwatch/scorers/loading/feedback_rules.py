"""Rules about metrics of feedback."""

from __future__ import annotations

from gapwatch.scorers.loading.draft import Draft
from gapwatch.scorers.loading.problems import KeyPath
from gapwatch.scorers.portfolio.metric import Metric


def check_feedback(draft: Draft, metric: Metric, path: KeyPath) -> None:
    """Note keys of a metric of feedback that have no effect: it comes from people, and all of it counts."""
    for key in ("when", "sample"):
        if key in metric.model_fields_set:
            message = "feedback is not about single spans, and all of it counts, so this has no effect"
            draft.problems.add((*path, key), message, "no such key")
