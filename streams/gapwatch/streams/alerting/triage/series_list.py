"""What stands behind the silence, for people: which series are watched, which are not, and why."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from gapwatch.scorers.loading.load import parse_portfolio
from gapwatch.scorers.portfolio.claim import RatioClaim
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.printable import shown
from gapwatch.sinks.reading.stored_portfolios import latest_portfolio_texts
from gapwatch.sinks.reading.terminal_table import Column, component_text, print_note, print_table, share_text
from gapwatch.sinks.reading.watched_series import (
    SeenMetric,
    WatchedStanding,
    left_out,
    phase_counts,
    seen_metrics,
    watched_standings,
)
from gapwatch.sinks.store.store_reader import StoreReader


def print_watched(con: StoreReader, lane: str | None) -> None:
    """Say what stands behind the silence: which series are watched, and which only seem to be."""
    rows = phase_counts(con, lane)
    if not rows:
        print_note("no series is watched: nothing was kept by gapwatch run or gapwatch replay --alerts")
        return
    unwatched = sum(row.n for row in rows if row.phase == "unwatched")
    phases = ", ".join(f"{row.n} {shown(row.phase)}" for row in rows if row.phase != "unwatched")
    expected = sum(row.expected or 0.0 for row in rows)
    sys.stdout.write(
        f"{sum(row.n for row in rows) - unwatched} series watched: {phases}; "
        f"false alarms to expect so far: {expected:.2g} at most\n"
    )


def print_unwatched(con: StoreReader, lane: str | None) -> None:
    """Name what nobody sees, and why."""
    portfolios = [parse_portfolio(text) for text in latest_portfolio_texts(con)]
    seen = seen_metrics(con, lane)
    pipelines = {row.pipeline for row in seen}
    missing = [text for one in portfolios if one.pipeline in pipelines for text in _unseen(one, seen)]
    missing += [f"{row.kind} of {_name(row.metric, row.component)} ({_IN_SESSIONS})" for row in left_out(con, lane)]
    if missing:
        sys.stdout.write("unwatched, which is not green:\n" + "".join(f"  {shown(text, 1000)}\n" for text in missing))


_IN_SESSIONS = "its traces are in sessions, and no tick says which number is of which; sessions and its limit watch it"


def _name(metric: str, component: str | None) -> str:
    return f"{metric} of {component_text(component)}"


def _unseen(portfolio: Portfolio, seen: list[SeenMetric]) -> Iterator[str]:
    """Yield what a portfolio names and no trace shows, or no detector can hold it to."""
    mine = [row for row in seen if row.pipeline == portfolio.pipeline]
    decided = {row.metric for row in mine if row.is_decided}
    for metric in portfolio.metrics:
        name = _name(metric.name, metric.component)
        if isinstance(metric.claim, RatioClaim):
            if metric.alert is not None or metric.threshold is not None:
                yield f"{name} (a ratio of two sums has no traces of its own; its parts may have alerts)"
        elif metric.name not in decided:
            yield f"{name} (no trace was decided)"
        elif metric.threshold is not None and metric.threshold.of != "failure_rate":
            yield f"threshold of {name} (it bounds {shown(metric.threshold.of)}; only failure_rate is held)"
    components = {row.component for row in mine}
    for component in portfolio.components:
        if component.id not in components:
            yield f"component {component.id} (no span was looked at)"


def print_rows(con: StoreReader, lane: str | None) -> None:
    """Print each watched row: what it is held against, and what it could not have seen."""
    rows = watched_standings(con, lane)
    columns = [
        Column("component"), Column("metric", whole=True), Column("watched", whole=True), Column("phase", whole=True),
        Column("bad way"), Column("held against", whole=True), Column("units", whole=True),
        Column("would see in a day", whole=True), Column("evidence", whole=True),
    ]  # fmt: skip
    if rows:
        print_table(columns, [_watched_cells(row) for row in rows], upright=True)


def _watched_cells(row: WatchedStanding) -> list[str]:
    ratio, evidence = row.smallest_ratio, row.evidence_log10
    would_see = "nothing yet" if ratio is None else f"x{ratio:.3g}" + (" (blind)" if row.is_blind else "")
    return [
        component_text(row.component),
        row.metric,
        row.kind,
        row.phase,
        row.direction,
        share_text(row.rate),
        f"{row.units:,}",
        "nothing: in sessions" if row.phase == "unwatched" else would_see,
        "reached" if row.phase in ("ticket", "page") else _progress(max(evidence or 0.0, 0.0) / row.limit_log10),
    ]


def _progress(share: float) -> str:
    return f"{share:.0%}" if share < 1 else "reached"
