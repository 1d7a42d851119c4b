"""Code that no request runs: the report says so, and a person may contradict it."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from gapwatch.design.commands.design import design as design_command
from gapwatch.design.metrics.selection import added_fact
from gapwatch.design.reports.design_document import design_document
from gapwatch.design.reports.markdown import report_markdown
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import Design, run_design
from gapwatch.scorers.portfolio.fact import Fact
from tests.design.source_tree import write_tree

_SERVER = """\
from fastapi import FastAPI
from openai import OpenAI

app = FastAPI()
client = OpenAI()


@app.post("/ask")
def ask(question: str):
    return client.chat.completions.create(model="m", messages=[question]).choices[0].message.content
"""
_OLD = """\
from openai import OpenAI

client = OpenAI()


def refresh(page):
    return client.chat.completions.create(model="m", messages=[page]).choices[0].message.content
"""


def _made(folder: Path, *facts: Fact, **more: str) -> Design:
    tree = write_tree(folder, {"server.py": _SERVER, "refreshing.py": _OLD} | more)
    return run_design(scan_repository(tree), facts=facts)


def test_the_report_says_what_is_left_out_and_why_and_what_can_be_added(tmp_path: Path) -> None:
    made = _made(tmp_path)

    (left,) = made.left_out
    assert left.path == "refreshing.py"
    assert left.metrics
    text = report_markdown(design_document(made))
    section = text[text.index("## Code that no request runs") :].partition("\n## ")[0]
    assert "| `refreshing.py` | `refresh` | offline or dead" in section
    assert f"`{left.metrics[0]}`" in section


def test_code_that_requests_run_is_in_no_such_section(tmp_path: Path) -> None:
    served = _SERVER + "\n\n@app.get('/page')\ndef page(address: str):\n    return refresh(address)\n"
    served = f"from refreshing import refresh\n{served}"
    made = _made(tmp_path, **{"server.py": served})

    assert not made.left_out
    assert "no request runs" not in report_markdown(design_document(made))


def test_a_person_who_knows_better_adds_its_metric(tmp_path: Path) -> None:
    name = _made(tmp_path / "app").left_out[0].metrics[0]
    words = ["add", str(tmp_path / "app"), name, "--facts", str(tmp_path / "f.yaml"), "--by", "maria", "--quiet"]
    result = CliRunner().invoke(design_command, words, catch_exceptions=False)
    made = _made(tmp_path / "app", added_fact(name, "maria", "2026-11-02"))

    assert result.exit_code == 0, result.output
    assert name in {m.name for m in made.metrics}
    assert name not in {m for left in made.left_out for m in left.metrics}
