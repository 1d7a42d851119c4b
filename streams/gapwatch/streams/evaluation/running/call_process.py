"""Process that calls the evaluated function: one example after the other, until its parent is gone."""

from __future__ import annotations

import asyncio
import inspect
import os
import resource
import select
import sys
import time
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import orjson

#: Most bytes of an output as JSON; a record of a trace may have 10,000,000.
MAX_OUTPUT_BYTES = 4_000_000
#: Seconds between two looks at whether the parent still lives.
_LOOK_SECONDS = 2.0


class CallResult(NamedTuple):
    """Result of one call.

    Attributes:
        example: Position of the example.
        started_at: Seconds since the epoch, UTC.
        seconds: Duration.
        output: JSON of the returned value; None after an error.
        error_type, error: Class and text of the error.
        usage: Tokens and cost.
        is_last: True if the process ends after this call.
    """

    example: int
    started_at: float
    seconds: float
    output: bytes | None
    error_type: str | None = None
    error: str | None = None
    usage: dict[str, float] | None = None
    is_last: bool = False


def serve_calls(function: Callable[..., Any], connection: Connection, printed: int, memory_bytes: int) -> None:
    """Answer each (index, inputs) with a `CallResult`.

    Args:
        function: The evaluated function.
        connection: Connection to the parent.
        printed: File descriptor that takes what the function prints.
        memory_bytes: Memory that the function may allocate.
    """
    parent = os.getppid()
    os.setsid()  # so that a stop ends the programs that the function starts, too
    os.dup2(printed, 1)
    os.dup2(printed, 2)
    sys.stdout = open(1, "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    _limit_memory(memory_bytes)
    # Made once: the method `poll` of a connection makes one for each call, which costs more than a short call.
    arrived = select.poll()
    arrived.register(connection, select.POLLIN)
    with asyncio.Runner() as runner:
        while True:
            while not arrived.poll(_LOOK_SECONDS * 1_000):
                if os.getppid() != parent:
                    os._exit(0)
            try:
                index, inputs = connection.recv()
            except (EOFError, OSError):
                os._exit(0)
            result = _called(function, index, inputs, runner)
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            connection.send(result)
            if result.is_last:
                os._exit(0)


def _limit_memory(memory_bytes: int) -> None:
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except OSError:  # not Linux
        return
    most = pages * resource.getpagesize() + memory_bytes
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _called(function: Callable[..., Any], index: int, inputs: dict[str, Any], runner: asyncio.Runner) -> CallResult:
    started_at, begin = time.time(), time.perf_counter()
    try:
        value = _settled(function(**inputs), runner)
        seconds = time.perf_counter() - begin
        output, usage = _as_json(value)
        if len(output) > MAX_OUTPUT_BYTES:
            told = f"the output has {len(output):,} bytes as JSON; at most {MAX_OUTPUT_BYTES:,} are scored"
            return CallResult(index, started_at, seconds, None, "ValueError", told)
    except BaseException as error:  # SystemExit, KeyboardInterrupt, and the like cost this example alone
        seconds = time.perf_counter() - begin
        is_last = isinstance(error, MemoryError)  # what else failed for want of memory is not known
        return CallResult(index, started_at, seconds, None, type(error).__name__, str(error)[:500], None, is_last)
    return CallResult(index, started_at, seconds, output, usage=usage)


def _settled(value: Any, runner: asyncio.Runner) -> Any:
    """Return the value of a coroutine, or what a generator yields: a text where it yields texts, else a list."""
    if inspect.iscoroutine(value):
        value = runner.run(value)
    if inspect.isasyncgen(value):
        return _joined(runner.run(_collected(value)))
    if inspect.isgenerator(value):
        return _joined(value)
    return value


async def _collected(generator: Any) -> list[Any]:
    return [item async for item in generator]


def _joined(items: Iterable[Any]) -> Any:
    found = list(items)
    return "".join(found) if found and all(isinstance(item, str) for item in found) else found


def _as_json(value: Any) -> tuple[bytes, dict[str, float] | None]:
    """Return a value as JSON, and its usage; the reply of a model's client is its text."""
    usage = None
    try:
        from gapwatch.publisher.model_response import read_model_response, read_usage
    except ImportError:  # without the publisher
        pass
    else:
        if isinstance(value, dict):
            usage = read_usage(value.get("usage"))
        elif (reply := read_model_response(value)) is not None:
            value, usage = reply.text, reply.usage
    return orjson.dumps(value, _plain, orjson.OPT_NON_STR_KEYS), usage


def _plain(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    return str(value)
