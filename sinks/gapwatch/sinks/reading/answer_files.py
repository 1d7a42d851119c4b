"""Writes query results as CSV and Parquet."""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from gapwatch.scorers.errors import JobError, UsageError
from gapwatch.sinks.reading.query_answer import QueryResult, interruptible, next_batch
from gapwatch.sinks.store.store_reader import StoreReader

#: Rows of a row group in Parquet. Larger: more memory while writing. Smaller: slower readers.
_GROUP_ROWS = 100_000


def write_csv(answer: QueryResult, out: TextIO) -> None:
    """Write a header and the rows as CSV (RFC 4180). Null is empty, times are ISO 8601 with Z, JSON is its text."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(answer.names)
    for batch in answer.rows:
        writer.writerows([_cell(value) for value in row] for row in batch)


def _cell(value: Any) -> Any:
    if isinstance(value, datetime):
        moment = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
        return moment.isoformat() + "Z"
    return value.hex() if isinstance(value, bytes) else value


def write_parquet(con: StoreReader, sql: str, path: Path) -> int:
    """Write the result of a checked query as a Parquet file, which appears only when it is complete.

    Returns:
        The number of rows.
    """
    import pyarrow.parquet  # imported here: it takes a sixth of the start of `gapwatch history`

    reader = interruptible(con, lambda: con.sql(sql).to_arrow_reader(_GROUP_ROWS))
    rows = 0

    def write(part: Path) -> None:
        nonlocal rows
        with pyarrow.parquet.ParquetWriter(part, reader.schema, compression="zstd") as writer:
            while (batch := interruptible(con, lambda: next_batch(reader))) is not None:
                writer.write_batch(batch)
                rows += batch.num_rows

    write_whole(path, write)
    return rows


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Call `write` on a temporary file beside `path`, and rename it to `path` when it is complete.

    Raises:
        UsageError: The directory does not exist, or writing is not permitted.
        JobError: The disk is full.
    """
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.", dir=path.parent)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error
    os.close(handle)
    part = Path(name)
    try:
        write(part)
        part.chmod(0o666 & ~_umask())
        part.replace(path)
    except OSError as error:
        raise JobError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
