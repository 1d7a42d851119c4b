"""Metrics about outputs: what a function always gives, or never got from a model, has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.analysis import no_progress
from gapwatch.design.architecture.claimed_code import ClaimedCode
from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.metrics.rules.empty_outputs import why_never_missing
from gapwatch.design.patterns.libraries import default_catalog
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import read_code, run_design
from tests.design.source_tree import write_tree

_HEAD = """\
import json
import yaml
from fastapi import FastAPI
from openai import OpenAI

app = FastAPI()
client = OpenAI()


def ask(question):
    reply = client.chat.completions.create(model="m", messages=[{"role": "user", "content": question}])
    return reply.choices[0].message.content


"""


def _metrics(root: Path, text: str) -> list[MetricDesign]:
    made = run_design(scan_repository(write_tree(root, {"app.py": _HEAD + text})))
    return [*made.metrics, *(s.metric for s in made.selection.shelf)]


def _of(metrics: list[MetricDesign], field: str) -> list[MetricDesign]:
    return [m for m in metrics if m.claim.get("field") == field]


_ACTION = """\
@app.post("/act")
def act(question):
    action = json.loads(ask(question))
    {writes}
    return [action["action"], action["target"]]
"""


@pytest.mark.parametrize(
    ("writes", "wanted"),
    [
        ("print(question)", ["/action", "/target"]),
        ('action["action"] = question', ["/target"]),
    ],
)
def test_a_key_that_the_code_writes_itself_is_not_demanded_of_the_text(
    writes: str, wanted: list[str], tmp_path: Path
) -> None:
    (metric,) = _of(_metrics(tmp_path, _ACTION.format(writes=writes)), "attributes.parsed_text")

    assert metric.claim["json"]["required"] == wanted


_OWN_TEXTS = {
    "a message of the page": """\
@app.post("/chat")
def chat(request_body):
    request_messages = request_body.get("messages", [])
    told = []
    for message in request_messages:
        told.append(json.loads(message["context"]))
    return ask(str(told))
""",
    "what a tool gave": """\
@app.post("/chat")
def chat(question):
    reply = client.chat.completions.create(model="m", messages=[{"role": "user", "content": question}])
    call = reply.choices[0].delta.tool_calls[0]
    return json.loads(call.tool_output)
""",
}


@pytest.mark.parametrize("name", _OWN_TEXTS)
def test_a_text_that_no_model_wrote_is_not_checked(name: str, tmp_path: Path) -> None:
    assert not _of(_metrics(tmp_path, _OWN_TEXTS[name]), "attributes.parsed_text")


_ALWAYS_THERE = {
    "events of what it does": """\
@app.post("/reply")
def reply(question):
    try:
        answer = client.chat.completions.create(model="m", messages=[{"role": "user", "content": question}])
    except Exception as error:
        yield {"type": "text", "content": f"Error: {error}"}
        return
    yield {"type": "text", "content": answer.choices[0].message.content}
""",
    "something else where the model fails": """\
@app.post("/reply")
def reply(messages):
    try:
        answer = client.chat.completions.create(model="m", messages=messages)
        return answer.choices[0].message.content
    except Exception:
        return messages[-1]["content"]
""",
    "an object that further functions fill": """\
class Reply:
    text = ""


def failed(reply, why):
    reply.text = why
    return reply


def checked(reply):
    try:
        print(ask(reply.text))
    except ValueError as error:
        reply = failed(reply, str(error))
    return reply


@app.post("/reply")
def reply(messages):
    answer = client.chat.completions.create(model="m", messages=messages)
    made = Reply()
    made.text = answer.choices[0].message.content
    return checked(made)
""",
}


def test_an_answer_of_a_model_may_be_missing(tmp_path: Path) -> None:
    text = """\
@app.post("/reply")
def reply(messages):
    answer = client.chat.completions.create(model="m", messages=messages)
    return answer.choices[0].message.content
"""
    assert "app.reply" in {s for m in _of(_metrics(tmp_path, text), "output") for s in m.symbols}


@pytest.mark.parametrize("name", _ALWAYS_THERE)
def test_an_output_that_is_always_there_has_no_metric_of_missing_ones(name: str, tmp_path: Path) -> None:
    found = [m for m in _of(_metrics(tmp_path, _ALWAYS_THERE[name]), "output") if m.claim.get("present")]

    assert "app.reply" not in {s for m in found for s in m.symbols}


_GIVEN = """\
from pydantic import BaseModel


class Context(BaseModel):
    parts: list = []
{of_class}

class Engine:
    def __init__(self, builder):
        self.builder = builder

    def context(self, question){says}:
        found = ask(question)
        return self.builder.build(found)


@app.post("/reply")
def reply(builder, question):
    made = Engine(builder).context(question)
    return ask(str(made))
"""


@pytest.mark.parametrize(
    ("says", "of_class", "is_asked"),
    [
        (" -> Context", "", False),
        ("", "", True),
        (" -> Context | None", "", True),
        (" -> Context", "\n    def __len__(self):\n        return len(self.parts)\n", True),
    ],
)
def test_an_object_of_an_own_class_is_never_missing(says: str, of_class: str, is_asked: bool, tmp_path: Path) -> None:
    text = _HEAD + _GIVEN.format(says=says, of_class=of_class)
    code = read_code(scan_repository(write_tree(tmp_path, {"app.py": text})), (), default_catalog(), no_progress)

    assert (why_never_missing(ClaimedCode(code.material), "app.Engine.context") is None) == is_asked


_FEED = """
import json
import httpx


class Feed:
    def read(self, ticker):
        text = httpx.get(f"https://feed.example/{ticker}").text
        try:
            found = json.loads(text)
        except json.JSONDecodeError:
            INSTEAD
        return found["rows"]
"""


@pytest.mark.parametrize(("instead", "count"), [("return text", 0), ("return None", 1), ("pass", 1)])
def test_a_service_whose_text_is_handed_on_where_it_is_no_json_may_give_other_forms(
    instead: str, count: int, tmp_path: Path
) -> None:
    chat = 'from market.feed import Feed\n\n\n@app.post("/chat")\ndef chat(q):\n    return ask(str(Feed().read(q)))\n'
    files = {"market/feed.py": _FEED.replace("INSTEAD", instead), "app.py": _HEAD + chat}
    made = run_design(scan_repository(write_tree(tmp_path, files)))

    found = _of([*made.metrics, *(s.metric for s in made.selection.shelf)], "attributes.parsed_text")
    assert len([m for m in found if m.places[0].path == "market/feed.py"]) == count


def test_the_search_of_a_searcher_counts_what_it_finds(tmp_path: Path) -> None:
    program = """
import openai
from sqlalchemy import create_engine, text

engine = create_engine("postgresql://localhost/items")


class ItemSearcher:
    def search(self, vector):
        with engine.connect() as connection:
            rows = connection.execute(text("SELECT id FROM items ORDER BY embedding <=> :v LIMIT 5"), {"v": vector})
            return list(rows)


class Settings:
    def search(self, name):
        with engine.connect() as connection:
            return list(connection.execute(text("SELECT value FROM settings WHERE name = :n"), {"n": name}))


def answer(question, vector):
    found = ItemSearcher().search(vector)
    mode = Settings().search("mode")
    told = f"Answer the question from the items in one sentence. Mode: {mode} Items: {found} Question: {question}"
    return openai.OpenAI().chat.completions.create(
        model="m", messages=[{"role": "user", "content": told}]
    ).choices[0].message.content
"""
    made = run_design(scan_repository(write_tree(tmp_path, {"app.py": program})), is_bounded=False)

    found = {s for m in made.metrics if m.family.endswith("passages_found") for s in m.symbols}
    assert found == {"app.ItemSearcher.search"}


@pytest.mark.parametrize(
    ("name", "is_counted"),
    [
        ("vector_search", True),
        ("batch_vector_search", False),
        ("search_memories", False),
        ("search_in_memory", True),
        ("find_memorable", True),
    ],
)
def test_a_search_for_many_questions_has_no_count_of_passages(name: str, is_counted: bool, tmp_path: Path) -> None:
    program = f"""
import openai
from qdrant_client import QdrantClient

client = QdrantClient()


def {name}(vectors):
    found = client.search("items", vectors)
    return found


def answer(question, vectors):
    told = f"Answer the question from the items in one sentence. Items: {{{name}(vectors)}} Question: {{question}}"
    return openai.OpenAI().chat.completions.create(
        model="m", messages=[{{"role": "user", "content": told}}]
    ).choices[0].message.content
"""
    made = run_design(scan_repository(write_tree(tmp_path, {"app.py": program})), is_bounded=False)

    assert any(m.family.endswith("passages_found") for m in made.metrics) == is_counted


@pytest.mark.parametrize(("inner", "is_counted"), [("_find_near", True), ("_batch_find_near", False)])
def test_a_search_that_hands_on_a_list_for_each_question_has_no_count_of_passages(
    inner: str, is_counted: bool, tmp_path: Path
) -> None:
    program = f"""
import openai
from qdrant_client import QdrantClient

client = QdrantClient()


class Store:
    def {inner}(self, vectors):
        return client.search("items", vectors)

    def search(self, questions):
        results = self.{inner}(questions)
        print(len(results))
        return results


def answer(question, vectors):
    told = f"Answer the question in one sentence. Items: {{Store().search(vectors)}} Question: {{question}}"
    return openai.OpenAI().chat.completions.create(
        model="m", messages=[{{"role": "user", "content": told}}]
    ).choices[0].message.content
"""
    made = run_design(scan_repository(write_tree(tmp_path, {"app.py": program})), is_bounded=False)

    assert any(m.family.endswith("passages_found") for m in made.metrics) == is_counted
