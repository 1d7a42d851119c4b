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

from app.keys import tenant_of, validate_vendor

app = FastAPI()

def ask(text):
    return openai.OpenAI().chat.completions.create(
        model="m", messages=[{"role": "user", "content": text}]
    ).choices[0].message.content

@app.post("/ask")
def answer(question: str, key: str):
    return ask(question + str(validate_vendor(key, 3)) + str(tenant_of(key, 3)))
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
_OUTCOME = "attributes.answer_outcome"


@cache
def _counted() -> frozenset[tuple[str, str]]:
    """Return (field, function) of all metrics of the server."""
    files = {"app/server.py": _SERVER, "app/keys.py": _KEYS, "app/__init__.py": ""}
    with TemporaryDirectory() as folder:
        made = run_design(scan_repository(write_tree(Path(folder), files)), is_bounded=False)
    return frozenset((str(m.claim.get("field")), s.rpartition(".")[2]) for m in made.metrics for s in m.symbols)


@pytest.mark.parametrize(("field", "function"), [(_OUTCOME, "validate_vendor")])
def test_what_fails_by_right_has_no_metric(field: str, function: str) -> None:
    assert (field, function) not in _counted()


@pytest.mark.parametrize(("field", "function"), [(_OUTCOME, "tenant_of")])
def test_what_loses_something_has_one(field: str, function: str) -> None:
    assert (field, function) in _counted()
