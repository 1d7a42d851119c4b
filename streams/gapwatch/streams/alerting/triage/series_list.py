"""Lists of monitored series by phase, and of unmonitored metrics and components with the reason."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from gapwatch.scorers.errors import PortfolioError
from gapwatch.scorers.loading.load import parse_portfolio
from gapwatch.scorers.portfolio.claim import RatioClaim
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.printable import shown
from gapwatch.sinks.reading.stored_portfolios import latest_portfolio_texts
from gapwatch.sinks.reading.terminal_table import Column, component_text, print_note, print_table, share_text
from gapwatch.sinks.reading.watched_series import (
    SeenMetric,
    WatchedStanding,
    foreign_records,
    left_out,
    phase_counts,
    seen_metrics,
    watched_standings,
)
from gapwatch.sinks.store.store_reader import StoreReader


def print_phase_counts(con: StoreReader, lane: str | None) -> None:
    """Print the number of monitored series by phase, and the false alarms to expect."""
    rows = phase_counts(con, lane)
    if not rows:
        foreign, pipelines = foreign_records(con, lane)
        print_note(_foreign_text(foreign, pipelines) if foreign else _NO_SERIES)
        return
    unwatched = sum(row.n for row in rows if row.phase == "unwatched")
    phases = ", ".join(
        f"{row.n} {_MOVED_WORDS.get(row.phase, shown(row.phase))}" for row in rows if row.phase != "unwatched"
    )
    expected = sum(row.expected or 0.0 for row in rows)
    sys.stdout.write(
        f"{sum(row.n for row in rows) - unwatched} series monitored: {phases}; "
        f"at most {expected:.2g} false alarms expected so far\n"
    )


def print_unmonitored(con: StoreReader, lane: str | None) -> None:
    """Print unmonitored metrics and components, each with the reason."""
    portfolios = [one for text in latest_portfolio_texts(con) if (one := _readable(text)) is not None]
    seen = seen_metrics(con, lane)
    pipelines = {row.pipeline for row in seen}
    missing = [text for one in portfolios if one.pipeline in pipelines for text in _unseen(one, seen)]
    missing += [f"{row.kind} of {_name(row.metric, row.component)} ({_IN_SESSIONS})" for row in left_out(con, lane)]
    if missing:
        sys.stdout.write("not monitored:\n" + "".join(f"  {shown(text, 1000)}\n" for text in missing))


_NO_SERIES = (
    "no series is monitored: gapwatch replay ran without --alerts, or no stored trace has a metric with an alert "
    "(gapwatch check names them)"
)

# Phase of a series that moved, in the counts. Several series of a metric may move with one alert.
_MOVED_WORDS = {"ticket": "beyond the limit of a ticket", "page": "beyond the limit of a page"}
# Phase as stored, to the word that people read.
_PHASE_WORDS = {"unwatched": "not monitored"}

_IN_SESSIONS = (
    "its traces are in sessions, and ticks do not tell which session a value is of; failing sessions are monitored"
)


def _foreign_text(foreign: int, pipelines: list[str]) -> str:
    names = ", ".join(repr(shown(name, 60)) for name in pipelines)
    return (
        f"no series is monitored: all {foreign:,} stored traces are of another pipeline than the portfolio's, {names}; "
        "the log of gapwatch run names theirs: correct `pipeline` in the portfolio, or in the program that sends"
    )


def _readable(text: str) -> Portfolio | None:
    """Return a stored portfolio; None, with a warning, for one that this version of the program refuses."""
    try:
        return parse_portfolio(text, "<portfolio of the store>")
    except PortfolioError as error:
        more = f" and {len(error.problems) - 1} more" if len(error.problems) > 1 else ""
        print_note(
            "warning: the stored portfolio is not valid in this version of Gapwatch, so unmonitored metrics are not "
            f"listed: {shown(str(error.problems[0]), 300)}{more}"
        )
        return None


def _name(metric: str, component: str | None) -> str:
    return f"{metric} of {component_text(component)}"


def _unseen(portfolio: Portfolio, seen: list[SeenMetric]) -> Iterator[str]:
    """Yield metrics and components of a portfolio that no trace shows or that no detector can monitor."""
    mine = [row for row in seen if row.pipeline == portfolio.pipeline]
    decided = {row.metric for row in mine if row.is_decided}
    for metric in portfolio.metrics:
        name = _name(metric.name, metric.component)
        if isinstance(metric.claim, RatioClaim):
            if metric.alert is not None and metric.threshold is None:
                yield f"{name} (a ratio alerts by its threshold only, and it has none)"
        elif metric.name not in decided:
            yield f"{name} (no trace was decided)"
        elif metric.threshold is not None and metric.alert is None:
            yield f"threshold of {name} (the metric has no key alert, so only reports say whether it holds)"
    components = {row.component for row in mine}
    measured = {metric.component for metric in portfolio.metrics}
    for component in portfolio.components:
        if component.id not in measured:
            yield f"component {component.id} (no metric is about it)"
        elif component.id not in components:
            yield f"component {component.id} (no span of it was scored)"


def print_monitored_series(con: StoreReader, lane: str | None) -> None:
    """Print each monitored series: its phase, baseline, minimum detectable change in one day, and evidence."""
    rows = watched_standings(con, lane)
    places = _places(rows)
    columns = [
        *(Column(name) for name in places),
        Column("component"), Column("metric", whole=True), Column("monitored", whole=True), Column("phase", whole=True),
        Column("bad direction"), Column("baseline", whole=True), Column("units", whole=True),
        Column("minimum detectable change in one day", whole=True), Column("evidence", whole=True),
    ]  # fmt: skip
    if rows:
        print_table(columns, [[*_place(row, places), *_watched_cells(row)] for row in rows], upright=True)


def _places(rows: list[WatchedStanding]) -> list[str]:
    """Return the columns that tell equal series apart: pipeline and environment, where there is more than one."""
    several = {"pipeline": {row.pipeline for row in rows}, "environment": {row.environment for row in rows}}
    return [name for name, values in several.items() if len(values) > 1]


def _place(row: WatchedStanding, places: list[str]) -> list[str]:
    return [row.pipeline if name == "pipeline" else row.environment for name in places]


def _watched_cells(row: WatchedStanding) -> list[str]:
    ratio, evidence = row.smallest_ratio, row.evidence_log10
    detectable = "not known yet" if ratio is None else f"x{ratio:.3g}" + (" (blind)" if row.is_blind else "")
    return [
        component_text(row.component),
        row.metric,
        row.kind,
        _PHASE_WORDS.get(row.phase, row.phase),
        row.direction,
        share_text(row.rate),
        f"{row.units:,}",
        "none: in sessions" if row.phase == "unwatched" else detectable,
        "reached" if row.phase in ("ticket", "page") else _progress(max(evidence or 0.0, 0.0) / row.limit_log10),
    ]


def _progress(share: float) -> str:
    return f"{share:.0%}" if share < 1 else "reached"
