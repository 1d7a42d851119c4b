"""Form of the lines on standard error: as text for people or as JSON for programs, and without keys in both.

A line of JSON is `{"time": ..., "level": ..., "logger": ..., "message": ...}`, further fields of the record, and
`exception` with the traceback, if there is one. Warnings of Python and errors of threads are lines as well.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

import orjson

from gapwatch.streams.judges.secret import Secret, environment_secrets

LOG_FORMATS = ("text", "json")

#: What each record of `logging` has; everything else is a field that the caller has added.
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_log = logging.getLogger("gapwatch.run")


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "time": moment.replace("+00:00", "Z"), "level": record.levelname.lower(), "logger": record.name,
            "message": record.getMessage(),
        }  # fmt: skip
        line |= {name: value for name, value in vars(record).items() if name not in _OWN and name not in line}
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = record.stack_info
        return orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY).decode()


class _KeylessFormatter(logging.Formatter):
    """Takes keys out of the lines of another formatter."""

    def __init__(self, inner: logging.Formatter, secrets: Sequence[Secret]) -> None:
        super().__init__()
        self.inner, self._secrets = inner, secrets

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        line = self.inner.format(record)
        for secret in self._secrets:
            line = secret.scrub(line)
        return line


@contextmanager
def log_lines(form: str) -> Iterator[None]:
    """Write the lines of the handlers of the root logger in a form, during a `with`.

    Args:
        form: One of `LOG_FORMATS`.
    """
    secrets = environment_secrets()
    for handler in logging.getLogger().handlers:
        inner = JsonFormatter() if form == "json" else handler.formatter or logging.Formatter()
        handler.setFormatter(_KeylessFormatter(inner, secrets))
    if form != "json":
        yield
        return
    hooks = sys.excepthook, threading.excepthook, sys.unraisablehook
    logging.captureWarnings(True)
    sys.excepthook, threading.excepthook, sys.unraisablehook = _log_failure, _log_of_thread, _log_unraisable
    try:
        yield
    finally:
        sys.excepthook, threading.excepthook, sys.unraisablehook = hooks
        logging.captureWarnings(False)


def write_last_line(text: str) -> None:
    """Write why the process ends at once: as a line of the log if it is JSON, else as commands report errors."""
    formatters = [handler.formatter for handler in logging.getLogger().handlers]
    if any(isinstance(one, _KeylessFormatter) and isinstance(one.inner, JsonFormatter) for one in formatters):
        _log.error("%s", text)
    else:
        sys.stderr.write(f"gapwatch: {text}\n")
    sys.stderr.flush()


def _log_failure(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    _log.critical("the process ends by a defect: %s", error, exc_info=(kind, error, trace))


def _log_of_thread(failed: threading.ExceptHookArgs) -> None:
    name = failed.thread.name if failed.thread is not None else "unknown"
    error = failed.exc_value or failed.exc_type()
    _log.error("the thread %s has failed: %s", name, error, exc_info=(failed.exc_type, error, failed.exc_traceback))


def _log_unraisable(failed: sys.UnraisableHookArgs) -> None:
    error = failed.exc_value or failed.exc_type()
    _log.error("%s: %s", failed.err_msg or "an error was ignored", error,
               exc_info=(failed.exc_type, error, failed.exc_traceback))  # fmt: skip
