"""A portfolio is small, says what it left out, and takes in what somebody adds."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from gapwatch.design.commands.design import design as design_command
from gapwatch.design.metrics.questions import MAX_ASKED
from gapwatch.design.metrics.selection import MAX_METRICS, ONCE, added_fact, select_metrics
from gapwatch.design.metrics.shared_metrics import MODEL_CALLS
from gapwatch.design.metrics.traceability import MAX_PAGES
from gapwatch.design.reports.export_portfolio import portfolio_data, portfolio_yaml
from gapwatch.design.reports.output import facts_from
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import Design, run_design
from gapwatch.scorers.loading.load import parse_portfolio
from gapwatch.scorers.portfolio.fact import Fact
from tests.design.source_tree import write_tree

_CLIENT = "import openai, httpx\nclient = openai.OpenAI()\n"
_STEP = """

class Step{n}:
    def ask_{n}(self, question):
        try:
            text = client.chat.completions.create(
                model="gpt-4.1",
                messages=[{{"role": "system", "content": "Answer number {n} in one short sentence."}}],
            ).choices[0].message.content
        except openai.APIError as error:
            return f"Error: {{error}}"
        return text

    def look_up_{n}(self, question):
        return httpx.get("https://index.example/{n}", timeout={n}).raise_for_status().json()
"""


def _wide(root: Path, goal: str = "", facts: tuple[Fact, ...] = (), is_bounded: bool = True) -> Design:
    files = {f"step_{n}.py": _CLIENT + _STEP.format(n=n) for n in range(1, 11)}
    return run_design(scan_repository(write_tree(root, files)), goal, facts, is_bounded=is_bounded)


def test_a_portfolio_keeps_its_bounds_and_each_other_metric_has_a_reason(tmp_path: Path) -> None:
    made, whole = _wide(tmp_path), _wide(tmp_path, is_bounded=False)

    assert len(whole.metrics) > MAX_METRICS >= len(made.metrics)
    assert sum(m.severity == "page" for m in made.metrics) <= MAX_PAGES
    assert len(made.open_questions) <= MAX_ASKED
    assert all(sum(m.family == family for m in made.metrics) <= 1 for family in ONCE)
    shelved = {s.metric.name for s in made.selection.shelf}
    every = [*made.metrics, *(s.metric for s in made.selection.shelf)]
    shared = {m.name for m in every if m.members}
    assert (shelved | {m.name for m in made.metrics}) - shared == {m.name for m in whole.metrics}
    assert all(s.why for s in made.selection.shelf)
    assert not whole.selection.shelf


def test_model_calls_are_measured_once_a_pipeline_by_component(tmp_path: Path) -> None:
    made = _wide(tmp_path)
    data = portfolio_data(made)
    portfolio = parse_portfolio(portfolio_yaml(data, made))

    callers = {c.id for c in made.architecture.components if "llm_chat" in c.capabilities}
    group = next(c for c in portfolio.components if c.id == MODEL_CALLS)
    mine = [m for m in portfolio.metrics if m.component == group.id]
    assert set(group.members) == callers and len(callers) > 1
    assert {m.name for m in mine} >= {"model_calls_finish_reason", "model_calls_model_cost"}
    of_one = [m for m in made.metrics if m.family.endswith(("finish_reason", "model_cost")) and not m.members]
    assert of_one == [] and all(m.spans and set(m.owners) == callers for m in made.metrics if m.group == MODEL_CALLS)
    needed = {p.component for p in made.points if "model_calls_finish_reason" in p.blind}
    assert needed == callers


def test_calls_of_models_without_a_reply_are_counted_once_a_pipeline_whatever_becomes_of_them(tmp_path: Path) -> None:
    made = _wide(tmp_path)

    (metric,) = [m for m in made.metrics if m.family == "unanswered"]
    assert (metric.name, metric.severity, metric.per_trace) == (f"{MODEL_CALLS}_unanswered", "ticket", "sum")
    assert metric.claim["field"] == "attributes.model_errors" and metric.claim["limit"] == {"max": 0}
    assert (metric.better, metric.direction_verdict, metric.questions) == ("lower", "verified", [])
    lines = {p.path: Path(tmp_path, p.path).read_text().splitlines()[p.line - 1] for p in metric.places}
    assert len(lines) == 10 and all("chat.completions.create(" in line for line in lines.values())
    planned = [p for p in made.planned if "attributes.model_errors" in p.fields]
    assert {p.start["model_errors"] for p in planned} == {None} and len(planned) == 10


_RAISES = """

def ask(question):
    try:
        return client.chat.completions.create(model="m", messages=[question]).choices[0].message.content
    except openai.APIError as error:
        raise RuntimeError("no answer") from error
"""


def test_errors_of_a_function_whose_calls_without_a_reply_are_counted_are_told_by_those(tmp_path: Path) -> None:
    made = run_design(scan_repository(write_tree(tmp_path, {"asking.py": _CLIENT + _RAISES})), is_bounded=False)
    both = [m for m in made.metrics if m.family in ("unanswered", "error_rate")]
    alone = [m for m in both if m.family == "error_rate"]

    chosen = select_metrics(both, made.architecture, set(), ())

    assert [m.family for m in chosen.metrics] == ["unanswered"]
    assert [s.why for s in chosen.shelf] == ["asking_unanswered fails on the same calls"]
    assert select_metrics(alone, made.architecture, set(), ()).metrics == alone


def test_what_is_added_comes_in_though_it_is_worth_little(tmp_path: Path) -> None:
    name = _wide(tmp_path).selection.shelf[-1].metric.name

    made = _wide(tmp_path, facts=(added_fact(name, "maria", "2026-11-02"),))

    assert name in {m.name for m in made.metrics}
    assert not made.stale_facts


def test_what_is_added_takes_the_place_of_no_other(tmp_path: Path) -> None:
    before = _wide(tmp_path)
    for shelved in before.selection.shelf[:3]:
        name = shelved.metric.name
        made = _wide(tmp_path, facts=(added_fact(name, "maria", "2026-11-02"),))

        assert {m.name for m in made.metrics} == {m.name for m in before.metrics} | {name}
        assert name not in {s.metric.name for s in made.selection.shelf}


def test_a_goal_brings_in_what_it_speaks_of_and_says_what_went_out(tmp_path: Path) -> None:
    made = _wide(tmp_path, goal="it must be fast")

    latency = {m.name for m in made.metrics if m.concern == "latency"}
    assert len(latency) > sum(m.concern == "latency" for m in _wide(tmp_path).metrics)
    assert latency >= set(made.selection.came_in) != set()
    assert made.selection.went_out


def test_the_command_remembers_a_metric_and_refuses_one_that_the_shelf_does_not_hold(tmp_path: Path) -> None:
    name = _wide(tmp_path / "app").selection.shelf[0].metric.name
    facts = tmp_path / "facts.yaml"
    words = ["add", str(tmp_path / "app"), name, "--facts", str(facts), "--by", "maria", "--quiet"]

    assert CliRunner().invoke(design_command, words).exit_code == 0
    again = CliRunner().invoke(design_command, words)
    wrong = CliRunner().invoke(design_command, [*words[:2], "no_such_metric", *words[3:]])

    assert [f.metric for f in facts_from(facts, must_exist=True)] == [name]
    assert "already" in str(again.exception) and "has no metric" in str(wrong.exception)


@pytest.mark.parametrize("by", ["", "TODO"])
def test_nobody_adds_nothing(by: str) -> None:
    with pytest.raises(ValueError, match="by"):
        added_fact("a_metric", by, "2026-11-02")


_LAYERS = """
import httpx

def page_of(address):
    return httpx.get(address).raise_for_status().text

def title_of(address):
    return page_of(address).partition("<title>")[2]

def words_of(text):
    if not isinstance(text, str):
        raise TypeError("a text is wanted")
    return text.split()

def text_of(address):
    try:
        return httpx.get(address + ".txt").text
    except httpx.HTTPError as error:
        raise LookupError(address) from error

def both(address):
    try:
        return text_of(address)
    except LookupError:
        print("no text")
    return title_of(address)
"""


def test_an_error_that_passes_several_functions_is_counted_where_it_arises(tmp_path: Path) -> None:
    files = {
        "pages.py": _LAYERS,
        "prices.py": "import httpx\n\ndef price(name):\n    return httpx.get(f'https://{name}/price').raise_for_status().json()\n",
        "asking.py": _CLIENT + "from pages import both, words_of\nfrom prices import price\n\ndef ask(question):\n"
        "    texts = [both(question), price(question), words_of(question)]\n"
        "    return client.chat.completions.create(\n        model='m',\n"
        "        messages=[{'role': 'user', 'content': f'Answer {question} from {texts} alone.'}],\n"
        "    ).choices[0].message.content\n",
    }
    made = run_design(scan_repository(write_tree(tmp_path, files)))

    of_errors = {name for m in made.metrics if m.claim.get("field") == "status" for name in m.spans}
    assert {"page_of", "price"} <= of_errors
    assert not of_errors & {"title_of", "words_of"}, "a caller fails with what it calls, and a function in memory never"
