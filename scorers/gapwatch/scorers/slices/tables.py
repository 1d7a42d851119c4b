"""Arrow schemas of the tables that scoring fills.

The order of the columns is that of the tables in the store. `sinks` adds the columns that only the writer knows (`seq`,
`kept_at`).
"""

from __future__ import annotations

import pyarrow as pa

_TEXT = pa.string()
_TIME = pa.timestamp("us")  # UTC
_COUNT = pa.int64()
_NUMBER = pa.float64()

#: Source of a record.
SOURCE = [
    ("lane", _TEXT),
    ("source_topic", _TEXT),
    ("source_partition", pa.int32()),
    ("source_offset", _COUNT),
]

#: Identity of a series.
SERIES = [
    ("lane", _TEXT),
    ("pipeline", _TEXT),
    ("environment", _TEXT),
    ("component", _TEXT),
    ("metric", _TEXT),
    ("metric_version", _TEXT),
    ("judge", _TEXT),
    ("epoch", _TEXT),
]

GAPS = pa.schema(
    [
        ("pipeline", _TEXT),
        ("environment", _TEXT),
        ("release", _TEXT),
        ("session_id", _TEXT),
        ("trace_id", _TEXT),
        ("span_id", _TEXT),
        ("component", _TEXT),
        ("tier", _TEXT),
        ("model", _TEXT),
        ("metric", _TEXT),
        ("metric_version", _TEXT),
        ("portfolio_sha", _TEXT),
        ("outcome", _TEXT),
        ("score", _NUMBER),
        ("label", _TEXT),
        ("band", _TEXT),
        ("reason", _TEXT),
        ("observed", _TEXT),
        ("evidence", _TEXT),  # JSON
        ("judge", _TEXT),
        ("judge_model_id", _TEXT),
        ("judge_prompt_sha", _TEXT),
        ("judge_sampling_params_sha", _TEXT),
        ("judge_request_sha", _TEXT),
        ("judge_input_sha", _TEXT),
        ("p_evaluated", _NUMBER),
        ("p_kept", _NUMBER),
        ("stratum", _TEXT),
        ("policy", _TEXT),
        *SOURCE,
        ("span_index", pa.int32()),  # -1: the trace
        ("event_at", _TIME),
    ]
)

TICKS = pa.schema(
    [
        *SERIES,
        ("bucket", _TIME),  # start of the 30 s of event time; null: no time
        ("fold_bucket", _TIME),
        ("level", _TEXT),  # span, unit
        ("facet", _TEXT),  # all, tier, release, model, stratum, label
        ("value", _TEXT),  # null for facet all only: a span without a value has no row in the other facets
        ("outcome", _TEXT),  # level span: pass, warn, fail, skip, unknown, error; level unit: good, bad, unknown
        ("p", _NUMBER),  # p_evaluated
        ("n", _COUNT),
        ("score_sum", _NUMBER),
        ("score_sum_squares", _NUMBER),
        ("histogram", pa.map_(pa.int32(), _COUNT)),  # null where there is no score
    ]
)

SESSION_TICKS = pa.schema(
    [
        *SERIES,
        ("bucket", _TIME),
        ("session_id", _TEXT),
        ("p", _NUMBER),
        ("units", _COUNT),  # good and bad
        ("bad", _COUNT),
    ]
)

LEDGER = pa.schema(
    [
        ("lane", _TEXT),
        ("source_topic", _TEXT),
        ("source_partition", pa.int32()),
        ("pipeline", _TEXT),  # null for records that name none
        ("metric", _TEXT),  # null: records
        ("state", _TEXT),
        ("n", _COUNT),
    ]
)

DEAD_LETTERS = pa.schema(
    [
        *SOURCE,
        ("cause", _TEXT),
        ("detail", _TEXT),
        ("size", _COUNT),  # bytes
        ("sha256", _TEXT),
    ]
)

SAMPLES = pa.schema(
    [
        *SOURCE,
        ("trace_id", _TEXT),
        ("cause", _TEXT),  # fail, judge
        ("p_kept", _NUMBER),
        ("record_sha256", _TEXT),  # of the record as it was consumed
        ("record", pa.binary()),  # redacted, zstd
        ("event_at", _TIME),
    ]
)

JUDGE_REQUESTS = pa.schema([("id", _TEXT), ("key", _TEXT), ("value", pa.binary())])

#: One 64-bit hash per record that was read: repeated trace ids are counted by it, and feedback finds its trace.
TRACE_IDS = pa.schema(
    [
        ("lane", _TEXT),
        ("pipeline", _TEXT),
        ("trace_hash", pa.uint64()),
        ("source_offset", _COUNT),
        ("environment", _TEXT),  # as the record names it; null: none
        ("release", _TEXT),
    ]
)

#: Names of facets that a partition counts apart, see `gapwatch.scorers.ticks.facet_names`.
FACET_NAMES = pa.schema(
    [
        ("lane", _TEXT),
        ("source_topic", _TEXT),
        ("source_partition", pa.int32()),
        ("pipeline", _TEXT),
        ("day", _TIME),  # day of event time; null: no time
        ("facet", _TEXT),  # environment, release, tier, model, p
        ("value", _TEXT),
        ("sightings", pa.int32()),  # 2: counted apart from here on; 1: sampled once
    ]
)

#: Schema of each table of a scored slice, by name.
SCORED_TABLES: dict[str, pa.Schema] = {
    "gaps": GAPS,
    "ticks": TICKS,
    "session_ticks": SESSION_TICKS,
    "ledger": LEDGER,
    "dead_letters": DEAD_LETTERS,
    "samples": SAMPLES,
    "judge_requests": JUDGE_REQUESTS,
    "trace_ids": TRACE_IDS,
    "facet_names": FACET_NAMES,
}

#: An empty table of each, made once: making one costs as much as a small table.
EMPTY_TABLES: dict[str, pa.Table] = {name: schema.empty_table() for name, schema in SCORED_TABLES.items()}
