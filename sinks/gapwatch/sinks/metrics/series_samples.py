"""Samples of the monitored series, up to a limit: the series with new traces come first; the store has the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from prometheus_client.core import Sample

from gapwatch.scorers.portfolio.claim import UNSCORED_CLAIMS
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.catalog.rate_interval import with_interval
from gapwatch.sinks.metrics.families import FAMILIES, SERIES_LABELS
from gapwatch.sinks.metrics.family_samples import Labels, histogram_samples, label_values
from gapwatch.sinks.metrics.labels import NO_TIER
from gapwatch.sinks.metrics.live_counts import UNITS, W3, W_SPANS, W_UNKNOWN, WB, WB2, WG, WG2, LiveCounts, Series
from gapwatch.sinks.metrics.rate_window import SLOT_SECONDS, FloatArray

#: Largest number of samples of monitored series on one page: about 7 MB and 0.3 s. More: higher cost for this process
#: and for Prometheus.
SAMPLE_LIMIT = 50_000

#: Samples, each with the name of its family.
OfFamilies = list[tuple[str, Sample]]


def watched_samples(
    counts: LiveCounts, con: duckdb.DuckDBPyConnection, limit: int = SAMPLE_LIMIT
) -> tuple[dict[str, list[Sample]], int]:
    """Return the samples of all series by family, and the number of samples that did not fit.

    Args:
        counts: Counts of the lane.
        con: Any connection, to compute intervals; no table is read.
        limit: Largest number of samples.
    """
    windows, tier_windows = counts.window.totals(), counts.tier_window.totals()
    rates = _rates(con, windows)
    moving: list[Series] = []
    resting: list[Series] = []
    for series in sorted(counts.series.values(), key=lambda one: one.order):
        (moving if windows[series.row, [UNITS, W_UNKNOWN]].any() else resting).append(series)
    by_family: dict[str, list[Sample]] = {}
    used = left_out = 0
    for samples in _in_order_of_use(counts, moving, resting, windows, tier_windows, rates):
        if used + len(samples) > limit:
            left_out += len(samples)
            continue
        used += len(samples)
        for family, sample in samples:
            by_family.setdefault(family, []).append(sample)
    return by_family, left_out


def _in_order_of_use(
    counts: LiveCounts,
    moving: Sequence[Series],
    resting: Sequence[Series],
    windows: FloatArray,
    tier_windows: FloatArray,
    rates: Mapping[str, FloatArray],
) -> Iterable[OfFamilies]:
    labels = {id(series): label_values(SERIES_LABELS, series.key) for series in (*moving, *resting)}
    for series in moving:
        yield _rates_of(labels[id(series)], series, windows[series.row], rates) + _units(labels[id(series)], series)
    for series in resting:
        yield _units(labels[id(series)], series)
    for series in (*moving, *resting):
        yield _detail(labels[id(series)], series, rates)
        if series.key in counts.tiers:
            yield _tiers(counts, series, counts.tier_shares(series.key, windows, tier_windows))


def _rates(con: duckdb.DuckDBPyConnection, windows: FloatArray) -> dict[str, FloatArray]:
    """Return rate, limits and effective units of each row; NaN for a row without units."""
    answer = {name: np.full(len(windows), np.nan) for name in ("rate", "lower", "upper", "effective_units")}
    rows = np.flatnonzero(windows[:, UNITS] > 0)
    if len(rows):
        columns = {"wb": WB, "wb2": WB2, "wg": WG, "wg2": WG2, "w3": W3}
        sums: dict[str, Any] = {name: windows[rows, column] for name, column in columns.items()}
        con.register("rate_sums", pa.table({"row": rows, **sums}))
        try:
            found = con.execute(with_interval("SELECT * FROM rate_sums")).fetchnumpy()
        finally:
            con.unregister("rate_sums")
        for name, values in answer.items():
            values[found["row"]] = found[name]
    return answer


def _rates_of(labels: Labels, series: Series, window: FloatArray, rates: Mapping[str, FloatArray]) -> OfFamilies:
    known, unknown = window[WB] + window[WG], window[W_UNKNOWN]
    numbers = {"gapwatch_unknown_ratio": unknown / (known + unknown), "gapwatch_window_units": window[UNITS]}
    if window[UNITS] > 0:
        numbers |= {
            "gapwatch_failure_ratio": rates["rate"][series.row],
            "gapwatch_failure_ratio_lower": rates["lower"][series.row],
            "gapwatch_failure_ratio_upper": rates["upper"][series.row],
        }
    return [_one(name, labels, float(value)) for name, value in numbers.items()]


def _units(labels: Labels, series: Series) -> OfFamilies:
    return _by_outcome("gapwatch_units_total", labels, series.units)


def _by_outcome(name: str, labels: Labels, numbers: Mapping[str, float]) -> OfFamilies:
    return [_one(name, {**labels, "outcome": outcome}, value) for outcome, value in numbers.items()]


def _detail(labels: Labels, series: Series, rates: Mapping[str, FloatArray]) -> OfFamilies:
    samples = _by_outcome("gapwatch_spans_total", labels, series.spans)
    samples += _by_outcome("gapwatch_weighted_units_total", labels, series.weighted)
    if not np.isnan(effective := rates["effective_units"][series.row]):
        samples.append(_one("gapwatch_effective_units", labels, float(effective)))
    if series.newest is not None:
        samples.append(_one("gapwatch_last_unit_timestamp_seconds", labels, series.newest * SLOT_SECONDS))
    if series.values:
        name = "gapwatch_value"
        made = histogram_samples(name, labels, series.bounds, series.values, series.value_sum)
        samples += [(name, sample) for sample in made]
    return samples


def _one(name: str, labels: Labels, value: float) -> tuple[str, Sample]:
    return name, Sample(name, labels, value)


def _tiers(counts: LiveCounts, series: Series, shares: Mapping[str, float]) -> OfFamilies:
    pipeline, environment, component, metric, _ = series.key
    spans = {name: tier.spans for name, tier in counts.tiers[series.key].items()}
    if unnamed := counts.spans_without_tier(series.key):
        spans[NO_TIER] = spans.get(NO_TIER, 0) + unnamed
    samples = []
    for name, numbers in (("gapwatch_tier_spans_total", spans), ("gapwatch_tier_ratio", shares)):
        for tier, value in numbers.items():
            key = (pipeline, environment, component, metric, tier)
            samples.append(_one(name, label_values(FAMILIES[name].labels, key), value))
    return samples


def unwatched_samples(counts: LiveCounts, portfolios: Iterable[Portfolio]) -> dict[str, dict[tuple[str, ...], float]]:
    """Return for each component and metric of the portfolios whether it is not monitored.

    Returns:
        Samples of `gapwatch_component_unwatched` and `gapwatch_metric_unwatched`.
    """
    windows = counts.window.totals()
    seen: set[tuple[str, str]] = set()
    decided: set[tuple[str, str]] = set()
    for (pipeline, _, component, name, _), series in counts.series.items():
        if windows[series.row, W_SPANS] > 0:
            seen.add((pipeline, component))
        if windows[series.row, UNITS] > 0:
            decided.add((pipeline, name))
    components: dict[tuple[str, ...], float] = {}
    metrics: dict[tuple[str, ...], float] = {}
    for portfolio in portfolios:
        for one in portfolio.components:
            components[portfolio.pipeline, one.id] = float((portfolio.pipeline, one.id) not in seen)
        for metric in portfolio.metrics:
            if not isinstance(metric.claim, UNSCORED_CLAIMS):  # a ratio has no units; feedback comes when it comes
                key = (portfolio.pipeline, metric.component or "", metric.name)
                metrics[key] = float((portfolio.pipeline, metric.name) not in decided)
    return {"gapwatch_component_unwatched": components, "gapwatch_metric_unwatched": metrics}
