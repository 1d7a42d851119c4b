"""Gap rows of a slice: outcome, observed value and probability of being stored, per span and metric."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapwatch.scorers.plan.claim_outcomes import Observed
from gapwatch.scorers.plan.codes import OUTCOME_NAMES, OUTCOME_OF_CODE, REASON_OF_CODE, REASONS
from gapwatch.scorers.scoring.redaction import Redactor
from gapwatch.scorers.slices.block_result import BlockResult
from gapwatch.scorers.slices.columns import FloatArray, IntArray, SliceColumns, timestamps
from gapwatch.scorers.slices.selection import BlockSelection
from gapwatch.scorers.slices.tables import GAPS

OBSERVED_CHARACTERS = 300


@dataclass(frozen=True)
class StoredRows:
    """Outcomes of one block that are stored as rows.

    Attributes:
        result: The block's outcomes.
        selections: Selection of each metric of the block.
        row: Row in the block of each of the k stored rows, ascending.
        metric: Number of the metric of each.
    """

    result: BlockResult
    selections: BlockSelection
    row: IntArray
    metric: IntArray

    @property
    def rows(self) -> IntArray:
        """Row of each in the slice's columns."""
        rows: IntArray = self.row + self.result.rows.start
        return rows

    @property
    def codes(self) -> npt.NDArray[np.uint8]:
        """Code of each."""
        return self.result.codes[self.row, self.metric]

    def probabilities(self, p: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return p_evaluated and p_kept of each row, given the publisher's probabilities."""
        rates = self.selections.rates[self.metric]
        for m, strata in self.result.strata.items():
            mine = self.metric == m
            rates[mine] = self.selections[m].rates[strata[self.row[mine]]]
        kept = self.selections.keep[self.metric, self.result.outcomes[self.row, self.metric]]
        selected = self.selections.selects[self.metric]
        return np.where(selected, p * rates, p), np.where(selected, kept, kept * rates)


def kept_rows(result: BlockResult, selections: BlockSelection, u: FloatArray) -> StoredRows:
    """Return the outcomes that are stored as rows, ordered by row and then by metric.

    Args:
        result: Outcomes of n rows and m metrics.
        selections: Selection of each metric.
        u: Selection number of each row's trace, in [0, 1).
    """
    outcomes = result.outcomes
    keep = np.empty(outcomes.shape, bool, order="F")
    for m, selection in enumerate(selections):
        probability = selection.keep.take(outcomes[:, m])
        rates = selection.rates[result.strata[m]] if m in result.strata else selection.rates[0]
        np.less(u, probability * rates, out=keep[:, m])
    rows = np.flatnonzero(keep.any(axis=1))
    row, metric = np.nonzero(keep[rows])
    return StoredRows(result, selections, rows[row], metric)


def gap_rows(
    columns: SliceColumns,
    kept: Sequence[StoredRows],
    selection_id: str,
    redactors: Mapping[str, Redactor],
) -> pa.Table:
    """Return the stored rows of some blocks, without lane and source.

    Args:
        columns: Columns of the slice.
        kept: Stored rows of each block; at least one block.
        selection_id: Id of the selection in force, for the column `policy`.
        redactors: Redactor of each portfolio, by its sha.

    Returns:
        Columns of `GAPS`; `source_offset` has the `ord` of the record.
    """
    rows = np.concatenate([of.rows for of in kept])
    codes = np.concatenate([of.codes for of in kept])
    first = np.cumsum([0, *(len(of.selections) for of in kept)])
    metric = np.concatenate([of.metric + start for of, start in zip(kept, first, strict=False)])
    p = columns.publisher_p[columns.ord[rows]]
    places = np.split(p, np.cumsum([len(of.row) for of in kept])[:-1])
    probabilities = [of.probabilities(mine) for of, mine in zip(kept, places, strict=True)]

    def column(name: str) -> pa.Array:
        return columns.texts(name, rows)

    def by_metric(texts: Iterable[Sequence[str]]) -> pa.Array:
        return pa.array([text for of_block in texts for text in of_block], pa.string()).take(pa.array(metric))

    n = len(rows)
    nothing = pa.nulls(n, pa.string())
    blocks = [of.result.block for of in kept]
    values = {
        "pipeline": column("pipeline"),
        "environment": pc.fill_null(column("environment"), "production"),
        "release": column("release"),
        "session_id": column("session_id"),
        "trace_id": column("trace_id"),
        "span_id": column("span_id"),
        "component": by_metric([block.component] * len(block.names) for block in blocks),
        "tier": column("tier"),
        "model": column("model"),
        "metric": by_metric(block.names for block in blocks),
        "metric_version": by_metric(block.versions for block in blocks),
        "portfolio_sha": by_metric([block.sha] * len(block.names) for block in blocks),
        "outcome": pa.array(OUTCOME_NAMES, pa.string()).take(pa.array(OUTCOME_OF_CODE[codes])),
        "score": _scores(kept),
        "label": pa.concat_arrays([_labels(of) for of in kept]),
        "band": nothing,
        "reason": pa.concat_arrays([_reasons(of) for of in kept]),
        "observed": _redacted(kept, redactors),
        "evidence": nothing,
        "judge": nothing,
        "judge_model_id": nothing,
        "judge_prompt_sha": nothing,
        "judge_sampling_params_sha": nothing,
        "judge_request_sha": nothing,
        "judge_input_sha": nothing,
        "p_evaluated": pa.array(np.concatenate([evaluated for evaluated, _ in probabilities])),
        "p_kept": pa.array(np.concatenate([p_kept for _, p_kept in probabilities])),
        "stratum": pa.concat_arrays([_strata(of) for of in kept]),
        "policy": pa.repeat(pa.scalar(selection_id, pa.string()), n),
        "lane": nothing,
        "source_topic": nothing,
        "source_partition": pa.nulls(n, pa.int32()),
        "source_offset": pa.array(columns.ord[rows]),
        "span_index": pa.array(columns.span_index[rows].astype(np.int32)),
        "event_at": timestamps(columns.event_times(rows)),
    }
    return pa.table(values, schema=GAPS)


def _pick(parts: list[tuple[npt.NDArray[np.bool_], pa.Array]], n: int, kind: pa.DataType) -> pa.Array:
    """Merge the values of several metrics into one column, null in rows without a value."""
    if not parts:
        return pa.nulls(n, kind)
    pool = pa.concat_arrays([values if values.type == kind else values.cast(kind) for _, values in parts])
    index = np.full(n, -1, dtype=np.int64)
    start = 0
    for mine, values in parts:
        index[mine] = np.arange(start, start + len(values))
        start += len(values)
    return pool.take(pa.array(index, mask=index < 0))


def _scores(kept: Sequence[StoredRows]) -> pa.Array:
    parts = []
    for of in kept:
        scores = np.full(len(of.row), np.nan)
        for m, values in of.result.scores.items():
            mine = of.metric == m
            scores[mine] = values[of.row[mine]]
        parts.append(scores)
    whole = np.concatenate(parts)
    return pa.array(whole, mask=np.isnan(whole))


def _labels(of: StoredRows) -> pa.Array:
    parts = []
    for m, labels in of.result.labels.items():
        mine = of.metric == m
        parts.append((mine, labels.take(pa.array(of.row[mine]))))
    return _pick(parts, len(of.row), pa.string())


def _strata(of: StoredRows) -> pa.Array:
    parts = []
    for m, strata in of.result.strata.items():
        mine = of.metric == m
        names = pa.array(of.selections[m].strata, pa.string())
        parts.append((mine, names.take(pa.array(strata[of.row[mine]]))))
    return _pick(parts, len(of.row), pa.string())


def _reasons(of: StoredRows) -> pa.Array:
    reason = REASON_OF_CODE[of.codes].astype(np.int64)
    named = pa.array(REASONS, pa.string()).take(pa.array(reason, mask=reason < 0))
    if not of.result.reasons:
        return named
    words = named.to_pylist()
    for i, key in enumerate(zip(of.metric.tolist(), of.row.tolist(), strict=True)):
        words[i] = of.result.reasons.get(key, words[i])
    return pa.array(words, pa.string())


def _redacted(kept: Sequence[StoredRows], redactors: Mapping[str, Redactor]) -> pa.Array:
    """Return the observed values, redacted with the patterns of each block's portfolio.

    Blocks of one portfolio must be adjacent.
    """
    parts = []
    for sha, of_portfolio in groupby(kept, key=lambda of: of.result.block.sha):
        seen = pa.concat_arrays([_observed(of) for of in of_portfolio])
        parts.append(redactors[sha].shorten(seen, OBSERVED_CHARACTERS))
    return pa.concat_arrays(parts)


def _observed(of: StoredRows) -> pa.Array:
    """Return the observed values as text: the claim's field, else the label or the score.

    Many metrics read the same field, so its values are taken once for all of them.
    """
    planned = of.result.block.metrics
    shown: dict[int, Observed | None] = {m: planned[m].outcome.observed for m in np.unique(of.metric).tolist()}
    sources = {m: (m,) if seen is None else seen.source for m, seen in shown.items()}
    numbers = {source: number for number, source in enumerate(dict.fromkeys(sources.values()))}
    number_of = np.full(len(planned), -1)
    number_of[list(sources)] = [numbers[source] for source in sources.values()]
    which = number_of[of.metric]
    parts = []
    for m in {source: m for m, source in sources.items()}.values():
        mine = which == number_of[m]
        seen = shown[m]
        rows = of.row[mine]
        parts.append((mine, _claimed(of.result, m, rows) if seen is None else of.result.read(seen, rows)))
    return _pick(parts, len(of.row), pa.string())


def _claimed(result: BlockResult, m: int, row: IntArray) -> pa.Array:
    """Return the labels, or else the scores, of a metric in some rows of the block."""
    if m in result.labels:
        return result.labels[m].take(pa.array(row))
    if m in result.scores:
        scores = result.scores[m][row]
        return pa.array(scores, mask=np.isnan(scores))
    return pa.nulls(len(row), pa.string())
