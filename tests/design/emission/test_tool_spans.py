"""Spans of tools and of tries, by the patch and by events of the interpreter: what failed, and how the tries ended."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gapwatch.design.emission.patch import make_patch
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import run_design
from tests.design.emission.watched_programs import (
    Collector,
    collector,
    python_with_events,
    run_patched,
    run_watched,
    write_plan,
)
from tests.design.source_tree import write_tree

PYTHON = python_with_events()

DESK = """
from agents import Agent, Runner, function_tool


@function_tool
async def find_seat(name):
    if name == "nobody":
        raise KeyError(name)
    return "12A"


@function_tool
def cancel(name):
    try:
        return {"a": "cancelled"}[name]
    except KeyError as error:
        return f"Error: there is no booking for {error}"


@function_tool
def ask_person(name):
    raise GraphInterrupt(name)


class GraphInterrupt(Exception):
    pass


desk = Agent(name="desk", instructions="Help.", tools=[find_seat, cancel, ask_person])


async def main(question):
    return (await Runner.run(desk, question)).final_output
"""

PROGRAM = """
import asyncio, sys
from types import SimpleNamespace as N
sys.modules["agents"] = N(Agent=lambda **given: None, Runner=None, function_tool=lambda f: f)
import desk
for name in ("a", "nobody"):
    try:
        asyncio.run(desk.find_seat(name))
    except KeyError:
        pass
    desk.cancel(name)
try:
    desk.ask_person("a")
except desk.GraphInterrupt:
    pass
"""


def _check(found: Collector) -> None:
    errors = {
        name: [s.attributes["tool_errors"] for s in found.named(name)] for name in ("find_seat", "cancel", "ask_person")
    }
    assert errors == {"find_seat": [0, 1], "cancel": [0, 1], "ask_person": [0]}


def test_a_patched_tool_counts_its_exceptions_and_the_errors_that_it_tells(tmp_path: Path) -> None:
    made = run_design(scan_repository(write_tree(tmp_path, {"desk.py": DESK})))
    (metric,) = [m for m in made.metrics if m.family == "tool_errors"]
    assert sorted(metric.spans) == ["ask_person", "cancel", "find_seat"]
    (tmp_path / "p.patch").write_text(make_patch(tmp_path, made.planned, []).text)
    subprocess.run(["git", "apply", "p.patch"], cwd=tmp_path, check=True, timeout=20)

    _check(run_patched(PROGRAM, tmp_path))


@pytest.mark.skipif(PYTHON is None, reason="no Python of 3.12 or newer on this machine")
def test_a_watched_tool_counts_its_exceptions_and_the_errors_that_it_tells(tmp_path: Path) -> None:
    assert PYTHON is not None
    plan = write_plan(tmp_path / "design", repository=write_tree(tmp_path / "app", {"desk.py": DESK}))
    (tmp_path / "app/program.py").write_text(PROGRAM)

    with collector() as found:
        ran = run_watched(plan, [PYTHON, str(tmp_path / "app/program.py")], found.url)
        assert (ran.returncode, ran.stderr) == (0, "")

    _check(found)


TRIES = """
import requests
from fastapi import FastAPI
from tenacity import retry, stop_after_attempt

app = FastAPI()


def again(call):
    def tries(*given):
        for attempt in range(3):
            try:
                return call(*given)
            except OSError:
                pass
        return None
    return tries


@again
def own(turns):
    return requests.get(turns.pop(), timeout=9).text


@retry(stop=stop_after_attempt(3))
def of_library(turns):
    return requests.get(turns.pop(), timeout=9).text


@app.get("/read")
def read(turns: list):
    own(turns)
    return of_library(turns)
"""

TRIED = """
import functools, sys
from types import SimpleNamespace as N
def get(what, timeout):
    if what == "down":
        raise OSError(what)
    return N(text=what)
class FastAPI:
    def get(self, path):
        return lambda call: call
def retry(stop):
    def around(call):
        @functools.wraps(call)
        def wrapped(*given):
            for attempt in range(3):
                try:
                    return call(*given)
                except OSError:
                    if attempt == 2:
                        raise
        return wrapped
    return around
sys.modules |= {
    "requests": N(get=get), "fastapi": N(FastAPI=FastAPI), "tenacity": N(retry=retry, stop_after_attempt=int),
}
import reads
for turns in (["up"], ["up", "down"], ["down"] * 3):
    reads.own(list(turns))
    try:
        reads.of_library(list(turns))
    except OSError:
        pass
"""


def test_the_end_of_tries_is_noted_around_all_of_them(tmp_path: Path) -> None:
    made = run_design(scan_repository(write_tree(tmp_path, {"reads.py": TRIES})), is_bounded=False)
    tries = [m for m in made.metrics if m.family == "retries_exhausted"]
    assert {name for m in tries for name in m.spans} == {"tries", "of_library"}
    assert {m.severity for m in tries} <= {"ticket", "note"}
    (tmp_path / "p.patch").write_text(make_patch(tmp_path, made.planned, []).text)
    subprocess.run(["git", "apply", "p.patch"], cwd=tmp_path, check=True, timeout=20)

    found = run_patched(TRIED, tmp_path)

    assert [s.attributes["retry_outcome"] for s in found.named("tries")] == ["first_try", "recovered", "exhausted"]
    assert [s.attributes["retry_outcome"] for s in found.named("of_library")] == ["succeeded", "succeeded", "exhausted"]


@pytest.mark.parametrize(
    "loop",
    [
        "    tries, text = 0, ''\n    while tries < 3 and not text:\n        tries += 1\n        try:\n"
        "            text = requests.get(url, timeout=9).text\n        except OSError:\n            continue\n"
        "    return text\n",
        "    for attempt in range(3):\n        try:\n            return requests.get(url, timeout=9).text\n"
        "        except OSError:\n            continue\n",
    ],
)
def test_tries_whose_end_no_line_tells_have_no_metric(loop: str, tmp_path: Path) -> None:
    head = (
        'import requests\nfrom fastapi import FastAPI\n\napp = FastAPI()\n\n\n@app.get("/read")\ndef read(url: str):\n'
    )

    def families(source: str) -> set[str]:
        folder = tmp_path / str(len(source))
        return {m.family for m in run_design(scan_repository(write_tree(folder, {"reads.py": source}))).metrics}

    assert "retries_exhausted" not in families(head + loop)
