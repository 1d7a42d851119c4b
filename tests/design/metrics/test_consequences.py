"""Metrics of kinds that are often wrong come into a portfolio only where the code shows what their failure costs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import yaml

from gapwatch.design.metrics.rules.consequences import READINGS_OF_KINDS
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import Design, run_design
from tests.design.source_tree import write_tree
from tests.design.truths.test_truth_files import FOLDER as TRUTHS

_CLIENT = "from openai import OpenAI\n\nclient = OpenAI()\n"
_ASK = """
def ask(question):
    texts = [{calls}]
    return client.chat.completions.create(
        model="m", messages=[{{"role": "user", "content": f"Answer {{question}} from {{texts}} alone."}}]
    ).choices[0].message.content
"""
_FETCH = """
import httpx

def {name}(address):
    try:
        return httpx.get(address).raise_for_status().text
    except httpx.HTTPError as error:
        return f"Error: {{error}}"
"""
_SERVER = """
from fastapi import FastAPI
from asking import ask
{imports}

app = FastAPI()

@app.post("/ask")
def answer(question: str):
    return {{"answer": ask(question)}}
"""


def _made(root: Path, files: dict[str, str]) -> Design:
    return run_design(scan_repository(write_tree(root, files)))


def _paths(made: Design, family: str) -> set[str]:
    return {p.path for m in made.metrics if m.family.endswith(family) for p in m.places}


def _whys(made: Design, family: str) -> dict[str, str]:
    return {s.metric.places[0].path: s.why for s in made.selection.shelf if s.metric.family.endswith(family)}


def test_an_answer_that_stands_for_a_failure_counts_on_the_way_to_an_answer_alone(tmp_path: Path) -> None:
    made = _made(
        tmp_path,
        {
            "pages.py": _FETCH.format(name="fetch_page"),
            "plans.py": _FETCH.format(name="fetch_plan"),
            "asking.py": "from pages import fetch_page\n" + _CLIENT + _ASK.format(calls="fetch_page(question)"),
            "server.py": _SERVER.format(imports="from plans import fetch_plan")
            + "\n@app.delete('/plan')\ndef drop_plan(address: str):\n    return {'plan': fetch_plan(address)}\n",
        },
    )

    assert _paths(made, "failure_answers") == {"pages.py"}
    assert _whys(made, "swallowed_errors")["plans.py"] == "no way from a request to an answer leads through it"


@pytest.mark.parametrize(
    ("name", "comes_in"),
    [
        ("fetch_page", True),
        ("page_title", False),
        ("count_tokens", False),
        ("get_api_key", False),
        ("cached_page", False),
    ],
)
def test_what_stands_beside_the_answer_stays_on_the_shelf(tmp_path: Path, name: str, comes_in: bool) -> None:
    made = _made(
        tmp_path,
        {
            "pages.py": _FETCH.format(name=name),
            "asking.py": f"from pages import {name}\n" + _CLIENT + _ASK.format(calls=f"{name}(question)"),
            "server.py": _SERVER.format(imports=""),
        },
    )

    assert (_paths(made, "failure_answers") == {"pages.py"}) is comes_in


_IN_MEMORY = """
def sorted_words(text):
    try:
        return sorted(text.split())
    except AttributeError:
        return []
"""


def test_what_asks_nothing_outside_stays_on_the_shelf(tmp_path: Path) -> None:
    made = _made(
        tmp_path,
        {
            "words.py": _IN_MEMORY,
            "asking.py": "from words import sorted_words\n" + _CLIENT + _ASK.format(calls="sorted_words(question)"),
            "server.py": _SERVER.format(imports=""),
        },
    )

    assert not _paths(made, "failure_answers") | _paths(made, "swallowed_errors")


_WATCHED = """
import httpx

def note_{n}(address):
    try:
        httpx.post(address, json={{"asked": 1}}).raise_for_status()
    except httpx.HTTPError:
        print("not noted")
"""


def test_failures_of_many_functions_are_never_one_metric(tmp_path: Path) -> None:
    files = {f"text_{n}.py": _FETCH.format(name=f"fetch_{n}") + _WATCHED.format(n=n) for n in range(9)}
    imports = "".join(f"from text_{n} import fetch_{n}, note_{n}\n" for n in range(9))
    calls = ", ".join(f"fetch_{n}(question), note_{n}(question)" for n in range(9))
    files |= {"asking.py": imports + _CLIENT + _ASK.format(calls=calls), "server.py": _SERVER.format(imports="")}
    made = _made(tmp_path, files)

    mine = [m for m in made.metrics if m.family.endswith(("failure_answers", "swallowed_errors"))]
    assert mine and all(not m.members for m in mine)
    assert len(mine) < 9, "each further one of a kind is worth less"


def test_clients_and_pages_come_in_by_name_alone_and_evaluators_that_requests_ask_stay(tmp_path: Path) -> None:
    folders = {0: "", 1: "eval/", 2: "my_sdk/", 3: ""}
    files = {f"{folder}text_{n}.py": _FETCH.format(name=f"fetch_{n}") for n, folder in folders.items()}
    files["text_3.py"] = "import streamlit\n" + files["text_3.py"].replace(
        "    try:", "    streamlit.write(address)\n    try:"
    )
    files |= {"eval/__init__.py": "", "my_sdk/__init__.py": ""}
    imports = "".join(f"from {folder.replace('/', '.')}text_{n} import fetch_{n}\n" for n, folder in folders.items())
    files["asking.py"] = imports + _CLIENT + _ASK.format(calls=", ".join(f"fetch_{n}(question)" for n in folders))
    files["server.py"] = _SERVER.format(imports="")
    made = _made(tmp_path, files)

    assert _paths(made, "failure_answers") == {"text_0.py", "eval/text_1.py"}
    why = _whys(made, "failure_answers")
    assert why["my_sdk/text_2.py"] == "of a client beside the pipeline"
    assert why["text_3.py"].startswith("a person sees it")


_PARSED = """
import json
import httpx

def feed():
    return json.loads(httpx.get("https://feed.example").text)
"""


@pytest.mark.parametrize("is_of_model", [True, False])
def test_a_text_that_is_parsed_counts_where_a_model_wrote_it(tmp_path: Path, is_of_model: bool) -> None:
    said = "\n\ndef plan(question):\n    return json.loads(ask(question))\n"
    made = _made(
        tmp_path,
        {
            "feeds.py": _PARSED,
            "asking.py": "import json\nfrom feeds import feed\n"
            + _CLIENT
            + _ASK.format(calls="feed()")
            + (said if is_of_model else ""),
            "server.py": _SERVER.format(imports="")
            .replace("ask", "plan" if is_of_model else "ask")
            .replace("planing", "asking"),
        },
    )

    # A kind that is seldom right waits for whoever adds it, but for texts that no model wrote there is a reason before.
    assert _paths(made, "output_parses") == set()
    assert ("of its kind" in _whys(made, "output_parses").get("asking.py", "")) is is_of_model


_STORE = """
import chromadb

class {name}:
    def __init__(self):
        self._kept = chromadb.PersistentClient().get_or_create_collection("kept")

    def search_{what}(self, question):
        return self._kept.query(query_texts=[question], n_results=3)["documents"][0]
"""


@pytest.mark.parametrize(("name", "what", "counts"), [("Manuals", "pages", True), ("AgentMemory", "memories", False)])
def test_nothing_that_is_remembered_is_the_normal_course(tmp_path: Path, name: str, what: str, counts: bool) -> None:
    made = _made(
        tmp_path,
        {
            "store.py": _STORE.format(name=name, what=what),
            "asking.py": f"from store import {name}\n\nkept = {name}()\n"
            + _CLIENT
            + _ASK.format(calls=f"kept.search_{what}(question)"),
            "server.py": _SERVER.format(imports=""),
        },
    )

    assert bool(_paths(made, "passages_found")) is counts


_LAYERS = """
import httpx

def page_of(address):
    return httpx.get(address).raise_for_status().text

def text_of(address):
    try:
        return {tried}
    except httpx.HTTPError:
        return ""
"""


@pytest.mark.parametrize(("tried", "counts"), [("page_of(address)", False), ("httpx.get(address).text", True)])
def test_a_failure_that_the_request_below_tells_is_counted_once(tmp_path: Path, tried: str, counts: bool) -> None:
    made = _made(
        tmp_path,
        {
            "pages.py": _LAYERS.format(tried=tried),
            "asking.py": "from pages import page_of, text_of\n"
            + _CLIENT
            + _ASK.format(calls="page_of(question), text_of(question)"),
            "server.py": _SERVER.format(imports=""),
        },
    )

    assert _paths(made, "service_errors") == {"pages.py"}
    assert bool(_paths(made, "failure_answers") | _paths(made, "swallowed_errors")) is counts


@pytest.mark.parametrize("goal", ["", "it must be reliable"])
def test_kinds_that_were_seldom_right_come_in_by_name_or_goal_alone(tmp_path: Path, goal: str) -> None:
    said = "\n\ndef plan(question):\n    return json.loads(ask(question))\n"
    files = {
        "asking.py": "import json\n" + _CLIENT + _ASK.format(calls="") + said,
        "server.py": _SERVER.format(imports="").replace("import ask", "import plan").replace("ask(q", "plan(q"),
    }
    made = run_design(scan_repository(write_tree(tmp_path, files)), goal=goal)

    assert bool(_paths(made, "output_parses")) is bool(goal)
    assert ("of its kind that persons read" in _whys(made, "output_parses").get("asking.py", "")) is not bool(goal)


def test_the_share_of_right_readings_of_each_kind_is_that_of_the_first_readings() -> None:
    first: dict[str, str] = {}
    right, read = Counter[str](), Counter[str]()
    for one in yaml.safe_load((TRUTHS / "portfolio_readings.yaml").read_text()):
        kind = next((k for k in READINGS_OF_KINDS if one["metric"].endswith(f"_{k}")), "")
        if one["product"] == first.setdefault(one["repository"], one["product"]):
            right[kind] += one["verdict"] == "right"
            read[kind] += 1

    assert {kind: (right[kind], read[kind]) for kind in READINGS_OF_KINDS} == READINGS_OF_KINDS
    assert all(right / read < 0.5 for right, read in READINGS_OF_KINDS.values())


_WATCHED_BY = """
import httpx

class {name}({base}):
    def read(self, address):
        try:
            return httpx.get(address).raise_for_status().text
        except httpx.HTTPError as error:
            return f"Error: {{error}}"
"""


@pytest.mark.parametrize(("base", "counts"), [("object", True), ("App", False)])
def test_who_looks_at_a_terminal_sees_what_fails(tmp_path: Path, base: str, counts: bool) -> None:
    made = _made(
        tmp_path,
        {
            "pages.py": "from textual.app import App\n" + _WATCHED_BY.format(name="Page", base=base),
            "asking.py": "from pages import Page\n" + _CLIENT + _ASK.format(calls="Page().read(question)"),
            "server.py": _SERVER.format(imports=""),
        },
    )

    assert bool(_paths(made, "failure_answers")) is counts


_THREAD = """
import threading
import httpx

def fetch(address):
    found = []

    def work():
        try:
            found.append(httpx.get(address).text)
        except httpx.HTTPError as error:
            found.append({kept})

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(5)
    if found and isinstance(found[0], Exception):
        raise found[0]
    return found
"""


@pytest.mark.parametrize(("kept", "counts"), [("error", False), ("''", True)])
def test_an_error_that_is_kept_for_whoever_waits_is_not_swallowed(tmp_path: Path, kept: str, counts: bool) -> None:
    made = _made(
        tmp_path,
        {
            "pages.py": _THREAD.format(kept=kept),
            "asking.py": "from pages import fetch\n" + _CLIENT + _ASK.format(calls="fetch(question)"),
            "server.py": _SERVER.format(imports=""),
        },
    )

    assert bool(_paths(made, "swallowed_errors")) is counts


_BATCH = """
import httpx

def read_{n}(addresses):
    found = []
    for address in addresses:
        try:
            found.append(httpx.get(address).raise_for_status().text)
        except httpx.HTTPError:
            print("left out", address)
    return found
"""


def test_items_of_unlike_batches_are_counted_apart(tmp_path: Path) -> None:
    files = {f"batch_{n}.py": _BATCH.format(n=n) for n in "ab"}
    files["asking.py"] = "from batch_a import read_a\nfrom batch_b import read_b\n" + _CLIENT
    files["asking.py"] += _ASK.format(calls="read_a(question.split()), read_b(question.split())")
    made = _made(tmp_path, files | {"server.py": _SERVER.format(imports="")})

    mine = [m for m in made.metrics if m.family == "failed_items"]
    assert mine and all(len(m.places) == 1 and not m.members for m in mine)


_STEPS = """
def answer(question):
    try:
        return client.chat.completions.create(model="large", messages=[question]).choices[0].message.content
    except OpenAIError:
        try:
            return client.chat.completions.create(model="small", messages=[question]).choices[0].message.content
        except OpenAIError:
            return "Nobody can answer now."
"""


def test_one_step_of_a_function_is_enough(tmp_path: Path) -> None:
    source = _CLIENT.replace("import OpenAI", "import OpenAI, OpenAIError") + _STEPS
    made = _made(tmp_path, {"answering.py": source})

    assert sum("fallback_rate" in m.family for m in made.metrics) <= 1
