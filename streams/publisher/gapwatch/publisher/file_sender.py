"""Appends the traces of the buffer to a file, one JSON object a line."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import threading
from pathlib import Path

from gapwatch.publisher.back_off import BackOff
from gapwatch.publisher.errors import SettingsError
from gapwatch.publisher.sender import LOOK_SECONDS, BufferedTrace, TraceSender

#: Bytes after which lines are written, and most traces of one write; all of a write fail together.
_WRITE_BYTES, _WRITE_TRACES = 1 << 20, 1_000


class FileSender(TraceSender):
    """Appends traces to a file; several processes and threads may append to the same.

    The file is locked and opened anew for each write. So lines are never mixed, a file that was moved away is made
    again, and of a write that fails in the middle (a full disk) nothing stays behind.

    Args:
        path: The file; created if it does not exist.
        max_traces: Most traces in the buffer.
        max_bytes: Most bytes in the buffer.

    Raises:
        SettingsError: The file cannot be opened for writing.
    """

    def __init__(self, path: Path, max_traces: int, max_bytes: int) -> None:
        self._path = path.absolute()  # the pipeline may change its working directory
        try:
            os.close(self._open())
        except OSError as error:
            raise SettingsError(f"{path} cannot be written: {error.strerror}") from error
        super().__init__(f"file {path}", max_traces, max_bytes)

    def _reset(self) -> None:
        super()._reset()
        self._news = threading.Condition(self._lock)

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)

    # --- any thread, under the lock

    def _wake_up(self) -> None:
        self._news.notify()

    def _end_work(self) -> None:
        self._news.notify()

    # --- the sender's thread

    def _work(self) -> None:
        back_off = BackOff()
        while items := self._next_items():
            try:
                self._write(b"".join(item.data + b"\n" for item in items))
            except OSError as error:
                self._outage.failed(
                    f"{self._path} cannot be written: {error.strerror}; traces wait in the buffer, "
                    "the publisher tries again"
                )
                for item in reversed(items):
                    self._put_back(item)
                self._rest(back_off.next_seconds())
            else:
                back_off.reset()
                for item in items:
                    self._settle(item, "sent")
                self._outage.worked(f"{self._path} can be written again")

    def _next_items(self) -> list[BufferedTrace]:
        """Wait for traces and return some, written as JSON; none if it is time to end."""
        items: list[BufferedTrace] = []
        size = 0
        while size < _WRITE_BYTES and len(items) < _WRITE_TRACES and not self._has_to_end:
            item = self._take()
            if item is None:
                if items:
                    break
                with self._news:
                    if self._is_idle and not self._has_to_end:
                        self._news.wait(LOOK_SECONDS)
            elif self._encode(item):
                items.append(item)
                size += len(item.data) + 1
        return items

    def _rest(self, seconds: float) -> None:
        with self._news:
            self._news.wait_for(lambda: self._has_to_end, seconds)

    def _write(self, lines: bytes) -> None:
        descriptor = self._open()
        try:
            kind = os.fstat(descriptor)
            if not stat.S_ISREG(kind.st_mode):  # a pipe, a terminal, a device
                _write_all(descriptor, lines)
                return
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # released by `close`
            before = os.fstat(descriptor).st_size
            try:
                _write_all(descriptor, lines)
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, before)
                raise
        finally:
            os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
