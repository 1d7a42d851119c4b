"""Code of a package whose users make the objects has metrics; classes that nobody hands on have none."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import run_design
from tests.design.source_tree import write_tree

_MODELS = """
from abc import ABC, abstractmethod
import httpx, openai

class Model(ABC):
    @abstractmethod
    def ask(self, question): ...

class RemoteModel(Model):
    def ask(self, question):
        return openai.OpenAI().chat.completions.create(
            model="m", messages=[{"role": "user", "content": question}]
        ).choices[0].message.content

class OldModel(Model):
    def ask(self, question):
        return httpx.post("https://old.example", json=question).raise_for_status().json()
"""
_AGENT = """
import httpx
from pack.models import Model

class Agent:
    def __init__(self, model: Model):
        self.model = model

    def answer(self, question):
        found = httpx.get("https://index.example", params=question).raise_for_status().json()
        return self.model.ask(f"{question} {found}")
"""
_SERVER = """
from fastapi import FastAPI
from pack.agent import Agent

class Server:
    def __init__(self, agent: Agent):
        self.agent = agent

    def create_app(self):
        app = FastAPI()

        @app.post("/answer")
        def answer(question: str):
            return self.agent.answer(question)

        return app
"""
_PACKAGE = "from pack.agent import Agent\nfrom pack.models import Model, RemoteModel\nfrom pack.server import Server\n"
_MAKES = "from pack.models import OldModel\n\nmodel = OldModel()\n"
_EVALUATION = """
import openai
from pack.marks import Grader

class Judge(Grader):
    def grade(self, answer):
        return openai.OpenAI().chat.completions.create(
            model="m", messages=[{"role": "user", "content": answer}]
        ).choices[0].message.content
"""
_MARKS = "class Grader:\n    pass\n"
_PLUGINS = """
import importlib
from fastapi import FastAPI
import pack.evaluation.judging

app = FastAPI()

@app.post("/plugins")
def load(name: str):
    plugin = importlib.import_module(name)
    return plugin.model.grade("one")
"""
_STORE = """
import httpx

def keep(text):
    return httpx.post("https://kept.example", json=text).raise_for_status().json()
"""
_SCRIPT = """
import sys
from pack.models import RemoteModel
from pack.store import keep

def run():
    keep(RemoteModel().ask(sys.argv[1]))
"""


def _measured(root: Path, **files: str) -> set[str]:
    paths = {f"pack/{name}.py": text for name, text in files.items() if name not in ("judging", "project")}
    if "judging" in files:
        paths |= {"pack/evaluation/__init__.py": "", "pack/evaluation/judging.py": files["judging"]}
    if "project" in files:
        paths["pyproject.toml"] = files["project"]
    made = run_design(scan_repository(write_tree(root, paths)))
    return {s for m in (*made.metrics, *(s.metric for s in made.selection.shelf)) for s in m.symbols}


def test_an_object_that_a_server_takes_from_its_user_has_metrics_with_each_class_that_is_handed_on(
    tmp_path: Path,
) -> None:
    measured = _measured(tmp_path, __init__=_PACKAGE, models=_MODELS, agent=_AGENT, server=_SERVER)

    assert {"pack.agent.Agent.answer", "pack.models.RemoteModel.ask"} <= measured
    assert "pack.models.OldModel.ask" not in measured


def test_where_production_code_makes_one_class_the_others_have_no_metric(tmp_path: Path) -> None:
    both = _PACKAGE.replace("RemoteModel", "OldModel, RemoteModel")
    served = _SERVER + _MAKES

    measured = _measured(tmp_path, __init__=both, models=_MODELS, agent=_AGENT, server=served)

    assert "pack.models.OldModel.ask" in measured
    assert "pack.models.RemoteModel.ask" not in measured


def test_where_a_server_leads_to_an_evaluation_alone_the_library_is_the_application(tmp_path: Path) -> None:
    files = {"__init__": "", "models": _MODELS, "marks": _MARKS, "store": _STORE, "asking": _SCRIPT, "server": _PLUGINS}

    assert "pack.store.keep" in _measured(tmp_path / "evaluation", judging=_EVALUATION, **files)
    served = {**files, "server": _PLUGINS.replace("evaluation.judging", "judge")}
    assert "pack.store.keep" not in _measured(tmp_path / "served", judge=_EVALUATION, **served)


@pytest.mark.parametrize("table", ["project.scripts", "tool.poetry.scripts"])
def test_a_script_of_the_installed_package_is_a_way_in(tmp_path: Path, table: str) -> None:
    # A program beside it, so that the library as a whole is no way in.
    other = "from pack.models import RemoteModel\n\nif __name__ == '__main__':\n    RemoteModel().ask('one')\n"
    files = {"__init__": "", "models": _MODELS, "store": _STORE, "asking": _SCRIPT, "other": other}
    project = f'[{table}]\nask = "pack.asking:run"\n'

    assert "pack.store.keep" in _measured(tmp_path / "named", project=project, **files)
    assert "pack.store.keep" not in _measured(tmp_path / "unnamed", **files)
