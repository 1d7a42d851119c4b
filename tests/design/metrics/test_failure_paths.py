"""A metric that fails only where others do stays out; one with failures of its own comes in."""

from __future__ import annotations

from pathlib import Path

from gapwatch.design.analysis import no_progress
from gapwatch.design.architecture.claimed_code import ClaimedCode
from gapwatch.design.metrics.rules.failure_paths import FailurePaths
from gapwatch.design.patterns.libraries import default_catalog
from gapwatch.design.patterns.library_uses import CodePlace
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import Design, read_code, run_design
from tests.design.source_tree import write_tree

_PAGES = """
import httpx

def page_of(address):
    return httpx.get(address).raise_for_status().text

def size_of(address):
    return len(page_of(address))
"""
_SUMMARIES = """
import httpx
import logging
import openai
from app.pages import page_of, size_of

def summary(address):
    texts = []
    try:
        texts.append(page_of(address))
    except Exception:
        logging.exception("no page")
    words = size_of(address)
    return openai.OpenAI().chat.completions.create(
        model="m", messages=[{"role": "user", "content": f"Summarise in {words} words: {texts}"}]
    ).choices[0].message.content
"""
_PRICES = """
import httpx
import logging
import openai

def rates():
    return httpx.get("https://rates.example").raise_for_status().json()

def convert(price):
    try:
        price = price * rates()["EUR"]
        httpx.post("https://book.example", json={"price": price}).raise_for_status()
    except Exception:
        logging.exception("not converted")
    return openai.OpenAI().chat.completions.create(
        model="m", messages=[{"role": "user", "content": f"Is {price} fair? {rates()}"}]
    ).choices[0].message.content
"""
_MEMORY = """
import logging
import openai

def told(documents):
    lines = []
    for document in documents:
        try:
            lines.append(document.metadata.get("title", "").strip())
        except Exception:
            logging.exception("no title")
    return openai.OpenAI().chat.completions.create(
        model="m", messages=[{"role": "user", "content": "Which is best? " + ", ".join(lines)}]
    ).choices[0].message.content
"""
_CHECKED = """
import httpx
import logging
import openai

class Refused(Exception):
    pass

def checked(reply):
    if reply.status_code != 200:
        raise Refused(reply.text)

def tables(question):
    reply = httpx.post("https://tables.example", json={"q": question})
    names = []
    try:
        checked(reply)
        names.extend(entry["name"] for entry in reply.json())
    except Exception:
        logging.exception("no tables")
    return openai.OpenAI().chat.completions.create(
        model="m", messages=[{"role": "user", "content": f"Which table? {names}"}]
    ).choices[0].message.content
"""


def _designed(root: Path, **files: str) -> Design:
    return run_design(scan_repository(write_tree(root, {f"app/{name}.py": text for name, text in files.items()})))


def _symbols(made: Design, field: str) -> set[str]:
    return {s.rpartition(".")[2] for m in made.metrics if m.claim.get("field") == field for s in m.symbols}


def test_errors_that_a_handler_swallows_are_told_by_the_service_below_that_others_call_too(tmp_path: Path) -> None:
    made = _designed(tmp_path, pages=_PAGES, summaries=_SUMMARIES)

    assert "page_of" in _symbols(made, "status")
    assert "summary" not in _symbols(made, "attributes.swallowed_errors")
    shelved = {s.metric.family: s.why for s in made.selection.shelf}
    assert shelved["swallowed_errors"] == "each of its failures is one of other metrics"


def test_a_handler_that_takes_further_errors_keeps_its_metric(tmp_path: Path) -> None:
    made = _designed(tmp_path, prices=_PRICES)

    assert "convert" in _symbols(made, "attributes.swallowed_errors")


def test_a_handler_around_values_in_memory_has_no_metric(tmp_path: Path) -> None:
    made = _designed(tmp_path, memory=_MEMORY)

    dropped = {m.family: review.reasoning for m, review in made.dropped}
    assert "nothing that it protects leaves the process" in dropped["failed_items"]


def test_a_handler_around_a_check_of_a_reply_keeps_its_metric(tmp_path: Path) -> None:
    made = _designed(tmp_path, checked=_CHECKED)

    assert "tables" in _symbols(made, "attributes.swallowed_errors")


def test_each_function_of_a_wide_graph_is_asked_once_where_its_errors_end(tmp_path: Path) -> None:
    layers = 60
    lines = ["import httpx", "def left_60(): return httpx.get('https://a.example')", "right_60 = left_60"]
    for n in reversed(range(layers)):
        lines += [f"def {side}_{n}(): return left_{n + 1}() or right_{n + 1}()" for side in ("left", "right")]
    lines += ["def endpoint(): return left_0() or right_0()"]
    write_tree(tmp_path, {"app.py": "\n".join(lines) + "\n"})
    code = ClaimedCode(read_code(scan_repository(tmp_path), (), default_catalog(), no_progress).material)
    asked: list[str] = []

    class Counting(FailurePaths):
        def _reaches_from(self, caller: str, *rest: object) -> bool:
            asked.append(caller)
            return super()._reaches_from(caller, *rest)  # type: ignore[arg-type]

    metric = next(m for m in run_design(scan_repository(tmp_path), is_bounded=False).metrics if m.places)
    metric.family, metric.places = "error_rate", [CodePlace("app.py", 2, 2)]

    assert Counting(code, {})._ends_runs(metric, frozenset({("leaves", "app.endpoint")}))
    assert len(asked) <= 4 * layers + 2
