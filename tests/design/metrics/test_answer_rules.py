"""Failures given back that cost no answer have no metric; their twins have."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import run_design
from tests.design.source_tree import write_tree

_FILES = {
    "app/server.py": """
import openai
from fastapi import FastAPI

from app.keys import check_key, store_note
from app.jobs import job_status, job_report
from app.rows import estimate_rows, best_price
from app.pages import host_of, page_of
from app.flows import run_flow
from app.forms import written, streamed

app = FastAPI()

def ask(text):
    return openai.OpenAI().chat.completions.create(
        model="m", messages=[{"role": "user", "content": text}]
    ).choices[0].message.content

@app.post("/ask")
def answer(question: str):
    if not check_key(question):
        return ""
    store_note({"q": question})
    text = job_status(question) + job_report(question) + str(estimate_rows(question)) + str(best_price(question))
    text += host_of(question) + page_of(question) + written([question])
    text += "".join(streamed([question])) + run_flow(question)
    return ask(text)
""",
    "app/keys.py": """
import logging

import httpx

def check_key(key):
    try:
        httpx.get("https://keys.example", params={"key": key}).raise_for_status()
        return True
    except httpx.HTTPError:
        logging.error("no key")
        return False

def store_note(note):
    try:
        httpx.post("https://notes.example", json=note).raise_for_status()
        return True
    except httpx.HTTPError:
        logging.error("not stored")
        return False
""",
    "app/jobs.py": """
import httpx

def job_status(job):
    try:
        return httpx.get("https://jobs.example", params={"job": job}).text
    except httpx.HTTPError:
        return "unknown"

def job_report(job):
    try:
        return httpx.get("https://jobs.example/report", params={"job": job}).text
    except httpx.HTTPError:
        return "Sorry, there is no report."
""",
    "app/rows.py": """
import httpx

def estimate_rows(table):
    try:
        return int(httpx.get("https://rows.example", params={"t": table}).text)
    except httpx.HTTPError:
        return 0

def best_price(table):
    try:
        return int(httpx.get("https://rows.example", params={"t": table}).text)
    except httpx.HTTPError:
        return 0
""",
    "app/pages.py": """
import logging
from urllib.parse import urlparse

import httpx

def host_of(address):
    try:
        return urlparse(address).netloc
    except Exception:
        logging.error("no address")
        return ""

def page_of(address):
    try:
        return httpx.get(urlparse(address).netloc).text
    except Exception:
        logging.error("no page")
        return ""
""",
    "app/forms.py": """
import json

import httpx

def written(rows):
    try:
        return json.dumps(rows)
    except Exception:
        return "[]"

def streamed(rows):
    try:
        for row in httpx.stream("GET", "https://rows.example"):
            yield json.dumps(row)
    except Exception as error:
        yield json.dumps({"error": str(error)})
""",
    "app/flows.py": """
import logging

import httpx

def flow(question):
    try:
        return httpx.post("https://flow.example", json=question).json()
    except Exception:
        logging.error("no flow")

def bare_flow(question):
    try:
        return httpx.post("https://bare.example", json=question).json()
    except Exception:
        logging.error("no flow")

def worded(reply):
    if reply is None:
        logging.error("no reply")
        return {"error": "There was no reply in time."}
    return {"text": reply["text"]}

def run_flow(question):
    reply = flow(question)
    return str(worded(reply)) + str(bare_flow(question))
""",
    "app/__init__.py": "",
}


@cache
def _counted() -> frozenset[str]:
    with TemporaryDirectory() as folder:
        made = run_design(scan_repository(write_tree(Path(folder), _FILES)), is_bounded=False)
    metrics = [m for m in made.metrics if m.claim.get("field") == "attributes.answer_outcome"]
    return frozenset(s.rpartition(".")[2] for m in metrics for s in m.symbols)


@pytest.mark.parametrize("function", ["check_key", "job_status", "estimate_rows", "host_of", "written", "flow"])
def test_a_failure_beside_the_work_has_no_metric(function: str) -> None:
    assert function not in _counted()


@pytest.mark.parametrize(
    "function", ["store_note", "job_report", "best_price", "page_of", "streamed", "bare_flow", "worded"]
)
def test_a_failure_of_the_work_has_one(function: str) -> None:
    assert function in _counted()


@pytest.mark.parametrize(("decorator", "is_checked"), [("@input_guardrail\n", False), ("", True)])
def test_a_guardrail_that_a_library_may_cancel_has_no_check_of_its_answer(
    decorator: str, is_checked: bool, tmp_path: Path
) -> None:
    text = f"""
from agents import Agent, GuardrailFunctionOutput, Runner, input_guardrail
from fastapi import FastAPI

app = FastAPI()
judge = Agent(name="judge", instructions="Say whether the message is about travel, in one word.")


{decorator}async def is_about_travel(context, agent, message):
    result = await Runner.run(judge, message)
    return GuardrailFunctionOutput(output_info=result.final_output, tripwire_triggered=False)


helper = Agent(name="helper", instructions="Answer.", input_guardrails=[is_about_travel])


@app.post("/chat")
async def chat(message: str):
    await is_about_travel(None, helper, message)
    return (await Runner.run(helper, message)).final_output
"""
    made = run_design(scan_repository(write_tree(tmp_path, {"app.py": text})), is_bounded=False)

    checked = {s for m in made.metrics if m.claim.get("field") == "output" for s in m.symbols if m.source == "catalog"}
    assert ("app.is_about_travel" in checked) == is_checked
