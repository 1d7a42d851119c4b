"""Holds a portfolio against real traces without storing anything: does each metric find what it speaks of?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from scorers.claim import RatioClaim
from scorers.codes import ERROR, OUTCOME_COUNT, SKIP, UNKNOWN
from scorers.engine import Inbox, arrow, connect
from scorers.metric import Metric
from scorers.parse_sql import parsed_columns, spans_sql
from scorers.plan import compile_plan
from scorers.policy import Policy, fixed_policy
from scorers.portfolio import Portfolio
from scorers.score import INBOX_SCHEMA, Scorer, score, texts_of
from scorers.scorer_host import ScorerHost
from scorers.slices import RecordSlice, ScoredSlice
from streams.file_source import FileSource


@dataclass
class MetricAgainst:
    """What one metric found in the traces.

    Attributes:
        portfolio: Whose it is.
        metric: The metric.
        outcomes: Ledger state to number of spans (of traces, for a trace metric).
        reasons: (outcome, reason) to number, for unknown, skip and error.
        rows_per_day: Rows that would be stored a day at the declared volume; None where none is declared.
        rows_per_thousand: The same for 1,000 traces.
    """

    portfolio: Portfolio
    metric: Metric
    outcomes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)
    rows_per_day: float | None = None
    rows_per_thousand: float = 0.0

    @property
    def applies(self) -> int:
        """To how many spans (or traces) the metric applied."""
        return sum(self.outcomes.values())


@dataclass
class Against:
    """What some files held, seen by some portfolios.

    Attributes:
        records: State of the ledger to number of records.
        components: (pipeline, component) to number of spans in the traces.
        metrics: In the order of the portfolios.
    """

    records: Counter[str] = field(default_factory=Counter)
    components: Counter[tuple[str, str]] = field(default_factory=Counter)
    metrics: list[MetricAgainst] = field(default_factory=list)


def check_against(portfolios: Sequence[Portfolio], files: Sequence[str], scorers: ScorerHost | None = None) -> Against:
    """Score the traces of files and say what each metric finds; nothing is stored, no judge is asked.

    Args:
        portfolios: Each of another pipeline.
        files: JSON lines, plain, .gz, .zst, or `-`.
        scorers: Host of the `@scorer` functions that the portfolios name.

    Raises:
        UsageError: A file or a scorer is missing.
    """
    policy = fixed_policy(portfolios)
    told = _keep_only_the_unscored(policy)
    scorer = Scorer(compile_plan(portfolios), scorers)
    found = Against(metrics=[MetricAgainst(p, m) for p in portfolios for m in p.metrics])
    by_name = {(m.portfolio.pipeline, m.metric.name): m for m in found.metrics}
    spans = _SpanCounter()
    for path in files:
        with FileSource(path, "-" if path == "-" else None) as source:
            for records in source.slices():
                _add(found, by_name, score(scorer, told, records))
                found.components.update(spans.count(records))
    _add_rows(found, policy)
    return found


def _keep_only_the_unscored(policy: Policy) -> Policy:
    """Return a policy under which every row without a verdict is kept, and no other: they carry the reasons."""
    keep = np.zeros(OUTCOME_COUNT)
    keep[[UNKNOWN, SKIP, ERROR]] = 1.0
    metrics = {
        key: replace(metric, keep=keep, rates=metric.rates if metric.selects else np.ones(len(metric.rates)))
        for key, metric in policy.metrics.items()
    }
    return replace(policy, metrics=metrics, sample_rates=dict.fromkeys(policy.sample_rates, 0.0))


def _add(found: Against, by_name: dict[tuple[str, str], MetricAgainst], scored: ScoredSlice) -> None:
    for entry in scored.tables["ledger"].to_pylist():
        if entry["metric"] is None:
            found.records[entry["state"]] += entry["n"]
        else:
            by_name[entry["pipeline"], entry["metric"]].outcomes[entry["state"]] += entry["n"]
    rows = scored.tables["gaps"].select(["pipeline", "metric", "outcome", "reason"])
    for row in rows.group_by(rows.column_names).aggregate([([], "count_all")]).to_pylist():
        by_name[row["pipeline"], row["metric"]].reasons[row["outcome"], row["reason"] or ""] += row["count_all"]


def _add_rows(found: Against, policy: Policy) -> None:
    traces = found.records["read"]
    for one in found.metrics:
        if isinstance(one.metric.claim, RatioClaim) or not traces:
            continue
        mine = policy.of(one.portfolio, one.metric)
        rate = 1.0 if mine.selects else float(mine.rates[0])
        kept = sum(
            n * one.metric.sample.keep.of(outcome) * rate for outcome, n in one.outcomes.items() if outcome in _ROWS
        )
        one.rows_per_thousand = kept / traces * 1000
        volume = one.portfolio.volume.traces_per_day if one.portfolio.volume else None
        one.rows_per_day = kept / traces * volume if volume else None


_ROWS = ("pass", "warn", "fail", "unknown", "skip", "error")


class _SpanCounter:
    """Counts spans by pipeline and component, those included that no portfolio names."""

    def __init__(self) -> None:
        self._connection = connect()
        self._inbox = Inbox(INBOX_SCHEMA.empty_table())
        self._connection.register("inbox", self._inbox)
        self._connection.execute(
            f"PREPARE spans AS SELECT pipeline, component, count(*) AS n FROM ({spans_sql(parsed_columns([]))}) "
            "WHERE is_span AND readable GROUP BY ALL"
        )

    def count(self, records: RecordSlice) -> Counter[tuple[str, str]]:
        n = len(records.offsets)
        columns = [pa.array(np.arange(n, dtype=np.int32)), texts_of(records.values), pa.repeat(pa.scalar(False), n)]
        self._inbox.table = pa.table(columns, schema=INBOX_SCHEMA)
        rows = arrow(self._connection, "EXECUTE spans").to_pylist()
        return Counter({(row["pipeline"], row["component"]): row["n"] for row in rows})


def unclaimed_components(found: Against, portfolio: Portfolio) -> dict[str, int]:
    """Return the components that the traces of a portfolio's pipeline name and the portfolio does not."""
    known = {component.id for component in portfolio.components}
    return {
        component: n
        for (pipeline, component), n in found.components.most_common()
        if pipeline == portfolio.pipeline and component not in known
    }


def spans_of(found: Against, portfolio: Portfolio, component: str) -> int:
    """Return how many spans the traces have of a component."""
    return found.components[portfolio.pipeline, component]
