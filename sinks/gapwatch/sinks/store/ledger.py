"""Balance of the ledger: every consumed record and span is in exactly one state, and the offsets have no gaps.

Four rules hold after every commit:

- records consumed (`offsets`) = read + dead letters + foreign (`ledger`), for each lane and partition;
- each span of a metric is in one state: the ledger has as many as the ticks count by outcome, expired ones
  (`gapwatch.sinks.upkeep.retention`) included, and no state is below zero;
- each span that came over OTLP is in one state (`gapwatch.sinks.spans.span_counts`);
- the slices of a partition follow one another without hole or overlap.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import duckdb

from gapwatch.scorers.errors import JobError
from gapwatch.sinks.store.positions import SourceKey
from gapwatch.sinks.store.store_reader import StoreReader

MetricKey = tuple[str, str | None, str]

#: States of a record. `duplicate` records are counted separately, because they were consumed before.
RECORD_STATES = ("read", "dead_letter", "foreign")
#: States of a span that are outcomes. Ticks count these too; the others (pending, sampled_out, shed_*) have no tick.
OUTCOME_STATES = ("pass", "warn", "fail", "skip", "unknown", "error")


#: Upper bounds of the histogram of delays of late spans, seconds.
DELAY_BOUNDS = (1.0, 5.0, 10.0, 30.0, 60.0, 300.0)
#: State of what came over OTLP; all other states of an item add up to it.
CONSUMED = "consumed"


@dataclass(frozen=True)
class SourceBalance:
    """Records of one partition in one lane.

    Attributes:
        lane, topic, partition: Source of the records.
        from_offset, to_offset: Range of stored offsets, the end exclusive.
        slices: Number of commits.
        consumed: Number of records in the table `offsets`.
        read, dead_letters, foreign, duplicates: Number of records by state.
        ahead, behind: Number of read records whose time is far from that of their neighbours.
        holes: Offsets between two slices that no slice covers.
        overlaps: Offsets that two slices cover.
    """

    lane: str
    topic: str
    partition: int
    from_offset: int
    to_offset: int
    slices: int
    consumed: int
    read: int
    dead_letters: int
    foreign: int
    duplicates: int
    holes: int
    overlaps: int
    ahead: int = 0
    behind: int = 0

    @property
    def imbalance(self) -> int:
        """Number of records and offsets by which the sums disagree; 0 if they balance."""
        accounted = self.read + self.dead_letters + self.foreign
        return abs(self.consumed - accounted) + self.holes + self.overlaps

    @property
    def without_record(self) -> int:
        """Offsets within the slices that had no record; 0 where offsets count something else than records."""
        if not self.consumed or self.lane.startswith("file:"):
            return 0
        return self.to_offset - self.from_offset - self.holes + self.overlaps - self.consumed


@dataclass(frozen=True)
class MetricBalance:
    """Spans of one metric in one lane, by state.

    Attributes:
        lane, pipeline, metric: Identity of the metric.
        states: Number of spans by state. A state that spans leave (pending) can return to 0, but not go below.
        ticked: Number of spans by outcome, as the ticks count them.
    """

    lane: str
    pipeline: str | None
    metric: str
    states: dict[str, int]
    ticked: dict[str, int]

    @property
    def imbalance(self) -> int:
        """Number of spans by which states are below zero or differ from the ticks; 0 if they balance."""
        below_zero = sum(-n for n in self.states.values() if n < 0)
        return below_zero + sum(
            abs(max(self.states.get(state, 0), 0) - self.ticked.get(state, 0)) for state in OUTCOME_STATES
        )


@dataclass(frozen=True)
class SpanBalance:
    """Spans, or log records, of one source.

    Attributes:
        source: Name of the source: the topic that the whole traces go to.
        item: `span`, `log_record`, `span_event` or `feedback`.
        consumed: Number that was received.
        states: Number by state and cause, such as `assembled (quiet)`.
    """

    source: str
    item: str
    consumed: int
    states: dict[str, int]

    @property
    def imbalance(self) -> int:
        """Number by which the sums disagree; 0 if they balance."""
        return abs(self.consumed - sum(self.states.values())) + sum(-n for n in self.states.values() if n < 0)


@dataclass(frozen=True)
class LateBalance:
    """Late spans of one source, as many as the store keeps.

    Attributes:
        source: Topic of the traces.
        n: Number of late spans.
        up_to: Upper bound of the delay after the closing of the trace, in seconds, to the number at or below it.
        services: Service to its number, the largest first, ten at most.
        quiet: Quiet time in seconds that would have caught 99 % of them.
    """

    source: str
    n: int
    up_to: dict[str, int]
    services: dict[str, int]
    quiet: float


@dataclass(frozen=True)
class Balance:
    """Balance of a whole store.

    Attributes:
        sources: One entry for each partition and lane.
        metrics: One entry for each metric, pipeline and lane.
        strays: Number of records in the ledger whose partition has no offsets.
        repeated: Number of traces by lane whose id had already come at another offset.
        spans: One entry for the spans, and one for the log records, of each source of OTLP.
        late: Late spans of each source of OTLP.
    """

    sources: list[SourceBalance]
    metrics: list[MetricBalance]
    strays: int
    repeated: dict[str, int]
    spans: list[SpanBalance]
    late: list[LateBalance] = field(default_factory=list)

    @property
    def imbalance(self) -> int:
        """Sum of all disagreements; 0 if the ledger balances."""
        parts: list[SourceBalance | MetricBalance | SpanBalance] = [*self.sources, *self.metrics, *self.spans]
        return sum(part.imbalance for part in parts) + self.strays


def imbalance(con: StoreReader) -> int:
    """Return the number of records and spans by which a store's ledger disagrees; 0 if it balances.

    Raises:
        JobError: The store cannot be read.
    """
    return _read(con, with_repeated=False).imbalance


def read_balance(con: StoreReader) -> Balance:
    """Read the balance of a store.

    Raises:
        JobError: The store cannot be read.
    """
    return _read(con, with_repeated=True)


def _read(con: StoreReader, *, with_repeated: bool) -> Balance:
    try:
        sources, strays = _sources(con)
        repeated = _repeated(con) if with_repeated else {}
        return Balance(sources, _metrics(con), strays, repeated, _span_balances(con), _late_balances(con))
    except duckdb.Error as error:
        raise JobError(f"the ledger cannot be read: {error}") from error


def _sources(con: StoreReader) -> tuple[list[SourceBalance], int]:
    counted: dict[SourceKey, dict[str, int]] = {}
    for lane, topic, partition, state, n in con.execute(
        """SELECT lane, source_topic, source_partition, state, sum(n)::BIGINT FROM ledger
            WHERE metric IS NULL GROUP BY ALL"""
    ).fetchall():
        counted.setdefault((lane, topic, partition), {})[state] = n
    balances = []
    for lane, topic, partition, *sums in con.execute(
        """SELECT lane, source_topic, source_partition, min(from_offset), max(to_offset), count(*),
            sum(records)::BIGINT,
            coalesce(sum(greatest(from_offset - before, 0)), 0)::BIGINT,
            coalesce(sum(greatest(before - from_offset, 0)), 0)::BIGINT
        FROM (SELECT *, max(to_offset) OVER (
                PARTITION BY lane, source_topic, source_partition ORDER BY seq
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM offsets)
        GROUP BY ALL ORDER BY ALL"""
    ).fetchall():
        states = counted.pop((lane, topic, partition), {})
        first, last, slices, consumed, holes, overlaps = sums
        read, dead_letters, foreign, duplicates = (states.get(state, 0) for state in (*RECORD_STATES, "duplicate"))
        balances.append(
            SourceBalance(
                lane,
                topic,
                partition,
                first,
                last,
                slices,
                consumed,
                read,
                dead_letters,
                foreign,
                duplicates,
                holes,
                overlaps,
                states.get("ahead", 0),
                states.get("behind", 0),
            )
        )
    strays = sum(abs(states.get(state, 0)) for states in counted.values() for state in RECORD_STATES)
    return balances, strays


def _metrics(con: StoreReader) -> list[MetricBalance]:
    states = _by_metric(
        con,
        """SELECT lane, pipeline, metric, state, sum(n)::BIGINT FROM ledger
            WHERE metric IS NOT NULL GROUP BY ALL ORDER BY ALL""",
    )
    ticked = _by_metric(
        con,
        """SELECT lane, pipeline, metric, outcome, sum(n)::BIGINT
            FROM (FROM ticks UNION ALL BY NAME FROM internal.past_ticks)
            WHERE level = 'span' AND facet = 'all' AND n > 0 GROUP BY ALL ORDER BY ALL""",
    )
    keys = sorted(states.keys() | ticked.keys(), key=lambda key: (key[0], key[1] or "", key[2]))
    return [MetricBalance(*key, states.get(key, {}), ticked.get(key, {})) for key in keys]


def _span_balances(con: StoreReader) -> list[SpanBalance]:
    """Return the balances of all sources; empty if no span was ever received."""
    found: dict[tuple[str, str], dict[str, int]] = {}
    for source, item, state, cause, n in con.execute(
        "SELECT source, item, state, cause, sum(n)::BIGINT FROM span_ledger GROUP BY ALL ORDER BY ALL"
    ).fetchall():
        name = f"{state} ({cause})" if cause else state
        found.setdefault((source, item), {})[name] = n
    return [
        SpanBalance(source, item, states.pop(CONSUMED, 0), {name: n for name, n in states.items() if n})
        for (source, item), states in found.items()
    ]


def _late_balances(con: StoreReader) -> list[LateBalance]:
    """Return the late spans of each source; empty without one, and for a store from before they were kept."""
    if not con.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = 'late_spans'").fetchall():
        return []
    found = []
    # A kill between two writes may have written a span twice.
    rows = """FROM (SELECT source, trace_id, span_id, any_value(service) AS service, min(delay) AS delay,
        min(gap) AS gap FROM late_spans GROUP BY ALL)"""
    bounds = ", ".join(f"count(*) FILTER (delay <= {bound})::BIGINT" for bound in DELAY_BOUNDS)
    for source, n, quiet, *up_to in con.execute(
        f"SELECT source, count(*)::BIGINT, quantile_disc(gap, 0.99), {bounds} {rows} GROUP BY source ORDER BY source"
    ).fetchall():
        services = con.execute(
            f"SELECT service, count(*)::BIGINT AS n {rows} WHERE source = ? GROUP BY ALL ORDER BY n DESC, service "
            "LIMIT 10",
            [source],
        ).fetchall()
        cells = {f"{bound:g}": count for bound, count in zip(DELAY_BOUNDS, up_to, strict=True)}
        found.append(LateBalance(source, n, cells, dict(services), quiet))
    return found


def _by_metric(con: StoreReader, sql: str) -> dict[MetricKey, dict[str, int]]:
    counts: dict[MetricKey, dict[str, int]] = {}
    for lane, pipeline, metric, word, n in con.execute(sql).fetchall():
        counts.setdefault((lane, pipeline, metric), {})[word] = n
    return counts


def _repeated(con: StoreReader) -> dict[str, int]:
    rows = con.execute(
        """SELECT lane, sum(times - 1)::BIGINT FROM (
            SELECT lane, pipeline, trace_hash, count(*) AS times FROM internal.trace_ids GROUP BY ALL)
        GROUP BY lane"""
    ).fetchall()
    return dict(rows)
