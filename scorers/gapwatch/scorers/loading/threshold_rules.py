"""Rules about thresholds: a bound that Gapwatch cannot hold is a problem at its line.

A limit of a mean or of a sum needs numbers that cannot pass an end: without one, a single rare number may outweigh all
that was seen. Numbers count from 0 up, so a bound from above can be held. A bound from below needs a largest number,
which only the scale of a judge gives; checks count as 0 and 1.
"""

from __future__ import annotations

import math

from gapwatch.scorers.loading.draft import Draft
from gapwatch.scorers.loading.problems import KeyPath, nearest, one_of
from gapwatch.scorers.portfolio.bounded_quantity import (
    SHARES,
    is_ceiling,
    number_range,
    quantile_level,
    quantities_of,
    window_seconds,
)
from gapwatch.scorers.portfolio.claim import CheckClaim, LabelClaim, RatioClaim
from gapwatch.scorers.portfolio.direction import Threshold
from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.scorers.printable import shown

#: Seconds of a tick: the unit of event time that bounds are computed in.
TICK_SECONDS = 30
#: Longest window. The promise about false alarms is made for a month.
MOST_SECONDS = 30 * 86_400


def check_threshold(draft: Draft, metric: Metric, path: KeyPath) -> None:
    """Note every problem of a metric's threshold, and of alert settings of a ratio."""
    threshold = metric.threshold
    if threshold is None:
        return
    path = (*path, "threshold")
    level = quantile_level(threshold.of)
    allowed = quantities_of(metric.claim)
    if ("p95" if level is not None else threshold.of) not in allowed:
        _note_quantity(draft, metric, threshold, allowed, path)
        return
    if metric.alert is None and threshold.of != "failure_rate":
        message = f"a bound on {threshold.of} is held by alerts only, and the metric has no key alert"
        draft.problems.add(path, message, "alert: {severity: page, ticket or note} beside it")
    _check_label(draft, metric, threshold, path)
    _check_window(draft, threshold, path)
    if threshold.of in SHARES:
        _check_share(draft, threshold, path)
    elif threshold.of in ("mean", "sum"):
        _check_number(draft, metric, threshold, path)
    elif isinstance(metric.claim, RatioClaim):
        _check_ratio(draft, metric.claim, threshold, path)


def _note_quantity(draft: Draft, metric: Metric, threshold: Threshold, allowed: tuple[str, ...], path: KeyPath) -> None:
    form = metric.claim.form
    if threshold.of == "failure_rate" and not isinstance(metric.claim, RatioClaim):
        cure = {"measure": "a limit", "label": "bad labels", "composite": "pass_at"}[form]
        message = f"this {form} never fails, so its failure rate is always 0"
        draft.problems.add((*path, "of"), message, f"{cure} in the claim, or of: {one_of(allowed)}")
        return
    message = f"a {form} has no {shown(threshold.of)}"
    draft.problems.add((*path, "of"), message, one_of(allowed), nearest(threshold.of, allowed))


def _check_label(draft: Draft, metric: Metric, threshold: Threshold, path: KeyPath) -> None:
    where = (*path, "label")
    if threshold.of != "share":
        if threshold.label is not None:
            draft.problems.add(where, f"{threshold.of} is not of one label", "of: share, or no label")
        return
    assert isinstance(metric.claim, LabelClaim)  # `quantities_of`
    known = metric.claim.labels
    if threshold.label is None:
        draft.problems.add(where, "a share needs the label that it is of", one_of(known) if known else "a label")
    elif known is not None and threshold.label not in known:
        message = f"{shown(threshold.label)} is not in labels"
        draft.problems.add(where, message, one_of(known), nearest(threshold.label, known))


def _check_window(draft: Draft, threshold: Threshold, path: KeyPath) -> None:
    seconds = window_seconds(threshold)
    if seconds % TICK_SECONDS:
        near = max(round(seconds / TICK_SECONDS), 1) * TICK_SECONDS
        message = f"{threshold.window} is no multiple of {TICK_SECONDS} s, in which traces are counted"
        draft.problems.add((*path, "window"), message, "30s, 60s, 5m, 1h, ...", f"{near}s")
    elif seconds > MOST_SECONDS:
        draft.problems.add((*path, "window"), f"{threshold.window} is longer than 30 days", "at most 30d")


def _check_share(draft: Draft, threshold: Threshold, path: KeyPath) -> None:
    value, where = threshold.value, (*path, "value")
    if not 0.0 <= value <= 1.0:
        percent = f"{value / 100:g}" if 1.0 < value <= 100.0 else ""
        draft.problems.add(where, f"{value:g} is no share", "a number from 0 to 1; 0.05 is 5 %", percent)
    elif value == (1.0 if is_ceiling(threshold) else 0.0):
        message = f"a share is always {threshold.operator[0]}= {value:g}, so the bound never breaks"
        draft.problems.add(where, message, "a smaller number" if is_ceiling(threshold) else "a larger number")
    elif value == (0.0 if is_ceiling(threshold) else 1.0) and len(threshold.operator) == 1:
        message = f"no share is {threshold.operator} {value:g}"
        draft.problems.add(where, message, f'operator: "{threshold.operator}="')


def _check_number(draft: Draft, metric: Metric, threshold: Threshold, path: KeyPath) -> None:
    ends, value = number_range(metric.claim), threshold.value
    if not is_ceiling(threshold) and (threshold.of == "sum" or math.isinf(ends.most)):
        message = (
            f"no upper limit of a {threshold.of} can be given: its numbers have no largest value, so a rare one that "
            "was not seen may outweigh the others"
        )
        draft.problems.add((*path, "operator"), message, "<=, or of: p50 (or another quantile)")
        return
    least, most = ends.least, ends.most
    if is_ceiling(threshold) and not least <= value < most:
        text = "from 0 up" if math.isinf(most) else f"from {least:g} to below {most:g}"
    elif not is_ceiling(threshold) and not least < value <= most:
        text = f"above {least:g}, up to {most:g}"
    else:
        return
    draft.problems.add((*path, "value"), f"{value:g} is outside what the {threshold.of} can be", text)


def _check_ratio(draft: Draft, claim: RatioClaim, threshold: Threshold, path: KeyPath) -> None:
    key, name = ("denominator", claim.denominator) if is_ceiling(threshold) else ("numerator", claim.numerator)
    part = draft.by_name.get(name)
    if part is not None and not isinstance(part.claim, CheckClaim):
        message = (
            f"no {'lower' if is_ceiling(threshold) else 'upper'} limit of this ratio can be given: its {key}, "
            f"{shown(name)}, is a number without a largest value"
        )
        other = ">=" if is_ceiling(threshold) else "<="
        expected = f"a check as the {key}, or {other}, or a threshold on {shown(name)}"
        draft.problems.add((*path, "operator"), message, expected)
    elif is_ceiling(threshold) and threshold.value < 0.0:
        draft.problems.add((*path, "value"), f"{threshold.value:g} is below every ratio", "from 0 up")
    elif not is_ceiling(threshold) and threshold.value <= 0.0:
        draft.problems.add((*path, "value"), "a ratio is never below 0, so the bound never breaks", "above 0")
