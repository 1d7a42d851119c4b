"""The selection probabilities in force: with which a span is evaluated, and with which a row or a sample is kept."""

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

#: How many traces a day leave a sample of their text, where the portfolio declares its volume. More make the store
#: grow by about 1 KB each; fewer leave the engineer on call without an example of a rare failure.
SAMPLES_PER_DAY = 2_000
#: Share of failing traces that leave a sample where no volume is declared.
DEFAULT_SAMPLE_RATE = 0.1

_KEPT_OUTCOMES = (PASS, WARN, FAIL, UNKNOWN, SKIP, ERROR)

#: By which a written `keep` is multiplied: (pipeline, metric, outcome) to a power of 1/2; what is not named is kept
#: as written. Powers of two, so that a product divided by the written value gives the factor back to the bit.
Factors = Mapping[tuple[str, str, str], float]
#: In the place of an outcome: the factor is of the rates with which a judge or a Python scorer sees spans.
EVALUATED = "evaluated"


@dataclass(frozen=True)
class MetricSelection:
    """Probabilities of one metric; index 0 of the strata is "no stratum holds".

    Attributes:
        strata: Names; None for index 0.
        rates: Per stratum, from 0 to 1: with which a judge or a Python scorer sees a span.
        keep: Per outcome id, from 0 to 1: with which a row is kept of a span that was evaluated.
        selects: Whether `rates` select what is evaluated; else they thin the rows, and all spans are evaluated.
        epoch: Name of the series' epoch: changes with the strata, not with rates or keeping.
        sheds: No judge is asked, for there is too much to do; what `rates` select ends as `shed_load`.
    """

    strata: tuple[str | None, ...]
    rates: npt.NDArray[np.float64]
    keep: npt.NDArray[np.float64]
    selects: bool
    epoch: str
    sheds: bool = False


class BlockSelection(tuple[MetricSelection, ...]):
    """The probabilities of the metrics of one block, as arrays over them where all have the same shape."""

    @cached_property
    def keep(self) -> npt.NDArray[np.float64]:
        """M metrics x outcome ids: with which a row is kept of a span that was evaluated."""
        return np.array([selection.keep for selection in self]).reshape(len(self), OUTCOME_COUNT)

    @cached_property
    def rates(self) -> npt.NDArray[np.float64]:
        """M rates where no stratum holds."""
        return np.array([selection.rates[0] for selection in self], float)

    @cached_property
    def selects(self) -> npt.NDArray[np.bool_]:
        """Of m metrics, those whose rates select what is evaluated."""
        return np.array([selection.selects for selection in self], bool)


@dataclass(frozen=True)
class Selection:
    """The probabilities of all metrics of a plan, from a recorded offset on.

    Attributes:
        id: Changes when any probability does.
        metrics: By (portfolio sha, metric name).
        sample_rates: By portfolio sha: share of traces with a failing row whose text is kept.
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
        """Return what the table `selections` records, without where it holds from: one row a metric and stratum."""
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
    """Return the policy that the portfolios write down."""
    metrics = {
        (portfolio.sha, metric.name): _metric_selection(metric)
        for portfolio in portfolios
        for metric in portfolio.metrics
    }
    sample_rates = {portfolio.sha: _sample_rate(portfolio) for portfolio in portfolios}
    return _named("fixed", metrics, sample_rates)


def thinned_selection(portfolios: Sequence[Portfolio], factors: Factors, sheds: bool = False) -> Selection:
    """Return the policy that the portfolios write down, with some rows kept, or spans evaluated, more rarely.

    Args:
        portfolios: Of one plan: each of another pipeline.
        factors: From above 0 to 1; those of metrics that are not in the portfolios are ignored.
        sheds: Whether judges are shed.
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
            # What is shed is asked of nobody, whatever a judge's rate was lowered to.
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
    """Return whether judges were shed under a recorded policy: nothing was evaluated that is written to be.

    Args:
        portfolios: Those that the rows speak of; rows of others are ignored.
        rows: As `Selection.rows` gives them.
    """
    written = {
        (row["portfolio_sha"], row["metric"], row["stratum"]): row["p_evaluated"]
        for row in fixed_selection(portfolios).rows()
    }
    places = ((row["portfolio_sha"], row["metric"], row["stratum"], row["p_evaluated"]) for row in rows)
    return any(p == 0 and bool(written.get((sha, metric, stratum))) for sha, metric, stratum, p in places)


def recorded_factors(portfolios: Sequence[Portfolio], rows: Iterable[Mapping[str, Any]]) -> Factors:
    """Return the factors by which a recorded policy differs from what the portfolios write down.

    Args:
        portfolios: Those that the rows speak of; rows of others are ignored.
        rows: As `Selection.rows` gives them.
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
            if before[name] > 0 and p not in (0, before[name]):  # 0: shed, which is no factor
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
    """Name the epoch: a change of the strata starts a new one, a change of a rate does not."""
    if not metric.sample.strata:
        return "1"
    written = repr([(stratum.name, stratum.when) for stratum in metric.sample.strata])
    return "1-" + hashlib.sha256(written.encode()).hexdigest()[:8]


def _sample_rate(portfolio: Portfolio) -> float:
    volume = portfolio.volume.traces_per_day if portfolio.volume else None
    return min(1.0, SAMPLES_PER_DAY / volume) if volume else DEFAULT_SAMPLE_RATE
