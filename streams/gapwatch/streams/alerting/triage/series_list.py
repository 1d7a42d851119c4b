"""Lists of monitored series by phase, of bounds, and of unmonitored metrics and components with the reason."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import timedelta

from gapwatch.scorers.errors import PortfolioError
from gapwatch.scorers.loading.load import parse_stored_portfolio
from gapwatch.scorers.portfolio.claim import RatioClaim
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.printable import shown
from gapwatch.sinks.catalog.phases import PHASES
from gapwatch.sinks.reading.stored_portfolios import latest_portfolio_texts
from gapwatch.sinks.reading.terminal_table import (
    Column,
    component_text,
    moment_text,
    print_note,
    print_table,
    share_text,
)
from gapwatch.sinks.reading.watched_series import (
    BoundRow,
    OpenSessions,
    SeenMetric,
    SessionOpenings,
    WatchedStanding,
    foreign_records,
    left_out,
    open_sessions,
    phase_counts,
    seen_metrics,
    session_openings,
    watched_bounds,
    watched_standings,
)
from gapwatch.sinks.store.store_reader import StoreReader
from gapwatch.streams.alerting.incidents.wording import span_text
from gapwatch.streams.alerting.rules.bound import SHARE
from gapwatch.streams.detectors.change import rate_interval
from gapwatch.streams.detectors.contexts import TICK_SECONDS
from gapwatch.streams.detectors.sessions import IDLE_BUCKETS, MOST_UNITS, OPENING_BUCKETS, RESUMED_SHARE


def print_phase_counts(con: StoreReader, lane: str | None) -> None:
    """Print the number of monitored series by phase, and the false alarms to expect."""
    rows = phase_counts(con, lane)
    if not rows:
        foreign, pipelines = foreign_records(con, lane)
        print_note(_foreign_text(foreign, pipelines) if foreign else _NO_SERIES)
        return
    unwatched = sum(row.n for row in rows if row.phase == "unwatched")
    phases = ", ".join(f"{row.n} {shown(row.phase)}" for row in rows if row.phase != "unwatched")
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
        return parse_stored_portfolio(text)
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
            continue  # `check` refuses an alert that it has no threshold for
        if metric.name not in decided:
            yield f"{name} (no trace was decided)"
        elif metric.threshold is not None and metric.alert is None:
            yield f"threshold of {name} (the metric has no key alert, so only reports say whether it holds)"
    components = portfolio.with_members(row.component for row in mine)
    measured = portfolio.with_members(metric.component for metric in portfolio.metrics)
    for component in portfolio.components:
        if component.id not in measured:
            yield f"component {component.id} (no metric is about it)"
        elif component.id not in components:
            yield f"component {component.id} (no span of it was scored)"


def print_monitored_series(con: StoreReader, lane: str | None) -> None:
    """Print each monitored series: phase, baseline, minimum detectable change, evidence; and each phase's sentence."""
    rows = watched_standings(con, lane)
    places = _places(rows)
    columns = [
        *(Column(name) for name in places),
        Column("component"), Column("metric", whole=True), Column("monitored", whole=True), Column("phase", whole=True),
        Column("bad direction"), Column("baseline", whole=True), Column("units", whole=True),
        Column("minimum detectable change in a day", whole=True), Column("in a month", whole=True),
        Column("evidence", whole=True),
    ]  # fmt: skip
    if rows:
        print_table(columns, [[*_place(row, places), *_watched_cells(row)] for row in rows], upright=True)
        seen = {row.phase for row in rows}
        sys.stdout.write("".join(f"{phase}: {text}\n" for phase, text in PHASES.items() if phase in seen) + "\n")


def print_open_sessions(con: StoreReader, lane: str | None) -> None:
    """Print what the sessions that may go on show so far: detectors count those that have paused long enough."""
    idle = IDLE_BUCKETS * TICK_SECONDS
    rows = open_sessions(con, lane, idle_seconds=idle, most_units=MOST_UNITS)
    if not rows:
        return
    places = _places(rows)
    columns = [
        *(Column(name) for name in places),
        Column("component"), Column("metric", whole=True), Column("open sessions", whole=True),
        Column("with a bad trace", whole=True), Column("traces", whole=True), Column("bad so far", whole=True),
        Column("baseline", whole=True),
    ]  # fmt: skip
    cells = [
        [
            *_place(row, places), component_text(row.component), row.metric, f"{row.sessions:,}", f"{row.failed:,}",
            f"{row.units:,}", share_text(row.share), share_text(row.baseline),
        ]
        for row in rows
    ]  # fmt: skip
    print_table(columns, cells, upright=True, title="Sessions that may go on")
    sys.stdout.write(
        f"a session counts once, {span_text(idle)} after its last trace or at {MOST_UNITS} traces; sooner, once it has "
        f"paused for longer than {1 - RESUMED_SHARE:.0%} of such sessions ever did: until then no alert knows it. "
        "bad so far: mean over these sessions of their share of bad traces\n\n"
    )


def print_session_openings(con: StoreReader, lane: str | None) -> None:
    """Print what the sessions of the last hour showed in their first minutes, beside those of the day before."""
    opening, recent = OPENING_BUCKETS * TICK_SECONDS, 3_600
    rows = session_openings(
        con, lane, opening_seconds=opening, recent_seconds=recent, idle_seconds=IDLE_BUCKETS * TICK_SECONDS
    )
    if not rows:
        return
    places = _places(rows)
    columns = [
        *(Column(name) for name in places),
        Column("component"), Column("metric", whole=True), Column("sessions of the last hour", whole=True),
        Column("bad", whole=True), Column("95 % interval", whole=True), Column("sessions before", whole=True),
        Column("bad before", whole=True),
    ]  # fmt: skip
    cells = []
    for row in rows:
        found = rate_interval(row.recent_bad, row.recent)
        cells.append(
            [
                *_place(row, places), component_text(row.component), row.metric, f"{row.recent:,}",
                share_text(found.value), f"{share_text(found.lower)} - {share_text(found.upper)}", f"{row.earlier:,}",
                share_text(row.earlier_bad / row.earlier if row.earlier else None),
            ]
        )  # fmt: skip
    print_table(columns, cells, upright=True, title=f"First {span_text(opening)} of each session")
    sys.stdout.write(
        f"each session counts once, {span_text(opening)} after its first trace, with its traces until then, whether it "
        "has ended or not: sessions of one age are compared. No alert rests on it\n\n"
    )


def print_bounds(con: StoreReader, lane: str | None) -> None:
    """Print each bound: quantity, limit, window, the quantity in the window with its interval, and the state."""
    rows = watched_bounds(con, lane)
    if not rows:
        return
    places = _places(rows)
    columns = [
        *(Column(name) for name in places),
        Column("component"), Column("metric", whole=True), Column("bound", whole=True), Column("window", whole=True),
        Column("seen", whole=True), Column("interval", whole=True), Column("traces", whole=True),
        Column("state", whole=True), Column("until", whole=True),
    ]  # fmt: skip
    print_table(columns, [[*_place(row, places), *_bound_cells(row)] for row in rows], upright=True, title="Bounds")
    seen = {row.state for row in rows}
    sys.stdout.write(
        "".join(f"{_word(state)}: {text}\n" for state, text in _BOUND_STATES.items() if state in seen) + "\n"
    )


# State of a bound to its sentence, about the quantity; the most urgent last.
_BOUND_STATES = {
    "too_few": "the window has fewer traces than min_units, so the bound is not checked",
    "held": "the whole interval lies within the bound; all windows of a month together miss with 5 % at most",
    "undecided": "the interval holds the bound: too few traces to be sure of either",
    "broken": "the whole interval was beyond the bound, and it is not sure yet that this is over",
}


def _word(state: str) -> str:
    return state.replace("_", " ")


def _bound_cells(row: BoundRow) -> list[str]:
    ends = [_amount(end, row.unit) if end is not None else none for end, none in ((row.lower, "?"), (row.upper, "?"))]
    return [
        component_text(row.component),
        row.metric,
        f"{row.quantity} {row.operator} {_amount(row.bound, row.unit)}",
        span_text(row.window_seconds),
        "-" if row.value is None else _amount(row.value, row.unit),
        "-" if row.lower is None and row.upper is None else " to ".join(ends),
        f"{row.units:,}",
        _word(row.state),
        moment_text(row.last_unit_at + timedelta(seconds=TICK_SECONDS), "seconds"),
    ]


def _amount(value: float, unit: str) -> str:
    return share_text(value) if unit == SHARE else f"{value:.3g} {unit}".rstrip()


def _places(rows: Sequence[WatchedStanding | BoundRow | OpenSessions | SessionOpenings]) -> list[str]:
    """Return the columns that tell equal series apart: pipeline and environment, where there is more than one."""
    several = {"pipeline": {row.pipeline for row in rows}, "environment": {row.environment for row in rows}}
    return [name for name, values in several.items() if len(values) > 1]


def _place(row: WatchedStanding | BoundRow | OpenSessions | SessionOpenings, places: list[str]) -> list[str]:
    return [row.pipeline if name == "pipeline" else row.environment for name in places]


def _watched_cells(row: WatchedStanding) -> list[str]:
    evidence = row.evidence_log10
    return [
        component_text(row.component),
        row.metric,
        row.kind,
        row.phase,
        row.direction,
        share_text(row.rate),
        f"{row.units:,}",
        "none: in sessions" if row.phase == "unwatched" else _growth(row.smallest_ratio, row.phase),
        "" if row.phase == "unwatched" else _growth(row.month_ratio, row.phase),
        "reached" if row.phase in ("ticket", "page") else _progress(max(evidence or 0.0, 0.0) / row.limit_log10),
    ]


def _growth(ratio: float | None, phase: str) -> str:
    """Return a minimum detectable change; without one, whether it is not known yet or whether there is none."""
    return f"x{ratio:.3g}" if ratio is not None else "not known yet" if phase == "learning" else "none"


def _progress(share: float) -> str:
    return f"{share:.0%}" if share < 1 else "reached"
