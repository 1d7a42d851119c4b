"""Appends the traces of the buffer to a file, one JSON object a line."""

from __future__ import annotations

import contextlib
import errno
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
    again, and of a write that fails in the middle (a full disk) nothing stays behind. A named pipe stays open: its
    reader would take the end of a write for the end of the data.

    Args:
        path: The file; created if it does not exist.
        max_traces: Most traces in the buffer.
        max_bytes: Most bytes in the buffer.

    Raises:
        SettingsError: The file cannot be opened for writing.
    """

    def __init__(self, path: Path, max_traces: int, max_bytes: int) -> None:
        self._path = path.absolute()  # the pipeline may change its working directory
        self._descriptor: int | None = None
        try:
            self._check_path()
        except OSError as error:
            raise SettingsError(f"{path} cannot be written: {error.strerror}") from error
        super().__init__(f"file {path}", max_traces, max_bytes)

    def _reset(self) -> None:
        super()._reset()
        self._news = threading.Condition(self._lock)
        # In a forked child: a copy of the parent's descriptor would hold the lock of the parent's write.
        self._close_file()

    def _check_path(self) -> None:
        if not self._path.is_fifo():
            os.close(self._open())
        elif not os.access(self._path, os.W_OK):  # opening it would need a reader, who may come later
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    def _open(self) -> int:
        # O_NONBLOCK: opening a named pipe without a reader fails instead of waiting.
        flags = os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
        if self._path.is_fifo():
            return os.open(self._path, os.O_WRONLY | flags)
        try:
            return os.open(self._path, os.O_RDWR | flags, 0o666)
        except PermissionError:  # may be written and not read; a torn last line cannot be seen then
            return os.open(self._path, os.O_WRONLY | flags, 0o666)

    def _close_file(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(descriptor)

    # --- any thread, under the lock

    def _wake_up(self) -> None:
        self._news.notify()

    def _end_work(self) -> None:
        self._news.notify()

    # --- the sender's thread

    def _work(self) -> None:
        try:
            self._write_all_items()
        finally:
            self._close_file()

    def _write_all_items(self) -> None:
        back_off = BackOff()
        while items := self._next_items():
            try:
                self._write(b"".join(item.data + b"\n" for item in items))
            except OSError as error:
                why = "no process reads this named pipe" if _is_without_reader(error) else error.strerror
                self._report_failure(
                    f"{self._path} cannot be written: {why}; traces wait in the buffer, the publisher tries again"
                )
                for item in reversed(items):
                    self._put_back(item)
                self._rest(back_off.next_seconds())
            else:
                back_off.reset()
                # Before the traces count as sent: whoever waits for them finds the line in the log.
                self._outage.worked(f"{self._path} can be written again")
                for item in items:
                    self._settle(item, "sent")

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
        is_kept = False
        try:
            if self._descriptor is None:
                self._descriptor = self._open()
                os.set_blocking(self._descriptor, True)
            kind = os.fstat(self._descriptor).st_mode
            if stat.S_ISREG(kind):
                _append(self._descriptor, lines)
            else:  # a pipe, a terminal, a device
                _write_all(self._descriptor, lines)
                is_kept = stat.S_ISFIFO(kind)
        finally:
            if not is_kept:
                self._close_file()


def _append(descriptor: int, lines: bytes) -> None:
    """Append lines to a regular file, all of them or none."""
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        before = os.fstat(descriptor).st_size
        try:
            _write_all(descriptor, b"\n" + lines if _has_torn_line(descriptor, before) else lines)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, before)
            raise
    finally:
        # Not left to the closing of the descriptor: a child forked meanwhile has a copy of it.
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def _has_torn_line(descriptor: int, size: int) -> bool:
    """Return whether a file of a size in bytes ends without a newline, such as after a crash of its writer."""
    try:
        return size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
    except OSError:  # the file may not be read
        return False


def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def _is_without_reader(error: OSError) -> bool:
    return error.errno in (errno.ENXIO, errno.EPIPE)
