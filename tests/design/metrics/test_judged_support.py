"""Judges of support and of SQL: which prompts hold a model to what it is shown, and who writes SQL."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.architecture.prompts import Prompt
from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.metrics.prompt_demands import answers_from_found, is_for_statements, writes_sql
from gapwatch.design.metrics.spans import OF_EXCHANGE
from gapwatch.design.patterns.library_uses import CodePlace
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import Design, run_design
from tests.design.source_tree import write_tree


def _prompt(text: str, *fields: str) -> Prompt:
    return Prompt("app.ask", CodePlace("app.py", 1), "TASK", text, fields, (), ())


@pytest.mark.parametrize(
    ("text", "fields", "is_held"),
    [
        ("Answer using ONLY the context provided below.", (), True),
        ("If there isn't enough information below, say you don't know.", (), True),
        ("Never make up facts or prices.", (), True),
        ("Do NOT invent information that was not provided.", (), True),
        ("Please answer the user's question based on the data.", (), True),
        ("Answer this query: {query} with this provided context: {context}", ("query", "context"), True),
        ("根据已知信息，简洁和专业的来回答问题。", ("context",), True),
        # A format, and what is no find.
        ("Output ONLY the revised Markdown document.", (), False),
        ("Return only the search results page.", (), False),
        ("Never make up your mind too early.", (), False),
        ("Write a poem with the given mood: {mood}", ("mood",), False),
        ("Summarize the chat in one sentence.", ("results",), False),
    ],
)
def test_a_prompt_holds_a_model_to_what_it_is_shown(text: str, fields: tuple[str, ...], is_held: bool) -> None:
    assert answers_from_found([_prompt(text, *fields)]) == is_held


@pytest.mark.parametrize(
    ("symbol", "text", "is_written"),
    [
        ("app.generate_sql", "Given the question, generate an SQL query for the schema.", True),
        ("app.sql_generation.generate", "Write SQL that answers the question.", True),
        ("app.SQLAgent.run", "Create a syntactically correct SQL query to run.", True),
        ("app.sql_answer.generate_answer", "Write SQL that answers the question.", False),
        ("app.generate_sql_question", "Translate the SQL into a question.", False),
        ("app.answer", "Write SQL that answers the question.", False),
        ("app.generate_sql", "Explain what the user wants.", False),
    ],
)
def test_who_writes_sql_is_said_by_its_name_and_its_prompt(symbol: str, text: str, is_written: bool) -> None:
    assert writes_sql(symbol, [_prompt(text)]) == is_written


@pytest.mark.parametrize(
    ("symbol", "is_statement"),
    [
        ("app.chat.answer", True),
        ("app.Reporter.execute", True),
        ("app.Coder.execute", False),
        ("app.StarterQuestions.run", False),
        ("app.rerank_window", False),
        ("app.check_response_groundedness", False),
        ("app.diagnose", False),
    ],
)
def test_a_method_without_a_name_of_its_own_is_called_by_its_class(symbol: str, is_statement: bool) -> None:
    assert is_for_statements(symbol, "") == is_statement


_APP = """\
import openai
from fastapi import FastAPI

app = FastAPI()
client = openai.OpenAI()
SQL = "Given the question and the schema, generate an SQL query that answers it. Use no table that is not there."
ANSWER = "Answer the question of the user from the rows alone. Never invent a number. Keep it short. Use no jargon."
GRADE = "Rate the answer of an assistant from 1 to 5. Always give a reason, and never more than one sentence of it."


def ask(system, text):
    messages = [{"role": "system", "content": system}, {"role": "user", "content": text}]
    return client.chat.completions.create(model="m", messages=messages).choices[0].message.content


@app.post("/sql")
def generate_sql(question: str):
    return ask(SQL, question)


@app.post("/mend")
def correct_sql(question: str):
    return ask(SQL + " Mend the SQL query that follows.", question)


@app.post("/ask")
def answer(question: str):
    rows = run(generate_sql(question))
    return ask(ANSWER, f"{question} {rows}")


def run(query):
    return query


@app.post("/grade")
def evaluate(text: str):
    return ask(GRADE, text)
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Design:
    return run_design(scan_repository(write_tree(tmp_path_factory.mktemp("rows"), {"app.py": _APP})))


def _judges(metrics: list[MetricDesign]) -> dict[tuple[str, str], MetricDesign]:
    found = [m for m in metrics if m.source == "judge"]
    return {(m.symbols[0].removeprefix("app."), m.concern): m for m in found}


def test_one_judge_asks_whether_sql_answers_and_one_whether_the_answer_rests_on_what_was_shown(made: Design) -> None:
    judges = _judges(made.metrics)

    assert set(judges) == {("generate_sql", "quality"), ("answer", "groundedness")}
    sql, support = judges["generate_sql", "quality"], judges["answer", "groundedness"]
    assert "answer the question that was asked" in sql.claim["rubric"]["criterion"]
    assert "what the model was sent for it" in support.claim["rubric"]["criterion"]
    assert all(m.claim["rubric"]["inputs"] == list(OF_EXCHANGE) for m in judges.values())
    # Other SQL of the same application, and the quality of an answer that is judged already, come in by name.
    assert {("correct_sql", "quality"), ("answer", "quality")} <= set(_judges([s.metric for s in made.selection.shelf]))


def test_who_judges_answers_has_no_judge(made: Design) -> None:
    every = [*made.metrics, *(s.metric for s in made.selection.shelf), *(m for m, _ in made.dropped)]

    assert ("evaluate", "quality") not in _judges(every)


@pytest.mark.parametrize("is_sent_below", [True, False])
def test_a_prompt_is_judged_where_it_is_sent(is_sent_below: bool, tmp_path: Path) -> None:
    task = "Sum the talk up in one sentence, and never leave out a number that the user has told."
    sent = "ask(TASK, text)" if is_sent_below else "text"
    code = _APP[: _APP.index("@app")] + f'TASK = "{task}"\n\n\ndef sum_up(text):\n    return {sent}\n\n\n'
    code += '@app.post("/sum")\ndef total(text: str):\n    said = sum_up(text)\n'
    code += f"    return {'said' if is_sent_below else 'ask(TASK, said)'}\n"
    found = run_design(scan_repository(write_tree(tmp_path, {"app.py": code})))
    every = [*found.metrics, *(s.metric for s in found.selection.shelf)]

    assert {name for name, _ in _judges(every)} == {"sum_up" if is_sent_below else "total"}


def test_a_label_about_answers_to_queries_asks_for_statements() -> None:
    assert is_for_statements("app.stream", "Using models to generate answers to queries.")
    assert not is_for_statements("app.stream", "Generate three queries that find the answer.")


_GRADER = """\
import openai

client = openai.OpenAI()
TASK = "You are a strict judge. Never give a grade without a reason. Do not grade what is not shown. Return JSON only."


def grade(answer: str) -> str:
    messages = [{"role": "system", "content": TASK}, {"role": "user", "content": answer}]
    return client.chat.completions.create(model="m", messages=messages).choices[0].message.content


if __name__ == "__main__":
    print(grade("yes"))
"""


@pytest.mark.parametrize(("folder", "is_judged"), [("skill-eval", False), ("desk", True)])
def test_a_program_that_evaluates_is_judged_by_nothing(folder: str, is_judged: bool, tmp_path: Path) -> None:
    made = run_design(scan_repository(write_tree(tmp_path, {f"{folder}/grader.py": _GRADER})))
    every = [*made.metrics, *(s.metric for s in made.selection.shelf)]

    assert any(m.source == "judge" for m in every) == is_judged
