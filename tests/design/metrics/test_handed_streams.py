"""A function that gives the stream of a model unread has no reply to judge: who goes through it has."""

from __future__ import annotations

import pytest

from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import run_design
from tests.design.source_tree import write_tree

_SERVICE = """
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI

app = FastAPI()
prompt = ChatPromptTemplate.from_template(
    "You are a clerk of a shop. Answer the question {question} in three short sentences, and never name a person."
)


class Answer:
    def __init__(self, pieces, status):
        self.pieces = pieces
        self.status = status


async def events(pieces, name):
    async for piece in pieces:
        yield f"data: {piece}"


async def answer(question: str):
    chain = prompt | ChatOpenAI() | StrOutputParser()
BODY


@app.post("/answer")
async def main(question: str):
    return await answer(question)
"""
_UNREAD = {
    "in an object": "    return Answer(events(chain.astream({'question': question}), 'a'), status=200)\n",
    "itself": "    return chain.astream({'question': question})\n",
    "by a name": "    pieces = chain.astream({'question': question})\n    return Answer(pieces, 200)\n",
}
_READ = {
    "whole": "    return Answer(await chain.ainvoke({'question': question}), status=200)\n",
    "by a loop": (
        "    said = ''\n    async for one in chain.astream({'question': question}):\n        said += one\n"
        "    return said\n"
    ),
    "by its own generator": "    async for one in chain.astream({'question': question}):\n        yield one\n",
    "by a comprehension": "    return ''.join([p async for p in chain.astream({'question': question})])\n",
}


@pytest.mark.parametrize("body", [*_UNREAD, *_READ])
def test_a_function_has_a_reply_where_it_reads_the_stream(body: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    source = _SERVICE.replace("BODY", {**_UNREAD, **_READ}[body])
    made = run_design(scan_repository(write_tree(tmp_path_factory.mktemp("s"), {"s.py": source})), is_bounded=False)

    of_reply = ("answer_present", "finish_reason", "follows_its_prompt")
    found = {m.family for m in made.metrics if "s.answer" in m.symbols and m.family.endswith(of_reply)}

    assert bool(found) == (body in _READ), found
