"""Numbers of the series of one lane, and the hour of the week of a tick."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from gapwatch.scorers.slices.facet_names import OTHER
from gapwatch.sinks.metrics.labels import ENVIRONMENT_LIMIT
from gapwatch.streams.alerting.series.slice_units import SeriesKey
from gapwatch.streams.detectors.arrays import Ints
from gapwatch.streams.detectors.contexts import hour_of_week

# Time zones differ from UTC by whole quarters of an hour: all ticks of a quarter lie in the same hour of the week.
_TICKS_A_QUARTER = 30
# Environments come from traces: a new name in each trace would make a series for each, of ten kilobytes.
_NAME_LIMIT = 100
_MOST_HOURS = 10_000


class SeriesBook:
    """Gives each series a fixed number; environments beyond the limit share the name `other`.

    Attributes:
        series: Series by number.
    """

    def __init__(self) -> None:
        self.series: list[SeriesKey] = []
        self._number: dict[SeriesKey, int] = {}
        self._environments: dict[str, set[str]] = defaultdict(set)

    def number_of(self, key: SeriesKey) -> int:
        """Return the number of a series; a new series gets the next one."""
        if key not in self._number:
            known = self._environments[key.pipeline]
            is_named = len(key.environment) <= _NAME_LIMIT and len(known) < ENVIRONMENT_LIMIT
            if key.environment not in known and not is_named:
                key = replace(key, environment=OTHER)
        if key not in self._number:
            self.learn([key])
        return self._number[key]

    def learn(self, keys: Iterable[SeriesKey]) -> None:
        """Add series, numbered in this order."""
        for key in keys:
            self._number[key] = len(self.series)
            self.series.append(key)
            if key.environment != OTHER:
                self._environments[key.pipeline].add(key.environment)


class HourBook:
    """Cache of hours of the week by quarter of an hour, because a conversion of time zones is slow."""

    def __init__(self) -> None:
        self._hours: dict[tuple[int, str], int] = {}

    def hour(self, tick: int, time_zone: str) -> int:
        """Return the hour of the week of a tick in a time zone, as `hour_of_week` does."""
        quarter = tick // _TICKS_A_QUARTER * _TICKS_A_QUARTER
        if (quarter, time_zone) not in self._hours:
            if len(self._hours) > _MOST_HOURS:
                self._hours.clear()
            self._hours[quarter, time_zone] = hour_of_week(quarter, time_zone)
        return self._hours[quarter, time_zone]

    def hours(self, ticks: Ints, time_zone: str) -> Ints:
        """Return the hours of the week of some ticks."""
        quarters, which = np.unique(ticks // _TICKS_A_QUARTER, return_inverse=True)
        found = [self.hour(quarter * _TICKS_A_QUARTER, time_zone) for quarter in quarters.tolist()]
        return np.array(found, np.int64)[which]
