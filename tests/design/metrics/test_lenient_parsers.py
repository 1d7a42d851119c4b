"""Own parsers that take texts of other forms: strict JSON is not what their callers ask for."""

from __future__ import annotations

import pytest

from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import Design, run_design
from tests.design.source_tree import write_tree

_SERVICE = """
import ast
import json
import re

from fastapi import FastAPI
from langchain.output_parsers import PydanticOutputParser
from langchain.schema import BaseOutputParser, OutputParserException
from openai import OpenAI
from pydantic import BaseModel

app = FastAPI()


class Step(BaseModel):
    name: str


class StepsParser(BaseOutputParser):
    def parse(self, text):
        found = re.search(r"\\\\[.*\\\\]", text)
        return ast.literal_eval(found[0]) if found else lines_of(text)


def lines_of(text):
    return [line for line in text.split("\\\\n") if line[:1].isdigit()]


class StrictParser(BaseOutputParser):
    def parse(self, text):
        return json.loads(text)


def ask(prompt):
    return OpenAI().chat.completions.create(model="m", messages=[prompt]).choices[0].message.content


def parsed_any(parser: BaseOutputParser, completion: str):
    try:
        return parser.parse(completion)
    except OutputParserException as error:
        raise RuntimeError("no steps") from error


def parsed_one(parser: BaseOutputParser, completion: str):
    try:
        return parser.parse(completion)
    except OutputParserException as error:
        raise RuntimeError("no step") from error


@app.post("/steps")
def steps(goal: str):
    return parsed_any(StepsParser(), ask(f"Name the steps to {goal}"))


@app.post("/step")
def step(goal: str):
    first = parsed_any(PydanticOutputParser(pydantic_object=Step), ask(f"Name a step to {goal}"))
    return first, parsed_one(PydanticOutputParser(pydantic_object=Step), ask(f"Name another step to {goal}"))


@app.post("/all")
def all_steps(goal: str):
    return parsed_one(StrictParser(), ask(f"Name all steps to {goal}"))
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Design:
    text = _SERVICE.replace("\\\\", "\\")
    root = write_tree(tmp_path_factory.mktemp("s"), {"s.py": text})
    return run_design(scan_repository(root), is_bounded=False)


def test_a_text_that_a_lenient_parser_may_take_need_be_no_json(made: Design) -> None:
    held = {
        s.removeprefix("s.")
        for m in made.metrics
        if m.claim.get("field") == "attributes.parsed_text"
        for s in m.symbols
    }

    assert "parsed_one" in held and "parsed_any" not in held
