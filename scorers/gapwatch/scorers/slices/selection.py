"""Selection: the probabilities of evaluating a span and of storing a row or a sample."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import rfc8785

from gapwatch.scorers.plan.codes import ERROR, FAIL, OUTCOME_COUNT, OUTCOME_NAMES, PASS, SKIP, UNKNOWN, WARN
from gapwatch.scorers.portfolio.claim import JudgedClaim, PythonClaim
from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.scorers.portfolio.portfolio import Portfolio

#: Traces per day whose text is stored as a sample, where the portfolio declares its volume. Each adds about 1 KB to the
#: store; with fewer, the engineer on call may find no example of a rare failure.
SAMPLES_PER_DAY = 2_000
#: Share of failing traces whose text is stored where no volume is declared.
DEFAULT_SAMPLE_RATE = 0.1

_KEPT_OUTCOMES = (PASS, WARN, FAIL, UNKNOWN, SKIP, ERROR)

#: Factors of the portfolio's `keep`: (pipeline, metric, outcome) to a power of 1/2; anything else keeps its value.
#: With powers of two, a product divided by the portfolio's value is exactly the factor.
Factors = Mapping[tuple[str, str, str], float]
#: Used instead of an outcome: the factor of the rates at which a judge or a Python scorer evaluates spans.
EVALUATED = "evaluated"


@dataclass(frozen=True)
class MetricSelection:
    """Probabilities of one metric; index 0 of the strata means "in no stratum".

    Attributes:
        strata: Names; None for index 0.
        rates: Per stratum, from 0 to 1: the probability that a judge or a Python scorer evaluates a span.
        keep: Per outcome id, from 0 to 1: the probability that the row of an evaluated span is stored.
        selects: Whether `rates` select the spans to evaluate; otherwise they thin the stored rows, and all spans are
            evaluated.
        epoch: Name of the series' epoch; it changes with the strata, not with rates or `keep`.
        sheds: Whether judging is skipped under load; spans that `rates` select then end as `shed_load`.
    """

    strata: tuple[str | None, ...]
    rates: npt.NDArray[np.float64]
    keep: npt.NDArray[np.float64]
    selects: bool
    epoch: str
    sheds: bool = False


class BlockSelection(tuple[MetricSelection, ...]):
    """Probabilities of the m metrics of one block, also as arrays over the metrics."""

    @cached_property
    def keep(self) -> npt.NDArray[np.float64]:
        """Probability of storing the row of an evaluated span: m metrics x outcome ids."""
        return np.array([selection.keep for selection in self]).reshape(len(self), OUTCOME_COUNT)

    @cached_property
    def rates(self) -> npt.NDArray[np.float64]:
        """Rates outside of strata, one per metric."""
        return np.array([selection.rates[0] for selection in self], float)

    @cached_property
    def selects(self) -> npt.NDArray[np.bool_]:
        """True if each metric's rates select the spans to evaluate."""
        return np.array([selection.selects for selection in self], bool)


@dataclass(frozen=True)
class Selection:
    """Probabilities of all metrics of a plan, in force from a recorded offset on.

    Attributes:
        id: Changes with any probability; stored in the column `policy`.
        metrics: Probabilities by (portfolio sha, metric name).
        sample_rates: By portfolio sha: share of the traces with a failing row whose text is stored.
    """

    id: str
    metrics: dict[tuple[str, str], MetricSelection]
    sample_rates: dict[str, float]

    def of(self, portfolio: Portfolio, metric: Metric) -> MetricSelection:
        """Return the probabilities of one metric."""
        return self.metrics[portfolio.sha, metric.name]

    def of_block(self, sha: str, names: tuple[str, ...]) -> BlockSelection:
        """Return the probabilities of some metrics of one portfolio."""
        if (sha, names) not in self._blocks:
            self._blocks[sha, names] = BlockSelection(self.metrics[sha, name] for name in names)
        return self._blocks[sha, names]

    @cached_property
    def _blocks(self) -> dict[tuple[str, tuple[str, ...]], BlockSelection]:
        return {}

    def rows(self) -> list[dict[str, object]]:
        """Return the rows of the table `policies`, one per metric and stratum, without the offset they start at."""
        return [
            {
                "policy": self.id,
                "portfolio_sha": sha,
                "metric": name,
                "stratum": stratum,
                "p_evaluated": 0.0 if selection.sheds else float(rate) if selection.selects else 1.0,
                "p_kept": {
                    OUTCOME_NAMES[outcome]: float(selection.keep[outcome]) * (1.0 if selection.selects else float(rate))
                    for outcome in _KEPT_OUTCOMES
                },
            }
            for (sha, name), selection in self.metrics.items()
            for stratum, rate in zip(selection.strata, selection.rates, strict=True)
        ]


def fixed_selection(portfolios: Sequence[Portfolio]) -> Selection:
    """Return the selection that the portfolios define."""
    metrics = {
        (portfolio.sha, metric.name): _metric_selection(metric)
        for portfolio in portfolios
        for metric in portfolio.metrics
    }
    sample_rates = {portfolio.sha: _sample_rate(portfolio) for portfolio in portfolios}
    return _named("fixed", metrics, sample_rates)


def thinned_selection(portfolios: Sequence[Portfolio], factors: Factors, sheds: bool = False) -> Selection:
    """Return the portfolios' selection with lower probabilities of storing rows or evaluating spans.

    Args:
        portfolios: Portfolios of one plan, each of another pipeline.
        factors: Above 0, at most 1; factors of metrics that are not in the portfolios are ignored.
        sheds: Whether judging is skipped under load.
    """
    fixed = fixed_selection(portfolios)
    metrics = dict(fixed.metrics)
    for portfolio in portfolios:
        for metric in portfolio.metrics:
            selection = metrics[portfolio.sha, metric.name]
            keep = selection.keep.copy()
            for outcome in _KEPT_OUTCOMES:
                keep[outcome] *= factors.get((portfolio.pipeline, metric.name, OUTCOME_NAMES[outcome]), 1.0)
            shed = sheds and isinstance(metric.claim, JudgedClaim)
            # A metric whose judging is skipped evaluates nothing, so a lowered rate does not matter.
            lowered = selection.selects and not shed
            evaluated = factors.get((portfolio.pipeline, metric.name, EVALUATED), 1.0) if lowered else 1.0
            if shed or (keep != selection.keep).any() or evaluated != 1.0:
                rates = selection.rates * evaluated
                metrics[portfolio.sha, metric.name] = replace(selection, keep=keep, rates=rates, sheds=shed)
    if all(selection is fixed.metrics[key] for key, selection in metrics.items()):
        return fixed
    is_shed = any(selection.sheds for selection in metrics.values())
    return _named("shed" if is_shed else "thinned", metrics, fixed.sample_rates)


def recorded_shedding(portfolios: Sequence[Portfolio], rows: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether a recorded selection skips judging: it evaluates nothing where the portfolio selects spans.

    Args:
        portfolios: Portfolios of the rows; rows of other portfolios are ignored.
        rows: Rows as `Selection.rows` returns them.
    """
    written = {
        (row["portfolio_sha"], row["metric"], row["stratum"]): row["p_evaluated"]
        for row in fixed_selection(portfolios).rows()
    }
    places = ((row["portfolio_sha"], row["metric"], row["stratum"], row["p_evaluated"]) for row in rows)
    return any(p == 0 and bool(written.get((sha, metric, stratum))) for sha, metric, stratum, p in places)


def recorded_factors(portfolios: Sequence[Portfolio], rows: Iterable[Mapping[str, Any]]) -> Factors:
    """Return the factors by which a recorded selection differs from that of the portfolios.

    Args:
        portfolios: Portfolios of the rows; rows of other portfolios are ignored.
        rows: Rows as `Selection.rows` returns them.
    """
    written = {(row["portfolio_sha"], row["metric"], row["stratum"]): row for row in fixed_selection(portfolios).rows()}
    pipelines = {portfolio.sha: portfolio.pipeline for portfolio in portfolios}
    factors: dict[tuple[str, str, str], float] = {}
    for row in rows:
        as_written: Any = written.get((row["portfolio_sha"], row["metric"], row["stratum"]))
        if as_written is None:
            continue
        now = {**row["p_kept"], EVALUATED: row["p_evaluated"]}
        before = {**as_written["p_kept"], EVALUATED: as_written["p_evaluated"]}
        for name, p in now.items():
            if before[name] > 0 and p not in (0, before[name]):  # p = 0: judging was skipped
                factors[pipelines[row["portfolio_sha"]], row["metric"], name] = p / before[name]
    return factors


def _named(kind: str, metrics: dict[tuple[str, str], MetricSelection], sample_rates: dict[str, float]) -> Selection:
    unnamed = Selection("", metrics, sample_rates)
    written = {"rows": unnamed.rows(), "samples": sample_rates}
    digest = hashlib.sha256(rfc8785.dumps(written)).hexdigest()[:12]  # type: ignore[arg-type]
    return Selection(f"{kind}-{digest}", metrics, sample_rates)


def _metric_selection(metric: Metric) -> MetricSelection:
    sample = metric.sample
    keep = np.zeros(OUTCOME_COUNT)
    for outcome in _KEPT_OUTCOMES:
        keep[outcome] = sample.keep.of(OUTCOME_NAMES[outcome])
    return MetricSelection(
        (None, *(stratum.name for stratum in sample.strata)),
        np.array([sample.rate, *(stratum.rate for stratum in sample.strata)]),
        keep,
        isinstance(metric.claim, JudgedClaim | PythonClaim),
        _epoch(metric),
    )


def _epoch(metric: Metric) -> str:
    """Return the epoch's name: a change of the strata starts a new epoch, a change of a rate does not."""
    if not metric.sample.strata:
        return "1"
    written = repr([(stratum.name, stratum.when) for stratum in metric.sample.strata])
    return "1-" + hashlib.sha256(written.encode()).hexdigest()[:8]


def _sample_rate(portfolio: Portfolio) -> float:
    volume = portfolio.volume.traces_per_day if portfolio.volume else None
    return min(1.0, SAMPLES_PER_DAY / volume) if volume else DEFAULT_SAMPLE_RATE
