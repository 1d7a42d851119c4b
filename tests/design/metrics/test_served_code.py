"""What requests run has metrics; what a person runs, or what nothing makes, has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import Design, run_design
from tests.design.source_tree import write_tree

_SERVER = """
from fastapi import FastAPI
from app.answers import Answers
from app.stores import store_of
from app.views import controller

app = FastAPI()

@app.get("/health")
def health():
    return "ok"

@app.post("/keep")
def keep(text: str):
    store_of("first").keep(text)

controller(Answers)
"""
_VIEWS = """
def post(path):
    def decorator(func):
        func.path = path
        return func
    return decorator

def controller(cls):
    for name, method in vars(cls).items():
        print(name, method)
"""
_ANSWERS = """
import openai
from app.views import post

class Answers:
    @post("/answer")
    def answer(self, question):
        return openai.OpenAI().chat.completions.create(
            model="m", messages=[{"role": "user", "content": question}]
        ).choices[0].message.content
"""
_STORES = """
from abc import ABC, abstractmethod
import httpx

class Store(ABC):
    @abstractmethod
    def keep(self, text): ...

    def size_of(self, text):
        return httpx.get("https://sizes.example", params=text).raise_for_status()

class First(Store):
    def keep(self, text):
        httpx.post("https://first.example", json=text).raise_for_status()

class Second(Store):
    def keep(self, text):
        self.size_of(text)
        httpx.post("https://second.example", json=text).raise_for_status()

STORES = {"first": First}

def store_of(name) -> Store:
    return STORES[name]()
"""
_PROGRAM = """
import openai, httpx

def main():
    return openai.OpenAI().chat.completions.create(model="m", messages=[{"role": "user", "content": "Say hello."}])

if __name__ == "__main__":
    main()
"""
_BY_HAND = """
from app.points import copy_all

def main():
    copy_all("old", "new")

if __name__ == "__main__":
    main()
"""
_POINTS = """
from qdrant_client import QdrantClient

def copy_all(old, new):
    found, _ = QdrantClient(old).scroll("all", limit=100)
    QdrantClient(new).upload_points("all", found, wait=True)
"""


def _made(root: Path) -> Design:
    files = {
        "server": _SERVER,
        "views": _VIEWS,
        "answers": _ANSWERS,
        "stores": _STORES,
        "ask": _PROGRAM,
        "copying": _BY_HAND,
        "points": _POINTS,
    }
    return run_design(scan_repository(write_tree(root, {f"app/{name}.py": text for name, text in files.items()})))


def _measured(made: Design) -> set[str]:
    return {symbol for m in (*made.metrics, *(s.metric for s in made.selection.shelf)) for symbol in m.symbols}


def test_a_method_that_a_decorator_of_the_repository_registers_has_metrics(tmp_path: Path) -> None:
    assert "app.answers.Answers.answer" in _measured(_made(tmp_path))


def test_a_class_that_no_code_names_has_no_metric_beside_one_that_is_made(tmp_path: Path) -> None:
    measured = _measured(_made(tmp_path))

    assert "app.stores.First.keep" in measured
    assert "app.stores.Second.keep" not in measured
    assert "app.stores.Store.size_of" not in measured


def test_a_program_beside_a_server_is_no_way_in(tmp_path: Path) -> None:
    measured = _measured(_made(tmp_path))

    assert "app.ask.main" not in measured
    assert "app.points.copy_all" not in measured


_CLOUD = """
import openai

def handler(event, context):
    return openai.OpenAI().chat.completions.create(
        model="m", messages=[{"role": "user", "content": event["body"]}]
    ).choices[0].message.content
"""
_BESIDE = """
import openai
from fastapi import FastAPI

app = FastAPI()

@app.post("/title")
def title(text: str):
    return openai.OpenAI().chat.completions.create(
        model="m", messages=[{"role": "user", "content": f"Give a title in three words: {text}"}]
    ).choices[0].message.content
"""


def test_what_a_cloud_runs_by_its_name_is_served_beside_a_server(tmp_path: Path) -> None:
    made = run_design(scan_repository(write_tree(tmp_path, {"socket.py": _CLOUD, "server.py": _BESIDE})))

    (failed,) = [m for m in made.metrics if m.family == "failed_requests"]
    assert sorted(failed.symbols) == ["server.title", "socket.handler"]


_BOT = """
import openai
from telegram.ext import Application, MessageHandler

def answer(text):
    return openai.OpenAI().chat.completions.create(
        model="m", messages=[{"role": "user", "content": f"Answer in one sentence: {text}"}]
    ).choices[0].message.content

async def talk(update, context):
    await update.message.reply_text(answer(update.message.text))

def run_bot():
    application = Application.builder().token("t").build()
    application.add_handler(MessageHandler(None, talk))
    application.run_polling()

run_bot()
"""


def test_what_serves_until_the_program_ends_has_no_span_around_all_requests(tmp_path: Path) -> None:
    made = run_design(scan_repository(write_tree(tmp_path, {"bot.py": _BOT})), is_bounded=False)

    spans = {p.symbol for p in made.points}
    assert "bot.run_bot" not in spans and {"bot.answer", "bot.talk"} <= spans


_UNUSED = """
import openai

SUMMARY = "Summarise the text below in two sentences, and state nothing that it does not say: {text}"

def summary(text):
    return openai.OpenAI().chat.completions.create(
        model="m", messages=[{"role": "user", "content": SUMMARY.format(text=text)}]
    ).choices[0].message.content
"""


@pytest.mark.parametrize("is_used", [True, False])
def test_a_judge_of_what_no_request_runs_is_left_out(tmp_path: Path, is_used: bool) -> None:
    use = "\nfrom summaries import summary\n\n@app.post('/sum')\ndef sum_up(text: str):\n    return summary(text)\n"
    files = {"summaries.py": _UNUSED, "server.py": _BESIDE + (use if is_used else "")}
    made = run_design(scan_repository(write_tree(tmp_path, files)), is_bounded=False)

    judged = {s for m in made.metrics if m.source == "judge" for s in m.symbols}
    assert ("summaries.summary" in judged) == is_used


_TASK = """
import httpx
from celery import Celery
from server import ask

app = Celery("app")

@app.task
def measure_answers(number):
    try:
        wanted = httpx.get(f"https://questions.example/{number}").raise_for_status().json()
    except httpx.HTTPError:
        return None
    return ask(wanted["question"]) == wanted["answer"]
"""


@pytest.mark.parametrize(
    "path, kept, measured",
    [
        ("tasks/evaluate.py", "DATA_SET = 'questions'", False),
        ("evaluations/tasks.py", "DATA_SET = 'questions'", False),
        ("tasks/evaluate.py", "", True),  # it may evaluate what a user sends
        ("tasks/answers.py", "DATA_SET = 'questions'", True),
    ],
)
def test_a_task_that_measures_over_a_data_set_serves_nobody(
    tmp_path: Path, path: str, kept: str, measured: bool
) -> None:
    server = _BESIDE.replace("def title(text: str):", "def title(text: str):\n    return ask(text)\n\ndef ask(text):")
    folder = path.partition("/")[0]
    files = {path: f"{kept}\n{_TASK}", "server.py": f"{server}\nimport {path[:-3].replace('/', '.')}\n"}
    made = run_design(scan_repository(write_tree(tmp_path, files | {f"{folder}/__init__.py": ""})), is_bounded=False)

    symbols = _measured(made)
    assert "server.ask" in symbols
    assert (f"{path[:-3].replace('/', '.')}.measure_answers" in symbols) == measured


_JUDGED = """
import openai

def score(answer):
    return openai.OpenAI().chat.completions.create(
        model="m", messages=[{"role": "user", "content": f"How good is this answer, of 10: {answer}"}]
    ).choices[0].message.content
"""


def test_an_evaluator_that_scores_each_answer_within_its_request_is_served(tmp_path: Path) -> None:
    server = _BESIDE.replace("app = FastAPI()", "from eval.scores import score\n\napp = FastAPI()").replace(
        "def title(text: str):\n    return", "def title(text: str):\n    return score(text),"
    )
    files = {"eval/__init__.py": "", "eval/scores.py": _JUDGED, "server.py": server}
    made = run_design(scan_repository(write_tree(tmp_path, files)), is_bounded=False)

    assert "eval.scores.score" in _measured(made)


def test_a_folder_of_automatic_evaluation_is_none_of_a_program(tmp_path: Path) -> None:
    files = {"auto_eval/run.py": _PROGRAM, "auto_eval/__init__.py": "", "chat.py": _PROGRAM.replace("hello", "yes")}
    measured = _measured(run_design(scan_repository(write_tree(tmp_path, files)), is_bounded=False))

    assert "chat.main" in measured and "auto_eval.run.main" not in measured
