"""The lines of the log as JSON, those of libraries, warnings and failed threads included, and without keys."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from gapwatch.streams.live.log_lines import log_lines, write_last_line
from gapwatch.streams.live.run_log import logs_on_stderr

KEY = "sk-0123456789abcdef"


@contextlib.contextmanager
def logged(form: str) -> Iterator[list[str]]:
    """Give the lines that are written to standard error, when the `with` ends."""
    lines: list[str] = []
    err = io.StringIO()
    with contextlib.redirect_stderr(err), logs_on_stderr(False), log_lines(form):
        yield lines
    lines += err.getvalue().splitlines()


def objects(lines: list[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines]


def test_a_line_has_time_level_logger_message_and_further_fields() -> None:
    with logged("json") as lines:
        logging.getLogger("gapwatch.run").info("reading %s", "partition 0", extra={"partition": 0, "topic": "traces"})
        logging.getLogger("aiokafka.cluster").warning("two\nlines")
    first, second = objects(lines)

    assert first.pop("time").endswith("Z")
    assert first == {
        "level": "info", "logger": "gapwatch.run", "message": "reading partition 0", "partition": 0, "topic": "traces",
    }  # fmt: skip
    assert (second["level"], second["logger"], second["message"]) == ("warning", "aiokafka.cluster", "two\nlines")


def test_tracebacks_warnings_and_failed_threads_are_lines() -> None:
    with logged("json") as lines:
        try:
            int("no number")
        except ValueError:
            logging.getLogger("faust").exception("it failed")
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("old way", DeprecationWarning, stacklevel=1)
        thread = threading.Thread(target=lambda: [].pop(), name="worker")
        thread.start()
        thread.join()
        try:
            raise ValueError("nobody caught it")
        except ValueError as error:
            sys.excepthook(type(error), error, error.__traceback__)
    failed, warned, of_thread, last = objects(lines)

    assert failed["exception"].startswith("Traceback") and "ValueError: invalid literal" in failed["exception"]
    assert (warned["logger"], "DeprecationWarning: old way" in warned["message"]) == ("py.warnings", True)
    assert of_thread["message"] == "the thread worker has failed: pop from empty list"
    assert (last["level"], "ValueError" in last["exception"]) == ("critical", True)


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_key_of_the_environment_is_in_a_line(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("GAPWATCH_READ_TOKEN_FILE", "/run/credentials/read-token")
    with logged(form) as lines:
        logging.getLogger("litellm").warning("refused %s", KEY, extra={"header": f"Bearer {KEY}"})
        logging.getLogger("gapwatch.run").info("the token is in /run/credentials/read-token")
    assert KEY not in "".join(lines)
    assert "[key]" in lines[0]
    assert "/run/credentials/read-token" in lines[1]


def test_why_a_process_ends_is_a_line_of_json_or_as_commands_say_it(capsys: pytest.CaptureFixture[str]) -> None:
    with logged("json") as lines:
        write_last_line("ended at once")
    assert objects(lines)[0]["message"] == "ended at once"
    with logged("text") as lines:
        write_last_line("ended at once")
    assert lines == ["gapwatch: ended at once"]


def test_afterwards_warnings_and_failures_go_where_they_went() -> None:
    before = sys.excepthook, threading.excepthook, sys.unraisablehook
    with logged("json"):
        assert sys.excepthook is not before[0]
    assert (sys.excepthook, threading.excepthook, sys.unraisablehook) == before
