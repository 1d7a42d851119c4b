"""Rules about alert settings: a key that could have no effect is a problem at its line."""

from __future__ import annotations

from gapwatch.scorers.loading.draft import Draft
from gapwatch.scorers.loading.problems import KeyPath
from gapwatch.scorers.portfolio.claim import RatioClaim
from gapwatch.scorers.portfolio.direction import Alert
from gapwatch.scorers.portfolio.metric import Metric

# Settings of the detectors of shifts.
_OF_SHIFTS = ("min_ratio", "min_bad_per_hour", "blind_above_ratio")
# Settings that a page needs besides its evidence; no ticket or note reads them.
_OF_PAGES = ("min_ratio", "min_bad_per_hour")


def check_alert(draft: Draft, metric: Metric, path: KeyPath) -> None:
    """Note alert settings that nothing reads: those of shifts at a ratio, and those of pages where nothing pages."""
    alert = metric.alert
    if alert is None:
        return
    if isinstance(metric.claim, RatioClaim):
        _check_ratio(draft, metric, alert, path)
    elif alert.severity != "page":
        for name in _OF_PAGES:
            if getattr(alert, name) is not None:
                message = f"only a page reads this, and the severity is {alert.severity}"
                expected = "severity: page, or min_change, which holds for every severity, or no such key"
                draft.problems.add((*path, "alert", name), message, expected)


def _check_ratio(draft: Draft, metric: Metric, alert: Alert, path: KeyPath) -> None:
    """Note alert settings of a ratio that nothing reads: it has no detector of shifts, and alerts by its threshold."""
    if metric.threshold is None:
        message = "a ratio alerts by its threshold only, and it has none"
        draft.problems.add((*path, "alert"), message, "threshold: {of: ratio, ...} beside it, or no alert")
    for name in _OF_SHIFTS:
        if getattr(alert, name) is not None:
            message = "a ratio has no detector of shifts, which alone reads this"
            draft.problems.add((*path, "alert", name), message, "no such key")
