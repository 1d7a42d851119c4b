"""Runs untrusted queries in the process that writes the store: each in its own thread, with limits on its cost."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import duckdb
import pyarrow as pa

from gapwatch.scorers.errors import GapwatchError, JobError, UsageError
from gapwatch.sinks.api.query_gate import QueryGate
from gapwatch.sinks.reading.answer_files import write_csv
from gapwatch.sinks.reading.history import read_only
from gapwatch.sinks.reading.json_values import json_array
from gapwatch.sinks.reading.query_answer import QueryResult, next_batch

#: Formats of a result. `duckdb_arrow` is Arrow with DuckDB's own types where Arrow has none, for another DuckDB.
Form = Literal["json", "csv", "arrow", "duckdb_arrow"]
FORMS: tuple[Form, ...] = ("json", "csv", "arrow", "duckdb_arrow")
CONTENT_TYPES: dict[Form, str] = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "arrow": "application/vnd.apache.arrow.stream",
    "duckdb_arrow": "application/vnd.apache.arrow.stream",
}

#: Seconds between checks of a running query. Larger: it can exceed its memory limit by more; DuckDB fills about 1 GB a
#: second.
_LOOK_SECONDS = 0.05
_BATCH_ROWS = 10_000

Result = TypeVar("Result")


@dataclass(frozen=True)
class QueryLimits:
    """Limits of a query.

    Attributes:
        rows: Rows of a result as JSON or CSV. Python makes these while the stream waits: 100,000 rows take 0.5 s.
        arrow_rows: Rows of a result as Arrow.
        bytes: Size of a result.
        seconds: Time from the start of the query to the end of its result.
        memory_bytes: Growth of the memory of the process meanwhile, the writer's own part included.
        at_once: Number of queries at the same time; a further one is refused as busy.
    """

    rows: int = 100_000
    arrow_rows: int = 1_000_000
    bytes: int = 128 * 2**20
    seconds: float = 30.0
    memory_bytes: int = 512 * 2**20
    at_once: int = 2


class QueryLimitError(GapwatchError):
    """A query was ended because it exceeded a limit; `limit` is `time` or `memory`."""

    def __init__(self, limit: str, message: str) -> None:
        self.limit = limit
        super().__init__(message)


class BusyError(GapwatchError):
    """The largest number of queries is already running."""


@dataclass(frozen=True)
class QueryAnswer:
    """Answer to a query.

    Attributes:
        body: Result in the requested format.
        rows: Number of rows in the body.
        truncated: `rows` or `bytes` if that limit cut the result; otherwise empty.
    """

    body: bytes
    rows: int
    truncated: str


class LiveQueries:
    """Runs queries on cursors of a store in use, for the thread of one event loop.

    Args:
        cursor: Returns a new connection to the store; this class closes it.
        limits: Limits of each query.
    """

    def __init__(self, cursor: Callable[[], duckdb.DuckDBPyConnection], limits: QueryLimits = QueryLimits()) -> None:
        self._cursor, self.limits = cursor, limits
        self._gate = QueryGate()
        self._under_way: set[duckdb.DuckDBPyConnection] = set()
        self.outcomes: dict[str, int] = dict.fromkeys(
            ("answered", "refused", "limited", "busy", "cancelled", "failed"), 0
        )

    @property
    def running(self) -> int:
        """Number of running queries, those included that were interrupted and have not ended yet."""
        return len(self._under_way)

    async def answer(self, sql: str, parameters: Sequence[Any], form: Form, rows: int | None = None) -> QueryAnswer:
        """Run one SELECT.

        Args:
            sql: Untrusted text.
            parameters: Values for its `?`: texts, numbers, booleans, null, and lists of them.
            form: Format of the result.
            rows: Largest number of rows, if lower than the limit.

        Raises:
            UsageError: The query is refused, or it fails.
            QueryLimitError: The query took too long, or too much memory.
            BusyError: Too many other queries are running.
            JobError: The store cannot be read.
        """
        most = self.limits.arrow_rows if form in ("arrow", "duckdb_arrow") else self.limits.rows
        most = most if rows is None else max(0, min(rows, most))

        def ask(con: duckdb.DuckDBPyConnection) -> QueryAnswer:
            self._gate.check(sql)
            with read_only(con, sql):
                return _MAKERS[form](con, sql, parameters, most, self.limits.bytes)

        return await self.run(ask)

    async def run(self, ask: Callable[[duckdb.DuckDBPyConnection], Result]) -> Result:
        """Run a function on a new cursor, with the limits on time and memory.

        Raises:
            As `answer`; and whatever the function raises.
        """
        try:
            result = await self._run(ask)
        except UsageError:
            self.outcomes["refused"] += 1
            raise
        except QueryLimitError:
            self.outcomes["limited"] += 1
            raise
        except BusyError:
            self.outcomes["busy"] += 1
            raise
        except asyncio.CancelledError:
            self.outcomes["cancelled"] += 1
            raise
        except BaseException:
            self.outcomes["failed"] += 1
            raise
        self.outcomes["answered"] += 1
        return result

    async def _run(self, ask: Callable[[duckdb.DuckDBPyConnection], Result]) -> Result:
        if len(self._under_way) >= self.limits.at_once:
            raise BusyError(f"{self.limits.at_once} queries are running, which is the limit; try again soon")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Result] = loop.create_future()
        con = self._cursor()
        self._under_way.add(con)

        def finish(result: Result | None, error: BaseException | None) -> None:
            self._under_way.discard(con)
            if done.done():
                return
            if error is not None:
                done.set_exception(error)
            else:
                done.set_result(result)  # type: ignore[arg-type]

        def work() -> None:
            result, error = None, None
            try:
                result = ask(con)
            except BaseException as caught:
                error = caught
                if isinstance(caught.__cause__, duckdb.OutOfMemoryException):  # before the memory check found it
                    error = _too_much_memory(self.limits)
            with contextlib.suppress(duckdb.Error):
                con.close()
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(finish, result, error)

        # A daemon thread, not a pool: the process must be able to end during a function that ignores interrupts.
        threading.Thread(target=work, name="query", daemon=True).start()
        return await self._watch(con, done)

    async def _watch(self, con: duckdb.DuckDBPyConnection, done: asyncio.Future[Result]) -> Result:
        """Wait for the result. End the query if it exceeds a limit, or if nobody waits for it any more."""
        limits, before = self.limits, _resident_bytes()
        end = time.monotonic() + limits.seconds
        why: QueryLimitError | None = None
        try:
            while True:
                ready, _ = await asyncio.wait({done}, timeout=_LOOK_SECONDS)
                if ready:
                    break
                if why is None:
                    why = _limit_reached(limits, before, end)
                    given_up_at = time.monotonic() + 2.0
                if why is not None:
                    con.interrupt()  # repeated: an interrupt that comes before DuckDB begins is lost
                    if time.monotonic() > given_up_at:
                        done.add_done_callback(_read_error)
                        raise why
            return done.result()
        except KeyboardInterrupt:  # `read_only` raises it for an interrupt
            raise why or JobError("the query was interrupted") from None
        except asyncio.CancelledError:
            done.add_done_callback(_read_error)
            asyncio.get_running_loop().create_task(_interrupt_until_over(con, done))
            raise

    async def close(self) -> None:
        """End the running queries; takes at most 2 s."""
        for _ in range(40):
            if not self._under_way:
                break
            for con in list(self._under_way):
                con.interrupt()
            await asyncio.sleep(_LOOK_SECONDS)
        self._gate.close()


def _resident_bytes() -> int:
    """Return the resident memory of this process in bytes; 0 if the system does not report it."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def _limit_reached(limits: QueryLimits, before: int, end: float) -> QueryLimitError | None:
    if time.monotonic() > end:
        return QueryLimitError("time", f"the query took more than {limits.seconds:g} s and was ended; read less data")
    if _resident_bytes() - before > limits.memory_bytes:
        return _too_much_memory(limits)
    return None


def _too_much_memory(limits: QueryLimits) -> QueryLimitError:
    return QueryLimitError(
        "memory", f"the query took more than {limits.memory_bytes >> 20} MiB of memory and was ended; read less data"
    )


async def _interrupt_until_over(con: duckdb.DuckDBPyConnection, done: asyncio.Future[Any]) -> None:
    while not done.done():
        con.interrupt()
        await asyncio.wait({done}, timeout=_LOOK_SECONDS)


def _read_error(done: asyncio.Future[Any]) -> None:
    """Retrieve an error that nobody waits for; otherwise the event loop logs it as never retrieved."""
    if not done.cancelled():
        done.exception()


def _counted(
    con: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[Any], rows: int
) -> tuple[QueryResult, list[int]]:
    """Return a result with one row more than the limit, and a list that receives its number of rows."""
    con.execute(sql, list(parameters))
    description = con.description or []
    seen: list[int] = [0]

    def batches() -> Iterator[list[tuple[Any, ...]]]:
        while batch := con.fetchmany(_BATCH_ROWS):
            seen[0] += len(batch)
            surplus = max(0, seen[0] - rows)
            yield batch[: len(batch) - surplus] if surplus else batch
            if surplus:
                return

    return QueryResult([column[0] for column in description], [column[1] for column in description], batches()), seen


def _json(con: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[Any], rows: int, size: int) -> QueryAnswer:
    answer, seen = _counted(con, sql, parameters, rows)
    out, count, full = io.BytesIO(), 0, False
    for piece in json_array(answer):
        if full := out.tell() + len(piece) > size:
            out.write(b"\n]\n")
            break
        out.write(piece)
        count += 1
    sent = count if full else min(seen[0], rows)
    return QueryAnswer(out.getvalue(), sent, "bytes" if full else "rows" if seen[0] > rows else "")


def _csv(con: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[Any], rows: int, size: int) -> QueryAnswer:
    answer, seen = _counted(con, sql, parameters, rows)
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="utf-8", newline="", write_through=True)
    sent, full = 0, False

    def until_full() -> Iterator[list[tuple[Any, ...]]]:
        nonlocal sent, full
        for batch in answer.rows:
            for begin in range(0, len(batch), 100):
                some = batch[begin : begin + 100]
                yield some
                sent += len(some)
                if full := raw.tell() > size:  # exceeds the limit by a hundred rows at most
                    return

    write_csv(QueryResult(answer.names, answer.types, until_full()), out)
    return QueryAnswer(raw.getvalue(), sent, "bytes" if full else "rows" if seen[0] > rows else "")


def _plain_arrow(
    con: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[Any], rows: int, size: int
) -> QueryAnswer:
    return _arrow(con, sql, parameters, rows, size, _with_decimals)


def _arrow(
    con: duckdb.DuckDBPyConnection,
    sql: str,
    parameters: Sequence[Any],
    rows: int,
    size: int,
    convert: Callable[[pa.RecordBatch], pa.RecordBatch] = lambda batch: batch,
) -> QueryAnswer:
    relation = con.sql(sql, params=list(parameters)) if parameters else con.sql(sql)
    reader: pa.RecordBatchReader = relation.to_arrow_reader(_BATCH_ROWS)
    out, sent, truncated = io.BytesIO(), 0, ""
    schema = convert(pa.RecordBatch.from_pylist([], schema=reader.schema)).schema
    with pa.ipc.new_stream(out, schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        while (batch := next_batch(reader)) is not None:
            if sent + batch.num_rows > rows:
                batch, truncated = batch.slice(0, rows - sent), "rows"
            writer.write_batch(convert(batch))
            sent += batch.num_rows
            if not truncated and out.tell() > size:
                truncated = "bytes"
            if truncated:
                break
    return QueryAnswer(out.getvalue(), sent, truncated)


def _with_decimals(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch with its 128-bit integers, such as sums of counts, as decimals, which have the same bytes."""
    columns = [
        pa.Array.from_buffers(pa.decimal128(38, 0), len(column), column.storage.buffers(), offset=column.offset)
        if str(getattr(column.type, "type_name", "")) == "hugeint"
        else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


_MAKERS: dict[Form, Callable[[duckdb.DuckDBPyConnection, str, Sequence[Any], int, int], QueryAnswer]] = {
    "json": _json,
    "csv": _csv,
    "arrow": _plain_arrow,
    "duckdb_arrow": _arrow,
}
