"""The gap rows of one block: what was expected of a span, what was seen, and how likely the row was to be kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from scorers.codes import OUTCOME_NAMES, OUTCOME_OF_CODE, REASON_OF_CODE, REASONS
from scorers.plan import Block, PlannedMetric
from scorers.policy import MetricPolicy
from scorers.slice_columns import FloatArray, IntArray, SliceColumns, timestamps
from scorers.tables import GAPS

OBSERVED_CHARACTERS = 300


@dataclass
class BlockResult:
    """The final outcomes of one block, after Python scorers and composites.

    Attributes:
        block: The block.
        rows: Which rows of the slice's columns it covers.
        codes: n x m codes.
        scores: n scores by metric number, NaN where there is none; only metrics that have scores.
        labels: n labels by metric number; only metrics that have labels.
        strata: n stratum numbers by metric number; only metrics with strata.
        reasons: Reasons in words by metric number and row of the block, where a code cannot name them.
        final: The outcomes, once the codes change no more.
    """

    block: Block
    rows: slice
    codes: npt.NDArray[np.uint8]
    scores: dict[int, FloatArray] = field(default_factory=dict)
    labels: dict[int, pa.Array] = field(default_factory=dict)
    strata: dict[int, npt.NDArray[np.uint8]] = field(default_factory=dict)
    reasons: dict[tuple[int, int], str] = field(default_factory=dict)

    final: npt.NDArray[np.uint8] | None = None

    @property
    def outcomes(self) -> npt.NDArray[np.uint8]:
        """N x m outcome ids."""
        return self.final if self.final is not None else OUTCOME_OF_CODE.take(self.codes)

    def close(self) -> None:
        """Say that the codes change no more, so that the outcomes need not be found again."""
        self.final = OUTCOME_OF_CODE.take(self.codes)


def kept_rows(result: BlockResult, policies: Sequence[MetricPolicy], u: FloatArray) -> tuple[IntArray, IntArray]:
    """Return row and metric of each outcome that leaves a row, by row and then by metric.

    Args:
        result: n rows by m metrics.
        policies: One a metric.
        u: Selection number of each row's trace, in [0, 1).
    """
    outcomes = result.outcomes
    keep = np.empty(outcomes.shape, bool, order="F")
    for m, policy in enumerate(policies):
        probability = policy.keep.take(outcomes[:, m])
        rates = policy.rates[result.strata[m]] if m in result.strata else policy.rates[0]
        np.less(u, probability * rates, out=keep[:, m])
    rows = np.flatnonzero(keep.any(axis=1))
    row, metric = np.nonzero(keep[rows])
    return rows[row], metric


def gap_rows(
    columns: SliceColumns,
    result: BlockResult,
    policies: Sequence[MetricPolicy],
    policy_id: str,
    selection: FloatArray,
) -> pa.Table:
    """Return the kept rows of one block, without lane and source.

    Args:
        columns: The slice.
        result: The block's outcomes.
        policies: One a metric of the block.
        policy_id: Written into the rows.
        selection: u(trace_id) of each record, in [0, 1).

    Returns:
        Columns of `GAPS`, `source_offset` holding the `ord` of the record; `observed` not yet redacted.
    """
    base = result.rows.start
    u = selection[columns.ord[result.rows]]
    row, metric = kept_rows(result, policies, u)
    rows = row + base
    codes = result.codes[row, metric]
    metrics = result.block.metrics
    take = pa.array(rows)
    p = columns.publisher_p[columns.ord[rows]]
    p_evaluated, p_kept = _probabilities(result, policies, row, metric, p)

    def column(name: str) -> pa.Array:
        return columns.arrow(name).take(take).cast(pa.string())

    def by_metric(values: list[str]) -> pa.Array:
        return pa.array(values, pa.string()).take(pa.array(metric))

    n = len(row)
    nothing = pa.nulls(n, pa.string())
    values = {
        "pipeline": column("pipeline"),
        "environment": pc.fill_null(column("environment"), "production"),
        "release": column("release"),
        "session_id": column("session_id"),
        "trace_id": column("trace_id"),
        "span_id": column("span_id"),
        "component": pa.repeat(pa.scalar(result.block.component, pa.string()), n),
        "tier": column("tier"),
        "model": column("model"),
        "metric": by_metric([m.metric.name for m in metrics]),
        "metric_version": by_metric([m.metric.version for m in metrics]),
        "portfolio_sha": pa.repeat(pa.scalar(result.block.portfolio.sha, pa.string()), n),
        "outcome": pa.array(OUTCOME_NAMES, pa.string()).take(pa.array(OUTCOME_OF_CODE[codes])),
        "score": _scores(result, row, metric),
        "label": _labels(result, row, metric),
        "band": nothing,
        "reason": _reasons(result, row, metric, codes),
        "observed": _observed(columns, result, rows, row, metric),
        "evidence": nothing,
        "judge": nothing,
        "judge_model_id": nothing,
        "judge_prompt_sha": nothing,
        "judge_sampling_params_sha": nothing,
        "judge_request_sha": nothing,
        "judge_input_sha": nothing,
        "p_evaluated": pa.array(p_evaluated),
        "p_kept": pa.array(p_kept),
        "stratum": _strata(result, policies, row, metric),
        "policy": pa.repeat(pa.scalar(policy_id, pa.string()), n),
        "lane": nothing,
        "source_topic": nothing,
        "source_partition": pa.nulls(n, pa.int32()),
        "source_offset": pa.array(columns.ord[rows]),
        "span_index": pa.array(columns.span_index[rows].astype(np.int32)),
        "event_at": timestamps(columns.event_times(rows)),
    }
    return pa.table(values, schema=GAPS)


def _probabilities(
    result: BlockResult, policies: Sequence[MetricPolicy], row: IntArray, metric: IntArray, p: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return p_evaluated and p_kept of each kept row."""
    rates = np.ones(len(row))
    kept = np.ones(len(row))
    outcomes = result.outcomes[row, metric]
    selects = np.array([policy.selects for policy in policies], bool)
    for m, policy in enumerate(policies):
        mine = metric == m
        strata = result.strata[m][row[mine]] if m in result.strata else 0
        rates[mine] = policy.rates[strata]
        kept[mine] = policy.keep[outcomes[mine]]
    selected = selects[metric]
    return np.where(selected, p * rates, p), np.where(selected, kept, kept * rates)


def _pick(parts: list[tuple[npt.NDArray[np.bool_], pa.Array]], n: int, kind: pa.DataType) -> pa.Array:
    """Put values of several metrics into one column; null where no part speaks."""
    if not parts:
        return pa.nulls(n, kind)
    pool = pa.concat_arrays([values.cast(kind) for _, values in parts])
    index = np.full(n, -1, dtype=np.int64)
    start = 0
    for mine, values in parts:
        index[mine] = np.arange(start, start + len(values))
        start += len(values)
    return pool.take(pa.array(index, mask=index < 0))


def _scores(result: BlockResult, row: IntArray, metric: IntArray) -> pa.Array:
    scores = np.full(len(row), np.nan)
    for m, values in result.scores.items():
        mine = metric == m
        scores[mine] = values[row[mine]]
    return pa.array(scores, mask=np.isnan(scores))


def _labels(result: BlockResult, row: IntArray, metric: IntArray) -> pa.Array:
    parts = [(metric == m, labels.take(pa.array(row[metric == m]))) for m, labels in result.labels.items()]
    return _pick(parts, len(row), pa.string())


def _strata(result: BlockResult, policies: Sequence[MetricPolicy], row: IntArray, metric: IntArray) -> pa.Array:
    parts = [
        (metric == m, pa.array(policies[m].strata, pa.string()).take(pa.array(strata[row[metric == m]])))
        for m, strata in result.strata.items()
    ]
    return _pick(parts, len(row), pa.string())


def _reasons(result: BlockResult, row: IntArray, metric: IntArray, codes: npt.NDArray[np.uint8]) -> pa.Array:
    reason = REASON_OF_CODE[codes].astype(np.int64)
    named = pa.array(REASONS, pa.string()).take(pa.array(reason, mask=reason < 0))
    if not result.reasons:
        return named
    words = named.to_pylist()
    for i, key in enumerate(zip(metric.tolist(), row.tolist(), strict=True)):
        words[i] = result.reasons.get(key, words[i])
    return pa.array(words, pa.string())


def _observed(columns: SliceColumns, result: BlockResult, rows: IntArray, row: IntArray, metric: IntArray) -> pa.Array:
    """Return what was seen, as text: the claim's field, else the score, else the label."""
    parts = []
    for m, planned in enumerate(result.block.metrics):
        mine = metric == m
        if mine.any():
            parts.append((mine, _seen(columns, result, planned, m, rows[mine], row[mine])))
    return _pick(parts, len(row), pa.string())


def _seen(
    columns: SliceColumns, result: BlockResult, planned: PlannedMetric, m: int, rows: IntArray, row: IntArray
) -> pa.Array:
    if planned.observed is not None:
        return _spelt(columns.arrow(planned.observed).take(pa.array(rows)))
    if m in result.labels:
        return result.labels[m].take(pa.array(row))
    if m in result.scores:
        scores = result.scores[m][row]
        return _spelt(pa.array(scores, mask=np.isnan(scores)))
    return pa.nulls(len(row), pa.string())


def _spelt(values: pa.Array) -> pa.Array:
    return values.cast(pa.string())
