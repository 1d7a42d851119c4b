"""Scores slices of records: `score(plan, selection, records) -> ScoredSlice`, a pure function.

It uses no clock and no randomness, and nothing depends on where a slice begins or ends: the rows of two adjacent
slices, concatenated, and their counts, added, equal those of one slice over both. `score_together` scores slices of
several partitions at once, because a slice has a fixed price; each gives the same tables as it gives alone.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import zstandard

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.plan.block_function import column_of
from gapwatch.scorers.plan.codes import FAIL, OUTCOME_COUNT, OUTCOME_NAMES
from gapwatch.scorers.plan.plan import Plan
from gapwatch.scorers.plan.row_values import BlockRows
from gapwatch.scorers.portfolio.claim import JudgedClaim, MeasureClaim, PythonClaim
from gapwatch.scorers.scoring.deferred import settle_deferred
from gapwatch.scorers.scoring.gap_rows import StoredRows, gap_rows, kept_rows
from gapwatch.scorers.scoring.judge_requests import judge_requests
from gapwatch.scorers.scoring.records import DeadLetter, block_owners, decode_records
from gapwatch.scorers.scoring.redaction import Redactor
from gapwatch.scorers.scoring.scorer_host import ScorerHost
from gapwatch.scorers.slices.block_result import BlockResult
from gapwatch.scorers.slices.columns import NO_BUCKET, Coded, FloatArray, IntArray, SliceColumns, coded, timestamps
from gapwatch.scorers.slices.event_clock import BELIEVED, TIME_STATES, EventClock, SliceClocks
from gapwatch.scorers.slices.facet_names import NameBook
from gapwatch.scorers.slices.selection import MetricSelection, Selection
from gapwatch.scorers.slices.slice_group import SliceGroup, with_slices
from gapwatch.scorers.slices.slices import RecordSlice, ScoredSlice
from gapwatch.scorers.slices.tables import DEAD_LETTERS, EMPTY_TABLES, GAPS, LEDGER, SAMPLES, SCORED_TABLES, TRACE_IDS
from gapwatch.scorers.slices.wrong_clocks import MOST_READ, WrongClock, wrong_clocks
from gapwatch.scorers.ticks.record_scopes import RecordScopes
from gapwatch.scorers.ticks.slice_ticks import FACETS, SliceTicks

#: Most pipelines without a portfolio that a scored slice names.
_FOREIGN_NAMES = 5


class Scorer:
    """Plan that is ready to run, with its redactors and its Python scorers.

    Args:
        plan: The plan.
        scorers: Process of the `@scorer` functions that the plan's claims name.

    Raises:
        UsageError: A claim names a Python scorer that is not registered, or a field that the scorer does not read.
    """

    def __init__(self, plan: Plan, scorers: ScorerHost | None = None) -> None:
        self.plan = plan
        self.scorers = scorers
        _require_scorers(plan, scorers)
        self.redactors = {portfolio.sha: Redactor(portfolio.redact) for portfolio in plan.portfolios}


def _require_scorers(plan: Plan, scorers: ScorerHost | None) -> None:
    for block in plan.blocks:
        for planned in block.metrics:
            claim = planned.metric.claim
            if not isinstance(claim, PythonClaim):
                continue
            known = scorers.scorers if scorers is not None else {}
            where = f"metric {planned.metric.name} of portfolio {planned.portfolio.portfolio}"
            if claim.scorer not in known:
                names = ", ".join(sorted(known)) or "none"
                raise UsageError(
                    f"{where}: no scorer named {claim.scorer!r} (registered: {names}); name its module with --scorers"
                )
            missing = [f.text for f in claim.fields if f.text not in known[claim.scorer]]
            if missing:
                raise UsageError(
                    f"{where}: the scorer {claim.scorer!r} does not read {', '.join(missing)}; add it to its fields"
                )


def score(
    plan: Plan | Scorer, selection: Selection, records: RecordSlice, most_ticks: int | None = None
) -> ScoredSlice:
    """Score one slice of records.

    Args:
        plan: A plan, or a `Scorer`, which holds it from slice to slice.
        selection: The selection in force for the slice.
        records: Records of one source partition.
        most_ticks: As in `score_together`.

    Returns:
        Rows, ticks, ledger deltas, dead letters, samples and judge requests; rows are sorted by offset, span and
        metric.
    """
    return score_together(plan, selection, [records], most_ticks)[0]


def score_together(
    plan: Plan | Scorer, selection: Selection, slices: Sequence[RecordSlice], most_ticks: int | None = None
) -> list[ScoredSlice]:
    """Score slices of several partitions at once.

    Args:
        plan: As in `score`.
        selection: The selection in force for all of them.
        slices: Slices of one lane, at least one.
        most_ticks: About the most rows of ticks, of 350 bytes of memory each, unless of single records. Where there
            would be more, only the first records of each slice are scored; `RecordSlice.rest` has the others.

    Returns:
        For each slice what `score` returns for it; rows of counts may have another order.
    """
    scorer = plan if isinstance(plan, Scorer) else Scorer(plan)
    while most_ticks is not None and max(len(one.offsets) for one in slices) > 1:
        try:
            return _Scoring(scorer, selection, SliceGroup(slices), most_ticks).run()
        except _TooManyTicksError as error:
            slices = [one.first(max(1, int(len(one.offsets) * error.share))) for one in slices]
    return _Scoring(scorer, selection, SliceGroup(slices)).run()


class _TooManyTicksError(Exception):
    """Slices have more ticks than one result may have.

    Args:
        share: Share of the records that have as many as it may.
    """

    def __init__(self, share: float) -> None:
        super().__init__(share)
        self.share = share


@dataclass
class _Scoring:
    """Scores a group of slices. Until the end, `source_offset` holds the position of a record in the group."""

    scorer: Scorer
    selection: Selection
    group: SliceGroup
    most_ticks: int | None = None
    pieces: dict[str, list[pa.Table]] = field(default_factory=lambda: {name: [] for name in SCORED_TABLES})
    ledger: dict[tuple[int, str | None, str | None, str], int] = field(default_factory=dict)
    spans: IntArray = field(init=False)
    foreign: list[Counter[str]] = field(init=False)
    clocks: list[dict[str, EventClock]] = field(init=False)
    books: list[NameBook] = field(init=False)
    wrong: list[list[WrongClock]] = field(init=False)

    def __post_init__(self) -> None:
        self.spans = np.zeros(self.group.size, np.int64)
        self.foreign = [Counter() for _ in self.group.slices]
        self.clocks = [{} for _ in self.group.slices]
        self.books = [NameBook(one.names) for one in self.group.slices]
        self.wrong = [[] for _ in self.group.slices]

    def run(self) -> list[ScoredSlice]:
        self._score()
        tables = self._tables()
        return [
            ScoredSlice(
                one.lane,
                one.topic,
                one.partition,
                one.from_offset,
                one.to_offset,
                records=len(one.offsets),
                spans=int(self.spans[number]),
                prefix_sha256=one.prefix_sha256,
                tables=tables[number],
                foreign=dict(self.foreign[number].most_common(_FOREIGN_NAMES)),
                clocks={**(one.clocks.clocks if one.clocks else {}), **self.clocks[number]},
                names=self.books[number].names(),
                wrong_clocks=self.wrong[number],
            )
            for number, one in enumerate(self.group.slices)
        ]

    def judge_times(self, number: int, pipeline: str, buckets: IntArray) -> npt.NDArray[np.uint8]:
        """Judge the times of a pipeline's records in one slice by its clock, and move the clock."""
        given, moved = self.group.slices[number].clocks or SliceClocks(), self.clocks[number]
        codes, moved[pipeline] = replace(given, clocks={**given.clocks, **moved}).judge(pipeline, buckets)
        return codes

    def _score(self) -> None:
        """Read all records, and score those of the plan's pipelines."""
        own: list[int] = []
        traces: list[Any] = []
        foreign: list[tuple[int, str]] = []
        pipelines = {portfolio.pipeline for portfolio in self.scorer.plan.portfolios}
        for ord_, read in enumerate(decode_records(self.group.values, self.scorer.plan.types)):
            if isinstance(read, DeadLetter):
                self._bury(ord_, read)
            elif read.pipeline in pipelines:
                own.append(ord_)
                traces.append(read)
            else:
                foreign.append((int(self.group.of_records[ord_]), read.pipeline))
        for number, pipeline in foreign:
            self.count(number, None, None, "foreign", 1)
            self.foreign[number][pipeline] += 1
        if own:
            ords, stamps = np.array(own), self.group.timestamps
            rows = block_owners(self.scorer.plan.blocks, traces)
            columns = SliceColumns(traces, rows, None if stamps is None else stamps[ords])
            values = [block.inputs.rows(of.owners) for block, of in zip(self.scorer.plan.blocks, rows, strict=True)]
            _Part(self, columns, ords, traces, values).run()

    def _bury(self, ord_: int, letter: DeadLetter) -> None:
        raw = self.group.values[ord_].as_py() or b""
        row = {
            "lane": self.group.lane,
            "source_offset": ord_,
            "cause": letter.cause,
            "detail": letter.detail,
            "size": len(raw),
            "sha256": hashlib.sha256(raw).hexdigest(),
        }
        self.pieces["dead_letters"].append(pa.Table.from_pylist([row], schema=DEAD_LETTERS))
        self.count(int(self.group.of_records[ord_]), None, None, "dead_letter", 1)

    def count(self, slice_: int, pipeline: str | None, metric: str | None, state: str, n: int) -> None:
        """Add a count to the ledger of one slice."""
        if n:
            key = (slice_, pipeline, metric, state)
            self.ledger[key] = self.ledger.get(key, 0) + n

    def count_records(self, slices: IntArray, pipeline: str | None, state: str) -> None:
        """Add one record to the ledger for each number of a slice."""
        for number, n in enumerate(np.bincount(slices, minlength=self.group.size).tolist()):
            self.count(number, pipeline, None, state, n)

    def _tables(self) -> list[dict[str, pa.Table]]:
        """Return the tables of each slice."""
        for number, book in enumerate(self.books):
            for (pipeline, state), n in book.others.items():
                self.count(number, pipeline, None, state, n)
            names = book.table(self.group.lane)
            self.pieces["facet_names"].append(with_slices(names, np.full(names.num_rows, number)))
        self.pieces["ledger"].append(self._ledger_table())
        split: dict[str, list[pa.Table]] = {}
        for name, schema in SCORED_TABLES.items():
            found = [piece for piece in self.pieces[name] if piece.num_rows]
            if not found:
                split[name] = [EMPTY_TABLES[name]] * self.group.size
                continue
            whole = found[0] if len(found) == 1 else pa.concat_tables(found).combine_chunks()
            split[name] = self.group.split(_sorted(whole), schema)
        return [{name: tables[number] for name, tables in split.items()} for number in range(self.group.size)]

    def _ledger_table(self) -> pa.Table:
        entries = sorted(self.ledger.items(), key=lambda item: (item[0][0], *(part or "" for part in item[0][1:])))
        columns = zip(*((*key, n) for key, n in entries), strict=True) if entries else ((),) * 5
        slices, *counted = columns
        nothing = [None] * len(entries)
        table = pa.table(
            dict(zip(LEDGER.names, ([self.group.lane] * len(entries), nothing, nothing, *counted), strict=True)),
            schema=LEDGER,
        )
        return with_slices(table, np.array(slices, np.int64))


@dataclass
class _Part:
    """Records of the plan's pipelines, of all slices.

    Attributes:
        scoring: The scoring of all slices.
        columns: Their columns; its `ord` is the position among them.
        ords: Position in the group of each record.
        traces: The records.
        values: Values of the rows of each block.
    """

    scoring: _Scoring
    columns: SliceColumns
    ords: IntArray
    traces: list[Any]
    values: list[BlockRows]

    def run(self) -> None:
        scoring, columns, plan = self.scoring, self.columns, self.scorer.plan
        self._judge_times()
        self._count_read()
        u_of_record = selection_numbers(columns.of_records("trace_id"))
        slices = self._slices(np.arange(columns.records))
        every = coded(columns.of_records("pipeline"))
        scopes = RecordScopes(scoring.books, slices, every, np.arange(columns.records), columns.bucket, u_of_record)
        ticks = SliceTicks(columns, scoring.group.lane, slices, scopes)
        self._check_size(ticks)
        failing = np.zeros(columns.records, bool)
        judged = np.zeros(columns.records, bool)
        kept: list[StoredRows] = []
        for number, block in enumerate(plan.blocks):
            result = self._block_result(number)
            if result is None:
                continue
            selections = scoring.selection.of_block(block.sha, block.names)
            settle_deferred(columns, result, selections, u_of_record, self.scorer.scorers)
            self._count_outcomes(result)
            ticks.add_block(result, selections)
            kept.append(kept_rows(result, selections, u_of_record[columns.ord[result.rows]]))
            failing[columns.ord[result.rows][(result.outcomes == FAIL).any(axis=1)]] = True
            judged |= self._request_judges(result, selections, scopes)
        self._add_gaps([of for of in kept if len(of.row)])
        scoring.pieces["ticks"].append(ticks.table())
        scoring.pieces["session_ticks"] += ticks.session_tables()
        self._sample(failing, judged, u_of_record)

    def _check_size(self, ticks: SliceTicks) -> None:
        """Raise if there will be too many ticks: each group of records has rows of each metric, level and facet."""
        most, metrics = self.scoring.most_ticks, sum(len(block.metrics) for block in self.scorer.plan.blocks)
        expected = len(ticks.groups.p) * metrics * FACETS
        if most is not None and expected > most:
            raise _TooManyTicksError(most / expected)

    @property
    def scorer(self) -> Scorer:
        return self.scoring.scorer

    def _judge_times(self) -> None:
        """Count records whose time is far from that of their neighbours, and treat them as records without a time."""
        columns, given = self.columns, self.scoring.group.slices
        if all(of.clocks is None for of in given):
            return
        own = np.flatnonzero(columns.bucket != NO_BUCKET)
        pipelines, slices = coded(columns.of_records("pipeline").take(pa.array(own))), self._slices(own)
        wrong: list[IntArray] = []
        for number, of in enumerate(given):
            for code, pipeline in enumerate(pipelines.values.to_pylist() if of.clocks is not None else (), 1):
                mine = own[(pipelines.codes == code) & (slices == number)]
                codes = self.scoring.judge_times(number, pipeline, columns.bucket[mine])
                for time, state in TIME_STATES.items():
                    found = self.ords[mine[codes == time]]
                    if len(found):
                        self.scoring.count(number, pipeline, None, state, len(found))
                        raw = (self.scoring.group.values[at].as_py() for at in found[:MOST_READ].tolist())
                        self.scoring.wrong[number] += wrong_clocks(pipeline, state, raw, len(found))
                wrong.append(mine[codes != BELIEVED])
        if wrong:
            columns.distrust(np.concatenate(wrong))

    def _count_read(self) -> None:
        scoring, columns = self.scoring, self.columns
        pipelines, slices = columns.of_records("pipeline"), self._slices(np.arange(columns.records))
        for name in pc.unique(pipelines):
            mine = np.asarray(pc.equal(pipelines, name))
            scoring.count_records(slices[mine], name.as_py(), "read")
        spans = np.array([len(trace.spans) for trace in self.traces], np.int64)
        np.add.at(scoring.spans, slices, spans)
        hashes = trace_hashes(columns.of_records("trace_id"))
        lanes = pa.repeat(pa.scalar(scoring.group.lane, pa.string()), columns.records)
        named = (columns.of_records("environment"), columns.of_records("release"))
        table = pa.table([lanes, pipelines, pa.array(hashes), pa.array(self.ords), *named], schema=TRACE_IDS)
        scoring.pieces["trace_ids"].append(table)

    def _block_result(self, number: int) -> BlockResult | None:
        """Return the outcomes of one block, or None for a block without rows."""
        block, values = self.scorer.plan.blocks[number], self.values[number]
        if not values.owners:
            return None
        codes, scores = block.function.codes_and_scores(values)
        result = BlockResult(block, self.columns.block_rows(number), values, codes, scores)
        for m, planned in enumerate(block.metrics):
            outcome, claim = planned.outcome, planned.metric.claim
            if outcome.labels is not None:
                result.labels[m] = pa.array(outcome.labels(values), pa.string())
            if outcome.stratum is not None:
                result.strata[m] = np.array(column_of(values, outcome.stratum), np.uint8)
            if isinstance(claim, MeasureClaim) and planned.metric.when is not None:
                _blank_where_not_applicable(result, m)
        return result

    def _count_outcomes(self, result: BlockResult) -> None:
        outcomes = result.outcomes
        slices, size = self._slices(self.columns.ord[result.rows]), self.scoring.group.size
        width = outcomes.shape[1]
        key = np.arange(width) * OUTCOME_COUNT + outcomes
        if size > 1:
            key += (slices * (width * OUTCOME_COUNT))[:, None]
        counted = np.bincount(key.ravel(order="K"), minlength=size * width * OUTCOME_COUNT)
        counts = counted.reshape(size, width, OUTCOME_COUNT)
        pipeline, names = result.block.portfolio.pipeline, result.block.names
        counts[:, :, 0] = 0
        where = np.nonzero(counts)
        for number, m, outcome, n in zip(*(part.tolist() for part in (*where, counts[where])), strict=True):
            self.scoring.count(number, pipeline, names[m], OUTCOME_NAMES[outcome], n)

    def _add_gaps(self, kept: list[StoredRows]) -> None:
        if not kept:
            return
        scoring = self.scoring
        gaps = gap_rows(self.columns, kept, scoring.selection.id, self.scorer.redactors)
        replaced = {
            "lane": pa.repeat(pa.scalar(scoring.group.lane, pa.string()), gaps.num_rows),
            "source_offset": pa.array(self.ords[np.asarray(gaps.column("source_offset"))]),
        }
        columns = [replaced.get(name, gaps.column(name)) for name in GAPS.names]
        scoring.pieces["gaps"].append(pa.table(columns, schema=GAPS))

    def _slices(self, ords: IntArray) -> IntArray:
        """Return the number of the slice of some records of the part."""
        numbers: IntArray = self.scoring.group.of_records[self.ords[ords]]
        return numbers

    def _request_judges(
        self, result: BlockResult, selections: Sequence[MetricSelection], scopes: RecordScopes
    ) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        judged = np.zeros(self.columns.records, bool)
        if not any(isinstance(planned.metric.claim, JudgedClaim) for planned in result.block.metrics):
            return judged
        redactor = self.scorer.redactors[result.block.sha]
        rows = self.columns.ord[result.rows]
        requests = judge_requests(
            self.columns, self.scoring.group, self.ords, result, selections, self.scoring.selection.id, redactor, scopes
        )
        self.scoring.pieces["judge_requests"].append(requests)
        for m, planned in enumerate(result.block.metrics):
            if isinstance(planned.metric.claim, JudgedClaim):
                judged[rows[result.codes[:, m] == 100]] = True
        return judged

    def _sample(self, failing: np.ndarray, judged: np.ndarray, u_of_record: FloatArray) -> None:
        """Store the redacted text of traces with a failing row, at the sample rate, and of all judged traces."""
        columns, scoring = self.columns, self.scoring
        pipelines = coded(columns.of_records("pipeline"))
        for portfolio in self.scorer.plan.portfolios:
            mine = _is_value(pipelines, portfolio.pipeline)
            rate = scoring.selection.sample_rates[portfolio.sha]
            chosen = np.flatnonzero(mine & (judged | (failing & (u_of_record < rate))))
            if len(chosen) == 0:
                continue
            raw = [scoring.group.values[int(self.ords[i])].as_py() for i in chosen]
            texts = self.scorer.redactors[portfolio.sha].redact(pa.array([r.decode("utf-8") for r in raw], pa.string()))
            compress = zstandard.ZstdCompressor(level=3).compress
            n = len(chosen)
            table = {
                "lane": pa.repeat(pa.scalar(scoring.group.lane, pa.string()), n),
                "source_topic": pa.nulls(n, pa.string()),
                "source_partition": pa.nulls(n, pa.int32()),
                "source_offset": pa.array(self.ords[chosen]),
                "trace_id": columns.of_records("trace_id").take(pa.array(chosen)),
                "cause": pa.array(np.where(judged[chosen], "judge", "fail")),
                "p_kept": pa.array(np.where(judged[chosen], 1.0, rate)),
                "record_sha256": pa.array([hashlib.sha256(r).hexdigest() for r in raw]),
                "record": pa.array([compress(t.encode()) for t in texts.to_pylist()], pa.binary()),
                "event_at": timestamps(columns.record_time[chosen]),
            }
            scoring.pieces["samples"].append(pa.table(table, schema=SAMPLES))


def selection_numbers(trace_ids: pa.Array) -> FloatArray:
    """Return the selection number u(trace_id) in [0, 1): the first 52 bits of sha256("gapwatch/1/" + trace_id)."""
    digest = hashlib.sha256
    first = [digest(b"gapwatch/1/" + t).digest()[:7] for t in trace_ids.cast(pa.binary()).to_pylist()]
    words = np.frombuffer(b"".join(b"\0" + f for f in first), dtype=">u8")
    return (words >> np.uint64(4)).astype(np.float64) / float(1 << 52)


def trace_hashes(trace_ids: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Return a 64-bit hash of each trace id, for counting repeated traces."""
    digest = hashlib.blake2b
    joined = b"".join(digest(t, digest_size=8).digest() for t in trace_ids.cast(pa.binary()).to_pylist())
    return np.frombuffer(joined, dtype="<u8")


def _blank_where_not_applicable(result: BlockResult, m: int) -> None:
    absent = result.codes[:, m] == 0
    if m in result.scores:
        result.scores[m] = np.where(absent, np.nan, result.scores[m])


def _is_value(column: Coded, text: str) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    index = column.values.index(pa.scalar(text, column.values.type)).as_py()
    return column.codes == index + 1 if index >= 0 else np.zeros(len(column.codes), bool)


def _sorted(table: pa.Table) -> pa.Table:
    """Sort rows by offset and span, keeping the portfolio's order of metrics; tables of counts stay unsorted."""
    if "source_offset" not in table.column_names:
        return table
    offsets = np.asarray(table.column("source_offset"))
    spans = (
        np.asarray(table.column("span_index"))
        if "span_index" in table.column_names
        else np.zeros(len(offsets), np.int32)
    )
    order = np.lexsort((spans, offsets))
    return table if (order == np.arange(len(order))).all() else table.take(pa.array(order))
