"""`gapwatch rates`: shows failure rates over all traces, with 95 % confidence intervals."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.printable import shown
from gapwatch.scorers.slices.tables import SERIES
from gapwatch.sinks.api.store_address import StorePlace
from gapwatch.sinks.catalog.rate_breakdown import LATEST_UNITS, PERIODS, breakdown_sql
from gapwatch.sinks.catalog.rate_interval import rates_sql
from gapwatch.sinks.commands.options import (
    component_option,
    format_option,
    lane_option,
    matching,
    metric_option,
    reading,
    since_option,
    store_option,
)
from gapwatch.sinks.reading.terminal_table import (
    Column,
    cell_text,
    component_text,
    moment_text,
    print_note,
    print_table,
    share_text,
)

if TYPE_CHECKING:
    from gapwatch.sinks.reading.query_answer import QueryResult
    from gapwatch.sinks.store.store_reader import StoreReader

_SERIES = [name for name, _ in SERIES]
_ALWAYS_SHOWN = ("component", "metric")
_PERIODS = {**PERIODS, "all": None}


@click.command("rates")
@store_option
@component_option
@metric_option
@since_option
@click.option(
    "--per", type=click.Choice(list(_PERIODS)), default="hour", show_default=True,
    help="One rate for each hour, day or week of event time (UTC), or one for all.",
)  # fmt: skip
@click.option(
    "--by", type=click.Choice(["release", "model", "tier", "component"]),
    help="Break rates down. component: one row a component, that with the worst metric first.",
)  # fmt: skip
@click.option("--ratios", is_flag=True, help="Show the ratio metrics of the portfolios instead.")
@click.option(
    "--latest", is_flag=True,
    help="Count judged metrics by the latest verdicts: of `judge retry` and of people, where there are such.",
)  # fmt: skip
@lane_option
@format_option
def rates_command(
    store: StorePlace, component: str | None, metric: str | None, since: str | None, per: str, by: str | None,
    ratios: bool, latest: bool, lane: str | None, form: str,
) -> None:  # fmt: skip
    """Show failure rates: the share of traces in which a metric fails, with a 95 % confidence interval.

    Rates are estimates for all traces of the pipeline, whatever share of them was evaluated. `effective` is the
    effective sample size: the size of a simple random sample of the same precision. `undecided` is the share of
    traces that no rate counts: the metric could not decide them, or a judge or scorer failed (`errors`).

    A trace is counted once, when it is first decided: an error of an outage stays one after `judge retry`. Alerts and
    /metrics read the same counts. --latest counts the rows of judged metrics that are stored, by their latest verdicts.
    """
    # Imported here: --help answers without loading DuckDB.
    from gapwatch.sinks.reading.json_values import write_json
    from gapwatch.sinks.reading.known_names import check_names
    from gapwatch.sinks.reading.query_answer import ask

    if latest and (ratios or by is not None):
        raise UsageError("--latest is not possible with --by or --ratios")
    if ratios:
        where, values = matching("bucket", None, None, since, lane)
        with reading(store) as con:
            check_names(con, component=component, metric=metric, lane=lane)
            _show_ratios(_ratios(con, component, metric, _PERIODS[per], where, values), per, form)
        return
    if by is not None or (per == "week" and not latest):
        where, values = matching("bucket", component, metric, since, lane)
        with reading(store) as con:
            _show_breakdown(ask(con, breakdown_sql(by, per, where), values), by, per, form)
        return
    groups = ", ".join(_SERIES)
    order = ["component NULLS FIRST", "metric", *(name for name in _SERIES if name not in _ALWAYS_SHOWN)]
    if period := _PERIODS[per]:
        groups += f", {period} AS {per}"
        order.append(f"{per} NULLS FIRST")
    where, values = matching("bucket", component, metric, since, lane)
    source = LATEST_UNITS if latest else "ticks"
    sql = f"SELECT * FROM ({rates_sql(groups, where, source)}) ORDER BY {', '.join(order)}"
    with reading(store) as con:
        check_names(con, component=component, metric=metric, lane=lane)
        if form == "json":
            sys.stdout.flush()
            write_json(ask(con, sql, values), sys.stdout.buffer)
        else:
            _print_rates(con, sql, values, per)
            if not latest:
                _note_retries(con)


def _note_retries(con: StoreReader) -> None:
    """Say that judges have answered again what the table counts as errors."""
    from gapwatch.scorers.judges.ensemble import ENSEMBLE
    from gapwatch.sinks.reading.query_answer import ask
    from gapwatch.sinks.verdicts.retries import RETRIED

    again = ask(con, f"""SELECT count(*) AS n FROM overrides WHERE "by" = '{RETRIED}' AND judge <> '{ENSEMBLE}'""")
    if n := again.objects()[0]["n"]:
        print_note(f"{n:,} errors of judges were answered by `judge retry`; --latest counts the new verdicts")


def _ratios(
    con: StoreReader, component: str | None, metric: str | None, period: str | None, where: str,
    values: list[Any],
) -> list[dict[str, Any]]:  # fmt: skip
    # Imported here: --help answers without loading DuckDB.
    from gapwatch.scorers.loading.load import parse_stored_portfolio
    from gapwatch.sinks.reading.query_answer import ask
    from gapwatch.sinks.reading.ratio_sums import ratio_rows, ratios_of

    last = "QUALIFY row_number() OVER (PARTITION BY pipeline ORDER BY first_seen_at DESC, version DESC) = 1"
    rows: list[dict[str, Any]] = []
    for known in ask(con, f"SELECT yaml, portfolio FROM portfolios {last} ORDER BY pipeline").objects():
        for ratio in ratios_of(parse_stored_portfolio(known["yaml"], f"<portfolio {known['portfolio']} of the store>")):
            if component in (None, ratio.component) and metric in (None, ratio.metric):
                rows += ratio_rows(con, ratio, period, where, values)
    return rows


def _show_ratios(rows: list[dict[str, Any]], per: str, form: str) -> None:
    # Imported here: --help answers without loading DuckDB.
    from gapwatch.sinks.reading.json_values import to_json

    if form == "json":
        sys.stdout.buffer.write(to_json(rows) + b"\n")
        return
    if not rows:
        print_note("no ratios: the portfolios in force have none, or no scored trace matches")
        return
    table: list[tuple[Column, list[str]]] = [
        (Column(name), [_name_text(name, row[name]) for row in rows]) for name in _ALWAYS_SHOWN
    ]
    for name in ("lane", "pipeline", "environment"):
        if len({row[name] for row in rows}) > 1:
            table.append((Column(name), [cell_text(row[name]) for row in rows]))
    if _PERIODS[per]:
        period = _Period([row["period"] for row in rows])
        table.append((Column(per, whole=True), [period.text(row["period"]) for row in rows]))
    table += [
        (Column("ratio", right=True), [_number(row["ratio"]) for row in rows]),
        (
            Column("interval, at least 95 %", right=True),
            ["-" if row["lower"] is None else f"{_number(row['lower'])} - {_number(row['upper'])}" for row in rows],
        ),
        (Column("numerator", right=True), [_number(row["numerator"]) for row in rows]),
        (Column("denominator", right=True), [_number(row["denominator"]) for row in rows]),
        (Column("undecided", right=True), [share_text(row["unknown_share"]) for row in rows]),
    ]
    print_table([column for column, _ in table], list(zip(*(cells for _, cells in table), strict=True)))


def _show_breakdown(answer: QueryResult, by: str | None, per: str, form: str) -> None:
    # Imported here: --help answers without loading DuckDB.
    from gapwatch.sinks.reading.json_values import write_json

    if form == "json":
        sys.stdout.flush()
        write_json(answer, sys.stdout.buffer)
        return
    rows = answer.objects()
    if not rows:
        print_note("no rates: no scored trace matches")
        return
    series = ("component",) if by == "component" else ("component", "metric")
    names = [*(n for n in ("lane", "pipeline", "environment") if len({row[n] for row in rows}) > 1), *series]
    if any(row.get("judge") for row in rows):
        names.append("judge")
    table = [(Column(name), [_name_text(name, row[name]) for row in rows]) for name in names]
    if per != "all":
        period = _Period([row[per] for row in rows])
        table.append((Column(per, whole=True), [period.text(row[per]) for row in rows]))
    if by in ("release", "model", "tier"):
        table.append((Column(by), ["(none)" if row["value"] is None else shown(row["value"]) for row in rows]))
    counted = "checks" if by == "component" else rows[0]["counted"]
    numbers = {**_NUMBERS, counted: _NUMBERS["traces"]}
    for title in (
        "rate",
        "95 % interval",
        "bad",
        counted,
        *(name for name in _UNDECIDED if name not in _left_out(rows)),
    ):
        table.append((Column(title, right=True), [numbers[title](row) for row in rows]))
    if by == "component":
        worst = [f"{shown(row['worst_metric'])} {share_text(row['worst_rate'])}" for row in rows]
        table.append((Column("worst metric"), worst))
    print_table([column for column, _ in table], list(zip(*(cells for _, cells in table), strict=True)))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.4g}"


def _print_rates(con: StoreReader, sql: str, values: list[Any], per: str) -> None:
    # Imported here: --help answers without loading DuckDB.
    from gapwatch.sinks.reading.query_answer import ask

    rows = ask(con, sql, values).objects()
    if not rows:
        print_note("no rates: no scored trace matches")
        return
    varying = _varying(rows)
    shown_names = [*_ALWAYS_SHOWN, *varying]
    same = [
        f"{name} {shown(rows[0][name])}"
        for name in _SERIES
        if name not in shown_names and len({row[name] for row in rows}) == 1 and rows[0][name] is not None
    ]
    period = _Period([row[per] for row in rows]) if _PERIODS[per] else None
    if period is not None and period.common:
        same.append(period.common)
    table: list[tuple[Column, list[str]]] = [
        (Column(name), [_name_text(name, row[name]) for row in rows]) for name in shown_names
    ]
    if period is not None:
        table.append((Column(per, whole=True), [period.text(row[per]) for row in rows]))
    table += [(Column(title, right=True), [tell(row) for row in rows]) for title, tell in _NUMBERS.items()]
    # Leave out columns without information, to make room for the others.
    if all(row["effective_units"] is None or round(row["effective_units"]) == row["units"] for row in rows):
        table = [entry for entry in table if entry[0].title != "effective"]
    left_out = _left_out(rows)
    table = [entry for entry in table if entry[0].title not in left_out]
    print_table(
        [column for column, _ in table],
        list(zip(*(cells for _, cells in table), strict=True)),
        title=", ".join(same) or None,
    )


def _left_out(rows: list[dict[str, Any]]) -> set[str]:
    """Return the columns on undecided traces that would say 0 in every row."""
    with_errors = any(row["errors"] for row in rows)
    if with_errors:
        return set()
    return {"errors"} if any(row["unknown"] for row in rows) else set(_UNDECIDED)


def _interval(row: dict[str, Any]) -> str:
    return "-" if row["rate"] is None else f"{share_text(row['lower'])} - {share_text(row['upper'])}"


def _effective(row: dict[str, Any]) -> str:
    return "-" if row["effective_units"] is None else f"{row['effective_units']:.0f}"


_NUMBERS: dict[str, Callable[[dict[str, Any]], str]] = {
    "rate": lambda row: share_text(row["rate"]),
    "95 % interval": _interval,
    "bad": lambda row: str(row["bad"]),
    "traces": lambda row: str(row["units"]),
    "effective": _effective,
    "undecided": lambda row: share_text(row["unknown_share"]),
    "errors": lambda row: str(row["errors"]),
}
_UNDECIDED = ("undecided", "errors")


def _name_text(name: str, value: str | None) -> str:
    return cell_text(component_text(value) if name == "component" else value)


class _Period:
    """Formats hours and days without the day or year that all of them share."""

    def __init__(self, moments: list[datetime | None]) -> None:
        texts = {moment_text(moment) for moment in moments if moment is not None}
        self.common = ""
        for length in (10, 4):
            if len(texts) > 1 and len(common := {text[:length] for text in texts}) == 1:
                self.common = common.pop()
                break

    def text(self, moment: datetime | None) -> str:
        if moment is None:
            return "no time"
        text = moment_text(moment)[:16].removesuffix(" 00:00") if not self.common else moment_text(moment)[:16]
        return text[len(self.common) + 1 :] if self.common else text


def _varying(rows: list[dict[str, Any]]) -> list[str]:
    """Return the names that differ between rows of one component and metric, so that they must be shown."""
    found: dict[tuple[Any, ...], set[Any]] = {}
    for row in rows:
        for name in _SERIES:
            found.setdefault((name, *(row[key] for key in _ALWAYS_SHOWN)), set()).add(row[name])
    several = {key[0] for key, values in found.items() if len(values) > 1}
    return [name for name in _SERIES if name in several]
