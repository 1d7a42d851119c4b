"""An asynchronous generator that waits for a client which waits itself keeps its span, and its program goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.design.emission.test_unanswered_calls import CLIENT
from tests.design.emission.watched_programs import collector, python_with_events, run_watched, write_plan
from tests.design.source_tree import write_tree

PYTHON = python_with_events()
BOT = """
import asyncio

import openai
from fastapi import FastAPI

app = FastAPI()
aclient = openai.AsyncOpenAI()


async def pieces(question):
    reply = await aclient.chat.completions.create(
        model="m", messages=[{"role": "user", "content": f"Answer in one short sentence: {question}"}], stream=True
    )
    async for chunk in reply:
        yield chunk.choices[0].delta.content or ""


@app.post("/ask")
async def ask(question: str):
    text = ""
    async for piece in pieces(question):
        await asyncio.sleep(0)
        text += piece
    return text
"""
FASTAPI = """
class FastAPI:
    def post(self, path):
        return lambda function: function
"""
RUN = """
import asyncio
import bot


async def main():
    print(await asyncio.gather(*[bot.ask(f"question {n}") for n in range(3)]), await bot.ask("the last"))


asyncio.run(main())
"""


@pytest.mark.skipif(PYTHON is None, reason="no Python of 3.12 or newer on this machine")
def test_a_generator_that_waits_for_a_waiting_client_keeps_its_span(tmp_path: Path) -> None:
    assert PYTHON is not None
    app = write_tree(tmp_path / "app", {"bot.py": BOT})
    plan = write_plan(tmp_path / "design", repository=app)
    write_tree(app, {**CLIENT, "fastapi/__init__.py": FASTAPI, "program.py": RUN})

    with collector() as found:
        ran = run_watched(plan, [PYTHON, str(app / "program.py")], found.url)

    assert (ran.returncode, ran.stdout.strip()) == (0, "['hi', 'hi', 'hi'] hi"), ran.stderr
    assert sorted(s.attributes["model_reply"] for s in found.named("pieces")) == ["hi"] * 4
    asked = {s.trace: s for s in found.named("ask")}
    assert len(asked) == 4 and {s.trace for s in found.named("pieces")} == set(asked), "a trace for each request"
