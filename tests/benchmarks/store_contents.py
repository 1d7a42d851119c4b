"""Contents of a store as one digest a table: equal for equal findings, however a program cuts its slices.

Left out is when something was kept, in which commit, and in which words a dead letter is described. Sums of floats
depend on the order in which they were added: they are compared to nine digits, outside every digest.

    python -m tests.benchmarks.store_contents store.duckdb
"""

from __future__ import annotations

import json
import sys
from math import isclose
from pathlib import Path
from typing import Any

SOURCE = "lane, source_topic, source_partition"
SERIES = "lane, pipeline, environment, component, metric, metric_version, judge, epoch"
TICK = f"{SERIES}, bucket, fold_bucket, level, facet, value, outcome, p"

#: One SELECT a table; its rows, sorted, are digested.
CONTENTS = {
    "gaps": "SELECT * EXCLUDE (seq, kept_at) FROM gaps",
    "ticks": f"SELECT {TICK}, sum(n)::BIGINT AS n FROM ticks GROUP BY ALL",
    "histograms": f"""SELECT {TICK}, cell.key AS cell, sum(cell.value)::BIGINT AS n
        FROM (SELECT {TICK}, unnest(map_entries(histogram)) AS cell FROM ticks) GROUP BY ALL""",
    "session_ticks": f"""SELECT {SERIES}, bucket, session_id, p, sum(units)::BIGINT AS units, sum(bad)::BIGINT AS bad
        FROM session_ticks GROUP BY ALL""",
    "ledger": f"SELECT {SOURCE}, pipeline, metric, state, sum(n)::BIGINT AS n FROM ledger GROUP BY ALL",
    "dead_letters": "SELECT * EXCLUDE (seq, kept_at, detail) FROM dead_letters",
    "samples": "SELECT * EXCLUDE (seq, kept_at) FROM samples",
    "trace_ids": "SELECT * EXCLUDE (seq) FROM internal.trace_ids",
    "offsets": f"""SELECT {SOURCE}, min(from_offset) AS first, max(to_offset) AS last,
        sum(to_offset - from_offset)::BIGINT AS offsets, sum(records)::BIGINT AS records, sum(spans)::BIGINT AS spans,
        arg_max(prefix_sha256, to_offset) AS prefix_sha256 FROM offsets GROUP BY ALL""",
}
_SUMS = f"""SELECT sum(score_sum), sum(score_sum_squares) FROM ticks WHERE score_sum IS NOT NULL
    GROUP BY {TICK} ORDER BY {TICK}"""


def contents(store: Path) -> dict[str, Any]:
    """Return rows and digest of each table, and under `sums` the sums of scores and of their squares."""
    import duckdb  # only here: the driver, which imports `differences`, has to stay small

    with duckdb.connect(str(store), read_only=True) as connection:
        found: dict[str, Any] = {}
        for name, query in CONTENTS.items():
            found[name] = connection.execute(
                f"""SELECT count(*), md5(coalesce(string_agg(digest, '' ORDER BY digest), ''))
                    FROM (SELECT md5(CAST(t AS VARCHAR)) AS digest FROM ({query}) t)"""
            ).fetchall()[0]
        found["sums"] = connection.execute(_SUMS).fetchall()
    return found


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Return in which tables two stores differ, with the number of rows of each."""
    different = [
        f"{name} ({one[name][0]} and {other[name][0]} rows)"
        for name in CONTENTS
        if list(one[name]) != list(other[name])
    ]
    pairs = [
        (a, b)
        for left, right in zip(one["sums"], other["sums"], strict=False)
        for a, b in zip(left, right, strict=True)
    ]
    if len(one["sums"]) != len(other["sums"]) or not all(isclose(a, b, rel_tol=1e-9) for a, b in pairs):
        different.append("sums")
    return different


if __name__ == "__main__":
    print(json.dumps(contents(Path(sys.argv[1]))))
