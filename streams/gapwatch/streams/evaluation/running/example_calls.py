"""Calls the evaluated function on every example, in processes that may hang or crash without harm to the rest."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import pickle
import signal
import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

import orjson

from gapwatch.scorers.errors import UsageError
from gapwatch.streams.evaluation.datasets.example import Example
from gapwatch.streams.evaluation.running.call_process import CallBoard, CallResult, results_in, serve_calls

#: Most examples of a batch.
_BATCH = 256
#: A batch that took less time, in seconds, is followed by one of twice its size; one that took longer, by one example.
_SHORT_SECONDS = 0.02
#: Seconds after which busy processes get another one beside them. A fork costs more than a thousand short calls.
_BUSY_SECONDS = 0.005


@dataclass(frozen=True)
class CallLimits:
    """Limits of the calls of a run, all above 0.

    Attributes:
        concurrency: Number of processes.
        timeout_seconds: Time of one call.
        memory_mb: Memory that a process may allocate beyond what it begins with, megabytes.
        printed_bytes: Most bytes that one call may print.

    Raises:
        UsageError: A limit is not above 0.
    """

    concurrency: int = 4
    timeout_seconds: float = 60.0
    memory_mb: int = 2_000
    printed_bytes: int = 1_000_000

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise UsageError(f"{name} is {value}; it must be above 0")


class _Caller:
    """One process, and the examples that it was given."""

    def __init__(self, function: Callable[..., Any], limits: CallLimits) -> None:
        context = multiprocessing.get_context("fork")  # the function need not be importable
        self.connection, theirs = context.Pipe()
        self.printed, their_output = os.pipe()
        os.set_blocking(self.printed, False)
        self.board = CallBoard()
        self.process = context.Process(
            target=serve_calls, args=(function, theirs, self.board, their_output, limits.memory_mb << 20), daemon=True
        )
        with warnings.catch_warnings():
            # Python 3.12 warns of threads in a process that forks; the child runs the function and nothing else.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.process.start()
        theirs.close()
        os.close(their_output)
        self.given: deque[int] = deque()  # positions of examples
        self.size = 1  # of the next batch
        self.began = time.monotonic()
        self.printed_bytes = 0
        self.printing: int | None = None  # example of the call that printed them

    @property
    def call_of(self) -> int | None:
        """Example of the call that runs, or the first of the batch."""
        call = self.board.call
        return call[0] if call is not None else self.given[0] if self.given else None

    @property
    def call_began(self) -> float:
        """Moment of the start of the call that runs, or of the batch."""
        call = self.board.call
        return self.began if call is None else max(self.began, call[1])

    def stop(self) -> None:
        """Kill the process and what it started."""
        if self.process.pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
        self.process.join()

    def close(self) -> None:
        """Stop the process, and close what leads to it."""
        self.stop()
        self.connection.close()
        os.close(self.printed)


class ExampleCalls:
    """Calls of a function on examples.

    Args:
        function: The function; sync, async, or a generator of either kind.
        limits: Limits of the calls.
    """

    def __init__(self, function: Callable[..., Any], limits: CallLimits) -> None:
        self._function = function
        self._limits = limits
        self._queue: deque[int] = deque()
        self._callers: list[_Caller] = []
        self._done = 0

    def run(self, examples: Sequence[Example], on_done: Callable[[int], None] = lambda _done: None) -> None:
        """Fill output, error, latency and usage of each example.

        Args:
            examples: Examples; changed in place.
            on_done: Called with the number of examples that are done.
        """
        self._queue.extend(range(len(examples)))
        gc.freeze()  # a collection in a child would copy the memory of this process
        try:
            while self._done < len(examples):
                self._hand_out(examples)
                self._take(examples)
                on_done(self._done)
        finally:
            gc.unfreeze()
            for caller in self._callers:
                caller.close()
            self._callers = []

    def _hand_out(self, examples: Sequence[Example]) -> None:
        for caller in list(self._callers):
            self._send(caller, examples)
        now = time.monotonic()
        if all(now - caller.began >= _BUSY_SECONDS for caller in self._callers):
            while self._queue and len(self._callers) < self._limits.concurrency:
                self._callers.append(_Caller(self._function, self._limits))
                self._send(self._callers[-1], examples)
                if self._done == 0:
                    break  # how long a call takes is not known yet

    def _send(self, caller: _Caller, examples: Sequence[Example]) -> None:
        batch: list[tuple[int, bytes]] = []
        share = max(1, len(self._queue) // (2 * len(self._callers)))
        while not caller.given and self._queue and len(batch) < min(caller.size, share):
            index = self._queue.popleft()
            try:
                batch.append((index, pickle.dumps(dict(examples[index].inputs))))
            except Exception as error:  # inputs of any type, by the caller's own code
                told = f"the inputs cannot be sent to another process: {error}"
                self._settle(examples[index], CallResult(index, time.time(), 0.0, None, type(error).__name__, told))
        if not batch:
            return
        caller.began = time.monotonic()
        caller.given.extend(index for index, _ in batch)
        try:
            caller.connection.send(batch)
        except OSError:
            self._lose(caller, examples, None)

    def _take(self, examples: Sequence[Example]) -> None:
        busy = [caller for caller in self._callers if caller.given]
        if not busy:
            return
        seconds = min(caller.call_began for caller in busy) + self._limits.timeout_seconds - time.monotonic()
        if self._queue and len(self._callers) < self._limits.concurrency:
            seconds = min(seconds, _BUSY_SECONDS)
        sources: dict[Any, _Caller] = {}
        for caller in self._callers:
            sources[caller.connection] = sources[caller.printed] = caller
        for source in wait(list(sources), max(0.0, seconds)):
            caller = sources[source]
            if caller not in self._callers:
                continue
            if isinstance(source, Connection):
                self._receive(caller, examples)
            else:
                self._read_printed(caller, examples)
        now = time.monotonic()
        for caller in list(self._callers):
            if caller.given and now - caller.call_began >= self._limits.timeout_seconds:
                told = f"no answer in {self._limits.timeout_seconds:g} s"
                self._lose(caller, examples, ("TimeoutError", told))

    def _receive(self, caller: _Caller, examples: Sequence[Example]) -> None:
        try:
            is_last = self._accept(caller, examples, caller.connection.recv_bytes())
        except (EOFError, OSError):
            self._lose(caller, examples, None)
            return
        if is_last:
            self._queue.extendleft(reversed(caller.given))
            self._end(caller)
        elif not caller.given:
            is_short = time.monotonic() - caller.began < _SHORT_SECONDS
            caller.size = min(2 * caller.size, _BATCH) if is_short else 1

    def _accept(self, caller: _Caller, examples: Sequence[Example], frames: bytes) -> bool:
        """Settle the examples of some frames; return whether the process ends after them."""
        is_last = False
        for result in results_in(frames):
            if caller.given and caller.given[0] == result.example:  # else it is known already
                caller.given.popleft()
                self._settle(examples[result.example], result)
            is_last = result.is_last
        return is_last

    def _read_printed(self, caller: _Caller, examples: Sequence[Example]) -> None:
        call = caller.board.call
        try:
            size = len(os.read(caller.printed, 1 << 20))
        except BlockingIOError:
            return
        if call is None or call[0] != caller.printing:
            caller.printing, caller.printed_bytes = None if call is None else call[0], 0
        caller.printed_bytes += size
        if caller.printed_bytes > self._limits.printed_bytes and caller.given:
            told = f"the call printed more than {self._limits.printed_bytes:,} bytes"
            self._lose(caller, examples, ("OutputFlood", told))

    def _lose(self, caller: _Caller, examples: Sequence[Example], why: tuple[str, str] | None) -> None:
        """End a process; the example that it worked on has an error, those after it are given to others."""
        began, blamed = caller.call_began, caller.call_of
        self._end(caller, examples)
        lost = list(caller.given)
        if blamed is None or blamed not in lost:  # it returned meanwhile
            self._queue.extendleft(reversed(lost))
            return
        if why is None:
            code = caller.process.exitcode
            if code is not None and code < 0:
                why = "ProcessDied", f"the process was ended by signal {signal.Signals(-code).name}"
            else:
                why = "ProcessDied", f"the process ended with status {code}"
        seconds = time.monotonic() - began
        self._settle(examples[blamed], CallResult(blamed, time.time() - seconds, seconds, None, *why))
        self._queue.extendleft(reversed([index for index in lost if index != blamed]))

    def _end(self, caller: _Caller, examples: Sequence[Example] = ()) -> None:
        """End a process and take what it had finished."""
        self._callers.remove(caller)
        if caller.process.is_alive():
            caller.process.join(0.2)  # one that has just ended tells its status
        caller.stop()
        with contextlib.suppress(EOFError, OSError):
            while examples and caller.connection.poll():
                self._accept(caller, examples, caller.connection.recv_bytes())
        if examples:
            self._accept(caller, examples, caller.board.waiting())
        caller.close()

    def _settle(self, example: Example, result: CallResult) -> None:
        self._done += 1
        example.output = None if result.output is None else orjson.loads(result.output)
        example.error, example.error_type = result.error, result.error_type
        if result.error_type is not None and not result.error:
            example.error = result.error_type
        example.started_at, example.latency_seconds = result.started_at, result.seconds
        example.usage = result.usage
