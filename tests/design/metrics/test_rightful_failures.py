"""What fails by right, where nobody loses anything, has no metric of failures; its twin that loses something has."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import run_design
from tests.design.source_tree import write_tree

_SERVER = """
import httpx
import openai
from fastapi import FastAPI

from app.counts import keep_turn, told
from app.evaluate import answer_sample, grade
from app.keys import tenant_of, validate_vendor
from app.starts import ask_store, wait_for_store_service

app = FastAPI()

def ask(text):
    return openai.OpenAI().chat.completions.create(
        model="m", messages=[{"role": "user", "content": text}]
    ).choices[0].message.content

@app.post("/ask")
def answer(question: str, key: str):
    text = ask(question + str(validate_vendor(key, 3)) + str(tenant_of(key, 3)))
    answer_sample(text + wait_for_store_service(text) + ask_store(text))
    grade(text)
    return told(text) + keep_turn(text)
"""
_KEYS = """
import logging

import httpx

def validate_vendor(api_key, timeout):
    try:
        reply = httpx.get("https://vendor.example/keys", params={"k": api_key}, timeout=timeout)
        return reply.json()["owner"]
    except Exception as error:
        logging.error("refused")
        return f"Error: the key was refused: {error}"

def tenant_of(api_key, timeout):
    try:
        reply = httpx.get("https://tenants.example", params={"k": api_key}, timeout=timeout)
        return reply.json()["name"]
    except Exception as error:
        logging.error("no tenant")
        return f"Error: no tenant: {error}"
"""
_COUNTS = """
import contextlib

import openai
import posthog
from qdrant_client import QdrantClient

def ask(text):
    return openai.OpenAI().chat.completions.create(
        model="m", messages=[{"role": "user", "content": text}]
    ).choices[0].message.content

def told(question):
    text = ask(question)
    with contextlib.suppress(Exception):
        posthog.capture("turn", {"text": text})
    return text

def keep_turn(question):
    text = ask(question)
    with contextlib.suppress(Exception):
        QdrantClient("turns").upsert("turns", points=[text])
    return text
"""
_EVALUATE = """
import httpx
from ragas import EvaluationDataset

def grade(text):
    return EvaluationDataset.from_list([text])

def answer_sample(text):
    try:
        return httpx.post("https://samples.example", json=text).json()["text"]
    except Exception as error:
        return f"Error: no answer: {error}"
"""
_STARTS = """
import httpx

def wait_for_store_service(address):
    try:
        return httpx.get(address).json()["state"]
    except Exception as error:
        return f"Error: not up yet: {error}"

def ask_store(address):
    try:
        return httpx.get(address).json()["state"]
    except Exception as error:
        return f"Error: no store: {error}"
"""
_OUTCOME, _SWALLOWED = "attributes.answer_outcome", "attributes.swallowed_errors"


@cache
def _counted() -> frozenset[tuple[str, str]]:
    """Return (field, function) of all metrics of the server."""
    files = {
        "server": _SERVER,
        "keys": _KEYS,
        "counts": _COUNTS,
        "evaluate": _EVALUATE,
        "starts": _STARTS,
        "__init__": "",
    }
    with TemporaryDirectory() as folder:
        made = run_design(
            scan_repository(write_tree(Path(folder), {f"app/{name}.py": text for name, text in files.items()})),
            is_bounded=False,
        )
    return frozenset((str(m.claim.get("field")), s.rpartition(".")[2]) for m in made.metrics for s in m.symbols)


@pytest.mark.parametrize(
    ("field", "function"),
    [
        (_OUTCOME, "validate_vendor"),
        (_SWALLOWED, "told"),
        (_OUTCOME, "answer_sample"),
        (_OUTCOME, "wait_for_store_service"),
    ],
)
def test_what_fails_by_right_has_no_metric(field: str, function: str) -> None:
    assert (field, function) not in _counted()


@pytest.mark.parametrize(
    ("field", "function"), [(_OUTCOME, "tenant_of"), (_SWALLOWED, "keep_turn"), (_OUTCOME, "ask_store")]
)
def test_what_loses_something_has_one(field: str, function: str) -> None:
    assert (field, function) in _counted()
