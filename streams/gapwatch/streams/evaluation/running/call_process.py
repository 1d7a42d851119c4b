"""Process that calls the evaluated function: one example after the other, until its parent is gone."""

from __future__ import annotations

import asyncio
import marshal
import mmap
import os
import pickle
import resource
import struct
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any, NamedTuple

import orjson

#: Most bytes of an output as JSON; a record of a trace may have 10,000,000.
MAX_OUTPUT_BYTES = 4_000_000
#: Seconds between two looks at whether the parent still lives.
_LOOK_SECONDS = 2.0
#: Seconds after which results are sent before their batch is done. Longer, and the progress bar stands still.
_SEND_SECONDS = 0.02
#: Bytes of results that wait to be sent.
_WAITING_BYTES = 1 << 20
_HEAD, _LENGTH = struct.Struct("qdq"), struct.Struct("I")


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


class CallBoard:
    """Memory that a process shares with its parent: the call it is in, and results that are not sent yet.

    A process that is killed leaves here what it had finished, so that no call is repeated and none is blamed for
    another.
    """

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _HEAD.size + _WAITING_BYTES)
        self._used = 0
        self.idle()

    def begin(self, example: int, moment: float) -> None:
        """Note the start of a call: position of the example, and moment of the monotonic clock."""
        _HEAD.pack_into(self._memory, 0, example, moment, self._used)

    def idle(self) -> None:
        """Note that no call runs."""
        self.begin(-1, 0.0)

    @property
    def call(self) -> tuple[int, float] | None:
        """Position of the example of the call that runs, and the moment of its start; None where none runs."""
        example, moment, _ = _HEAD.unpack_from(self._memory)
        return None if example < 0 else (example, moment)

    def add(self, frame: bytes) -> bool:
        """Add the frame of a result; return False where there is no room for it."""
        end = self._used + len(frame)
        if end > _WAITING_BYTES:
            return False
        self._memory[_HEAD.size + self._used : _HEAD.size + end] = frame
        self._used = end
        self.idle()
        return True

    def waiting(self) -> bytes:
        """Return the frames that are not sent yet."""
        _, _, used = _HEAD.unpack_from(self._memory)
        return self._memory[_HEAD.size : _HEAD.size + used]

    def clear(self) -> None:
        """Forget the frames, which are sent."""
        self._used = 0
        self.idle()


def frame_of(result: CallResult) -> bytes:
    """Return a result as bytes that state their length."""
    data = marshal.dumps(tuple(result))
    return _LENGTH.pack(len(data)) + data


def results_in(frames: bytes) -> Iterator[CallResult]:
    """Yield the results of some frames."""
    position = 0
    while position < len(frames):
        (length,) = _LENGTH.unpack_from(frames, position)
        position += _LENGTH.size
        yield CallResult(*marshal.loads(frames[position : position + length]))  # noqa: S302 - of this run
        position += length


def serve_calls(
    function: Callable[..., Any], connection: Connection, board: CallBoard, printed: int, memory_bytes: int
) -> None:
    """Answer each batch, a list of (position, pickled inputs), with the frames of its results.

    Args:
        function: The evaluated function.
        connection: Connection to the parent.
        board: Memory shared with the parent.
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
    with asyncio.Runner() as runner:
        while True:
            while not connection.poll(_LOOK_SECONDS):
                if os.getppid() != parent:
                    os._exit(0)
            try:
                batch = connection.recv()
            except (EOFError, OSError):
                os._exit(0)
            _answer(function, batch, connection, board, runner)


def _answer(
    function: Callable[..., Any], batch: list[tuple[int, bytes]], connection: Connection, board: CallBoard,
    runner: asyncio.Runner,
) -> None:  # fmt: skip
    sent = time.monotonic()
    for position, (index, inputs) in enumerate(batch, 1):
        begin = time.monotonic()
        board.begin(index, begin)
        result = _called(function, index, inputs, begin, runner)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        frame = frame_of(result)
        now = begin + result.seconds
        has_room = board.add(frame)
        if not has_room or result.is_last or position == len(batch) or now - sent > _SEND_SECONDS:
            connection.send_bytes(board.waiting() if has_room else board.waiting() + frame)
            board.clear()
            sent = now
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


def _called(
    function: Callable[..., Any], index: int, inputs: bytes, begin: float, runner: asyncio.Runner
) -> CallResult:
    started_at = time.time()
    try:
        value = function(**pickle.loads(inputs))  # noqa: S301 - of this run
        if isinstance(value, CoroutineType | AsyncGeneratorType | GeneratorType):
            value = _settled(value, runner)
        seconds = time.monotonic() - begin
        output, usage = _as_json(value)
        if len(output) > MAX_OUTPUT_BYTES:
            told = f"the output has {len(output):,} bytes as JSON; at most {MAX_OUTPUT_BYTES:,} are scored"
            return CallResult(index, started_at, seconds, None, "ValueError", told)
    except BaseException as error:  # SystemExit, KeyboardInterrupt, and the like cost this example alone
        seconds = time.monotonic() - begin
        is_last = isinstance(error, MemoryError)  # what else failed for want of memory is not known
        return CallResult(index, started_at, seconds, None, type(error).__name__, _words(error), None, is_last)
    return CallResult(index, started_at, seconds, output, usage=usage)


def _words(error: BaseException) -> str:
    """Return the text of an error, as far as it has one that JSON can hold."""
    try:
        text = str(error)[:500]
    except Exception:  # code of the user
        return ""
    return text.encode("utf-8", "replace").decode()


def _settled(value: Any, runner: asyncio.Runner) -> Any:
    """Return the value of a coroutine, or what a generator yields: a text where it yields texts, else a list."""
    if isinstance(value, CoroutineType):
        value = runner.run(value)
    if isinstance(value, AsyncGeneratorType):
        return _joined(runner.run(_collected(value)))
    return _joined(value) if isinstance(value, GeneratorType) else value


async def _collected(generator: Any) -> list[Any]:
    return [item async for item in generator]


def _joined(items: Iterable[Any]) -> Any:
    found = list(items)
    return "".join(found) if found and all(isinstance(item, str) for item in found) else found


def _as_json(value: Any) -> tuple[bytes, dict[str, float] | None]:
    """Return a value as JSON, and its usage; the reply of a model's client is its text."""
    usage = None
    if isinstance(value, str):
        return orjson.dumps(value), None
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
