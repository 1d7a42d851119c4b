"""One metric of many functions holds no place that nobody can act on."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.metrics import shared_metrics
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import run_design
from tests.design.source_tree import write_tree

_FETCH = """
import httpx

def fetch_{n}(address):
    if not address.startswith("https"):
        return {{"code": 404, "error": "no such page"}}
    try:
        return httpx.get(address).raise_for_status().text
    except httpx.HTTPError as error:
        return {{"code": 500, "error": str(error)}}
"""

_WATCHED = """
import httpx

def note_{n}(address):
    try:
        httpx.post(address, json={{"asked": 1}}).raise_for_status()
    except httpx.HTTPError:
        print("not noted")
"""

_ASK = """
def ask(question):
    texts = [{calls}]
    {notes}
    return client.chat.completions.create(
        model="m", messages=[{{"role": "user", "content": f"Answer {{question}} from {{texts}} alone."}}]
    ).choices[0].message.content
"""


def test_one_metric_counts_no_more_places_than_a_reader_looks_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {f"text_{n}.py": _FETCH.format(n=n) for n in range(8)}
    calls = ", ".join(f"fetch_{n}(question)" for n in range(8))
    imports = "".join(f"from text_{n} import fetch_{n}\n" for n in range(8))
    files["asking.py"] = (
        f"from openai import OpenAI\n{imports}\nclient = OpenAI()\n{_ASK.format(calls=calls, notes='')}"
    )
    counts = []
    for bound in (32, 3):
        monkeypatch.setattr(shared_metrics, "MAX_PLACES", bound)
        made = run_design(scan_repository(write_tree(tmp_path / str(bound), files)))
        counts += [len(m.places) for m in made.metrics if m.name == "other_calls_failure_answers"]

    assert len(counts) == 2 and counts[0] > 3 >= counts[1]


def test_clients_evaluations_pages_and_faults_of_requests_are_collected_nowhere(tmp_path: Path) -> None:
    folders = dict.fromkeys(range(8), "") | {8: "eval/", 9: "my_sdk/"}
    files = {f"{folder}text_{n}.py": _FETCH.format(n=n) for n, folder in folders.items()}
    files["text_6.py"] = files["text_6.py"].replace("    try:", "    streamlit.write(address)\n    try:")
    files["text_6.py"] = "import streamlit\n" + files["text_6.py"]
    files |= {f"note_{n}.py": _WATCHED.format(n=n) for n in range(9)}
    files |= {"eval/__init__.py": "", "my_sdk/__init__.py": ""}
    imports = "".join(f"from {folder.replace('/', '.')}text_{n} import fetch_{n}\n" for n, folder in folders.items())
    imports += "".join(f"from note_{n} import note_{n}\n" for n in range(9))
    calls = ", ".join(f"fetch_{n}(question)" for n in folders)
    notes = "\n    ".join(f"note_{n}(question)" for n in range(9))
    files["asking.py"] = "from openai import OpenAI\n" + imports + "\nclient = OpenAI()\n"
    files["asking.py"] += _ASK.format(calls=calls, notes=notes)
    made = run_design(scan_repository(write_tree(tmp_path, files)))

    (collected,) = (m for m in made.metrics if m.name == "other_calls_failure_answers")
    others = {p.path for m in made.metrics if m.group != "other_calls" for p in m.places}
    paths = {p.path for p in collected.places}
    assert paths and paths <= {f"text_{n}.py" for n in range(8)} - {"text_6.py"} - others
    assert all("500" in _line(tmp_path, p.path, p.line) for p in collected.places)
    assert not any(m.name == "other_calls_swallowed_errors" for m in made.metrics), "nothing there reaches a model"
    why = {s.metric.places[0].path: s.why for s in made.selection.shelf if s.metric.family == "failure_answers"}
    assert why["eval/text_8.py"] == why["my_sdk/text_9.py"] == "of an evaluation or a client beside the pipeline"


def _line(root: Path, path: str, line: int) -> str:
    return (root / path).read_text().splitlines()[line - 1]
