"""Metrics and questions of routes: a tier for each arm, a rate for each step, one question that decides the alert."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.metrics.questions import fact_of
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import Design, run_design
from tests.design.source_tree import write_tree

APP = {
    "service.py": '''
from openai import OpenAI
from fastapi import FastAPI

app = FastAPI()
client = OpenAI()


def ask_large(question):
    """Ask the model that knows more."""
    return client.chat.completions.create(model="large", messages=[question])


def ask_small(question):
    """Ask the model that is always there."""
    return client.chat.completions.create(model="small", messages=[question])


@app.post("/answer")
def answer(question: str):
    """Answer a question."""
    try:
        return ask_large(question)
    except TimeoutError:
        return ask_small(question)
    except Exception:
        return "Sorry, nobody can answer now."
'''
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Design:
    return run_design(scan_repository(write_tree(tmp_path_factory.mktemp("service"), APP)))


def test_each_arm_is_a_tier_and_each_step_has_one_rate(made: Design) -> None:
    (route,) = made.routes
    component = next(c for c in made.architecture.components if c.routes)
    every = [*made.metrics, *(one.metric for one in made.selection.shelf)]
    rates = sorted((m for m in every if "fallback_rate" in m.family), key=lambda m: m.family)

    assert [t.id for t in component.tiers if t.is_ordered] == ["ask_large", "ask_small", "fixed_text"]
    assert [(m.family, m.claim["limit"]) for m in rates] == [
        ("fallback_rate", {"max": 0}),
        ("fallback_rate_2", {"max": 1}),
    ]
    assert all(m.is_cascade and m.better == "unknown" for m in rates)
    mix = next(m for m in every if m.family == "tier_mix")
    assert mix.claim["labels"] == ["ask_large", "ask_small", "fixed_text"]
    assert route.kind == "model"


def test_one_question_asks_whether_the_second_arm_is_worse(made: Design) -> None:
    (question,) = [q for q in made.questions if q.id.endswith("-cascade")]

    assert "is an answer of ask_small worse than one of ask_large?" in question.text
    assert any(name.endswith("fallback_rate") for name in question.decides)


def test_a_degraded_second_arm_pages(made: Design) -> None:
    (question,) = [q for q in made.questions if q.id.endswith("-cascade")]
    facts = (fact_of(question, "degraded", "maria", "2026-11-02"),)

    found = run_design(scan_repository(made.root), facts=facts)

    rates = {m.family: m for m in (*found.metrics, *(one.metric for one in found.selection.shelf))}
    assert (rates["fallback_rate"].severity, rates["fallback_rate"].better) == ("page", "lower")
    assert rates["fallback_rate_2"].severity != "page"


def test_an_expected_second_arm_wakes_nobody(made: Design) -> None:
    (question,) = [q for q in made.questions if q.id.endswith("-cascade")]
    facts = (fact_of(question, "expected", "maria", "2026-11-02"),)

    found = run_design(scan_repository(made.root), facts=facts)

    assert next(m for m in found.metrics if m.family == "fallback_rate").severity != "page"


UNWATCHED = {
    "a server that does not know HEAD": """
def answer(url: str):
    response = requests.head(url)
    if response.status_code == 405:
        response = requests.get(url)
    return response.status_code
""",
    "files alone": """
def decode_sound(file):
    return file.read()


def _silence():
    return b"0000"


def answer(path: str):
    try:
        with open(path) as file:
            return decode_sound(file)
    except OSError:
        return _silence()
""",
    "a generator that is only made where errors are taken": """
def of_first(url):
    yield requests.get(url).text


def of_second(url):
    yield requests.post(url).text


def answer(url: str):
    try:
        return of_first(url)
    except Exception:
        return of_second(url)
""",
    "one form for what is good and what is not": """
import openai


def told(is_success, text):
    return {"good": is_success, "text": text}


def said_of(url):
    found = openai.OpenAI().chat.completions.create(model="m", messages=[{"role": "user", "content": url}])
    return bool(found.choices), found.choices


def answer(url: str):
    is_success, texts = said_of(url)
    if is_success:
        return told(True, f"Read {url}: " + "".join(texts))

    return told(False, f"Not read {url}: " + "".join(texts))
""",
}


@pytest.mark.parametrize("name", sorted(UNWATCHED))
def test_a_route_whose_second_arm_is_no_poorer_way_has_no_rate(name: str, tmp_path: Path) -> None:
    head = "import requests\nfrom fastapi import FastAPI\n\napp = FastAPI()\n"
    source = head + UNWATCHED[name].replace("def answer", '@app.post("/answer")\ndef answer')

    found = run_design(scan_repository(write_tree(tmp_path, {"service.py": source})), is_bounded=False)

    assert found.routes
    assert not [m for m in found.metrics if "fallback_rate" in m.family]


def test_a_second_way_is_taken_where_a_generator_is_read_before_its_errors_are_taken(tmp_path: Path) -> None:
    name = "a generator that is only made where errors are taken"
    head = "import requests\nfrom fastapi import FastAPI\n\napp = FastAPI()\n"
    source = head + UNWATCHED[name].replace("def answer", '@app.post("/answer")\ndef answer')
    source = source.replace("of_first(url)\n    except", "''.join(of_first(url))\n    except")

    found = run_design(scan_repository(write_tree(tmp_path, {"service.py": source})), is_bounded=False)

    assert [m for m in found.metrics if "fallback_rate" in m.family]


def test_a_step_to_an_answer_that_stands_for_a_failure_is_counted_once(made: Design) -> None:
    names = [m.family for m in made.metrics]

    assert "failed_requests" in names
    assert "fallback_rate_2" not in names
