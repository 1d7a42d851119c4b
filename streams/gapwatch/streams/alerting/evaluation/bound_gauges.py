"""Gauges of the bounds of the portfolio: quantity, limits, bound and state of each."""

from __future__ import annotations

import math
from collections.abc import Callable

from gapwatch.streams.alerting.bounds.slice_bounds import window_text
from gapwatch.streams.alerting.evaluation.lane_bounds import LaneBounds

#: Most bounds with gauges of their own, in the order in which their series came.
BOUND_LIMIT = 500

#: Family to label values to number.
Samples = dict[str, dict[tuple[str, ...], float]]

_NAMES = ("value", "value_lower", "value_upper", "limit", "units")


def bound_samples(bounds: LaneBounds, environment: Callable[[str], str]) -> Samples:
    """Return the samples of the bounds of a lane; a limit that cannot be given has none.

    Args:
        bounds: Bounds of the lane.
        environment: Returns the label value of an environment.
    """
    samples: Samples = {f"gapwatch_bound_{name}": {} for name in (*_NAMES, "state")}
    for series, watch in bounds.held()[:BOUND_LIMIT]:
        bound, now = watch.bound, watch.standing()
        where = (series.pipeline, environment(series.environment), series.component, series.metric, series.judge)
        key = (*where, bound.quantity, bound.operator, window_text(bound), bound.unit)
        measured = now.measured
        values = (measured.value, measured.lower, measured.upper, bound.value, float(now.units))
        for name, value in zip(_NAMES, values, strict=True):
            if math.isfinite(value):
                samples[f"gapwatch_bound_{name}"][key] = value
        samples["gapwatch_bound_state"][*key, now.state] = 1.0
    return samples
