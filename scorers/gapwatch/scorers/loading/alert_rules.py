"""Rules about alert settings: a key that could have no effect is a problem at its line."""

from __future__ import annotations

from gapwatch.scorers.loading.draft import Draft
from gapwatch.scorers.loading.problems import KeyPath
from gapwatch.scorers.portfolio.claim import RatioClaim
from gapwatch.scorers.portfolio.metric import Metric

# Settings of the detectors of shifts.
_OF_SHIFTS = ("min_ratio", "min_bad_per_hour", "blind_above_ratio")


def check_alert(draft: Draft, metric: Metric, path: KeyPath) -> None:
    """Note alert settings of a ratio that nothing reads: it has no detector of shifts, and alerts by its threshold."""
    alert = metric.alert
    if alert is None or not isinstance(metric.claim, RatioClaim):
        return
    if metric.threshold is None:
        message = "a ratio alerts by its threshold only, and it has none"
        draft.problems.add((*path, "alert"), message, "threshold: {of: ratio, ...} beside it, or no alert")
    for name in _OF_SHIFTS:
        if getattr(alert, name) is not None:
            message = "a ratio has no detector of shifts, which alone reads this"
            draft.problems.add((*path, "alert", name), message, "no such key")
