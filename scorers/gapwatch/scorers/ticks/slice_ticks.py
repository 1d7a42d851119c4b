"""Ticks of slices: counts of every metric at span and at unit level, by facet."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapwatch.scorers.portfolio.claim import LabelClaim, MeasureClaim
from gapwatch.scorers.slices.block_result import BlockResult
from gapwatch.scorers.slices.columns import (
    DEFAULT_ENVIRONMENT,
    Coded,
    FloatArray,
    IntArray,
    SliceColumns,
    bucket_starts,
    coded,
)
from gapwatch.scorers.slices.selection import BlockSelection
from gapwatch.scorers.slices.slice_group import with_slices
from gapwatch.scorers.slices.tables import SESSION_TICKS
from gapwatch.scorers.slices.value_histogram import histogram_maps
from gapwatch.scorers.ticks.record_scopes import RecordScopes
from gapwatch.scorers.ticks.tick_counts import (
    BAD,
    GOOD,
    SPAN_OUTCOMES,
    UNIT_OUTCOMES,
    FacetGroups,
    TickRows,
    count_outcomes,
    facet_groups,
    group_records,
    joint_groups,
    sum_scores,
)
from gapwatch.scorers.ticks.unit_folds import UnitRows, fold_any, fold_measure, fold_numbers, unit_rows, worst_label

Bytes = npt.NDArray[np.uint8]

#: Rows of a metric for one trace: its spans by all, tier, release and model, its unit by all and release.
FACETS = 6


class SliceTicks:
    """Collects the ticks of some slices, block by block.

    Args:
        columns: Columns of their records.
        lane: Lane of the slices.
        slices: Number of the slice of each record.
        scopes: Scopes of the names of the records.
    """

    def __init__(self, columns: SliceColumns, lane: str, slices: IntArray, scopes: RecordScopes) -> None:
        self._columns = columns
        self._lane = lane
        every = np.arange(columns.records)
        environment = coded(pc.fill_null(columns.of_records("environment"), DEFAULT_ENVIRONMENT))
        self.groups = group_records(
            slices,
            scopes.bounded("environment", environment, every),
            columns.bucket,
            scopes.bounded_p(columns.publisher_p),
        )
        self._release = scopes.bounded("release", coded(columns.of_records("release")), every)
        self._session = coded(columns.of_records("session_id"))
        empty = self._session.values.index(pa.scalar("", self._session.values.type)).as_py() + 1
        self._has_session = (self._session.codes > 0) & (self._session.codes != empty)
        self._of_row = {
            name: scopes.bounded(name, coded(columns.of_rows(name)), columns.ord, columns.span_index)
            for name in ("tier", "model")
        }
        self._rows = TickRows(self.groups, lane)
        self._sessions: list[pa.Table] = []

    def add_block(self, result: BlockResult, selections: BlockSelection) -> None:
        """Count all metrics of one block."""
        ord_ = self._columns.ord[result.rows]
        span_facets = {
            "all": None,
            "tier": self._of_rows("tier", result.rows),
            "release": _taken(self._release, ord_),
            "model": self._of_rows("model", result.rows),
        }
        outcomes = np.where(result.outcomes < len(SPAN_OUTCOMES), result.outcomes, 0).astype(np.uint8)
        group = self.groups.of_record[ord_]
        factors = self._evaluation_rates(result, selections)
        for columns, factor in factors:
            self._count(result, selections, "span", span_facets, group, outcomes, result.scores, columns, factor)
        rates = {m: factor for columns, factor in factors for m in columns}
        for m, strata in result.strata.items():
            names = pa.array([name or "" for name in selections[m].strata[1:]], pa.string())
            facet = Coded(strata.astype(np.int64), names)
            self._count(result, selections, "span", {"stratum": facet}, group, outcomes, {}, [m], rates[m])
        for m in result.labels:
            labels = result.labels[m]
            facet = coded(labels if isinstance(labels, pa.Array) else labels.combine_chunks())
            self._count(result, selections, "span", {"label": facet}, group, outcomes, {}, [m], rates[m])
        self._add_units(result, selections, ord_, outcomes, factors)

    def _evaluation_rates(
        self, result: BlockResult, selections: BlockSelection
    ) -> list[tuple[list[int], FloatArray | None]]:
        """Return metric numbers with the selection rate of each row; None where every span is evaluated."""
        plain = np.flatnonzero(~selections.selects).tolist()
        batches: list[tuple[list[int], FloatArray | None]] = [(plain, None)] if plain else []
        for m, selection in enumerate(selections):
            if selection.selects:
                strata = result.strata.get(m)
                fixed = selection.rates[0]
                rates = selection.rates[strata] if strata is not None else np.full(len(result.codes), fixed)
                batches.append(([m], rates))
        return batches

    def _count(
        self,
        result: BlockResult,
        selections: BlockSelection,
        level: str,
        facets: dict[str, Coded | None],
        group: IntArray,
        outcomes: Bytes,
        scores: dict[int, FloatArray],
        columns: list[int],
        factor: FloatArray | None,
    ) -> None:
        """Count some metrics of a block by each facet.

        Args:
            result: The block's outcomes.
            selections: Selection of each metric of the block.
            level: span or unit.
            facets: Value of each item by the name of the facet; None for the facet `all`.
            group: Record group of each of n items.
            outcomes: Outcome ids of the level, n x all metrics.
            scores: n scores by metric number.
            columns: Numbers of the metrics to count.
            factor: n probabilities of being evaluated; None for 1.
        """
        width = len(SPAN_OUTCOMES if level == "span" else UNIT_OUTCOMES)
        factors, factor_codes = (None, 0) if factor is None else np.unique(factor, return_inverse=True)
        joint = joint_groups(group if factors is None else group * len(factors) + factor_codes, facets)
        counts = count_outcomes(joint.of_item, joint.size, _columns(outcomes, columns), width)
        counts[:, :, 0] = 0
        scored = [k for k, m in enumerate(columns) if m in scores]
        if scored:  # only these need sums
            of_scored = outcomes[:, [columns[k] for k in scored]]
            values = np.column_stack([scores[columns[k]] for k in scored])
            sums = sum_scores(joint.of_item, joint.size, of_scored, values, width)
        for name, groups in joint.facets.items():
            if len(groups.group) == 0:
                continue
            mine = groups.add_up(counts)
            known = maps = None
            if scored:
                present, total, squares = (groups.add_up(part) for part in sums)
                known = (np.full(mine.shape, np.nan), np.full(mine.shape, np.nan))
                known[0][:, scored] = np.where(present > 0, total, np.nan)
                known[1][:, scored] = np.where(present > 0, squares, np.nan)
                if facets[name] is None:  # only the facet "all" carries histograms
                    maps = histogram_maps(groups.of_item[joint.of_item], of_scored, values, np.array(scored), mine)
            self._add(result, selections, level, name, groups, columns, mine, factors, known, maps)

    def _add(
        self,
        result: BlockResult,
        selections: BlockSelection,
        level: str,
        facet: str,
        groups: FacetGroups,
        columns: list[int],
        counts: IntArray,
        factors: FloatArray | None,
        sums: tuple[FloatArray, FloatArray] | None = None,
        histograms: pa.Array | None = None,
    ) -> None:
        group, p_factor = groups.group, None
        if factors is not None:
            group, p_factor = groups.group // len(factors), factors[groups.group % len(factors)]
        epochs = [selections[m].epoch for m in columns]
        self._rows.add_counts(
            result.block, columns, epochs, level, facet, group, groups.values, counts, p_factor, sums, histograms
        )

    def _add_units(
        self,
        result: BlockResult,
        selections: BlockSelection,
        ord_: IntArray,
        outcomes: Bytes,
        factors: list[tuple[list[int], FloatArray | None]],
    ) -> None:
        units = unit_rows(ord_)
        folded = fold_any(units, result.outcomes)
        numbers: dict[int, FloatArray] = {}
        for m, planned in enumerate(result.block.metrics):
            metric = planned.metric
            if m in result.scores:
                numbers[m] = fold_numbers(units, result.outcomes[:, m], result.scores[m], metric)
            if isinstance(metric.claim, MeasureClaim) and metric.per_trace != "any":
                folded[:, m] = fold_measure(units, result.outcomes[:, m], result.scores[m], metric)
            if isinstance(metric.claim, LabelClaim) and metric.per_trace == "worst":
                self._fold_worst(result, selections, units, folded, m)
        group = self.groups.of_record[units.records]
        facets = {"all": None, "release": _taken(self._release, units.records)}
        for columns, factor in factors:
            per_unit = None if factor is None else _unit_factor(units, factor, result.outcomes[:, columns[0]])
            self._count(result, selections, "unit", facets, group, folded, numbers, columns, per_unit)
            self._add_sessions(result, selections, units, folded, columns, per_unit)

    def _fold_worst(
        self, result: BlockResult, selections: BlockSelection, units: UnitRows, folded: Bytes, m: int
    ) -> None:
        """Fold the labels of one metric to the worst of each unit, in place, and count the units by it."""
        metric = result.block.metrics[m].metric
        assert isinstance(metric.claim, LabelClaim)
        labels = coded(result.labels[m])
        applies = result.codes[:, m] > 0
        names = labels.values.to_pylist()
        worst = worst_label(units, np.where(applies, labels.codes, 0), names, metric)
        bad = np.array([False, *(name in metric.claim.bad for name in names)])
        unit = np.where(worst == 0, folded[:, m], np.where(bad[worst], BAD, GOOD))
        folded[:, m] = unit
        facet = Coded(worst, labels.values)
        group = self.groups.of_record[units.records]
        self._count(result, selections, "unit", {"label": facet}, group, folded, {}, [m], None)

    def _add_sessions(
        self,
        result: BlockResult,
        selections: BlockSelection,
        units: UnitRows,
        folded: Bytes,
        columns: list[int],
        factor: FloatArray | None,
    ) -> None:
        """Add up the units of each session."""
        given = self._has_session[units.records]
        if not given.any():
            return
        sessions = _taken(self._session, units.records)
        group = self.groups.of_record[units.records]
        factors, factor_codes = (np.ones(1), 0) if factor is None else np.unique(factor, return_inverse=True)
        split = group * len(factors) + factor_codes
        groups = facet_groups(split, Coded(np.where(given, sessions.codes, 0), sessions.values))
        has = groups.of_item >= 0
        counts = count_outcomes(groups.of_item[has], len(groups.group), folded[has][:, columns], len(UNIT_OUTCOMES))
        units_of, bad_of = counts[:, :, GOOD] + counts[:, :, BAD], counts[:, :, BAD]
        which, metric = np.nonzero(units_of)
        if len(which) == 0:
            return
        record_group = groups.group[which] // len(factors)
        n = len(which)

        def named(texts: list[str]) -> pa.Array:
            return pa.array(texts, pa.string()).take(pa.array(metric))

        table = {
            "lane": pa.repeat(pa.scalar(self._lane, pa.string()), n),
            "pipeline": pa.repeat(pa.scalar(result.block.portfolio.pipeline, pa.string()), n),
            "environment": self.groups.environment.take(pa.array(record_group)),
            "component": pa.repeat(pa.scalar(result.block.component, pa.string()), n),
            "metric": named([result.block.names[m] for m in columns]),
            "metric_version": named([result.block.versions[m] for m in columns]),
            "judge": pa.nulls(n, pa.string()),
            "epoch": named([selections[m].epoch for m in columns]),
            "bucket": bucket_starts(self.groups.bucket[record_group]),
            "session_id": groups.values.take(pa.array(which)),
            "p": pa.array(self.groups.p[record_group] * factors[groups.group[which] % len(factors)]),
            "units": pa.array(units_of[which, metric]),
            "bad": pa.array(bad_of[which, metric]),
        }
        slices = self.groups.slice[record_group]
        self._sessions.append(with_slices(pa.table(table, schema=SESSION_TICKS), slices))

    def table(self) -> pa.Table:
        """Return the ticks, with the number of the slice of each."""
        return self._rows.table()

    def session_tables(self) -> list[pa.Table]:
        """Return tables of session ticks, with the number of the slice of each."""
        return self._sessions

    def _of_rows(self, name: str, rows: slice) -> Coded:
        return Coded(self._of_row[name].codes[rows], self._of_row[name].values)


def _columns(outcomes: Bytes, columns: list[int]) -> Bytes:
    return outcomes if columns == list(range(outcomes.shape[1])) else outcomes[:, columns]


def _taken(column: Coded, items: IntArray) -> Coded:
    return Coded(column.codes[items], column.values)


def _unit_factor(units: UnitRows, factor: FloatArray, outcomes: Bytes) -> FloatArray:
    """Return the probability with which each unit was evaluated: the largest rate among its spans.

    All spans of a trace are selected by the same number u, so some span is evaluated whenever the likeliest one is.
    """
    rates = np.where(outcomes > 0, factor, 0.0)
    largest = rates if units.one_each else np.maximum.reduceat(rates, units.starts)
    return np.where(largest > 0, largest, 1.0)
