"""`gapwatch explain`: one page of plain words for the engineer on call."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from scorers.errors import PortfolioError
from scorers.portfolio import Portfolio, parse_portfolio
from scorers.problem_list import shown
from sinks.answer import ask
from sinks.answer_table import moment_text
from sinks.registration import metric_direction
from sinks.store_reader import StoreReader
from streams.alerting.alert_reading import Alert, parse_time, read_alerts, read_life
from streams.alerting.alert_words import headline, quantile_move, share_move, share_name, size, subject
from streams.alerting.links import runbook_link, trace_link
from streams.program_name import program_name

_WIDTH = 11
_PLAIN_WIDTH = 110
_SPANS = (("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1))
_LOUDNESS = ("page", "ticket", "note")
# One page is what is read: all others of a large incident are in the list.
_MOST_TOGETHER = 6
_STYLES = {"page": "bold red", "ticket": "yellow", "note": "cyan"}

Line = tuple[str, str]


def print_explanation(con: StoreReader, store: Path, alert: Alert) -> None:
    """Print what is known of an alert, and what to do next."""
    terminal = Console(highlight=False)
    out = terminal if terminal.is_terminal else Console(highlight=False, width=_PLAIN_WIDTH)
    row = alert.row
    portfolio = _portfolio(con, row["pipeline"])
    out.print(
        Text(row["severity"].upper(), _STYLES.get(row["severity"], "")),
        Text(f"{row['state']}  {headline(alert)}", "bold"),
        Text(f" {row['alert_id']}", "dim"),
    )
    out.print(Text(f"{shown(subject(alert))}, {shown(row['pipeline'])} in {shown(row['environment'])}"))
    for title, lines in _sections(con, store, alert, portfolio):
        _print_section(out, title, lines)


def _print_section(out: Console, title: str, lines: list[str]) -> None:
    """Print lines beside a title; what is to be copied is one line, whatever the width."""
    for i, line in enumerate(lines):
        head = title if i == 0 else ""
        if line.startswith("$ "):
            out.print(Text(f"{head:<{_WIDTH}} {line[2:]}"), soft_wrap=True)
            continue
        text = Text(line)
        for j, part in enumerate(text.wrap(out, max(out.width - _WIDTH - 1, 20))):
            out.print(Text.assemble((f"{head if j == 0 else '':<{_WIDTH}} ", "dim"), part))


def _sections(
    con: StoreReader, store: Path, alert: Alert, portfolio: Portfolio | None
) -> Iterator[tuple[str, list[str]]]:
    yield "What", list(_what(alert, portfolio))
    yield "Since", list(_since(alert))
    yield "How sure", list(_how_sure(alert))
    yield "Which way", list(_which_way(alert, portfolio))
    if where := [*_where(alert), *_labels(alert)]:
        yield "Where", where
    if new := list(_new(alert)):
        yield "New then", new
    if together := list(_together(con, alert, portfolio)):
        yield "Together", together
    if rows := list(_examples(alert, portfolio)):
        yield "Rows", rows
    yield "See them", [f"$ {program_name()} history --store {shlex.quote(str(store))} {_quoted(rows_sql(alert))}"]
    yield "Life", [_life_text(step) for step in read_life(con, alert.row["alert_id"])]
    yield "Do", list(_do(store, alert, portfolio))


def _what(alert: Alert, portfolio: Portfolio | None) -> Iterator[str]:
    told = alert.told
    if (moved := quantile_move(told)) is not None:
        yield moved
    text = f"{share_name(told)}: {share_move(told)}"
    if told.get("units"):
        text += f"; {told['moved']:,} of {told['units']:,} {told['unit']}s"
    yield text
    ratio = told.get("ratio")
    if ratio and told.get("went_up") and ratio[1] and ratio[1] > 1:
        yield f"at least {ratio[1]:.3g} times as often as before"
    if told.get("kind") != "bound":
        yield "the new rate is biased away from the old one at the time of the alarm; brackets: 95 %, approximate"
    metric = _metric(alert, portfolio)
    if metric is not None and metric.purpose:
        yield f"promised: {shown(metric.purpose, 300)}"


def _since(alert: Alert) -> Iterator[str]:
    told, found = alert.told, alert.row["found_at"]
    if told.get("change_at") is None:
        window = _span(told.get("window_seconds") or 0)
        yield f"a window of {window} that ended {moment_text(found)}; a bound does not say when it began"
        return
    first, last = (moment_text(parse_time(told[name])) for name in ("change_from", "change_to"))
    earlier = " or earlier" if told.get("is_truncated") else ""
    yield f"{moment_text(parse_time(told['change_at']))} (95 %: {first}{earlier} to {last}); found {moment_text(found)}"


def _span(seconds: int) -> str:
    name, unit = next(one for one in _SPANS if seconds % one[1] == 0)
    return f"{seconds // unit} {name}{'' if seconds == unit else 's'}"


def _how_sure(alert: Alert) -> Iterator[str]:
    told = alert.told
    if told.get("kind") == "bound":
        yield "the whole 95 % interval of the window lies beyond the promised value"
        return
    evidence, limit = told.get("evidence_log10"), told.get("limit_log10")
    if limit is None:
        return
    text = f"evidence 10^{limit:.1f} was needed" + ("" if evidence is None else f", 10^{evidence:.1f} was there")
    months = math.pow(10.0, limit) / told["units_per_month"]
    yield f"{text}: at its declared volume this series raises a false one at most every {_months(months)}, on average"
    if told.get("learned"):
        yield f"learned from {told['learned']:,} {told['unit']}s before"


def _months(months: float) -> str:
    return f"{months / 12:.3g} years" if months >= 24 else f"{months:.2g} months"


def _which_way(alert: Alert, portfolio: Portfolio | None) -> Iterator[str]:
    told = alert.told
    way = "rose" if told.get("went_up") else "fell"
    if told.get("kind") == "unknown":
        yield f"the share that cannot be decided {way}: more is always worse, it hides what the metric is for"
        return
    if told.get("watched") == "labels":
        yield f"their share {way}; a mix of labels has no better way: the labels that fail are in the failure rate"
        return
    what = "the numbers" if told.get("watched") == "numbers" else "the failure rate"
    metric = _metric(alert, portfolio)
    direction = metric_direction(portfolio, metric) if portfolio is not None and metric is not None else None
    if told.get("verdict") == "unknown":
        yield f"{what} {way}; nobody has confirmed which way is better, so it pages nobody"
        question = next((q for q in portfolio.questions if q.id == told.get("question")), None) if portfolio else None
        if question is not None:
            yield f"this question settles it: {shown(question.text, 300)} ({question.id})"
        return
    better = (direction or {}).get("better")
    source = (direction or {}).get("fact") or (direction or {}).get("evidence")
    quantity = "failure rate" if (direction or {}).get("of", "failure_rate") == "failure_rate" else "number"
    known = f"a {better} {quantity} is better" if better in ("lower", "higher") else ""
    verified = f": {known}, verified by {shown(source, 300)}" if known and source else ""
    yield f"{what} {way}, which is {told.get('verdict') or 'what it was'}{verified}"


def _where(alert: Alert) -> Iterator[str]:
    for facet, parts in (alert.told.get("shares") or {}).items():
        for part in parts[:3]:
            if part["share"] < 0.05:
                continue
            yield f"{facet} {shown(part['value'])}: {min(part['share'], 1.0):.0%} of the excess ({_counts(part)})"


def _counts(part: dict[str, Any]) -> str:
    if "mean" in part:
        before = f", before {part['before_mean']:.3g} of {part['before_units']:,}" if part["before_units"] else ""
        return f"mean {part['mean']:.3g} of {part['units']:,}{before}"
    before = f", before {part['before_moved']:,} of {part['before_units']:,}" if part["before_units"] else ""
    return f"{part['moved']:,} of {part['units']:,}{before}"


def _labels(alert: Alert) -> Iterator[str]:
    for part in (alert.told.get("labels") or [])[:3]:
        yield f"label {shown(part['value'])}: {part['before']:.1%} of the spans before, {part['after']:.1%} since"


def _new(alert: Alert) -> Iterator[str]:
    for entry in alert.told.get("new") or []:
        yield f"{entry['facet']} {shown(entry['value'])}, first seen {moment_text(parse_time(entry['at']))}"
    for entry in alert.told.get("annotations") or []:
        yield f"{moment_text(parse_time(entry['at']))} {shown(entry['text'])}"


def _together(con: StoreReader, alert: Alert, portfolio: Portfolio | None) -> Iterator[str]:
    group = read_alerts(con, {"group_id": alert.row["group_id"]}, None)
    if len(group) < 2:
        return
    first = earliest_component(group, portfolio)
    if first is not None:
        yield f"earliest along the graph: {shown(first)}"
    others = [other for other in group if other.row["alert_id"] != alert.row["alert_id"]]
    others.sort(key=lambda other: _LOUDNESS.index(other.row["severity"]))
    for other in others[:_MOST_TOGETHER]:
        yield f"{other.row['alert_id']} {other.row['severity']}: {shown(subject(other))}, {size(other.told)}"
    if len(others) > _MOST_TOGETHER:
        yield f"and {len(others) - _MOST_TOGETHER} more of group {alert.row['group_id']}: {program_name()} alerts"


def earliest_component(alerts: list[Alert], portfolio: Portfolio | None) -> str | None:
    """Return the component that moved and that no other one that moved leads to; None where that names no single one.

    A component that is reached from another that moved as well is a likely victim, not the cause.
    """
    moved = {a.row["component"] for a in alerts if a.row["component"] and a.told.get("verdict") != "better"}
    if portfolio is None or len(moved) < 2:
        return None
    reached = {component: _downstream(portfolio, component) for component in moved}
    sources = [c for c in moved if not any(c in reached[other] for other in moved if other != c)]
    return sources[0] if len(sources) == 1 else None


def _downstream(portfolio: Portfolio, component: str) -> set[str]:
    seen: set[str] = set()
    waiting = [component]
    while waiting:
        here = waiting.pop()
        following = {edge.to for edge in portfolio.edges if edge.from_ == here} - seen
        seen |= following
        waiting += sorted(following)
    return seen


def _examples(alert: Alert, portfolio: Portfolio | None) -> Iterator[str]:
    for example in alert.told.get("examples") or []:
        release = f" {shown(example['release'])}" if example["release"] else ""
        yield f"{moment_text(parse_time(example['at']), 'seconds')}{release}  {shown(example['observed'] or '', 70)}"
        yield f"$   {shown(trace_link(portfolio, example['trace_id']) or example['trace_id'], 2000)}"


def rows_sql(alert: Alert) -> str:
    """Return the SQL that shows the rows behind an alert, with every value escaped."""
    row, told = alert.row, alert.told
    kind = told.get("kind")
    outcome = "unknown" if kind == "unknown" else "fail" if told.get("went_up", True) else "pass"
    which = _value_condition(told) if told.get("part") else f"outcome = '{outcome}'"
    since = told.get("change_at")
    if since is None:
        began = row["found_at"] - timedelta(seconds=told.get("window_seconds") or 3600)
        since = began.isoformat()
    conditions = [
        f"lane = {_literal(row['lane'])}",
        f"pipeline = {_literal(row['pipeline'])}",
        f"environment = {_literal(row['environment'])}",
        f"metric = {_literal(row['metric'])}",
        which,
        f"event_at >= '{since.removesuffix('Z')}'",
    ]
    return (
        f"SELECT event_at, trace_id, release, model, tier, observed FROM gaps WHERE {' AND '.join(conditions)} "
        "ORDER BY event_at"
    )


def _value_condition(told: dict[str, Any]) -> str:
    """Return which rows are of the part of the values that moved, or outside of it where it shrank."""
    if "statistic" not in told:
        labels = ", ".join(_literal(label) for label in told.get("moved_labels") or [])
        inside = f"label IN ({labels})" if labels else "label IS NOT NULL"
    else:
        above, below = told.get("above"), told.get("below")
        ends = [
            *([f"score > {above!r}"] if above is not None else []),
            *([f"score <= {below!r}"] if below is not None else []),
        ]
        inside = f"({(' OR ' if told.get('outside') else ' AND ').join(ends)})" if ends else "score IS NOT NULL"
    return inside if told.get("part_grew", True) else f"NOT ({inside})"


def _quoted(sql: str) -> str:
    """Quote for a shell: by double quotes where nothing in them means anything, for the SQL is full of single ones."""
    return f'"{sql}"' if not set(sql) & set('"$`\\!') else shlex.quote(sql)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _life_text(step: Any) -> str:
    return f"{moment_text(step.at, 'seconds')} {step.state} ({step.severity}) by {shown(step.by)}: {shown(step.why)}"


def _do(store: Path, alert: Alert, portfolio: Portfolio | None) -> Iterator[str]:
    if (runbook := runbook_link(portfolio, alert.row["metric"])) is not None:
        yield f"$ {shown(runbook, 2000)}"
    if not alert.is_open:
        yield "nothing: it is closed"
        return
    place, name = shlex.quote(str(store)), alert.row["alert_id"]
    if alert.told.get("verdict") == "unknown" and alert.told.get("question"):
        question = shlex.quote(alert.told["question"])
        yield f"$ {program_name()} answer {question} lower --store {place} --by YOU   # or higher: which is better?"
    yield f"$ {program_name()} ack {name} --store {place} --by YOU      # somebody looks at it"
    meaning = "it is right as it is now: the new normal"
    if alert.told.get("kind") == "bound":
        meaning = "quiet until it was kept again; the bound itself is the portfolio's"
    yield f"$ {program_name()} accept {name} --store {place} --by YOU   # {meaning}"


def _metric(alert: Alert, portfolio: Portfolio | None) -> Any:
    if portfolio is None:
        return None
    return next((m for m in portfolio.metrics if m.name == alert.row["metric"]), None)


def _portfolio(con: StoreReader, pipeline: str) -> Portfolio | None:
    """Return the portfolio that the store holds for a pipeline, the latest; None where it cannot be read any more."""
    sql = "SELECT yaml FROM portfolios WHERE pipeline = ? ORDER BY first_seen_at DESC LIMIT 1"
    rows = ask(con, sql, [pipeline]).objects()
    try:
        return parse_portfolio(rows[0]["yaml"]) if rows else None
    except PortfolioError:
        return None
