"""`gapwatch explain`: one page on an alert for the engineer on call."""

from __future__ import annotations

import itertools
import math
import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from gapwatch.scorers.command_line import program_name
from gapwatch.scorers.errors import PortfolioError
from gapwatch.scorers.loading.load import parse_stored_portfolio
from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.printable import shown
from gapwatch.sinks.api.store_address import StorePlace
from gapwatch.sinks.reading.alert_query import alert_life, short_id, told_at
from gapwatch.sinks.reading.example_rows import BehindRow, rows_sql
from gapwatch.sinks.reading.stored_portfolios import fact_author, latest_portfolio_text
from gapwatch.sinks.reading.terminal_table import moment_text
from gapwatch.sinks.store.registration import metric_direction
from gapwatch.sinks.store.store_reader import StoreReader
from gapwatch.streams.alerting.incidents.component_graph import ComponentGraph
from gapwatch.streams.alerting.incidents.first_component import first_components, moved_from
from gapwatch.streams.alerting.incidents.likely_cause import new_values, shares_and_labels
from gapwatch.streams.alerting.incidents.links import runbook_link, trace_link
from gapwatch.streams.alerting.incidents.severity import SEVERITIES
from gapwatch.streams.alerting.incidents.stored_alerts import StoredAlert, read_incident
from gapwatch.streams.alerting.incidents.wording import (
    compared_with,
    counted_text,
    headline,
    judged_volume,
    life_text,
    months_text,
    quantile_move,
    share_move,
    share_name,
    size,
    span_text,
    state_text,
    subject,
    volume_text,
)
from gapwatch.streams.alerting.triage.behind_alert import lost_texts, present_rate, reasons_in_texts, rows_behind
from gapwatch.streams.alerting.triage.bound_words import BOUND_IS_SURE, bound_origin, promised_side

_WIDTH = 11
_PLAIN_WIDTH = 110
# Other alerts of the incident on the page; that of the incident has all.
_MOST_TOGETHER = 6
_STYLES = {"page": "bold red", "ticket": "yellow", "note": "cyan"}

#: Begin of a line that a person copies: a command, or an address.
COMMAND = "$ "


@dataclass(frozen=True)
class Explanation:
    """Text of the page on an alert.

    Attributes:
        severity: page, ticket or note.
        state_text: Current state of the alert, with the severity of its messages where that differs.
        is_open: The alert still asks for somebody.
        headline: Kind and polarity.
        subject: Metric, component, pipeline and environment.
        sections: Title and lines of each section; a line that begins with `COMMAND` is one to copy.
    """

    severity: str
    state_text: str
    is_open: bool
    headline: str
    subject: str
    sections: list[tuple[str, list[str]]]


def explain(con: StoreReader, store: StorePlace, alert: StoredAlert) -> Explanation:
    """Return the page on an alert: size, time, evidence, direction, likely cause, and what to do next."""
    row = alert.row
    portfolio = stored_portfolio(con, row.pipeline)
    return Explanation(
        severity=row.severity,
        state_text=state_text(row.state, row.severity),
        is_open=alert.is_open,
        headline=headline(alert.facts),
        subject=f"{shown(subject(alert))}, {shown(row.pipeline)} in {shown(row.environment)}",
        sections=list(_sections(con, store, alert, portfolio)),
    )


def print_explanation(con: StoreReader, store: StorePlace, alert: StoredAlert) -> None:
    """Print one page on an alert; see `explain`."""
    print_page(explain(con, store, alert), alert.row.alert_id)


def print_page(told: Explanation, ident: str) -> None:
    """Print the page on an alert or an incident.

    Args:
        told: Its text.
        ident: Id of the alert or incident.
    """
    terminal = Console(highlight=False)
    out = terminal if terminal.is_terminal else Console(highlight=False, width=_PLAIN_WIDTH)
    out.print(
        Text(told.severity.upper(), _STYLES.get(told.severity, "")),
        Text(f"{told.state_text}  {told.headline}", "bold"),
        Text(f" {ident}", "dim"),
    )
    out.print(Text(told.subject))
    for title, lines in told.sections:
        _print_section(out, title, lines)


def _print_section(out: Console, title: str, lines: list[str]) -> None:
    """Print lines beside a title; a line to copy is never wrapped."""
    for i, line in enumerate(lines):
        head = title if i == 0 else ""
        if line.startswith(COMMAND):
            out.print(Text(f"{head:<{_WIDTH}} {line.removeprefix(COMMAND)}"), soft_wrap=True)
            continue
        text = Text(line)
        for j, part in enumerate(text.wrap(out, max(out.width - _WIDTH - 1, 20))):
            out.print(Text.assemble((f"{head if j == 0 else '':<{_WIDTH}} ", "dim"), part))


def _sections(
    con: StoreReader, store: StorePlace, alert: StoredAlert, portfolio: Portfolio | None
) -> Iterator[tuple[str, list[str]]]:
    metric, place = _metric(alert, portfolio), _Place.of(con, store, alert)
    sections = (
        ("What", _what(alert, portfolio)),
        ("Now", present_rate(con, alert)),
        ("Since", _since(con, alert)),
        ("How sure", _how_sure(alert)),
        ("Which way", _which_way(con, alert, portfolio)),
        ("Why", itertools.chain(shares_and_labels(alert, metric), reasons_in_texts(con, alert, metric))),
        ("New then", new_values(alert)),
        ("Incident", _together(con, alert, portfolio, place)),
        ("Rows", _rows(con, alert, portfolio, place)),
        ("See rows", [f"{COMMAND}{place.command('explain')} --rows"]),
        ("History", (life_text(step) for step in alert_life(con, alert.row.alert_id))),
        ("Do", _do(alert, portfolio, place)),
    )
    for title, lines in sections:
        if found := list(lines):
            yield title, found


@dataclass(frozen=True)
class _Place:
    """Short way to name an alert and its store in a command.

    Attributes:
        alert: Shortest id.
        store: Option of the store, with a space before it; empty where the environment names the store.
    """

    alert: str
    store: str

    @classmethod
    def of(cls, con: StoreReader, store: StorePlace, alert: StoredAlert) -> _Place:
        named = os.environ.get("GAPWATCH_STORE") == str(store)
        return cls(short_id(con, alert.row.alert_id), "" if named else f" --store {shlex.quote(str(store))}")

    def command(self, name: str) -> str:
        return f"{program_name()} {name} {self.alert}{self.store}"


def _what(alert: StoredAlert, portfolio: Portfolio | None) -> Iterator[str]:
    facts = alert.facts
    if (moved := quantile_move(facts)) is not None:
        yield moved
    text = f"{share_name(facts)}: {share_move(facts)}"
    if facts.counts is not None and facts.counts.units:
        text += f"; {counted_text(facts)}"
    yield text
    least = None if facts.ratio is None else facts.ratio.lower
    if facts.went_up and least is not None and least > 1:
        yield f"at least {least:.3g} times as often as before"
    if facts.kind != "bound":
        yield (
            "an estimate at the time of the alarm; the rate that lasts may differ, because it rests on the first "
            "traces since the change; brackets: approximate 95 % interval"
        )
    metric = _metric(alert, portfolio)
    if facts.bound is not None:
        yield from bound_origin(metric)
    if metric is not None and metric.purpose:
        yield f"purpose of the metric: {shown(metric.purpose, 300)}"


def _since(con: StoreReader, alert: StoredAlert) -> Iterator[str]:
    change, bound, found = alert.facts.change, alert.facts.bound, alert.row.found_at
    if change is None:
        window = span_text(0 if bound is None else bound.window_seconds)
        yield f"window of {window} that ended {moment_text(found)}; a bound does not tell when it began"
    else:
        first, last = moment_text(change.earliest), moment_text(change.latest)
        earlier = " or earlier" if change.is_truncated else ""
        yield f"began {moment_text(change.at)} (95 %: {first}{earlier} to {last})"
    told = told_at(con, alert.row.alert_id)
    stored = "" if told is None else f"; told at {moment_text(told, 'seconds')}, when they were stored"
    yield f"found in the data at {moment_text(found, 'seconds')}, by the times of the traces{stored}"


def _how_sure(alert: StoredAlert) -> Iterator[str]:
    facts = alert.facts
    if facts.kind == "bound":
        yield BOUND_IS_SURE
        return
    evidence = facts.evidence
    if evidence is None or evidence.limit_log10 is None:
        return
    if a_day := judged_volume(facts):
        months = math.pow(10.0, evidence.limit_log10) / (30.0 * a_day)
        yield (
            f"without a change, chance opens such an alert on this series at most once every {months_text(months)}, on "
            f"average, at {volume_text(facts)}"
        )
    if facts.change is not None and facts.change.learned:
        yield compared_with(facts)


def _which_way(con: StoreReader, alert: StoredAlert, portfolio: Portfolio | None) -> Iterator[str]:
    facts = alert.facts
    way = "rose" if facts.went_up else "fell"
    if facts.kind == "unknown":
        yield f"the share of undecided traces {way}; more of them is always worse: the metric cannot see them"
        return
    if facts.bound is not None:
        yield promised_side(facts.bound)
        return
    if facts.watched == "labels":
        yield f"their share {way}; a mix of labels has no better direction: labels that fail count in the failure rate"
        return
    what = "the numbers" if facts.watched == "numbers" else "the failure rate"
    metric = _metric(alert, portfolio)
    direction = metric_direction(portfolio, metric) if portfolio is not None and metric is not None else None
    if facts.polarity == "unknown":
        yield f"{what} {way}; nobody has confirmed which direction is better, so this alert pages nobody"
        question = next((q for q in portfolio.questions if q.id == facts.question), None) if portfolio else None
        if question is not None:
            yield f"answer this question to set the direction: {shown(question.text, 300)} ({question.id})"
        return
    better = (direction or {}).get("better")
    source = _verified_by(con, direction or {}, portfolio)
    quantity = "failure rate" if (direction or {}).get("of", "failure_rate") == "failure_rate" else "number"
    known = f"a {better} {quantity} is better" if better in ("lower", "higher") else ""
    verified = f": {known}, verified by {shown(source, 300)}" if known and source else ""
    yield f"{what} {way}, which is {facts.polarity or 'as before'}{verified}"


def _verified_by(con: StoreReader, direction: Mapping[str, Any], portfolio: Portfolio | None) -> str:
    """Return who or what verified a direction, and when; empty where nothing did."""
    fact_id = direction.get("fact")
    if fact_id is None or portfolio is None:
        return str(direction.get("evidence") or "")
    fact = next((one for one in portfolio.facts if one.id == fact_id), None)
    author = (fact.by, fact.at) if fact is not None else fact_author(con, portfolio.pipeline, fact_id)
    return f"{fact_id} ({author[0]}, {author[1]})" if author is not None else str(fact_id)


def _together(con: StoreReader, alert: StoredAlert, portfolio: Portfolio | None, place: _Place) -> Iterator[str]:
    incident = read_incident(con, alert.row.incident_id or "")
    if incident is None or len(incident.alerts) < 2:
        return
    first = first_components(moved_from(incident.alerts), ComponentGraph.of(portfolio))
    if first:
        names = " or ".join(map(shown, first))
        yield f"{names} moved first, or lies upstream of what may have moved at the same time"
    others = [other for other in incident.alerts if other.row.alert_id != alert.row.alert_id]
    others.sort(key=lambda other: -SEVERITIES.index(other.row.severity))
    for other in others[:_MOST_TOGETHER]:
        yield f"{other.row.alert_id} {other.row.severity}: {shown(subject(other))}, {size(other.facts)}"
    if len(others) > _MOST_TOGETHER:
        yield f"and {len(others) - _MOST_TOGETHER} more alerts"
    yield f"{COMMAND}{program_name()} explain {incident.incident_id}{place.store}   # the whole incident"


def _rows(con: StoreReader, alert: StoredAlert, portfolio: Portfolio | None, place: _Place) -> Iterator[str]:
    """Yield the first traces behind an alert, those with text first, each with where it can be read."""
    behind = rows_behind(con, alert)
    cause = alert.facts.cause
    examples = cause.examples if cause is not None and not behind else ()
    known = {one.trace_id: one.url for one in (cause.examples if cause is not None else ())}
    rows = behind or [BehindRow(one.trace_id, one.at, one.observed, one.release, False) for one in examples]
    for row in rows:
        release = f" {shown(row.release)}" if row.release else ""
        yield f"{moment_text(row.at, 'seconds')}{release}  {shown(row.observed or '', 70)}"
        link = trace_link(portfolio, row.trace_id) or known.get(row.trace_id)
        if row.has_text:
            command = f"{program_name()} gaps --trace {shlex.quote(shown(row.trace_id, 2000))}{place.store}"
            yield f"{COMMAND}  {command}   # its text"
        if link is not None or not row.has_text:
            yield f"{COMMAND}  {shown(link or row.trace_id, 2000)}"
    if lost := lost_texts(con, alert):
        yield f"{lost} more text{' is' if lost == 1 else 's are'} no longer in the topic"


def alert_rows_sql(alert: StoredAlert) -> str:
    """Return the SQL that selects the rows of an alert, with every value escaped."""
    return rows_sql(alert.row, alert.rows_behind, alert.rows_since)


def _do(alert: StoredAlert, portfolio: Portfolio | None, place: _Place) -> Iterator[str]:
    cause = alert.facts.cause
    runbook = runbook_link(portfolio, alert.row.metric) or (cause.runbook_url if cause is not None else None)
    if runbook is not None:
        yield f"{COMMAND}{shown(runbook, 2000)}"
    if not alert.is_open:
        yield "nothing: the alert is closed"
        return
    if alert.facts.polarity == "unknown" and alert.facts.question:
        question = shlex.quote(alert.facts.question)
        yield f"{COMMAND}{program_name()} answer {question} lower{place.store} --by YOU   # or higher"
    if alert.row.state != "acknowledged":
        yield f"{COMMAND}{place.command('ack')} --by YOU      # you work on it"
    meaning = "the new level is right: make it the baseline"
    if alert.facts.kind == "bound":
        meaning = "no alert until the bound has held again; to move the bound, change the portfolio"
    yield f"{COMMAND}{place.command('accept')} --by YOU   # {meaning}"
    if place.store:
        yield "with GAPWATCH_STORE in the environment, --store can be left out"


def _metric(alert: StoredAlert, portfolio: Portfolio | None) -> Metric | None:
    if portfolio is None:
        return None
    return next((m for m in portfolio.metrics if m.name == alert.row.metric), None)


def stored_portfolio(con: StoreReader, pipeline: str) -> Portfolio | None:
    """Return the latest portfolio of a pipeline in the store; None where this program cannot read it."""
    text = latest_portfolio_text(con, pipeline)
    try:
        return None if text is None else parse_stored_portfolio(text)
    except PortfolioError:
        return None
