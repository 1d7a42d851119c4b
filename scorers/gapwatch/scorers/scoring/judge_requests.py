"""Builds the judge requests of one scored block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from gapwatch.scorers.judges.prompt import transcript_rule
from gapwatch.scorers.judges.request import JudgeRequest
from gapwatch.scorers.judges.scale import passing_average
from gapwatch.scorers.plan.codes import PENDING
from gapwatch.scorers.portfolio.claim import JudgedClaim
from gapwatch.scorers.scoring.awaited_composites import composite_of, composites_awaiting
from gapwatch.scorers.scoring.redaction import Redactor
from gapwatch.scorers.slices.block_result import BlockResult
from gapwatch.scorers.slices.columns import NO_BUCKET, IntArray, SliceColumns
from gapwatch.scorers.slices.selection import MetricSelection
from gapwatch.scorers.slices.slice_group import SliceGroup
from gapwatch.scorers.slices.tables import JUDGE_REQUESTS
from gapwatch.scorers.ticks.record_scopes import RecordScopes
from gapwatch.scorers.transcripts.cutting import cut_transcript
from gapwatch.scorers.transcripts.turns import read_transcript, write_transcript

#: Longest input field in a request, in characters; for a longer one, use a pointer to the part that the judge needs.
INPUT_CHARACTERS = 100_000
#: The same for a conversation, and how many of its first turns stay; more than any prompt shows, and less than the
#: bytes of a record in Kafka.
TRANSCRIPT_CHARACTERS, _FIRST_TURNS = 300_000, 1_000


def judge_requests(
    columns: SliceColumns,
    group: SliceGroup,
    ords: IntArray,
    result: BlockResult,
    selections: Sequence[MetricSelection],
    selection_id: str,
    redactor: Redactor,
    scopes: RecordScopes,
) -> pa.Table:
    """Return one request for each pending (span, metric, judge) of a block, with the columns to sort them by.

    The column `source_offset` holds the position of the record in the group.

    Args:
        columns: Columns of some records of a group of slices.
        group: The group, for the source of each record.
        ords: Position in the group of each record of the columns.
        result: Outcomes of the block.
        selections: Selection of each metric of the block.
        selection_id: Id of the selection in force.
        redactor: Redactor of the block's portfolio.
        scopes: Scopes of the names of the records, which know what counts as `other`.
    """
    rows: list[dict[str, object]] = []
    outcomes = result.outcomes
    composites = [composite_of(result, selections, m) for m in composites_awaiting(result)]
    for m, planned in enumerate(result.block.metrics):
        claim = planned.metric.claim
        if not isinstance(claim, JudgedClaim):
            continue
        pending = np.flatnonzero(outcomes[:, m] == PENDING)
        event_at = columns.event_times(pending + result.rows.start)
        members = [judge.name or judge.model for judge in claim.judges]
        passes_from = passing_average(claim.rubric) if len(members) > 1 else None
        identity = {name: columns.texts(name, pending + result.rows.start).to_pylist() for name in _IDENTITY}
        inputs = {
            name: redactor.redact(result.read(observed, pending).cast(pa.string())).to_pylist()
            for name, observed in planned.inputs.items()
        }
        shorten = _cut if transcript_rule(claim.rubric) is None else _shortened
        for i, row in enumerate(pending.tolist()):
            at = row + result.rows.start
            ord_ = int(columns.ord[at])
            records, position = group.slices[int(group.of_records[ords[ord_]])], int(ords[ord_])
            stratum = int(result.strata[m][row]) if m in result.strata else 0
            first = JudgeRequest(
                lane=records.lane,
                source_topic=records.topic,
                source_partition=records.partition,
                source_offset=int(group.offsets[position]),
                span_index=int(columns.span_index[at]),
                metric=planned.metric.name,
                metric_version=planned.metric.version,
                portfolio_sha=planned.portfolio.sha,
                pipeline=planned.portfolio.pipeline,
                component=result.block.component,
                **{name: texts[i] for name, texts in identity.items()},
                p_evaluated=float(columns.publisher_p[ord_] * selections[m].rates[stratum]),
                stratum=selections[m].strata[stratum],
                policy=selection_id,
                inputs={name: shorten(values[i]) for name, values in inputs.items()},
                event_at=None if np.isnan(event_at[i]) else float(event_at[i]),
                bucket=None if columns.bucket[ord_] == NO_BUCKET else int(columns.bucket[ord_]),
                epoch=selections[m].epoch,
                members=members,
                quorum=claim.quorum or len(members) // 2 + 1,
                composites=[c for of in composites if (c := of(planned.metric.name, row, at, columns)) is not None],
                judge=members[0],
                passes_from=passes_from,
                others=scopes.others(ord_, at),
            )
            rows += [_row(one, position) for one in (first, *(replace(first, judge=name) for name in members[1:]))]
    return pa.Table.from_pylist(rows, schema=_ORDERED)


#: Columns of the requests, and those to sort them by.
_ORDERED = pa.schema([*JUDGE_REQUESTS, ("source_offset", pa.int64()), ("span_index", pa.int32())])
_IDENTITY = ("trace_id", "span_id", "environment", "release", "session_id", "tier", "model")


def _row(request: JudgeRequest, position: int) -> dict[str, object]:
    return {
        "id": request.id, "key": request.trace_id, "value": request.to_json(),
        "source_offset": position, "span_index": request.span_index,
    }  # fmt: skip


def _shortened(text: str | None) -> str | None:
    """Return a conversation in one form, without its middle if it is too long for a request."""
    found = None if text is None else read_transcript(text)
    if found is None:
        return _cut(text)
    return write_transcript(cut_transcript(found, TRANSCRIPT_CHARACTERS, _FIRST_TURNS, INPUT_CHARACTERS))


def _cut(text: str | None) -> str | None:
    return text if text is None else text[:INPUT_CHARACTERS]
