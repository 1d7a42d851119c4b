"""Columns that name one monitored series in a table, and the SQL condition that finds its rows."""

from __future__ import annotations

from typing import Any, Protocol

from gapwatch.scorers.slices.tables import SERIES

#: Names of the columns in the order of the tables. The first is the lane.
SERIES_COLUMNS = tuple(name for name, _ in SERIES)
# A shift is followed over all epochs of its series.
_WHATEVER_EPOCH = tuple(name for name in SERIES_COLUMNS if name not in ("lane", "epoch"))


class SeriesNames(Protocol):
    """Names of a series within its lane. Component and judge are empty texts where the tables have null."""

    @property
    def pipeline(self) -> str:
        """Name of the pipeline."""

    @property
    def environment(self) -> str:
        """Name of the environment."""

    @property
    def component(self) -> str:
        """Id of the component; empty for a metric of the whole trace."""

    @property
    def metric(self) -> str:
        """Name of the metric."""

    @property
    def metric_version(self) -> str:
        """Version of the metric."""

    @property
    def judge(self) -> str:
        """Name of the judge; empty if no judge decides."""

    @property
    def epoch(self) -> str:
        """Epoch of the series."""


def series_values(lane: str, series: SeriesNames) -> list[str | None]:
    """Return the values of a series in the order of `SERIES_COLUMNS`; None if it has no component or no judge."""
    return [
        lane,
        series.pipeline,
        series.environment,
        series.component or None,
        series.metric,
        series.metric_version,
        series.judge or None,
        series.epoch,
    ]


def series_row(lane: str, series: SeriesNames) -> dict[str, str | None]:
    """Return the values of a series by the names of `SERIES_COLUMNS`."""
    return dict(zip(SERIES_COLUMNS, series_values(lane, series), strict=True))


def series_condition(lane: str, series: SeriesNames, environment: str | None = None) -> tuple[str, list[Any]]:
    """Return the SQL condition that selects the rows of a series in any epoch, and its parameters.

    Args:
        lane: Lane of the series.
        series: Names of the series.
        environment: Another condition for the environment, with one parameter for its name.
    """
    special = {} if environment is None else {"environment": environment}
    conditions = [special.get(name, f"coalesce({name}, '') = ?") for name in _WHATEVER_EPOCH]
    return " AND ".join(["lane = ?", *conditions]), [lane, *(getattr(series, name) for name in _WHATEVER_EPOCH)]
