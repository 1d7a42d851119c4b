"""The loop in Python that `replay` is measured against: the benchmark's own checks, written by hand for speed.

It knows the traffic and the portfolio of `tests.benchmarks.traffic` and nothing else, and stores the same as `replay`.

    python -m tests.benchmarks.hand_loop traces.jsonl portfolio.yaml store.duckdb
"""

from __future__ import annotations

import gc
import hashlib
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from gapwatch.scorers.loading.load import load_portfolio
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.slices.selection import Selection, fixed_selection
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.scorers.slices.tables import SCORED_TABLES
from gapwatch.sinks.store.store import Store
from tests.benchmarks.hand_checks import check
from tests.benchmarks.hand_found import CHECKS, KEEP_PASS
from tests.benchmarks.hand_rows import (
    Rows,
    Source,
    dead_letters_table,
    samples_table,
    trace_ids_table,
)
from tests.benchmarks.hand_shape import Records, decode
from tests.benchmarks.hand_ticks import ledger_table, ticks_and_ledger
from tests.benchmarks.traffic import portfolio

SLICE_RECORDS = 4_000
#: Lines that are decoded in one go: few enough to be still in the processor's cache when they are digested.
_LINES = 100


def slices(file: IO[bytes], digest: Any) -> Iterator[tuple[int, int, Records]]:
    """Yield the records of each 4,000 lines, and the numbers of the first line and one past the last."""
    line = 0
    while True:
        first, records = line, Records()
        while line < first + SLICE_RECORDS and (lines := list(islice(file, _LINES))):
            if not lines[-1].endswith(b"\n"):
                lines[-1] += b"\n"  # an end of line that is still to be written changes nothing of what was read
            block = b"".join(lines)
            digest.update(block)
            decode(records, lines, block, line)
            line += len(lines)
        if line == first:
            return
        yield first, line, records


def tables_of(records: Records, rows: Rows, loaded: Portfolio, source: Source) -> dict[str, pa.Table]:
    """Check the records of a slice; return what is stored of it."""
    found = check(records.traces)
    ticks, totals = ticks_and_ledger(found, loaded, source.lane)
    states = {"read": len(records.traces), "dead_letter": len(records.dead), "foreign": records.foreign}
    return {
        **{name: schema.empty_table() for name, schema in SCORED_TABLES.items()},
        "gaps": rows.table(found, records, source),
        "ticks": ticks,
        "ledger": ledger_table(totals, loaded, source.lane, source.topic, states),
        "dead_letters": dead_letters_table(records, source),
        "samples": samples_table(found, records, source),
        "trace_ids": trace_ids_table(records, source),
    }


def run(path: Path, loaded: Portfolio, policy: Selection, store: Store) -> None:
    """Score a file into a store."""
    source = Source(f"file:{path.name}", path.name, policy.id, policy.sample_rates[loaded.sha])
    rows = Rows(loaded)
    digest = hashlib.sha256()
    with path.open("rb", buffering=1 << 18) as file:
        for first, last, records in slices(file, digest):
            scored = ScoredSlice(
                source.lane, source.topic, 0, first, last, records.count, 3 * len(records.traces), digest.hexdigest(),
                tables_of(records, rows, loaded, source),
            )  # fmt: skip
            store.write_slice(scored, datetime.now(UTC))


def _check_known(path: Path, policy: Selection) -> None:
    """Refuse a portfolio that the loop was not written for."""
    keeps = {(float(m.keep[1]), float(m.keep[3]), float(m.rates[0]), m.epoch) for m in policy.metrics.values()}
    if path.read_text(encoding="utf-8") != portfolio(CHECKS) or keeps != {(KEEP_PASS, 1.0, 1.0, "1")}:
        raise ValueError(f"{path}: the loop is written for the portfolio of tests.benchmarks.traffic alone")


def main(arguments: list[str]) -> None:
    """Score a file by the benchmark's portfolio into a new store."""
    traces, portfolio_path, store_path = (Path(argument) for argument in arguments)
    loaded = load_portfolio(portfolio_path)
    policy = fixed_selection([loaded])
    _check_known(portfolio_path, policy)
    # Nothing here makes circles, and the collector would walk over each slice several times.
    gc.disable()
    with Store.open(store_path, create=True) as store:
        store.register(loaded, policy.rows())
        run(traces, loaded, policy, store)


if __name__ == "__main__":
    main(sys.argv[1:])
