"""What `/metrics` says of watched numbers and labels: how they lie in the last hour, and what they are held against."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from sinks.keeping import Connection
from sinks.schema import OTHER
from streams.alerting.attribution import tick_start
from streams.alerting.bank import Bank
from streams.alerting.finding import Watched
from streams.alerting.open_tick import WINDOW_TICKS
from streams.alerting.slice_units import SeriesKey
from streams.alerting.slice_values import LABEL_LIMIT
from streams.alerting.watched_rows import SeriesState
from streams.detectors.categories import MOST_LABELS
from streams.detectors.grid import quantiles_of_bins, quantiles_of_cells

#: Of each number of the last hour, and of what it is held against.
QUANTILES = (0.05, 0.5, 0.95)
#: Rows of numbers and labels with gauges of their own.
VALUE_LIMIT = 500
#: Stands for labels that were rare when the eight were chosen, and for those that came later.
OTHERS = OTHER

_HOUR = timedelta(hours=1)
# Fewer units say nothing of shares.
_LEAST_LEARNED = 100
# An empty label of Prometheus is none.
_NO_TEXT = "(empty)"
_SERIES = "pipeline, environment, coalesce(component, ''), metric, metric_version, coalesce(judge, ''), epoch"
_SPAN = "lane = ? AND fold_bucket >= ? AND fold_bucket < ?"
_NUMBERS = f"""SELECT {_SERIES}, e.key, sum(e.value)::BIGINT
    FROM (SELECT * EXCLUDE (histogram), unnest(map_entries(histogram)) AS e FROM ticks
        WHERE {_SPAN} AND level = 'unit' AND facet = 'all' AND histogram IS NOT NULL)
    GROUP BY ALL ORDER BY ALL"""
_LABELS = f"""SELECT {_SERIES}, level, "value", sum(n)::BIGINT FROM ticks
    WHERE {_SPAN} AND facet = 'label' AND "value" IS NOT NULL GROUP BY ALL ORDER BY ALL"""
_NAMES = ("value_quantile", "baseline_quantile", "label_ratio", "baseline_label_ratio")

#: Family to label values to number.
Samples = dict[str, dict[tuple[str, ...], float]]


class ValueGauges:
    """Looks at the ticks of the last hour, once for each five minutes of event time."""

    def __init__(self) -> None:
        self._window = -1
        self._numbers: dict[SeriesKey, Counter[int]] = {}
        self._labels: dict[SeriesKey, Counter[str]] = {}

    def samples(
        self, bank: Bank, con: Connection, lane: str, closed: int, states: Sequence[SeriesState],
        labels_of: Callable[[SeriesKey], tuple[str, ...]],
    ) -> Samples:  # fmt: skip
        """Return the samples of series whose bins are formed, or whose labels are chosen.

        Args:
            bank: Of the lane.
            con: Reading; sees what was committed.
            lane: Of the bank.
            closed: Last tick that is closed.
            states: Of all rows, those to be shown first.
            labels_of: Gives the label values of a series.
        """
        samples: Samples = {f"gapwatch_{name}": {} for name in _NAMES}
        chosen = [one.watched for one in states if one.watched.kind in bank.values.fleets and one.phase != "unwatched"]
        if chosen and closed // WINDOW_TICKS != self._window:
            self._look(bank, con, lane, tick_start(closed + 1))
            self._window = closed // WINDOW_TICKS
        # Of several epochs of a metric the one that came last stays.
        for watched in sorted(chosen[:VALUE_LIMIT], key=lambda one: _last_bucket(bank, one)):
            key = labels_of(watched.series)
            if watched.kind == "numbers":
                self._add_numbers(samples, bank, watched, key)
            else:
                self._add_labels(samples, bank, watched, key)
        return samples

    def _look(self, bank: Bank, con: Connection, lane: str, until: datetime) -> None:
        self._numbers, self._labels = defaultdict(Counter), defaultdict(Counter)
        known = set(bank.series)
        span = [lane, until - _HOUR, until]
        for *names, cell, n in con.execute(_NUMBERS, span).fetchall():
            self._numbers[_known(SeriesKey(*names), known)][cell] += n
        levels = {place: card.labels for place, card in bank.cards.items() if card.labels}
        for *names, level, label, n in con.execute(_LABELS, span).fetchall():
            key = _known(SeriesKey(*names), known)
            if levels.get((key.pipeline, key.metric)) == level:
                self._labels[key][label[:LABEL_LIMIT]] += n

    def _add_numbers(self, samples: Samples, bank: Bank, watched: Watched, key: tuple[str, ...]) -> None:
        fleet, row = bank.find(watched)
        numbers = bank.values.numbers
        if not numbers.formed[row]:
            return
        unit = bank.card(watched.series).number_unit
        now = quantiles_of_cells(self._numbers.get(watched.series, {}), QUANTILES)
        before = quantiles_of_bins(numbers.edges[row], fleet.learned(row), QUANTILES)
        for name, values in (("value_quantile", now), ("baseline_quantile", before)):
            for q, value in zip(QUANTILES, values, strict=True):
                if value is not None:
                    samples[f"gapwatch_{name}"][*key, unit, f"{q:g}"] = value

    def _add_labels(self, samples: Samples, bank: Bank, watched: Watched, key: tuple[str, ...]) -> None:
        fleet, row = bank.find(watched)
        names = bank.values.labels.names[row]
        learned = fleet.learned(row)
        if names is None or learned.sum() < _LEAST_LEARNED:
            return
        now = Counter(dict.fromkeys((*names, OTHERS), 0))
        for label, n in self._labels.get(watched.series, Counter[str]()).items():
            now[label if label in names else OTHERS] += n
        before = {name: float(learned[bin_]) for bin_, name in enumerate(names)}
        before[OTHERS] = before.get(OTHERS, 0.0) + float(learned[MOST_LABELS])
        told: tuple[tuple[str, Mapping[str, float]], ...] = (("label_ratio", now), ("baseline_label_ratio", before))
        for name, counts in told:
            whole = sum(counts.values())
            for label, count in counts.items() if whole else ():
                samples[f"gapwatch_{name}"][*key, label or _NO_TEXT] = count / whole


def _known(key: SeriesKey, known: set[SeriesKey]) -> SeriesKey:
    """Return the series that a tick belongs to: environments beyond the limit share one."""
    return key if key in known else replace(key, environment=OTHER)


def _last_bucket(bank: Bank, watched: Watched) -> int:
    fleet, row = bank.find(watched)
    return int(fleet.state["last_bucket"][row])
