"""Finds the outcomes that the plan defers: Python scorers, pending judgements, composites."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapwatch.scorers.plan.block import PlannedMetric
from gapwatch.scorers.plan.codes import (
    DEFERRED,
    ERROR,
    FAIL,
    NOT_APPLICABLE,
    OUTCOME_NAMES,
    PASS,
    PENDING,
    SAMPLED_OUT,
    SHED_LOAD,
    SKIP,
    UNKNOWN,
    WARN,
    code,
    unknown,
)
from gapwatch.scorers.portfolio.claim import CompositeClaim, JudgedClaim, PythonClaim
from gapwatch.scorers.scoring.python_scorer import Scored
from gapwatch.scorers.scoring.scorer_host import ScorerHost
from gapwatch.scorers.slices.block_result import BlockResult
from gapwatch.scorers.slices.columns import FloatArray, SliceColumns
from gapwatch.scorers.slices.selection import MetricSelection

_PENDING, _SAMPLED_OUT, _SHED_LOAD = code(PENDING), code(SAMPLED_OUT), code(SHED_LOAD)
_OUTCOME_ID = {name: i for i, name in enumerate(OUTCOME_NAMES)}
_WORTH = np.full(16, np.nan)
_WORTH[[PASS, WARN, FAIL]] = [1.0, 0.5, 0.0]


def settle_deferred(
    columns: SliceColumns,
    result: BlockResult,
    selections: Sequence[MetricSelection],
    u_of_record: FloatArray,
    scorers: ScorerHost | None,
) -> None:
    """Replace every deferred code of a block by an outcome, or by pending where a judge has to answer.

    While judging is skipped under load, spans that would be pending are `shed_load`.

    Args:
        columns: Columns of the slice.
        result: Outcomes of the block; changed in place.
        selections: Selection of each metric of the block.
        u_of_record: Selection number u(trace_id) of each record.
        scorers: Process of the Python scorers; None where the plan has no such scorers.
    """
    metrics = result.block.metrics
    u = u_of_record[columns.ord[result.rows]]
    for m, planned in enumerate(metrics):
        if not isinstance(planned.metric.claim, PythonClaim | JudgedClaim):
            continue
        codes = result.codes[:, m]
        rates = selections[m].rates[result.strata[m]] if m in result.strata else selections[m].rates[0]
        applies = codes == DEFERRED
        codes[applies & (u >= rates)] = _SAMPLED_OUT
        chosen = np.flatnonzero(codes == DEFERRED)
        if isinstance(planned.metric.claim, JudgedClaim):
            codes[chosen] = _SHED_LOAD if selections[m].sheds else _PENDING
        else:
            assert scorers is not None
            _score_by_python(result, m, planned, chosen, scorers)
    for m, planned in enumerate(metrics):
        if isinstance(planned.metric.claim, CompositeClaim):
            _compose(result, m, planned.metric.claim)
    result.close()


def _score_by_python(
    result: BlockResult,
    m: int,
    planned: PlannedMetric,
    chosen: npt.NDArray[np.int64],
    scorers: ScorerHost,
) -> None:
    claim = planned.metric.claim
    assert isinstance(claim, PythonClaim)
    names = list(planned.inputs)
    values = [result.read(planned.inputs[name], chosen).to_pylist() for name in names]
    spans = [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)] if names else [{} for _ in chosen]
    scores = np.full(len(result.codes), np.nan)
    labels: list[str | None] = [None] * len(result.codes)
    for row, answer in zip(chosen.tolist(), scorers.run(claim.scorer, spans), strict=True):
        if not isinstance(answer, Scored):
            result.codes[row, m] = code(ERROR, answer.reason)
            result.reasons[m, row] = f"{answer.reason}: {answer.detail}"
            continue
        outcome = _OUTCOME_ID[answer.outcome]
        if outcome == UNKNOWN and claim.optional:
            outcome = SKIP
        result.codes[row, m] = code(outcome, "unscored") if outcome in (UNKNOWN, SKIP) else outcome
        scores[row] = np.nan if answer.score is None else answer.score
        labels[row] = answer.label
        if answer.reason is not None:
            result.reasons[m, row] = answer.reason
    result.scores[m] = scores
    result.labels[m] = pa.array(labels, pa.string())


def _compose(result: BlockResult, m: int, claim: CompositeClaim) -> None:
    """Compute the weighted mean of the parts; the first part without a value, as written, gives the reason."""
    index = {planned.metric.name: i for i, planned in enumerate(result.block.metrics)}
    outcomes = result.outcomes
    rows = len(result.codes)
    total = np.zeros(rows)
    trouble = np.zeros(rows, np.uint8)
    waiting = np.zeros(rows, np.uint8)
    for name, weight in claim.parts.items():
        part = index[name]
        outcome = outcomes[:, part]
        worth = _WORTH[outcome]
        if part in result.scores:
            scored = result.scores[part]
            worth = np.where(np.isnan(worth), worth, np.where(np.isnan(scored), worth, scored))
        total += weight * np.nan_to_num(worth)
        for awaited in (_PENDING, _SHED_LOAD, _SAMPLED_OUT):
            waiting[(result.codes[:, part] == awaited) & (waiting == 0)] = awaited
        lacking = np.isnan(worth) & (waiting == 0) & (trouble == 0)
        missing = outcome == NOT_APPLICABLE
        trouble[lacking & missing] = unknown("part_not_applicable")
        trouble[lacking & ~missing] = unknown("part_unknown")
    applies = result.codes[:, m] == DEFERRED
    passes = np.ones(rows, bool) if claim.pass_at is None else total >= claim.pass_at - 1e-12
    decided = np.where(passes, PASS, FAIL)
    codes = np.where(trouble > 0, trouble, np.where(waiting > 0, waiting, decided)).astype(np.uint8)
    result.codes[applies, m] = codes[applies]
    result.scores[m] = np.where(applies & (codes <= FAIL), total, np.nan)
