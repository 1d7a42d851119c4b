"""The screen of a design shows names whole, texts of the code as they are, and what makes the design less."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gapwatch.design.metrics.questions import JUDGE_QUESTION
from gapwatch.design.reports.design_document import design_document
from gapwatch.design.reports.markdown import report_markdown
from gapwatch.design.reports.output import print_summary
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import run_design
from tests.design.source_tree import write_tree

_ANSWER = """
import json
from openai import OpenAI
def {name}(q):
    answer = OpenAI().chat.completions.create(model="m", messages=[{{"role": "user", "content": q}}])
    return json.loads(answer.choices[0].message.content)
"""


def _screen(root: Path, files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> str:
    print_summary(run_design(scan_repository(write_tree(root, files))), root)
    return capsys.readouterr().out


def test_names_stay_whole_where_the_screen_is_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "answer_the_question_of_the_user"
    told = _screen(tmp_path, {f"{'long_' * 20}.py": _ANSWER.format(name=name)}, capsys)

    row = next(line.split() for line in told.splitlines() if "finish_reason" in line)
    assert row == [f"{name}_finish_reason", "ticket", f"{'long_' * 20}.py:5"]


def test_a_name_of_a_file_is_no_markup_and_no_command_of_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = _screen(tmp_path, {"[red]x[-]\x1b[2J:smile:.py": _ANSWER.format(name="ask")}, capsys)

    assert "[red]x[-]\ufffd[2J:smile:.py:5" in told
    assert "\x1b" not in told


def test_one_of_a_kind_is_singular_and_what_was_not_read_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = "sk-" + "a1B2" * 8
    files = {"a.py": f"KEY = '{key}'\n{_ANSWER.format(name='ask')}", "b.py": "#" * 1_000_001, "c.ts": ""}
    told = _screen(tmp_path, files, capsys)

    assert told.startswith("1 component, 0 edges, 7 metrics, 0 open questions; ")
    assert "emit the 1 span, or write it by hand" in told
    assert "Python that was not read: b.py (1000001 bytes, more than 1000000)." in told
    assert "Not read: 1 file of TypeScript." in told
    assert "Keys or passwords in the code: a.py:1. " in told


_JUDGED = """
from openai import OpenAI
PROMPT = "You are a careful editor. Summarize the text in three sentences. Use only its facts, invent none: {{text}}"
def summarize(text):
    prompt = PROMPT.format(text=text)
    answer = OpenAI().chat.completions.create(model="m", messages=[{"role": "user", "content": prompt}])
    return answer.choices[0].message.content
"""


def test_judges_are_listed_after_the_metrics_with_the_folder_of_their_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = _screen(tmp_path, {"src/texts/editor.py": _JUDGED.replace("{{", "{").replace("}}", "}")}, capsys)

    judged = [line.split() for line in told.splitlines() if " judge " in line and "texts/editor.py:" in line]
    assert judged
    report = report_markdown(design_document(run_design(scan_repository(tmp_path))))
    (counted,) = re.findall(r"(\d+) metrics, \d+ judge", told)
    assert f"| metrics of portfolio.yaml | {counted} |" in report
    assert f"| metrics, with the judges that wait for a model | {int(counted) + len(judged)} |" in report
    assert f"{len(judged)} judge waiting for --judge-model" in told
    assert "texts/editor.py:6" in told


_CALLED = """
from openai import OpenAI
def ask(q):
    return OpenAI().chat.completions.create(model="m", messages=[{"role": "user", "content": q}])
def answer(q):
    return ask(q).choices[0].message.content
"""


def test_the_screen_counts_the_lines_of_a_metric_as_the_report_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = run_design(scan_repository(write_tree(tmp_path, {f"{name}.py": _CALLED for name in ("a", "b", "c")})))
    print_summary(made, tmp_path)
    told = capsys.readouterr().out

    for metric in made.metrics:
        (row,) = [line for line in told.splitlines() if line.startswith(f"{metric.name} ")]
        assert (f" and {len(metric.evidence) - 1} more" in row) is (len(metric.evidence) > 1)


def test_where_no_metric_is_answered_no_number_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    traced = """
from opentelemetry import trace
def elsewhere():
    with trace.get_tracer("t").start_as_current_span("elsewhere"):
        return 1
"""
    told = _screen(tmp_path, {"a.py": _CALLED, "b.py": traced}, capsys)
    report = report_markdown(design_document(run_design(scan_repository(tmp_path))))

    assert "The spans that there are answer no metric yet; the report says what is missing." in told
    assert re.search(r"They answer none of the \d+ metrics yet\.", report)
    assert " 0 " not in told.partition("The spans that there are")[2]


def test_a_judge_model_that_is_given_is_not_asked_for(tmp_path: Path) -> None:
    scan = scan_repository(write_tree(tmp_path, {"editor.py": _JUDGED.replace("{{", "{").replace("}}", "}")}))

    asked = {q.id for q in run_design(scan).open_questions}
    told = {q.id for q in run_design(scan, judge_model="openai/gpt-4.1").open_questions}

    assert asked - told == {JUDGE_QUESTION}
