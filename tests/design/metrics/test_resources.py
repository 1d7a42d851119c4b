"""Sessions and connections of a server: what is thrown into them, or runs once, has no metric; their twins have."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import run_design
from tests.design.source_tree import write_tree

_SERVER = """
from contextlib import asynccontextmanager

import openai
from fastapi import Depends, FastAPI
from app.sessions import connection, session_that_writes
from app.stores import Store

store = Store()

@asynccontextmanager
async def lifespan(app):
    store.connect()
    yield

app = FastAPI(lifespan=lifespan)

@app.post("/ask")
def answer(question: str, session=Depends(connection), other=Depends(session_that_writes)):
    return openai.OpenAI().chat.completions.create(
        model="m", messages=[{"role": "user", "content": question + store.read(question)}]
    ).choices[0].message.content
"""
_SESSIONS = """
import psycopg2

def connection():
    session = psycopg2.connect("dbname=notes")
    try:
        yield session
    except Exception:
        session.rollback()
        raise
    finally:
        session.close()

def session_that_writes():
    session = psycopg2.connect("dbname=notes")
    try:
        yield session
        session.commit()
    except Exception:
        session.rollback()
        raise
"""
_STORES = """
import httpx

class Store:
    def connect(self):
        try:
            self.index = httpx.get("https://index.example").json()
        except Exception as error:
            raise RuntimeError("no index") from error

    def read(self, question):
        try:
            return httpx.get("https://rows.example", params={"q": question}).text
        except Exception as error:
            raise RuntimeError("no rows") from error
"""
_COMMAND = """
from app.stores import Store

def main():
    store = Store()
    store.connect()
    print(store.read("all"))

if __name__ == "__main__":
    main()
"""


@cache
def _of_errors() -> frozenset[str]:
    files = {
        "app/__init__.py": "",
        "app/server.py": _SERVER,
        "app/sessions.py": _SESSIONS,
        "app/stores.py": _STORES,
        "app/command.py": _COMMAND,
    }
    with TemporaryDirectory() as folder:
        made = run_design(scan_repository(write_tree(Path(folder), files)), is_bounded=False)
    metrics = [m for m in made.metrics if m.claim.get("field") == "status"]
    return frozenset(s.rpartition(".")[2] for m in metrics for s in m.symbols)


@pytest.mark.parametrize("function", ["connection", "connect"])
def test_what_is_thrown_in_or_runs_once_has_no_metric(function: str) -> None:
    assert function not in _of_errors()


@pytest.mark.parametrize("function", ["session_that_writes", "read"])
def test_what_a_request_does_itself_has_one(function: str) -> None:
    assert function in _of_errors()
