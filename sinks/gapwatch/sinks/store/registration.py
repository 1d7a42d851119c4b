"""Records portfolios, metrics and selection probabilities once each, so that every stored row can be explained."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import duckdb

from gapwatch.scorers.checking.claim_words import expected_words
from gapwatch.scorers.judges.prompt import judge_prompt
from gapwatch.scorers.portfolio.claim import JudgedClaim
from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.scorers.portfolio.polarity import direction_in_force
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.store.row_inserts import insert_row, insert_rows

#: Columns that identify a row of `policies`. `recorded_at` and the probabilities depend on them.
_POLICY_IDENTITY = (
    "policy",
    "lane",
    "source_topic",
    "source_partition",
    "from_offset",
    "portfolio_sha",
    "metric",
    "stratum",
)


def insert_portfolio(con: duckdb.DuckDBPyConnection, portfolio: Portfolio, now: datetime) -> None:
    """Record a portfolio if its sha is new, and each of its metrics whose description has changed.

    The description of a metric can change under one sha, because facts may come from a file of their own.

    Args:
        con: Connection with an open transaction.
        portfolio: The loaded portfolio.
        now: Current time, naive UTC.
    """
    if not con.execute("SELECT 1 FROM portfolios WHERE portfolio_sha = ? LIMIT 1", [portfolio.sha]).fetchall():
        insert_row(
            con,
            "portfolios",
            {
                "portfolio_sha": portfolio.sha,
                "portfolio": portfolio.portfolio,
                "version": portfolio.version,
                "pipeline": portfolio.pipeline,
                "yaml": portfolio.text,
                "first_seen_at": now,
            },
        )
    _insert_templates(con, portfolio)
    columns = ", ".join(_METRIC_COLUMNS)
    known = {
        row[0]: row
        for row in con.execute(
            f"SELECT {columns} FROM metrics WHERE portfolio_sha = ? ORDER BY recorded_at", [portfolio.sha]
        ).fetchall()
    }
    rows = [_metric_row(portfolio, metric) for metric in portfolio.metrics]
    new = [(portfolio.sha, *row, now) for row in rows if known.get(str(row[0])) != row]
    insert_rows(con, "metrics", ("portfolio_sha", *_METRIC_COLUMNS, "recorded_at"), new)


def _insert_templates(con: duckdb.DuckDBPyConnection, portfolio: Portfolio) -> None:
    """Record the template of each judged metric under the hash of its bytes, so that requests can be rebuilt."""
    for metric in portfolio.metrics:
        if not isinstance(metric.claim, JudgedClaim):
            continue
        prompt = judge_prompt(metric.claim)
        if not con.execute("SELECT 1 FROM templates WHERE sha = ? LIMIT 1", [prompt.sha]).fetchall():
            insert_row(con, "templates", {"sha": prompt.sha, "text": prompt.template})


_METRIC_COLUMNS = ("metric", "metric_version", "claim", "concern", "expected", "evidence", "direction")


def _metric_row(portfolio: Portfolio, metric: Metric) -> tuple[str | None, ...]:
    direction = metric_direction(portfolio, metric)
    return (
        metric.name,
        metric.version,
        metric.claim.form,
        metric.concern,
        expected_words(metric),
        json.dumps(metric_evidence(portfolio, metric)),
        None if direction is None else json.dumps(direction),
    )


def metric_evidence(portfolio: Portfolio, metric: Metric) -> dict[str, list[Any]]:
    """Return the evidence for a metric: the lines of code that it was made from, and the facts that people gave."""
    code = list(metric.evidence)
    if metric.direction is not None and metric.direction.evidence:
        code.append(metric.direction.evidence)
    named = metric.direction.fact if metric.direction is not None else None
    facts = [
        fact.model_dump(mode="json", exclude_none=True)
        for fact in portfolio.facts
        if fact.metric == metric.name or fact.id == named
    ]
    return {"code": list(dict.fromkeys(code)), "facts": facts}


def metric_direction(portfolio: Portfolio, metric: Metric) -> dict[str, Any] | None:
    """Return the better direction of a metric: by the latest fact, the portfolio or the claim; None if not known."""
    direction = direction_in_force(metric, portfolio.facts)
    return None if direction is None else direction.model_dump(mode="json", exclude_none=True)


def insert_policies(con: duckdb.DuckDBPyConnection, rows: Iterable[Mapping[str, Any]], now: datetime) -> None:
    """Record selection probabilities that are not recorded yet.

    Args:
        con: Connection with an open transaction.
        rows: Columns of `policies` by name. Missing columns are null; for the source, null means "every source".
            `p_kept` is a dict of probabilities by outcome.
        now: Current time, naive UTC.
    """
    rows = list(rows)
    identity = ", ".join(_POLICY_IDENTITY)
    shas = list({row.get("portfolio_sha") for row in rows})
    known = set(
        con.execute(
            f"SELECT {identity} FROM policies WHERE coalesce(portfolio_sha IN (SELECT unnest(?)), true)", [shas]
        ).fetchall()
    )
    new: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for row in rows:
        key = tuple(row.get(name) for name in _POLICY_IDENTITY)
        if key not in known:
            rest = (row.get("p_evaluated"), json.dumps(row.get("p_kept")), row.get("cause"), now)
            new.setdefault(key, (*key, *rest))
    columns = (*_POLICY_IDENTITY, "p_evaluated", "p_kept", "cause", "recorded_at")
    insert_rows(con, "policies", columns, list(new.values()))
