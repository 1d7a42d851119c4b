"""What the application runs has metrics; offline code, code of clients and dead code have none."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import run_design
from tests.design.source_tree import write_tree

_ASKS = """
import openai, httpx

def ask(question):
    return openai.OpenAI().chat.completions.create(
        model="m", messages=[{"role": "user", "content": question}]
    ).choices[0].message.content

def look_up(question):
    return httpx.get("https://index.example", params=question).raise_for_status().json()

def look_up_as_before(question):
    return httpx.get("https://old.example", params=question).raise_for_status().json()

def answer_as_before(question):
    return ask(look_up_as_before(question))
"""
_SERVER = """
from fastapi import FastAPI
from app.asking import ask, look_up

app = FastAPI()

@app.post("/answer")
def answer(question: str):
    return ask(look_up(question))
"""
_EVALUATION = """
import openai, httpx
import streamlit as st

def judge(answer):
    return openai.OpenAI().chat.completions.create(
        model="m", messages=[{"role": "user", "content": answer}]
    ).choices[0].message.content

def fetch_set():
    return httpx.get("https://sets.example").raise_for_status().json()

for one in fetch_set():
    st.write(judge(one))
"""
_COMMANDS = """
import click, httpx
from app.asking import ask, look_up

@click.command()
def reply(question):
    click.echo(ask(look_up(question)))

@click.command()
def log_in(name):
    return httpx.post("https://accounts.example", json=name).raise_for_status().json()

if __name__ == "__main__":
    reply()
"""
_CLIENT = """
import httpx

class AnswerClient:
    def answer(self, question):
        return httpx.post("https://service.example/answer", json=question).raise_for_status().json()
"""
_STORES = """
import httpx

class Store:
    def keep(self, text):
        raise NotImplementedError

class Kept(Store):
    def keep(self, text):
        return httpx.post("https://kept.example", json=text).raise_for_status().json()

class Unkept(Store):
    def keep(self, text):
        return httpx.post("https://unkept.example", json=text).raise_for_status().json()
"""
_KEEPS = """
from fastapi import FastAPI
from app.asking import ask
from app.stores import Kept, Store

app = FastAPI()
store: Store = Kept()

@app.post("/answer")
def answer(question: str):
    found = ask(question)
    store.keep(found)
    return found
"""
_SCREEN = """
import httpx
from rich.console import Console

def news():
    try:
        return httpx.get("https://news.example").raise_for_status().json()
    except httpx.HTTPError:
        return []

def welcome():
    Console().print(news())
"""
_TERMINAL = """
import sys
from rich.console import Console
from app.asking import ask, look_up
from app.screen import welcome

if __name__ == "__main__":
    welcome()
    Console().print(ask(look_up(sys.argv[1])))
"""


def _measured(root: Path, files: dict[str, str]) -> set[str]:
    made = run_design(scan_repository(write_tree(root, {"app/asking.py": _ASKS, **files})))
    return {s for m in (*made.metrics, *(s.metric for s in made.selection.shelf)) for s in m.symbols}


def test_an_evaluation_beside_a_server_has_no_metric(tmp_path: Path) -> None:
    measured = _measured(tmp_path, {"app/server.py": _SERVER, "eval/run.py": _EVALUATION})

    assert {"app.asking.ask", "app.asking.look_up"} <= measured
    assert not any(symbol.startswith("eval.") for symbol in measured)


def test_a_command_line_beside_a_server_has_no_metric(tmp_path: Path) -> None:
    measured = _measured(tmp_path, {"app/server.py": _SERVER, "app/commands.py": _COMMANDS})

    assert {"app.asking.ask", "app.asking.look_up"} <= measured
    assert not any(symbol.startswith("app.commands.") for symbol in measured)


def test_of_a_command_line_alone_the_commands_that_lead_to_a_model_have_metrics(tmp_path: Path) -> None:
    measured = _measured(tmp_path, {"app/commands.py": _COMMANDS})

    assert {"app.asking.ask", "app.asking.look_up"} <= measured
    assert "app.commands.log_in" not in measured


def test_the_first_screen_of_a_terminal_has_no_metric(tmp_path: Path) -> None:
    measured = _measured(tmp_path, {"app/program.py": _TERMINAL, "app/screen.py": _SCREEN})

    assert {"app.asking.ask", "app.asking.look_up"} <= measured
    assert "app.screen.news" not in measured


def test_public_functions_of_a_library_have_metrics(tmp_path: Path) -> None:
    assert {"app.asking.ask", "app.asking.look_up"} <= _measured(tmp_path, {})


def test_a_package_that_clients_run_beside_a_server_has_no_metric(tmp_path: Path) -> None:
    measured = _measured(tmp_path, {"app/server.py": _SERVER, "sdk/src/answers/client.py": _CLIENT})

    assert "app.asking.ask" in measured
    assert not any("AnswerClient" in symbol for symbol in measured)


def test_a_function_that_only_tests_call_and_a_chain_that_nothing_calls_have_no_metric(tmp_path: Path) -> None:
    tests = "from app.asking import answer_as_before\n\ndef test_answer():\n    assert answer_as_before('one')\n"
    for number, more in enumerate(({}, {"tests/test_asking.py": tests})):
        measured = _measured(tmp_path / str(number), {"app/server.py": _SERVER, **more})

        assert "app.asking.look_up" in measured
        assert not {"app.asking.look_up_as_before", "app.asking.answer_as_before"} & measured


def test_a_class_that_nothing_makes_has_no_metric(tmp_path: Path) -> None:
    measured = _measured(tmp_path, {"app/server.py": _KEEPS, "app/stores.py": _STORES})

    assert "app.stores.Kept.keep" in measured
    assert "app.stores.Unkept.keep" not in measured


def test_each_class_that_a_base_lists_when_it_is_defined_may_be_named_by_a_setting(tmp_path: Path) -> None:
    listing = "class Store:\n    known = {}\n    def __init_subclass__(cls):\n        Store.known[cls.__name__] = cls\n"
    keeps = _KEEPS.replace("store: Store = Kept()", "store = Store.known[settings['type']]()")
    keeps = keeps.replace("import Kept, Store", "import Store")
    for is_listed in (True, False):
        stores = _STORES.replace("class Store:\n", listing) if is_listed else _STORES
        files = {"app/server.py": keeps, "app/stores.py": stores}
        measured = _measured(tmp_path / str(is_listed), files)

        assert ({"app.stores.Kept.keep", "app.stores.Unkept.keep"} <= measured) == is_listed


@pytest.mark.parametrize(
    ("switch", "runs", "rests"),
    [
        ('os.environ.get("NEW", "true").lower() == "true"', "look_up", "look_up_as_before"),
        ('os.getenv("NEW", "0") in ("1", "yes")', "look_up_as_before", "look_up"),
        ('not bool(int(os.getenv("OLD", "0")))', "look_up", "look_up_as_before"),
        ('os.getenv("NEW") == "true"', "look_up", ""),
        ('os.getenv("KIND", "web") == "web"', "look_up_as_before", ""),
    ],
)
def test_an_arm_behind_a_switch_that_is_off_by_default_has_no_metric(
    switch: str, runs: str, rests: str, tmp_path: Path
) -> None:
    arms = f"    is_new = {switch}\n    if is_new:\n        found = look_up(question)\n    else:\n"
    arms += "        found = look_up_as_before(question)\n    return ask(found)\n"
    server = _SERVER.replace("import ask, look_up", "import ask, look_up, look_up_as_before").replace(
        "    return ask(look_up(question))\n", arms
    )
    measured = _measured(tmp_path, {"app/server.py": "import os\n" + server})

    assert f"app.asking.{runs}" in measured
    assert f"app.asking.{rests}" not in measured


def test_a_wrapped_function_that_nothing_calls_is_no_handler_of_a_library(tmp_path: Path) -> None:
    asking = _ASKS.replace("def answer_as_before", "@deprecated('use ask')\ndef answer_as_before")
    files = {"app/asking.py": "from typing_extensions import deprecated\n" + asking, "app/server.py": _SERVER}

    assert "app.asking.look_up_as_before" not in _measured(tmp_path, files)


_BOT = """
import httpx
from app.asking import ask

class Bot:
    async def start_polling(self):
        while True:
            for text in self.updates():
                ask(text)

    def updates(self):
        return httpx.get("https://chat.example").raise_for_status().json()

if __name__ == "__main__":
    Bot().start_polling()
"""


def test_a_program_that_waits_for_messages_is_a_server(tmp_path: Path) -> None:
    measured = _measured(tmp_path, {"app/server.py": _SERVER, "bot.py": _BOT})

    assert {"bot.Bot.updates", "app.asking.look_up"} <= measured


_STEPS = """
import sys
import json, httpx
import pipelines

def rows_of(question):
    return httpx.get("https://rows.example", params=question).raise_for_status().json()

def _rows_as_before(question):
    return httpx.get("https://rows-as-before.example", params=question).raise_for_status().json()

class Pipeline:
    def __init__(self):
        self.driver = pipelines.Driver({}, HANDED)

    def run(self, question):
        return self.driver.execute(["rows_of"], question)
"""
_RUNS_STEPS = """
from fastapi import FastAPI
from app.asking import ask
from app.steps import Pipeline

app = FastAPI()

@app.post("/answer")
def answer(question: str):
    return ask(Pipeline().run(question))
"""


def test_functions_of_a_file_that_a_library_is_handed_run(tmp_path: Path) -> None:
    files = {"app/server.py": _RUNS_STEPS}
    for handed in ("sys.modules[__name__]", "steps"):
        own = f"from app import steps\n{_STEPS}" if handed == "steps" else _STEPS
        steps = {"app/steps.py": own.replace("HANDED", handed)}
        measured = _measured(tmp_path / handed.partition(".")[0], files | steps)

        assert "app.steps.rows_of" in measured
        assert "app.steps._rows_as_before" not in measured


def test_functions_of_a_file_that_a_library_is_told_by_name_alone_do_not_run(tmp_path: Path) -> None:
    steps = {"app/steps.py": _STEPS.replace("HANDED", "__name__")}

    assert "app.steps.rows_of" not in _measured(tmp_path, {"app/server.py": _RUNS_STEPS, **steps})
