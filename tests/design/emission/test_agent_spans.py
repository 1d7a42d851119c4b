"""Spans of agents, by the patch and by events of the interpreter: how runs end, steps, what the model is told."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from gapwatch.design.emission.patch import make_patch
from gapwatch.design.emission.planned_span import MarkedFunction, PlannedSpan
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import run_design
from tests.design.emission.watched_programs import (
    Collector,
    collector,
    planned,
    python_with_events,
    run_patched,
    run_watched,
    write_plan,
)
from tests.design.source_tree import write_tree

PYTHON = python_with_events()

AGENT = '''
from openai import OpenAI

client = OpenAI(api_key="k")


class Flow(Exception):
    pass


class Submitted(Flow):
    pass


class LimitsExceeded(Flow):
    pass


class FormatError(Flow):
    pass


class Worker:
    def __init__(self, step_limit):
        self.step_limit, self.n_calls, self.messages = step_limit, 0, []

    def run(self, task):
        """Work on a task until something ends it."""
        self.messages = [task]
        while True:
            try:
                self.step()
            except FormatError as e:
                self.messages.append({"role": "user", "content": str(e)})
            except Flow as e:
                self.messages.append(e.args[0])
            if self.messages[-1].get("role") == "exit":
                break
        return self.messages[-1]

    def step(self):
        """Ask the model and run what it calls."""
        if self.n_calls >= self.step_limit:
            raise LimitsExceeded({"role": "exit", "exit_status": "LimitsExceeded"})
        self.n_calls += 1
        reply = client.chat.completions.create(model="m", messages=self.messages)
        self.execute_actions(reply.choices[0].message.content)

    def execute_actions(self, text):
        if text == "crash":
            raise OSError(text)
        if text == "chat":
            raise FormatError("no action")
        if text == "submit":
            raise Submitted({"role": "exit", "exit_status": "Submitted"})
        self.messages.append({"role": "tool", "content": text})


def delegate(state):
    """Ask the model, then run what it calls, for at most three rounds."""
    for turn in range(3):
        reply = client.chat.completions.create(model="m", messages=[state])
        exceeded = turn >= state["limit"]
        complete = reply.choices[0].message.content == "complete"
        if exceeded or complete:
            return state
        state["tool_calls"] = reply
    return state
'''

PROGRAM = """
from types import SimpleNamespace as N
import sys
replies = []
def create(**given):
    return N(choices=[N(message=N(content=replies.pop(0)), finish_reason="stop")])
sys.modules["openai"] = N(OpenAI=lambda api_key: N(chat=N(completions=N(create=create))))
import worker
def run(limit, *said):
    replies[:] = said
    try:
        worker.Worker(limit).run({"role": "user"})
    except OSError:
        pass
run(9, "ls", "chat", "submit")
run(2, "ls", "ls")
run(9, "crash")
for limit, said in ((9, ["complete"]), (0, ["more"]), (9, ["a", "b", "c"])):
    replies[:] = said
    worker.delegate({"limit": limit})
"""


REQUESTS = """
class Response:
    def __init__(self, status_code):
        self.status_code = status_code

class Refusal(Exception):
    status_code = 404

class RateLimitError(Exception):
    def __init__(self, what):
        self.status_code, self.response = 429, what

def serve(what):
    if what == "refuses":
        raise Refusal(what)
    if what == "asks too often":
        raise RateLimitError(what)
    if what == "breaks":
        raise OSError(what)
    if what == "gives 500":
        return "no answer", 500
    return Response(503) if what == "says 503" else "an answer"

class TooManyTurns(Exception):
    pass

def work(what):
    if what == "exceeds":
        raise TooManyTurns(what)
    if what == "breaks":
        raise OSError(what)
    return {"output": "Agent stopped due to its limit." if what == "stops" else "an answer"}

for what in ("refuses", "asks too often", "breaks", "says 503", "gives 500", "answers", "exceeds", "stops"):
    for run in (serve, work):
        try:
            run(what)
        except Exception:
            pass
"""
#: What a library says of a run that ended by its limit: an exception, or a text in the answer.
WORK: dict[str, str | int | None] = {
    "agent_exit": None,
    "agent_end": "done",
    "agent_limit": "TooManyTurns\nAgent stopped due to",
}


def _check(found: Collector) -> None:
    runs = [s.attributes for s in found.named("Worker.run")]
    assert [r["agent_exit"] for r in runs] == ["Submitted", "LimitsExceeded", "error"]
    assert [(r["agent_steps"], r["format_errors"]) for r in runs] == [(3, 1), (3, 0), (1, 0)]
    turns = [s.attributes for s in found.named("delegate")]
    assert [t["agent_exit"] for t in turns] == ["done", "limit", "limit"]
    outcomes = [s.attributes["request_outcome"] for s in found.named("serve")]
    assert outcomes == ["refused", "failed", "failed", "failed", "failed", "answered", "answered", "answered"]
    ends = [s.attributes["agent_exit"] for s in found.named("work")]
    assert ends == ["done", "done", "error", "done", "done", "done", "limit", "limit"]


#: Both ends have a name, or one of them: the other one is meant where the name is not true.
LINES = ["exceeded or complete", 'complete or turn >= state["limit"]']


@pytest.mark.parametrize("line", LINES)
def test_a_patched_agent_says_how_its_runs_end(line: str, tmp_path: Path) -> None:
    source = AGENT.replace(LINES[0], line)
    made = run_design(scan_repository(write_tree(tmp_path, {"worker.py": source, "serving.py": REQUESTS})))
    assert {loop.symbol.rpartition(".")[2] for c in made.architecture.components for loop in c.loops} == {
        "run",
        "delegate",
    }
    start: dict[str, str | int | None] = {"request_outcome": "answered"}
    serve = PlannedSpan("c", "serve", "chain", "serving.py", "serve", MarkedFunction("serve", 9), start=start)
    work = PlannedSpan("c", "work", "chain", "serving.py", "work", MarkedFunction("work", 19), start=dict(WORK))
    (tmp_path / "p.patch").write_text(make_patch(tmp_path, [*made.planned, serve, work], []).text)
    subprocess.run(["git", "apply", "p.patch"], cwd=tmp_path, check=True, timeout=20)
    found = run_patched(PROGRAM + "import serving\n", tmp_path)

    _check(found)


@pytest.mark.parametrize("line", LINES)
@pytest.mark.skipif(PYTHON is None, reason="no Python of 3.12 or newer on this machine")
def test_a_watched_agent_says_how_its_runs_end(line: str, tmp_path: Path) -> None:
    assert PYTHON is not None
    write_tree(tmp_path / "app", {"worker.py": AGENT.replace(LINES[0], line), "app.py": REQUESTS})
    plan = write_plan(tmp_path / "design", repository=tmp_path / "app")
    spans = json.loads(plan.read_text())
    spans["emit"].append(planned("serve", start={"request_outcome": "answered"}))
    spans["emit"].append(planned("work", start=dict(WORK)))
    plan.write_text(json.dumps(spans))
    (tmp_path / "app/program.py").write_text(PROGRAM + "import app\n")

    with collector() as found:
        ran = run_watched(plan, [PYTHON, str(tmp_path / "app/program.py")], found.url)
        assert (ran.returncode, ran.stderr) == (0, "")

    _check(found)
