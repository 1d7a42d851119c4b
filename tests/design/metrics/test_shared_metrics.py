"""Several ways to do one step share their metrics, and what an owner would delete is not proposed."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.metrics.shared_metrics import shared_metrics
from gapwatch.design.reports.export_portfolio import portfolio_data, portfolio_yaml
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import Design, run_design
from gapwatch.scorers.loading.load import parse_portfolio
from tests.design.source_tree import write_tree

_STEP = """
import logging
import openai, httpx
client = openai.OpenAI()

class Step{n}:
    def ask_{n}(self, question):
        return client.chat.completions.create(
            model="m",
            messages=[{{"role": "system", "content": "Answer number {n} in one short sentence."}}],
        ).choices[0].message.content

    def look_up(self, question):
        found = []
        try:
            found = {look}
        except Exception:
            logging.exception("nothing was looked up")
        return self.ask_{n}(found)
"""
_LOOK = 'httpx.get("https://index.example/{n}").raise_for_status().json()'
_ASKS = """
import openai
client = openai.OpenAI()

def answer(question):
    return client.chat.completions.create(
        model="m", messages=[{"role": "system", "content": "Answer the question in one short sentence."}]
    ).choices[0].message.content
"""


def _made(root: Path, is_bounded: bool = True, **files: str) -> Design:
    tree = {f"{name.replace('__', '/')}.py": text for name, text in files.items()}
    return run_design(scan_repository(write_tree(root, tree)), is_bounded=is_bounded)


def test_ways_to_do_one_step_share_a_metric_of_the_step(tmp_path: Path) -> None:
    steps = {f"app__step_{n}": _STEP.format(n=n, look=_LOOK.format(n=n)) for n in (1, 2, 3)}
    made = _made(tmp_path, **steps)
    portfolio = parse_portfolio(portfolio_yaml(portfolio_data(made), made))

    shared = [m for m in made.metrics if m.group == "look_up"]
    members = next(c.members for c in portfolio.components if c.id == "look_up")
    assert "swallowed_errors" in {m.family for m in shared}
    assert len(members) == 3 and all(len(m.places) == 3 for m in shared)
    assert sum(s.metric.family == "swallowed_errors" for s in made.selection.shelf) == 3
    reviews = {r.metric: r for r in made.critique.reviews}
    assert {m.name for m in shared} <= set(reviews)
    assert {reviews[m.name].component for m in shared} == {"look_up"}


def test_functions_of_one_name_in_other_folders_share_nothing(tmp_path: Path) -> None:
    first, second = (_STEP.format(n=n, look=_LOOK.format(n=n)) for n in (1, 2))
    made = _made(tmp_path, app__search__pages=first, app__billing__rates=second)

    assert not [m for m in made.metrics if m.group == "look_up"]


_READER = """
import httpx
import logging

class {vendor}PageReader:
    def pages(self, question):
        pages = []
        try:
            pages = httpx.get("https://{vendor}.example/pages", params=question).raise_for_status().json()
        except Exception:
            logging.exception("no pages")
        return pages

    def links(self, question):
        links = []
        try:
            links = httpx.get("https://{vendor}.example/links", params=question).raise_for_status().json()
        except Exception:
            logging.exception("no links")
        return links
"""
_READS = """
from app import asks
from app.readers import {vendor}

def answer_{vendor}(question):
    reader = {vendor}.{vendor}PageReader()
    return asks.answer(f"{{reader.pages(question)}} {{reader.links(question)}}")
"""


def test_three_classes_of_a_kind_share_a_metric_and_two_do_not(tmp_path: Path) -> None:
    for number, vendors in enumerate((("First", "Second", "Third"), ("First", "Second"))):
        files = {f"app__readers__{v}": _READER.format(vendor=v) for v in vendors}
        reads = {f"app__reads_{v}": _READS.format(vendor=v) for v in vendors}
        made = _made(tmp_path / str(number), app__asks=_ASKS, **files, **reads)

        shared = [m.name for m in made.metrics if m.group == "page_reader"]
        assert shared == (["page_reader_swallowed_errors"] if len(vendors) > 2 else [])


def test_steps_of_one_name_in_two_folders_are_two_groups(tmp_path: Path) -> None:
    made = _made(
        tmp_path,
        **{
            f"app__{folder}__step_{n}": _STEP.format(n=n, look=_LOOK.format(n=n))
            for folder, numbers in (("search", (1, 2)), ("billing", (3, 4)))
            for n in numbers
        },
    )
    portfolio = parse_portfolio(portfolio_yaml(portfolio_data(made), made))

    groups = {c.id: c.members for c in portfolio.components if c.id.startswith(("look_up", "every_look_up"))}
    assert sorted(len(members) for members in groups.values()) == [2, 2]


def test_an_answer_that_stands_for_a_failure_is_counted_once(tmp_path: Path) -> None:
    asks = (
        _ASKS
        + """
def answered(question):
    try:
        return answer(question)
    except Exception:
        return "Sorry, nobody can answer now."
"""
    )
    made = _made(tmp_path, app__main=asks)

    chosen = {m.family for m in made.metrics}
    assert "failed_runs" in chosen and "failure_answers" not in chosen, "the run begins here, and ends by the apology"
    assert not any("fallback_rate" in family for family in chosen)
    (why,) = [s.why for s in made.selection.shelf if "fallback_rate" in s.metric.family]
    assert why.endswith("fails on the same calls")


def test_a_call_that_raises_is_no_empty_answer_and_waits_on_the_shelf(tmp_path: Path) -> None:
    raising = """
def reply(question):
    try:
        return client.chat.completions.create(
            model="m", messages=[{"role": "system", "content": "Reply to the mail in two polite sentences."}]
        ).choices[0].message.content
    except openai.APIError as error:
        raise RuntimeError("nobody can reply") from error
"""
    made = _made(tmp_path, app__main=_ASKS + raising)

    fields = {m.family: m.claim.get("field") for m in made.metrics}
    assert fields["answer_present"] == "attributes.model_reply" and "error_rate" not in fields
    assert "error_rate" in {s.metric.family for s in made.selection.shelf}


def test_steps_that_call_each_other_share_nothing(tmp_path: Path) -> None:
    first = _STEP.format(n=1, look=_LOOK.format(n=1))
    second = "from app import step_1\n" + _STEP.format(
        n=2, look=f"step_1.Step1().look_up(question) or {_LOOK.format(n=2)}"
    )
    made = _made(tmp_path, app__step_1=first, app__step_2=second)

    assert any(e.src != e.dst for e in made.architecture.edges)
    assert not [m for m in made.metrics if m.group == "look_up"]


def test_code_left_behind_is_no_part_of_the_application(tmp_path: Path) -> None:
    alone = _made(tmp_path / "a", app__main=_ASKS, app__legacy__old=_ASKS)
    used = _made(tmp_path / "b", app__main=_ASKS + "\nfrom app.legacy import old\n", app__legacy__old=_ASKS)

    def paths(made: Design) -> set[str]:
        return {h.path for c in made.architecture.components for h in c.hits}

    assert paths(alone) == {"app/main.py"}
    assert paths(used) == {"app/main.py", "app/legacy/old.py"}


def test_a_text_given_back_on_failure_is_never_missing(tmp_path: Path) -> None:
    wraps = _ASKS.replace("def answer(question):\n    return", "def summarise(page):\n    try:\n        found =") + (
        '        summary = f"<summary>{found}</summary>"\n        return summary\n'
        "    except openai.APIError:\n        return page\n"
    )
    wraps = wraps.replace('\n        model="m"', '\n            model="m"').replace(
        "\n    ).choices", "\n        ).choices"
    )
    made = _made(tmp_path, is_bounded=False, app__main=wraps)

    assert made.has_model
    assert not [m for m in made.metrics if m.claim.get("field") == "output"]
    assert [m for m, r in made.dropped if "never_or_rightly_empty" in r.rules]


def test_an_abstract_search_and_a_look_at_what_is_stored_are_no_searches(tmp_path: Path) -> None:
    search = """
class Retriever:
    def retrieve(self, query):
        raise NotImplementedError

class VectorRetriever(Retriever):
    def retrieve(self, query):
        return self.index.search(query)
"""
    made = _made(tmp_path, is_bounded=False, app__main=_ASKS, app__search=search)

    lines = {p.line for m in made.metrics if m.family.endswith("passages_found") for p in m.places}
    assert lines == {7}


def test_a_handler_around_one_parse_is_counted_by_the_parse(tmp_path: Path) -> None:
    parse = (
        _ASKS
        + """
import json

def read(question):
    try:
        found = json.loads(answer(question))
    except ValueError:
        found = {}
    return found
"""
    )
    made = _made(tmp_path, is_bounded=False, app__main=parse)

    families = {m.family for m in made.metrics}
    assert "output_parses" in families and "swallowed_errors" not in families


def test_a_step_that_calls_each_of_its_ways_keeps_them_together(tmp_path: Path) -> None:
    steps = {f"app__step_{n}": _STEP.format(n=n, look=_LOOK.format(n=n)) for n in (1, 2, 3)}
    calls = " or ".join(f"step_{n}.Step{n}().look_up(question)" for n in (1, 2, 3))
    first = "from app import step_1, step_2, step_3\n" + _STEP.format(n=9, look=f"{calls} or {_LOOK.format(n=9)}")
    made = _made(tmp_path, app__every=first, **steps)

    (shared,) = [m for m in made.metrics if m.group == "look_up" and m.family == "swallowed_errors"]
    assert [s.rpartition(".")[0].rpartition(".")[2] for s in shared.symbols] == ["Step1", "Step2", "Step3"]


def test_a_step_whose_name_says_nothing_is_named_after_what_its_functions_have_in_common(tmp_path: Path) -> None:
    steps = {}
    for n, owner in ((1, "ChartWriter"), (2, "TableWriter")):
        text = _STEP.format(n=n, look=_LOOK.format(n=n)).replace(f"Step{n}", owner).replace("look_up", "run")
        steps[f"app__step_{n}"] = text
    made = _made(tmp_path, **steps)

    groups = {m.group for m in made.metrics if m.members}
    assert {g for g in groups if not g.startswith(("model_calls", "application"))} == {"writer_run"}


def test_functions_of_one_component_that_ask_share_the_metrics_of_model_calls(tmp_path: Path) -> None:
    client = "import openai\n\nclass {name}:\n    def ask(self, model, prompt):\n        return openai.OpenAI()" + (
        '.chat.completions.create(model=model, messages=[{{"role": "user", "content": prompt}}])'
        ".choices[0].message.content\n"
    )
    made = _made(tmp_path, **{f"app__{n}": client.format(name=n) for n in ("First", "Second", "Third")})

    (present,) = [m for m in made.metrics if m.family.endswith("answer_present")]
    assert (present.name, present.members, len(present.places)) == ("model_clients_answer_present", [], 3)
    portfolio = parse_portfolio(portfolio_yaml(portfolio_data(made), made))
    assert [m.name for m in portfolio.metrics if m.name.endswith("answer_present")] == [present.name]


_STAYS = """
from fastapi import FastAPI
from app.asking import answer

app = FastAPI()

@app.{way}("/ask")
async def ask(socket):
    return answer(await socket.receive_text())
"""


@pytest.mark.parametrize(("way", "measures"), [("post", True), ("websocket", False)])
def test_the_seconds_of_a_run_are_those_of_its_trace_unless_a_user_stays_connected(
    tmp_path: Path, way: str, measures: bool
) -> None:
    made = _made(tmp_path, app__asking=_ASKS, app__server=_STAYS.format(way=way))
    portfolio = parse_portfolio(portfolio_yaml(portfolio_data(made), made))
    found = [m for m in portfolio.metrics if m.name == "run_seconds"]

    assert [(m.is_trace, m.component, m.claim.field.text) for m in found] == (
        [(True, None, "trace.duration")] if measures else []
    )


_TAKES_ALL = """
import openai

client = openai.OpenAI()

def {name}(question):
    try:
        return client.chat.completions.create(model="gpt-4o", messages=[question]).choices[0].message.content
    except Exception as error:
        return {{"error": str(error)}}
"""
_SERVED = """
from fastapi import FastAPI
from app.drafting import draft
from app.rating import rate
from app.writing import answer

app = FastAPI()

@app.post("/rate")
def rated(text: str):
    return {asked}(text)

@app.post("/draft")
def drafted(text: str):
    return draft(text)

class Step:
    def run(self, question):
        return rate(draft(question))
"""


@pytest.mark.parametrize(("asked", "measures"), [("rate", False), ("answer", True)])
def test_without_a_span_around_a_run_there_are_no_seconds_of_runs(tmp_path: Path, asked: str, measures: bool) -> None:
    clients = {f"app__{at}": _TAKES_ALL.format(name=name) for at, name in (("drafting", "draft"), ("rating", "rate"))}
    made = _made(tmp_path, app__writing=_ASKS, app__server=_SERVED.format(asked=asked), **clients)

    families = {m.family for m in made.metrics}
    assert "model_latency" in families and ("run_seconds" in families) is measures


_OUTSIDE = """
import httpx
from app.asking import answer

def read_{name}(question):
    return httpx.get("https://{name}.example", params={{"q": question}}).raise_for_status().text

def {name}(question):
    return answer(read_{name}(question))
"""


def test_errors_of_other_services_are_one_metric_by_component(tmp_path: Path) -> None:
    names = ("news", "rates", "weather")
    files = {f"app__{n}__{n}": _OUTSIDE.format(name=n) for n in names}
    made = _made(tmp_path, is_bounded=False, app__asking=_ASKS, **files)

    shared = [(m, joined) for m, joined in shared_metrics(made.metrics, made.architecture) if m.group == "outside"]
    ((errors, joined),) = shared
    assert (errors.name, joined) == ("outside_service_errors", {f"read_{n}_service_errors" for n in names})
    assert errors.spans == [f"read_{n}" for n in names]
