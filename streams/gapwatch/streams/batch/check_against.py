"""Tests a portfolio on real traces without storing anything: counts what each metric finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapwatch.scorers.plan.codes import ERROR, OUTCOME_COUNT, SKIP, UNKNOWN
from gapwatch.scorers.plan.plan import compile_plan
from gapwatch.scorers.plan.record_types import RecordTypes
from gapwatch.scorers.portfolio.claim import RatioClaim
from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.scoring.records import DeadLetter, decode_records
from gapwatch.scorers.scoring.score import Scorer, score
from gapwatch.scorers.scoring.scorer_host import ScorerHost
from gapwatch.scorers.slices.selection import Selection, fixed_selection
from gapwatch.scorers.slices.slices import RecordSlice, ScoredSlice
from gapwatch.streams.sources.file_source import FileSource


@dataclass
class MetricAgainst:
    """Results of one metric on the traces.

    Attributes:
        portfolio: Portfolio of the metric.
        metric: The metric.
        outcomes: Number of spans (traces, for a trace metric) by ledger state.
        of_strata: Number of spans by (stratum, outcome), for the strata of the metric.
        reasons: Number of spans by (outcome, reason), for unknown, skip and error.
        rows_per_day: Rows stored per day at the declared volume; None if none is declared.
        rows_per_thousand: Rows stored per 1,000 traces.
    """

    portfolio: Portfolio
    metric: Metric
    outcomes: Counter[str] = field(default_factory=Counter)
    of_strata: Counter[tuple[str, str]] = field(default_factory=Counter)
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)
    rows_per_day: float | None = None
    rows_per_thousand: float = 0.0

    @property
    def applies(self) -> int:
        """Number of spans (or traces) that the metric applied to."""
        return sum(self.outcomes.values())


@dataclass
class Against:
    """Results of portfolios on the traces of files.

    Attributes:
        records: Number of records by ledger state.
        dead_letters: Number of dead letters by cause.
        first_dead_letter: Place and error of the first one; may be empty.
        traces: Number of traces by pipeline, of the portfolios' pipelines.
        strangers: Number of traces by pipeline, of pipelines without a portfolio.
        components: Number of spans by (pipeline, component).
        metrics: Results by metric, in the order of the portfolios.
    """

    records: Counter[str] = field(default_factory=Counter)
    dead_letters: Counter[str] = field(default_factory=Counter)
    first_dead_letter: str = ""
    traces: Counter[str] = field(default_factory=Counter)
    strangers: Counter[str] = field(default_factory=Counter)
    components: Counter[tuple[str, str]] = field(default_factory=Counter)
    metrics: list[MetricAgainst] = field(default_factory=list)


def check_against(portfolios: Sequence[Portfolio], files: Sequence[str], scorers: ScorerHost | None = None) -> Against:
    """Score the traces of files and count the results of each metric; nothing is stored, no judge is asked.

    Args:
        portfolios: Each of another pipeline.
        files: JSON lines, plain, .gz, .zst, or `-`.
        scorers: Host of the `@scorer` functions that the portfolios name.

    Raises:
        UsageError: A file or a scorer is missing.
    """
    selection = fixed_selection(portfolios)
    unscored = _only_unscored_rows(selection)
    plan = compile_plan(portfolios)
    scorer = Scorer(plan, scorers)
    found = Against(metrics=[MetricAgainst(p, m) for p in portfolios for m in p.metrics])
    by_name = {(m.portfolio.pipeline, m.metric.name): m for m in found.metrics}
    for path in files:
        with FileSource(path, "-" if path == "-" else None) as source:
            for records in source.slices():
                _add(found, by_name, score(scorer, unscored, records))
                _count_spans(records, plan.types, found)
    _add_rows(found, selection)
    return found


def _only_unscored_rows(selection: Selection) -> Selection:
    """Return a selection that makes rows for unknown, skip and error only, because these carry a reason."""
    keep = np.zeros(OUTCOME_COUNT)
    keep[[UNKNOWN, SKIP, ERROR]] = 1.0
    metrics = {
        key: replace(metric, keep=keep, rates=metric.rates if metric.selects else np.ones(len(metric.rates)))
        for key, metric in selection.metrics.items()
    }
    return replace(selection, metrics=metrics, sample_rates=dict.fromkeys(selection.sample_rates, 0.0))


def _add(found: Against, by_name: dict[tuple[str, str], MetricAgainst], scored: ScoredSlice) -> None:
    for entry in scored.tables["ledger"].to_pylist():
        if entry["metric"] is None:
            found.records[entry["state"]] += entry["n"]
            if entry["state"] == "read":
                found.traces[entry["pipeline"]] += entry["n"]
        else:
            by_name[entry["pipeline"], entry["metric"]].outcomes[entry["state"]] += entry["n"]
    for letter in scored.tables["dead_letters"].to_pylist():
        found.dead_letters[letter["cause"]] += 1
        found.first_dead_letter = found.first_dead_letter or (
            f"{scored.topic}, line {letter['source_offset'] + 1}: {letter['detail']}"
        )
    for tick in _ticks_of_strata(scored.tables["ticks"]).to_pylist():
        by_name[tick["pipeline"], tick["metric"]].of_strata[tick["value"], tick["outcome"]] += tick["n"]
    rows = scored.tables["gaps"].select(["pipeline", "metric", "outcome", "reason"])
    for row in rows.group_by(rows.column_names).aggregate([([], "count_all")]).to_pylist():
        by_name[row["pipeline"], row["metric"]].reasons[row["outcome"], row["reason"] or ""] += row["count_all"]


def _ticks_of_strata(ticks: pa.Table) -> pa.Table:
    of_strata = pc.and_(pc.equal(ticks["facet"], "stratum"), pc.equal(ticks["level"], "span"))
    return ticks.filter(of_strata).select(["pipeline", "metric", "value", "outcome", "n"])


def _add_rows(found: Against, selection: Selection) -> None:
    for one in found.metrics:
        traces = found.traces[one.portfolio.pipeline]
        if isinstance(one.metric.claim, RatioClaim) or not traces:
            continue
        mine = selection.of(one.portfolio, one.metric)
        # If the selection decides which spans are evaluated, the counts are of selected spans already.
        rates = np.ones(len(mine.rates)) if mine.selects else mine.rates
        beside = {name: rate - rates[0] for name, rate in zip(mine.strata, rates, strict=True)}
        keep = one.metric.sample.keep.of
        kept = sum(n * keep(outcome) * rates[0] for outcome, n in one.outcomes.items() if outcome in _ROWS)
        kept += sum(n * keep(outcome) * beside[name] for (name, outcome), n in one.of_strata.items())
        one.rows_per_thousand = kept / traces * 1000
        volume = one.portfolio.volume.traces_per_day if one.portfolio.volume else None
        one.rows_per_day = kept / traces * volume if volume else None


_ROWS = ("pass", "warn", "fail", "unknown", "skip", "error")


def _count_spans(records: RecordSlice, types: RecordTypes, into: Against) -> None:
    """Count traces by pipeline and spans by component, including those that no portfolio names."""
    own = {one.portfolio.pipeline for one in into.metrics}
    for trace in decode_records(records.values, types):
        if isinstance(trace, DeadLetter):
            continue
        if trace.pipeline not in own:
            into.strangers[trace.pipeline] += 1
        else:
            into.components.update((trace.pipeline, span.component) for span in trace.spans)


def unclaimed_components(found: Against, portfolio: Portfolio) -> dict[str, int]:
    """Return the number of spans by component, for components that are in the traces but not in the portfolio."""
    known = {component.id for component in portfolio.components}
    return {
        component: n
        for (pipeline, component), n in found.components.most_common()
        if pipeline == portfolio.pipeline and component not in known
    }


def spans_of(found: Against, portfolio: Portfolio, component: str) -> int:
    """Return the number of spans of a component in the traces, or of those that it stands for."""
    members = next((part.members for part in portfolio.components if part.id == component), ())
    return sum(found.components[portfolio.pipeline, name] for name in members or (component,))
