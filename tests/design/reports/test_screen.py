"""The screen of a design shows names whole, texts of the code as they are, and what makes the design less."""

from __future__ import annotations

from pathlib import Path

import pytest

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

    assert told.startswith("1 component, 0 edges, 5 metrics, 0 open questions; ")
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
    assert f"{len(judged)} judge waiting for --judge-model" in told
    assert "texts/editor.py:6" in told
