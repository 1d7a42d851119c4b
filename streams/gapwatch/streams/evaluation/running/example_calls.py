"""Calls the evaluated function on every example, in processes that may hang or crash without harm to the rest."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import select
import signal
import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

import orjson

from gapwatch.streams.evaluation.datasets.example import Example
from gapwatch.streams.evaluation.running.call_process import CallResult, serve_calls

#: Most examples and bytes sent ahead to a process, so that a fast function does not wait for the parent. More bytes
#: than a socket's buffer holds would block both ends.
_AHEAD, _AHEAD_BYTES = 16, 32_000


@dataclass(frozen=True)
class CallLimits:
    """Limits of the calls of a run.

    Attributes:
        concurrency: Number of processes.
        timeout_seconds: Time of one call.
        memory_mb: Memory that a process may allocate beyond what it begins with, megabytes.
        printed_bytes: Most bytes that one call may print.
    """

    concurrency: int = 4
    timeout_seconds: float = 60.0
    memory_mb: int = 2_000
    printed_bytes: int = 1_000_000


class _Caller:
    """One process, and the examples that it was given."""

    def __init__(self, function: Callable[..., Any], limits: CallLimits) -> None:
        context = multiprocessing.get_context("fork")  # the function need not be importable
        self.connection, theirs = context.Pipe()
        self.printed, their_output = os.pipe()
        os.set_blocking(self.printed, False)
        self.process = context.Process(
            target=serve_calls, args=(function, theirs, their_output, limits.memory_mb << 20), daemon=True
        )
        with warnings.catch_warnings():
            # Python 3.12 warns of threads in a process that forks; the child runs the function and nothing else.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.process.start()
        theirs.close()
        os.close(their_output)
        self.arrived = select.poll()
        self.arrived.register(self.connection, select.POLLIN)
        self.given: deque[tuple[int, int]] = deque()  # positions of examples, and bytes
        self.began = time.monotonic()
        self.printed_bytes = 0

    def close(self) -> None:
        """Kill the process and what it started."""
        if self.process.pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
        self.process.join()
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
        try:
            while self._done < len(examples):
                self._hand_out(examples)
                self._take(examples)
                on_done(self._done)
        finally:
            for caller in self._callers:
                caller.close()
            self._callers = []

    def _hand_out(self, examples: Sequence[Example]) -> None:
        wanted = min(self._limits.concurrency, len(self._queue) + sum(bool(c.given) for c in self._callers))
        while len(self._callers) < wanted:
            self._callers.append(_Caller(self._function, self._limits))
        # One for each process first: sent ahead is only what the others need not do.
        share = max(1, min(_AHEAD, len(self._queue) // max(1, 4 * len(self._callers))))
        for caller in list(self._callers):
            while self._queue and len(caller.given) < share and self._send(caller, examples):
                pass

    def _send(self, caller: _Caller, examples: Sequence[Example]) -> bool:
        index = self._queue[0]
        try:
            data = pickle.dumps((index, dict(examples[index].inputs)))
        except Exception as error:  # inputs of any type, by the caller's own code
            self._queue.popleft()
            told = f"the inputs cannot be sent to another process: {error}"
            self._settle(examples[index], CallResult(index, time.time(), 0.0, None, type(error).__name__, told))
            return True
        if caller.given and sum(size for _, size in caller.given) + len(data) > _AHEAD_BYTES:
            return False
        self._queue.popleft()
        if not caller.given:
            caller.began, caller.printed_bytes = time.monotonic(), 0
        caller.given.append((index, len(data)))
        try:
            caller.connection.send_bytes(data)
        except OSError:
            self._lose(caller, examples, None)
            return False
        return True

    def _take(self, examples: Sequence[Example]) -> None:
        busy = [caller for caller in self._callers if caller.given]
        if not busy:
            return
        deadline = min(caller.began for caller in busy) + self._limits.timeout_seconds
        sources: dict[Any, _Caller] = {}
        for caller in self._callers:
            sources[caller.connection] = sources[caller.printed] = caller
        for source in wait(list(sources), max(0.0, deadline - time.monotonic())):
            caller = sources[source]
            if caller not in self._callers:
                continue
            if isinstance(source, Connection):
                self._receive(caller, examples)
            else:
                self._read_printed(caller, examples)
        now = time.monotonic()
        for caller in list(self._callers):
            if caller.given and now - caller.began >= self._limits.timeout_seconds:
                told = f"no answer in {self._limits.timeout_seconds:g} s"
                self._lose(caller, examples, ("TimeoutError", told))

    def _receive(self, caller: _Caller, examples: Sequence[Example]) -> None:
        try:
            while caller.arrived.poll(0):
                result: CallResult = caller.connection.recv()
                caller.given.popleft()
                caller.began, caller.printed_bytes = time.monotonic(), 0
                self._settle(examples[result.example], result)
                if result.is_last:
                    self._queue.extendleft(index for index, _ in reversed(caller.given))
                    self._end(caller)
                    return
        except (EOFError, OSError):
            self._lose(caller, examples, None)

    def _read_printed(self, caller: _Caller, examples: Sequence[Example]) -> None:
        try:
            caller.printed_bytes += len(os.read(caller.printed, 1 << 20))
        except BlockingIOError:
            return
        if caller.printed_bytes > self._limits.printed_bytes and caller.given:
            told = f"the call printed more than {self._limits.printed_bytes:,} bytes"
            self._lose(caller, examples, ("OutputFlood", told))

    def _lose(self, caller: _Caller, examples: Sequence[Example], why: tuple[str, str] | None) -> None:
        """End a process; the example that it worked on has an error, those sent ahead are given to others."""
        lost = [index for index, _ in caller.given]
        began = caller.began
        self._end(caller)
        if why is None:
            code = caller.process.exitcode
            if code is not None and code < 0:
                why = "ProcessDied", f"the process was ended by signal {signal.Signals(-code).name}"
            else:
                why = "ProcessDied", f"the process ended with status {code}"
        if lost:
            seconds = time.monotonic() - began
            self._settle(examples[lost[0]], CallResult(lost[0], time.time() - seconds, seconds, None, *why))
            self._queue.extendleft(reversed(lost[1:]))

    def _end(self, caller: _Caller) -> None:
        self._callers.remove(caller)
        if caller.process.is_alive():
            caller.process.join(0.2)  # one that has just ended tells its status
        caller.close()

    def _settle(self, example: Example, result: CallResult) -> None:
        self._done += 1
        example.output = None if result.output is None else orjson.loads(result.output)
        example.error, example.error_type = result.error, result.error_type
        if result.error_type is not None and not result.error:
            example.error = result.error_type
        example.started_at, example.latency_seconds = result.started_at, result.seconds
        example.usage = result.usage
