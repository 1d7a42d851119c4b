"""Chains that are handed to a response of a library, which asks their model when the server sends it."""

from __future__ import annotations

import pytest

from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import Design, run_design
from tests.design.source_tree import write_tree

_SERVICE = """
from fastapi import FastAPI
from lanarky.responses import StreamingResponse
from langchain import LLMChain, PromptTemplate
from langchain.chat_models import ChatOpenAI

app = FastAPI()
model = ChatOpenAI()
tell_prompt = PromptTemplate.from_template("Tell {topic} in three short sentences, and never name a person.")
name_prompt = PromptTemplate.from_template("Give one short name for {topic}, without quotes.")


@app.post("/tell")
def tell(topic: str):
    chain = LLMChain(llm=model, prompt=tell_prompt)
    return StreamingResponse.from_chain(chain, {"topic": topic}, media_type="text/event-stream")


@app.post("/again")
def again(topic: str):
    return tell(topic.strip())


@app.post("/name")
def name(topic: str):
    return LLMChain(llm=model, prompt=name_prompt).invoke({"topic": topic})


@app.post("/log")
def log(topic: str):
    chain = LLMChain(llm=model, prompt=name_prompt)
    return [str(chain), topic]
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Design:
    root = write_tree(tmp_path_factory.mktemp("s"), {"s.py": _SERVICE})
    return run_design(scan_repository(root), is_bounded=False)


def _functions(made: Design, family: str) -> set[str]:
    return {s.removeprefix("s.") for m in made.metrics if m.family.endswith(family) for s in m.symbols}


def test_a_chain_that_a_response_runs_is_judged(made: Design) -> None:
    assert _functions(made, "follows_its_prompt") == {"tell", "name"}
    # It sends out of the callbacks of the chain: nothing goes through the response that could be counted.
    assert "tell" not in _functions(made, "stream_completed") | _functions(made, "first_chunk_seconds")


@pytest.mark.parametrize("family", ["finish_reason", "model_cost", "model_latency"])
def test_what_a_function_has_at_its_end_says_nothing_of_a_model_that_is_asked_later(made: Design, family: str) -> None:
    assert _functions(made, family) == {"name"}


def test_a_reply_that_comes_when_the_response_is_sent_is_recorded(made: Design) -> None:
    replies = [m for m in made.metrics if m.claim.get("field") == "attributes.model_reply" and m.source == "catalog"]
    assert {s.removeprefix("s.") for m in replies for s in m.symbols} == {"tell", "name"}
