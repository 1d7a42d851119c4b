"""Collects the values that a composite needs once the judges it waits for have answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gapwatch.scorers.judges.request import AwaitedComposite
from gapwatch.scorers.plan.codes import FAIL, OUTCOME_NAMES, PASS, PENDING, SAMPLED_OUT, SKIP, UNKNOWN, WARN
from gapwatch.scorers.portfolio.claim import CompositeClaim, JudgedClaim
from gapwatch.scorers.slices.block_result import BlockResult
from gapwatch.scorers.slices.columns import SliceColumns
from gapwatch.scorers.slices.selection import MetricSelection

_WORTH = {PASS: 1.0, WARN: 0.5, FAIL: 0.0}
_KEPT = (PASS, WARN, FAIL, UNKNOWN, SKIP)

#: (judged metric, row of the block, row of the slice, columns) -> waiting composite; None where it does not wait.
CompositeOf = Callable[[str, int, int, SliceColumns], AwaitedComposite | None]


def composites_awaiting(result: BlockResult) -> list[int]:
    """Return the numbers of the composites of a block that wait for a judge on some row."""
    waiting = (result.outcomes == PENDING).any(axis=0)
    return [
        m
        for m, planned in enumerate(result.block.metrics)
        if waiting[m] and isinstance(planned.metric.claim, CompositeClaim)
    ]


def composite_of(result: BlockResult, selections: Sequence[MetricSelection], number: int) -> CompositeOf:
    """Return a function that gives the waiting composite of a row: awaited parts and known parts.

    Args:
        result: The block's outcomes.
        selections: Selection of each metric of the block.
        number: Number of the composite in the block.
    """
    metric, selection = result.block.metrics[number].metric, selections[number]
    claim = metric.claim
    assert isinstance(claim, CompositeClaim)
    index = {planned.metric.name: i for i, planned in enumerate(result.block.metrics)}
    outcomes = result.outcomes

    def rate_of(name: str, row: int) -> float:
        m = index[name]
        return float(selections[m].rates[int(result.strata[m][row]) if m in result.strata else 0])

    def worth_of(name: str, row: int) -> float | None:
        m = index[name]
        worth = _WORTH.get(int(outcomes[row, m]))
        if worth is None or m not in result.scores:
            return worth
        score = float(result.scores[m][row])
        return worth if np.isnan(score) else score

    def needs(judged: str, row: int, at: int, columns: SliceColumns) -> AwaitedComposite | None:
        if judged not in claim.parts or outcomes[row, number] != PENDING:
            return None
        awaited = [name for name in claim.parts if outcomes[row, index[name]] == PENDING]
        judges = [n for n in claim.parts if isinstance(result.block.metrics[index[n]].metric.claim, JudgedClaim)]
        record = columns.ord[result.rows] == columns.ord[at]
        decided = outcomes[record, number]
        return AwaitedComposite(
            metric=metric.name,
            metric_version=metric.version,
            epoch=selection.epoch,
            pass_at=claim.pass_at,
            weights=dict(claim.parts),
            worths={name: worth_of(name, row) for name in claim.parts if name not in awaited},
            awaited=awaited,
            sampled_out=any(outcomes[row, index[name]] == SAMPLED_OUT for name in claim.parts),
            decided=sorted({OUTCOME_NAMES[int(o)] for o in decided if int(o) not in (0, PENDING, SAMPLED_OUT)}),
            p_evaluated=float(columns.publisher_p[columns.ord[at]]) * min(rate_of(name, row) for name in judges),
            rate=float(selection.rates[0]),
            keep={OUTCOME_NAMES[outcome]: float(selection.keep[outcome]) for outcome in _KEPT},
        )

    return needs
