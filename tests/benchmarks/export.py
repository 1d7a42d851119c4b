"""Rows a second that an export writes, beside a plain COPY of the same rows to Parquet by DuckDB, in turns.

python -m tests.benchmarks.export [ROWS] [TURNS]
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb

from gapwatch.sinks.commands.options import reading
from gapwatch.sinks.export.delta_place import DeltaPlace
from gapwatch.sinks.export.exported_tables import EXPORTED
from gapwatch.sinks.export.exporting import export_store
from gapwatch.sinks.store.store import Store
from tests.builders import KEPT_AT, whole_slice

#: Rows of half `gaps` and half `ticks`, in commits of 1,000 and 24 hours.
_FILL = (
    """INSERT INTO gaps BY NAME SELECT 1 + range // 1000 AS seq, g.* EXCLUDE (seq, trace_id, span_id, source_offset),
        't-' || hash(range) AS trace_id, 's-' || range AS span_id, range AS source_offset
        FROM range({rows}) r, (FROM gaps LIMIT 1) g""",
    """INSERT INTO ticks BY NAME SELECT 1 + range // 1000 AS seq, t.* EXCLUDE (seq, bucket, fold_bucket, n),
        TIMESTAMP '2026-03-22' + INTERVAL 30 SECOND * (range % 2880) AS bucket, bucket AS fold_bucket,
        1 + range % 9 AS n
        FROM range({rows}) r, (FROM ticks LIMIT 1) t""",
    """INSERT INTO offsets BY NAME SELECT 1 + range AS seq, o.* EXCLUDE (seq, from_offset, to_offset),
        10 * range AS from_offset, 10 * range + 10 AS to_offset
        FROM range(1, {rows} // 1000) r, (FROM offsets LIMIT 1) o""",
)


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return user and system seconds of this process, all threads together."""
    before = time.process_time()
    work()
    return time.process_time() - before


def main(rows: int = 400_000, turns: int = 3) -> None:
    """Print the CPU of both ways in each turn, rows a second, and their ratio."""
    with tempfile.TemporaryDirectory() as name:
        folder, path = Path(name), Path(name) / "s.duckdb"
        with Store.open(path, create=True) as store:
            store.write_slice(whole_slice(0, 10), KEPT_AT)
            for sql in _FILL:
                store.change("filling", lambda con, sql=sql: con.execute(sql.format(rows=rows // 2)))

        def export(number: int) -> None:
            with reading(path) as con:
                export_store(con, DeltaPlace(str(folder / f"delta-{number}")), lambda *_: None, in_use=False)

        def copy(number: int) -> None:
            with duckdb.connect(str(path), read_only=True) as con:
                for table in EXPORTED:
                    con.execute(f"COPY {table} TO '{folder}/{table}-{number}.parquet' (COMPRESSION zstd)")

        with duckdb.connect(str(path), read_only=True) as con:
            total = sum(con.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0] for table in EXPORTED)
        both = [(cpu_seconds(lambda n=n: export(n)), cpu_seconds(lambda n=n: copy(n))) for n in range(turns)]
        again = cpu_seconds(lambda: export(0))
    for exported, copied in both:
        each = f"export {exported:.2f} s of CPU, {total / exported:,.0f} rows/s; COPY {copied:.2f} s"
        print(f"{each}, ratio {exported / copied:.2f}")
    print(f"{total:,} rows; an export with nothing new: {again:.2f} s of CPU")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
