"""Marks are of the lines that metrics of the portfolio name, and of the one span that a function has."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

from gapwatch.design.analysis import no_progress
from gapwatch.design.emission.needed_marks import NeededOfSpan, one_of_each_function
from gapwatch.design.emission.patch import make_patch
from gapwatch.design.emission.planned_span import MarkedFunction, PlannedSpan, SpanMark
from gapwatch.design.emission.span_plan import plan_spans
from gapwatch.design.metrics.present_spans import PresentSpans
from gapwatch.design.patterns.libraries import default_catalog
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import read_code, run_design, understand
from tests.design.emission.watched_programs import run_patched
from tests.design.source_tree import write_tree

_SOURCE = """\
import json
import logging

import openai
import requests

client = openai.OpenAI()


def ask(question: str) -> dict:
    reply = client.chat.completions.create(model="gpt-4.1", messages=[{"role": "user", "content": question}])
    try:
        found = json.loads(reply.choices[0].message.content)
    except ValueError:
        found = {}
    try:
        page = requests.get("https://example.org/search", params={"q": question}, timeout=5)
        page.raise_for_status()
        hits = page.json()["hits"]
        found["pages"] = [hit["text"] for hit in hits]
    except requests.RequestException:
        logging.warning("no pages")
    return found
"""


def test_a_handler_that_no_metric_names_counts_nothing(tmp_path: Path) -> None:
    write_tree(tmp_path, {"app.py": _SOURCE})
    design = run_design(scan_repository(tmp_path), is_bounded=False)

    named = {p.line for m in design.metrics for p in m.places if m.claim.get("field") == "attributes.swallowed_errors"}
    marked = {
        m.line for p in design.planned for f in (p.function, *p.inner) for m in f.marks if m.field == "swallowed_errors"
    }

    lines = _SOURCE.splitlines()
    assert [lines[line - 1].strip() for line in named] == ["try:"]
    assert [lines[line - 1].strip() for line in marked] == ['logging.warning("no pages")']


def test_a_function_of_two_components_has_one_span_with_the_marks_of_both(tmp_path: Path) -> None:
    source = (
        "def read(x):\n    try:\n        return int(x)\n    except ValueError:\n        x = None\n        return x\n"
    )
    write_tree(tmp_path, {"app.py": source})
    plans = [
        PlannedSpan(
            "a", "read", "chain", "app.py", "read", MarkedFunction("read", 1, [mark]), start={mark.field: start}
        )
        for mark, start in (
            (SpanMark(5, "add", "swallowed_errors"), 0),
            (SpanMark(6, "set", "answer_outcome", "failed"), "answered"),
        )
    ]

    made = one_of_each_function(plans)
    (tmp_path / "p.patch").write_text(make_patch(tmp_path, made, ["app.py"]).text)
    subprocess.run(["git", "apply", "p.patch"], cwd=tmp_path, check=True, timeout=20)
    found = run_patched("import app\nassert app.read('x') is None\n", tmp_path)

    assert len(made) == 1
    (span,) = found.spans
    assert (span.attributes["swallowed_errors"], span.attributes["answer_outcome"]) == (1, "failed")


def test_a_function_that_two_components_ask_for_is_planned_once(tmp_path: Path) -> None:
    write_tree(tmp_path, {"app.py": _SOURCE})
    code = read_code(scan_repository(tmp_path), (), default_catalog(), no_progress)
    view = understand(code, "", None)
    (component,) = view.architecture.components
    other = replace(component, id="other")
    view.architecture.components.append(other)
    points = [*view.points, *(replace(p, component="other") for p in view.points)]
    needed = {(p.component, p.name): NeededOfSpan({"status"}) for p in points}

    planned = plan_spans(points, needed, view.architecture, PresentSpans({}), code.material)

    assert [(p.component, p.span) for p in planned] == [(component.id, "ask")]
