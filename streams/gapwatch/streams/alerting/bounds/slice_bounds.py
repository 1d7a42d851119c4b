"""Units of one slice for the bounds: what each bounded quantity counts, by series and tick."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from gapwatch.streams.alerting.bounds.window_units import BOTTOM, TOP, UnitGroup, WindowUnits
from gapwatch.streams.alerting.rules.alert_rule import AlertRule
from gapwatch.streams.alerting.rules.bound import Bound
from gapwatch.streams.alerting.series.slice_units import SeriesKey, SliceContent, series_of, tick_numbers
from gapwatch.streams.detectors.contexts import TICK_SECONDS

_COLUMNS = ("outcome", "p", "n", "score_sum", "histogram")
_CODE_OF_OUTCOME = {"good": 0, "bad": 1}
# Counts of good traces in a ratio.
_CODE_OF_GOOD = {"good": 1, "bad": 0}


class Use(NamedTuple):
    """Use of the ticks of one metric by a bound.

    Attributes:
        metric: Name of the bounded metric.
        bound: The bound.
        role: `TOP`, or `BOTTOM` for the denominator of a ratio.
    """

    metric: str
    bound: Bound
    role: int

    @property
    def takes_numbers(self) -> bool:
        """True for numbers, False for counts of outcomes or labels."""
        parts = self.bound.parts
        return self.bound.of not in ("failure_rate", "share") if parts is None else parts.sums_numbers[self.role]

    def series(self, key: SeriesKey) -> SeriesKey:
        """Return the series of the bound, from that of the ticks: a ratio has a series of its own."""
        parts = self.bound.parts
        return key if parts is None else replace(key, metric=self.metric, metric_version=parts.version, epoch="")


@dataclass
class BoundUnits:
    """Units that one series adds in one tick.

    Attributes:
        units: The units.
        sessions: Session to its decided units.
    """

    units: WindowUnits = field(default_factory=WindowUnits)
    sessions: dict[str, int] = field(default_factory=dict)


#: (Series of a bound, tick of event time) to its units.
SliceBounds = dict[tuple[SeriesKey, int], BoundUnits]


def uses_of(rules: Iterable[AlertRule]) -> dict[tuple[str, str], list[Use]]:
    """Return for each (pipeline, metric) with ticks what the bounds of the rules take from it."""
    uses: dict[tuple[str, str], list[Use]] = defaultdict(list)
    for rule in rules:
        if rule.limit is None:
            continue
        parts = rule.limit.parts
        names = [rule.metric] if parts is None else [parts.numerator, parts.denominator]
        for role, name in enumerate(names):
            uses[rule.pipeline, name].append(Use(rule.metric, rule.limit, role))
    return dict(uses)


def read_bounds(content: SliceContent, uses: Mapping[tuple[str, str], Sequence[Use]]) -> SliceBounds:
    """Read the units of the bounded metrics from the counts of a slice; units without a time are skipped.

    Args:
        content: Counts of the slice.
        uses: What the bounds take, as `uses_of` returns it.
    """
    found: SliceBounds = defaultdict(BoundUnits)
    if not uses:
        return found
    for key, tick, row in _rows(content.units, uses):
        for use in uses[key.pipeline, key.metric]:
            if use.bound.label is None:
                _add_row(found[use.series(key), tick].units, use, row)
    _add_labels(found, content, {at: some for at, some in uses.items() if any(one.bound.label for one in some)})
    _add_sessions(found, content.sessions, uses)
    return found


def _rows(table: pa.Table, wanted: Mapping[tuple[str, str], Any]) -> Iterator[tuple[SeriesKey, int, dict[str, Any]]]:
    """Yield series, tick and counts of the rows of some metrics."""
    names = pa.array(sorted({metric for _, metric in wanted}))
    table = table.filter(pc.is_in(table["metric"], names))
    if not table.num_rows:
        return
    keys, which = series_of(table, wanted)
    ticks = tick_numbers(table["bucket"])
    columns = [name for name in (*_COLUMNS, "level", "value") if name in table.column_names]
    for i, tick, row in zip(which.tolist(), ticks.tolist(), table.select(columns).to_pylist(), strict=True):
        if i >= 0:
            yield keys[i], tick, row


def _add_row(units: WindowUnits, use: Use, row: Mapping[str, Any]) -> None:
    p = row["p"] or 1.0
    if row["outcome"] in ("unknown", "error"):
        units.counts[UnitGroup(use.role, None, p)] += row["n"]
    elif use.takes_numbers:
        for cell, n in row["histogram"] or ():
            units.counts[UnitGroup(use.role, cell, p)] += n
        total = row["score_sum"]
        units.sums[use.role] += 0.0 if total is None else total / p
    else:
        codes = _CODE_OF_OUTCOME if use.bound.parts is None else _CODE_OF_GOOD
        units.counts[UnitGroup(use.role, codes[row["outcome"]], p)] += row["n"]


def _add_labels(found: SliceBounds, content: SliceContent, uses: Mapping[tuple[str, str], Sequence[Use]]) -> None:
    """Add traces with and without a label; labels of spans are scaled down to at most one a trace.

    Labels of one trace depend on each other, so a trace is one observation: the shares stay, the number of traces
    counts. A trace without a label counts in no share.
    """
    if not uses:
        return
    ticks = content.ticks
    is_label = pc.and_(pc.equal(ticks["facet"], "label"), ticks["value"].is_valid())
    labelled: dict[tuple[SeriesKey, int, float, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for key, tick, row in _rows(ticks.filter(pc.and_(is_label, ticks["bucket"].is_valid())), uses):
        labelled[key, tick, row["p"] or 1.0, row["level"]][row["value"]] += row["n"]
    traces: dict[tuple[SeriesKey, int, float], int] = defaultdict(int)
    for key, tick, row in _rows(content.units, uses):
        traces[key, tick, row["p"] or 1.0] += row["n"]
    for (key, tick, p, level), counts in labelled.items():
        whole = sum(counts.values())
        for use in uses[key.pipeline, key.metric]:
            if use.bound.label is None or level != ("span" if use.bound.of_spans else "unit"):
                continue
            n = min(whole, traces[key, tick, p]) if use.bound.of_spans else whole
            with_label = round(counts.get(use.bound.label, 0) * n / whole)
            units = found[use.series(key), tick].units
            units.counts[UnitGroup(TOP, 1, p)] += with_label
            units.counts[UnitGroup(TOP, 0, p)] += n - with_label


def _add_sessions(found: SliceBounds, table: pa.Table, uses: Mapping[tuple[str, str], Sequence[Use]]) -> None:
    """Add the units of each session; of a ratio those of its numerator."""
    table = table.filter(table["bucket"].is_valid())
    if not table.num_rows:
        return
    keys, which = series_of(table, uses)
    columns = zip(
        which.tolist(),
        tick_numbers(table["bucket"]).tolist(),
        table["session_id"].to_pylist(),
        table["units"].to_pylist(),
        strict=True,
    )
    for i, tick, session, n in columns:
        for use in uses[keys[i].pipeline, keys[i].metric] if i >= 0 else ():
            if use.role != BOTTOM:
                sessions = found[use.series(keys[i]), tick].sessions
                sessions[session] = sessions.get(session, 0) + n


def window_text(bound: Bound) -> str:
    """Return the length of a bound's window as a portfolio writes it: `5m`, `24h`."""
    seconds = bound.window_ticks * TICK_SECONDS
    sizes = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
    letter, size = next(one for one in sizes if seconds % one[1] == 0)
    return f"{math.floor(seconds / size)}{letter}"
