"""Answers of a model that are read as YAML: a handler around it counts them, not one around a setting or a mending."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import run_design
from tests.design.source_tree import write_tree

_APP = """
import yaml
from fastapi import FastAPI
from openai import OpenAI

app = FastAPI()
client = OpenAI()


def ask_model(question):
    asked = [{"role": "user", "content": question}]
    return client.chat.completions.create(model="m", messages=asked).choices[0].message.content


def read(text):
    text = text.strip()
    data = {}
    try:
        data = yaml.safe_load(text)
    except Exception as e:
        print(e)
        data = mend(text)
    return data


def mend(text):
    data = {"answer": "?"}
    try:
        data = yaml.safe_load(text.replace(":", ": |-"))
    except Exception as e:
        print(e)
    return data


@app.post("/ask")
def ask(question):
    reply = ask_model(question)
    return read(reply)
"""


def _swallowing(root: Path, text: str) -> set[str]:
    made = run_design(scan_repository(write_tree(root, {"app.py": text})))
    metrics = [*made.metrics, *(s.metric for s in made.selection.shelf)]
    return {
        s.rpartition(".")[2]
        for m in metrics
        if m.claim.get("field") == "attributes.swallowed_errors"
        for s in m.symbols
    }


@pytest.mark.parametrize("kind", ["Exception", "yaml.YAMLError", "(ValueError, yaml.YAMLError)"])
def test_an_answer_that_cannot_be_read_is_counted_and_its_mending_is_not(kind: str, tmp_path: Path) -> None:
    assert _swallowing(tmp_path, _APP.replace("except Exception", f"except {kind}")) == {"read"}


def test_a_literal_of_a_model_is_an_answer_too(tmp_path: Path) -> None:
    text = _APP.replace("yaml.safe_load", "ast.literal_eval").replace("import yaml", "import ast")

    assert _swallowing(tmp_path, text) == {"read"}


def test_a_setting_that_cannot_be_read_fails_by_itself(tmp_path: Path) -> None:
    assert not _swallowing(tmp_path, _APP.replace("read(reply)", 'read(open("settings.yaml").read()), reply'))
