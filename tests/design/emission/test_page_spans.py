"""Spans of pages: files whose top level a library runs again for each action of a user."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gapwatch.design.emission.client_calls import client_calls
from gapwatch.design.emission.patch import make_patch
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import run_design
from tests.design.emission.watched_programs import Collector, collector, python_with_events, run_watched, write_plan
from tests.design.source_tree import write_tree

PYTHON = python_with_events()
PAGE = """\
import streamlit as st
from openai import OpenAI

client = OpenAI()
st.title("Desk")
if question := st.chat_input("Your question"):
    messages = [{"role": "user", "content": question}]
    reply = client.chat.completions.create(model="m", messages=messages)
    st.write(reply.choices[0].message.content)
    st.rerun()
"""
STREAMLIT = """\
import sys
asked = None
class ScriptControlException(BaseException): __module__ = "streamlit.runtime.scriptrunner_utils.exceptions"
def rerun(): raise ScriptControlException
def title(text): pass
def write(text): pass
def chat_input(text): return asked
def run(path):
    code = compile(open(path).read(), path, "exec")
    for question in (None, "why?", None, "fail"):
        sys.modules["streamlit"].asked = question
        try:
            exec(code, {"__name__": "__main__"})
        except (ValueError, ScriptControlException):
            pass
"""
CLIENT = """\
from types import SimpleNamespace as N
class Completions:
    def create(self, model, messages):
        if messages[0]["content"] == "fail":
            raise ValueError("down")
        choice = N(finish_reason="length", message=N(content="because", tool_calls=None))
        return N(model="m-1", usage=N(prompt_tokens=5, completion_tokens=2), choices=[choice])
"""
OPENAI = """\
from types import SimpleNamespace as N
from openai.resources.chat.completions.completions import Completions
class OpenAI:
    def __init__(self): self.chat = N(completions=Completions())
"""


@pytest.mark.skipif(PYTHON is None, reason="no Python of 3.12 or newer on this machine")
@pytest.mark.parametrize("options", [(), ("--no-content",)])
def test_a_run_of_a_page_that_asks_a_model_is_a_span_and_others_are_none(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    sent = _sent(tmp_path, *options)

    answered, failed = sent.named("page")
    assert answered.attributes["gen_ai.usage.output_tokens"] == 2
    assert answered.attributes["gen_ai.response.finish_reasons"] == ["length"]
    assert (answered.is_error, failed.is_error) == (False, True)
    assert ("why?" in answered.attributes.get("input.value", "")) == (not options)
    assert answered.attributes.get("output.value") == (None if options else "because")


def _sent(folder: Path, *options: str) -> Collector:
    root = write_tree(folder / "app", {"page.py": PAGE})
    libraries = {"streamlit.py": STREAMLIT, "openai/__init__.py": OPENAI}
    path = "openai/resources/chat/completions"
    libraries |= {f"openai/{p}/__init__.py": "" for p in ("resources", "resources/chat", "resources/chat/completions")}
    write_tree(folder / "run", libraries | {f"{path}/completions.py": CLIENT})
    (folder / "run/start.py").write_text(f"import streamlit\nstreamlit.run({str(root / 'page.py')!r})\n")
    plan = write_plan(folder / "design", repository=root)
    plan.write_text(json.dumps(json.loads(plan.read_text()) | {"clients": client_calls()}))
    with collector() as found:
        assert PYTHON is not None
        ran = run_watched(plan, [PYTHON, str(folder / "run/start.py")], found.url, *options)
        assert (ran.returncode, ran.stderr) == (0, "")
    return found


def test_the_metrics_of_a_page_can_be_measured_and_a_patch_says_that_it_cannot_write_its_span(tmp_path: Path) -> None:
    made = run_design(scan_repository(write_tree(tmp_path, {"page.py": PAGE})))

    assert [p.symbol for p in made.points] == ["page"]
    assert "tokens_per_call" in {m.family for m in made.metrics}
    assert make_patch(tmp_path, made.planned, ["page.py"]).left_out == [("page.py:1", "a page has no decorator")]


def test_the_top_level_of_a_script_is_no_page(tmp_path: Path) -> None:
    script = PAGE.replace("import streamlit as st", "from own import st")
    made = run_design(scan_repository(write_tree(tmp_path, {"page.py": script})))

    assert [p.symbol for p in made.points] == []
