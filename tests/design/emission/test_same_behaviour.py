"""A program under `gapwatch instrument` does what it does without, whatever happens to the recorder."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.design.emission.watched_programs import (
    planned,
    program_environment,
    python_with_events,
    run_watched,
    write_plan,
)

PYTHON = python_with_events()
pytestmark = pytest.mark.skipif(PYTHON is None, reason="no Python of 3.12 or newer on this machine")

#: Listed functions with results, exceptions, generators and objects that would notice if they were looked at.
HEAD = """\
import asyncio
import os
import signal
import sys
import time


class Loud:
    def __getattr__(self, name):
        print("looked at", name)
        raise KeyError(name)

    @property
    def usage(self):
        print("usage was read")


def gives():
    got = yield 1
    try:
        yield got
    except ValueError as error:
        yield repr(error)
    finally:
        print("closed")
    return "end"


def outer():
    return (yield from gives())


async def waits(seconds):
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        print("cancelled")
        raise


def fails(value):
    try:
        raise KeyError(value)
    except KeyError as error:
        raise ValueError("second") from error


def loud(value):
    return value
"""

#: Name of a program to the rest of its text.
PROGRAMS = {
    "results": """
g = outer()
print(next(g), g.send("sent"), g.throw(ValueError("thrown")))
try:
    next(g)
except StopIteration as stop:
    print(stop.value)
try:
    fails("x")
except ValueError as error:
    print(repr(error), repr(error.__cause__), error.__traceback__.tb_next.tb_lineno)

async def main():
    task = asyncio.create_task(waits(5))
    await asyncio.sleep(0.01)
    task.cancel()
    print(await asyncio.gather(task, return_exceptions=True))

asyncio.run(main())
print(type(loud(Loud())).__name__)
""",
    "status": "loud(1)\nsys.exit(3)\n",
    "exception": "fails('x')\n",
    "ends_at_once": "loud(1)\nsys.stdout.flush()\nos._exit(7)\n",
    "signal": "loud(1)\nos.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(5)\n",
    "handler": """
def stop(number, frame):
    print("stopped by", number)
    sys.exit(5)
signal.signal(signal.SIGTERM, stop)
loud(1)
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(5)
""",
    "interrupt": "loud(1)\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(5)\n",
}
NAMES = ("gives", "outer", "waits", "fails", "loud")
#: Plans that say what they should not: the recorder fails at each call, or cannot begin.
BROKEN: dict[str, dict[str, Any]] = {
    "no_start": {"start": None},
    "no_kind": {"kind": {}},
    "no_functions": {"functions": 1},
}


def _emit(**more: Any) -> list[dict[str, Any]]:
    return [planned(name, marks=[]) | more for name in NAMES]


def _outcome(ran: subprocess.CompletedProcess[str]) -> tuple[int, str, str]:
    """Return what the program itself did: the exporter's words are not its own."""
    lines = [line for line in ran.stderr.splitlines() if "export" not in line and "gapwatch" not in line]
    return ran.returncode, ran.stdout, lines[-1] if lines and ran.returncode == 1 else ""


def _both(name: str, folder: Path, emit: list[dict[str, Any]]) -> tuple[Any, Any]:
    assert PYTHON is not None
    (folder / "app.py").write_text(HEAD + PROGRAMS[name])
    command = [PYTHON, str(folder / "app.py")]
    plain = subprocess.run(command, env=program_environment(), capture_output=True, text=True, timeout=60, check=False)
    plan = write_plan(folder / "design", emit)
    # Nothing receives the spans.
    watched = run_watched(plan, command, "http://127.0.0.1:9", OTEL_EXPORTER_OTLP_TIMEOUT="0.2")
    return _outcome(plain), _outcome(watched)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_output_and_end_are_the_same_where_nothing_receives_the_spans(name: str, tmp_path: Path) -> None:
    plain, watched = _both(name, tmp_path, _emit())

    assert watched == plain
    assert plain[0] == {
        "results": 0, "status": 3, "exception": 1, "ends_at_once": 7, "signal": -signal.SIGTERM, "handler": 5,
        "interrupt": -signal.SIGINT,
    }[name]  # fmt: skip


@pytest.mark.parametrize("fault", sorted(BROKEN))
def test_a_recorder_that_fails_leaves_the_program_as_it_is(fault: str, tmp_path: Path) -> None:
    plain, watched = _both("results", tmp_path, json.loads(json.dumps(_emit(**BROKEN[fault]))))

    assert watched == plain
    assert "Loud" in plain[1]
    assert "looked at" not in plain[1]
