"""Buffer of finished traces, and the thread that empties it, so that a slow target never delays the pipeline."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
import weakref
from collections import Counter, deque

from gapwatch.publisher.back_off import BackOff
from gapwatch.publisher.outage_log import OutageLog
from gapwatch.publisher.recording import Span, Trace, encode_trace

log = logging.getLogger("gapwatch.publisher")

#: Bytes of the largest record that Gapwatch reads; a larger one would be a dead letter.
MAX_RECORD_BYTES = 10_000_000
#: Most seconds that the end of the process waits for unsent traces.
EXIT_SECONDS = 5.0
#: Seconds without any trace leaving the buffer until a warning.
STALL_SECONDS = 60.0
#: Seconds after which an idle thread looks without having been woken: for the warning above, and in case an exception
#: from outside (a signal handler's) ended an `offer` between the buffer and the wake-up.
LOOK_SECONDS = 5.0


class BufferedTrace:
    """One trace on its way to the target."""

    __slots__ = ("data", "key", "size", "spans", "trace")

    def __init__(
        self, trace: Trace | None, spans: list[Span] | None, size: int, key: bytes = b"", data: bytes = b""
    ) -> None:
        self.trace = trace
        self.spans = spans
        self.size = size
        self.key = key
        self.data = data


class TraceSender:
    """A bounded buffer of traces and its thread; a subclass says where the traces go.

    Wake-ups: the thread declares itself idle under the lock, and only while the buffer is empty. A trace that comes
    then ends the idle state and announces itself, under the same lock. So there is at most one announcement under way,
    none while the thread works, and none can be lost.

    Args:
        target: The target, for log lines.
        max_traces: Most traces in the buffer.
        max_bytes: Most bytes in the buffer.

    Attributes:
        counts: `sent`, and dropped traces by cause: `buffer_full`, `too_large`, `not_json`, `refused`, `closed`.
    """

    def __init__(self, target: str, max_traces: int, max_bytes: int) -> None:
        self._target = target
        self._max_traces, self._max_bytes = max_traces, max_bytes
        self._reset()
        _SENDERS.add(self)

    def _reset(self) -> None:
        """Empty the buffer and the counts; in a forked child, because the parent sends its traces itself."""
        self.counts: Counter[str] = Counter()
        self._waiting: deque[BufferedTrace] = deque()
        self._in_work: dict[BufferedTrace, None] = {}
        self._pending, self._pending_bytes = 0, 0
        # Re-entrant: a signal handler or a finalizer that traces may interrupt `offer` on its own thread.
        self._lock = threading.RLock()
        self._settled = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None
        self._is_idle = self._is_closed = self._has_to_end = False
        self._moved_at = time.monotonic()
        self._outage = OutageLog()

    # --- the pipeline's side

    def offer(self, trace: Trace, spans: list[Span], size: int) -> bool:
        """Put a finished trace into the buffer, or drop and count it; never waits.

        Args:
            trace: The trace; must not be changed afterwards.
            spans: Its spans that have ended.
            size: Approximate size in bytes.

        Returns:
            True if the buffer took it.
        """
        return self._offer(BufferedTrace(trace, spans, size))

    def offer_record(self, key: bytes, data: bytes) -> bool:
        """Put a record that is written as JSON already into the buffer, as `offer` does."""
        return self._offer(BufferedTrace(None, None, len(data), key, data))

    def _offer(self, item: BufferedTrace) -> bool:
        size = item.size
        with self._lock:
            taken = self._put(item)
            is_started = self._thread is not None or self._is_closed or self._start_thread()
            is_stalled = self._is_stalled()
            is_first_closed = not taken and self.counts["closed"] == 1
        if is_first_closed:
            log.warning(
                "the publisher is closed: this trace and all later ones are dropped and counted as `closed`; close it "
                "after the last trace"
            )
        if size > self._max_bytes:
            self._outage.say(
                "buffer_full",
                f"a trace of about {size} bytes is larger than the whole buffer and is dropped; raise "
                f"max_buffered_bytes, which is {self._max_bytes}",
            )
        if not is_started:
            self._outage.say("thread", "the system starts no more threads; traces wait in the buffer")
        if is_stalled:
            self._report_stall()
        return taken

    def flush(self, seconds: float) -> bool:
        """Wait until every trace in the buffer is acknowledged or dropped; False if `seconds` were too short."""
        with self._settled:
            return self._settled.wait_for(lambda: self._pending == 0, seconds)

    def close(self, seconds: float) -> bool:
        """Flush for at most `seconds` and end the thread; later traces are dropped. False if unsent traces were lost.

        A second call does nothing.
        """
        deadline = time.monotonic() + seconds
        with self._lock:
            if self._is_closed:
                return self._pending == 0
            self._is_closed = True
            thread = self._thread
        done = self.flush(seconds if thread is not None else 0.0)
        with self._lock:
            self._has_to_end = True
            left = self._pending
            if thread is not None:
                self._end_work()
        if thread is not None:
            thread.join(max(1.0, deadline - time.monotonic()))
        if left:
            log.warning("the publisher closed with %d traces unsent; they are lost", left)
        return done

    @property
    def pending(self) -> int:
        """Number of traces that are neither acknowledged nor dropped yet."""
        return self._pending

    def _put(self, item: BufferedTrace) -> bool:
        size = item.size
        if self._is_closed:
            self.counts["closed"] += 1
            return False
        if self._pending >= self._max_traces or self._pending_bytes + size > self._max_bytes:
            self.counts["buffer_full"] += 1
            return False
        if not self._pending:
            self._moved_at = time.monotonic()
        self._pending += 1
        self._pending_bytes += size
        self._waiting.append(item)
        self._announce()
        return True

    def _announce(self) -> None:
        """Wake the thread if it is idle; called under the lock after each addition to the buffer."""
        if self._is_idle:
            self._wake_up()
            self._is_idle = False

    def _start_thread(self) -> bool:
        """Start the thread; False if the system refuses one, then the next trace tries again."""
        thread = threading.Thread(target=self._run_thread, name="gapwatch-publisher", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return False
        self._thread = thread
        return True

    def _is_stalled(self) -> bool:
        return self._pending > 0 and time.monotonic() - self._moved_at > STALL_SECONDS and not self._outage.is_told

    def _report_failure(self, text: str) -> None:
        """Report an attempt that failed; the outage counts from when a trace waited and none left the buffer."""
        self._outage.failed(text, self._moved_at if self._pending else time.monotonic())

    def _report_stall(self) -> None:
        self._report_failure(
            f"{self._target}: none of the {self._pending} traces that wait was acknowledged for {STALL_SECONDS:.0f} s; "
            "the publisher keeps trying"
        )

    # --- for the subclass

    def _wake_up(self) -> None:
        """Wake the idle thread; called under the lock, on any thread."""
        raise NotImplementedError

    def _end_work(self) -> None:
        """Make `_work` return soon, wherever it waits; called under the lock, on any thread."""
        raise NotImplementedError

    def _work(self) -> None:
        """Send traces until `_has_to_end`; called on the thread of this sender, again after an error."""
        raise NotImplementedError

    def _take(self) -> BufferedTrace | None:
        """Return the next trace; None if there is none: the thread is idle from now on, and is woken for the next."""
        with self._lock:
            if self._waiting:
                item = self._waiting.popleft()
                self._in_work[item] = None
                return item
            self._is_idle = True
            is_stalled = self._is_stalled()
        if is_stalled:
            self._report_stall()
        return None

    def _encode(self, item: BufferedTrace) -> bool:
        """Write the trace as JSON, if that is not done; False if it cannot be published, which is counted."""
        if item.trace is None or item.spans is None:
            return True
        try:
            item.key = item.trace.trace_id.encode("utf-8", "replace")
            item.data = encode_trace(item.trace, item.spans)
        except Exception as error:
            self._outage.say("not_json", f"a trace cannot be written as JSON and is dropped: {error}")
            self._settle(item, "not_json")
            return False
        item.trace = item.spans = None
        if len(item.data) > MAX_RECORD_BYTES:
            self._settle(item, "too_large")
            return False
        return True

    def _settle(self, item: BufferedTrace, outcome: str) -> None:
        """Count a trace that was acknowledged or dropped."""
        with self._settled:
            self._in_work.pop(item, None)
            self.counts[outcome] += 1
            self._pending -= 1
            self._pending_bytes -= item.size
            self._moved_at = time.monotonic()
            if self._pending == 0:
                self._settled.notify_all()

    def _put_back(self, item: BufferedTrace) -> None:
        """Put a trace that could not be sent before all others, to be sent again."""
        with self._lock:
            self._in_work.pop(item, None)
            self._waiting.appendleft(item)
            self._announce()

    # --- the thread's side

    def _run_thread(self) -> None:
        back_off = BackOff()
        while not self._has_to_end:
            try:
                self._work()
            except BaseException as error:  # a defect; ending here would end the monitoring of this pipeline for good
                self._report_failure(f"the publisher failed and starts again: {error!r}")
            with self._lock:
                self._is_idle = False
                self._waiting.extendleft(reversed(self._in_work))
                self._in_work.clear()
            if not self._has_to_end:
                time.sleep(back_off.next_seconds())


#: All senders of this process, for the two hooks below.
_SENDERS: weakref.WeakSet[TraceSender] = weakref.WeakSet()


def _reset_in_child() -> None:
    for sender in list(_SENDERS):
        sender._reset()


def _close_all() -> None:
    for sender in list(_SENDERS):
        sender.close(EXIT_SECONDS)


def _close_after_threads() -> None:
    """Close all senders once the other threads of the program have ended."""
    while threads := _threads_of_program():
        for thread in threads:
            thread.join()
    _close_all()


def _threads_of_program() -> list[threading.Thread]:
    """Return the threads that the end of a process waits for, without this one and the main thread."""
    exempt = (threading.current_thread(), threading.main_thread())
    return [one for one in threading.enumerate() if not one.daemon and one not in exempt]


def _close_in_child_process() -> None:
    """Arrange the close in a child of `multiprocessing`, which ends without the hooks of `atexit`.

    Such a child ends as soon as its threads have ended, so that a thread of ours must wait for the others. This hook
    must not wait itself: until it returns, threads that watch for the end of the main thread do not see it.
    """
    module = sys.modules.get("multiprocessing.process")
    if not _SENDERS or module is None or module.parent_process() is None:
        return
    try:
        threading.Thread(target=_close_after_threads, name="gapwatch-publisher-close", daemon=False).start()
    except RuntimeError:  # the system starts no more threads
        _close_all()


os.register_at_fork(after_in_child=_reset_in_child)
# Runs after all threads of the program have ended, unless they are daemons; until then they publish.
atexit.register(_close_all)
if hasattr(threading, "_register_atexit"):
    threading._register_atexit(_close_in_child_process)
