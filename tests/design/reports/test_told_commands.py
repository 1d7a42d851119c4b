"""The commands that a report names do what it says, typed as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from gapwatch.design.commands.design import design
from tests.design.source_tree import write_tree

_APP = """
from openai import OpenAI
def ask(q):
    for model in ("large", "small"):
        try:
            return OpenAI().chat.completions.create(model=model, messages=[{"role": "user", "content": q}])
        except Exception:
            continue
    return None
"""


def _run(*arguments: str) -> str:
    found = CliRunner().invoke(design, [*arguments, "--quiet"])
    assert found.exit_code == 0, found.output
    return found.output


def _told(command: str, **words: str) -> list[str]:
    (line,) = set(re.findall(rf"`gapwatch design ({command} [^`]*)`", Path("gapwatch-design/report.md").read_text()))
    return [words.get(word, word) for word in line.split()]


def test_an_answer_given_as_the_report_says_closes_its_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_tree(tmp_path / "app", {"ask.py": _APP})
    _run("app")
    question = _run("questions", "app").split()[0]

    _run(*_told("answer", REPO="app", QUESTION=question, VALUE="degraded", NAME="maria"))

    assert question not in _run("questions", "app").split()
    _run("app")
    assert question not in Path("gapwatch-design/report.md").read_text()


def test_a_metric_added_as_the_report_says_is_in_the_portfolio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_tree(tmp_path / "app", {"ask.py": _APP})
    _run("app")
    shelf = Path("gapwatch-design/report.md").read_text().partition("## Shelf")[2]
    metric = re.findall(r"^\| `(\w+)`", shelf, re.MULTILINE)[0]

    _run(*_told("add", REPO="app", METRIC=metric, NAME="maria"))

    _run("app")
    assert f"name: {metric}\n" in Path("gapwatch-design/portfolio.yaml").read_text()


def test_answers_and_added_metrics_are_kept_in_the_folder_of_the_design(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_tree(tmp_path / "app", {"ask.py": _APP})
    _run("app", "--out", "other place")
    shelf = Path("other place/report.md").read_text().partition("## Shelf")[2]
    metric = re.findall(r"^\| `(\w+)`", shelf, re.MULTILINE)[0]
    question = _run("questions", "app", "--out", "other place").split()[0]

    told = CliRunner().invoke(design, ["add", "app", metric, "--by", "maria", "--out", "other place"]).output
    _run("answer", "app", question, "degraded", "--by", "maria", "--out", "other place")

    assert "run gapwatch design app --out 'other place' again" in told
    assert not Path("gapwatch-design").exists()
    _run("app", "--out", "other place")
    assert f"name: {metric}\n" in Path("other place/portfolio.yaml").read_text()
    assert question not in _run("questions", "app", "--out", "other place").split()


def test_the_numbers_of_the_review_are_those_of_its_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_tree(tmp_path / "app", {"ask.py": _APP, "note.ts": ""})
    _run("app")
    review = Path("gapwatch-design/report.md").read_text().partition("## Rejected, flagged and missing metrics")[2]

    rejected, flagged = re.findall(r"^Metrics rejected: (\d+); kept with a flag: (\d+);", review, re.MULTILINE)[0]
    rows = [line.split(" | ") for line in review.splitlines()]
    named = {
        kind: sum(r[0].count("`") // 2 for r in rows if r[1:] and r[1].startswith(kind)) for kind in ("rej", "kept")
    }
    assert (int(rejected), int(flagged)) == (named["rej"], named["kept"])
    numbers = Path("gapwatch-design/report.md").read_text()
    assert f"| metrics rejected | {rejected} |" in numbers and f"| metrics flagged | {flagged} |" in numbers
    assert "| TypeScript, files: 1 | Gapwatch reads Python only |" in review
