"""Functions that run code which they are given: what fails there is a metric of its own; commands of the program are none."""

# ruff: noqa: E501 - one case a line reads as a table

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import run_design
from tests.design.patterns.test_pattern_search import patterns
from tests.design.source_tree import write_tree

RUNS = {
    "built in": "def f(code):\n    exec(code, {})\n",
    "a shell": "import subprocess\ndef f(command):\n    return subprocess.run(command, shell=True)\n",
    "a shell of an event loop": "import asyncio\nasync def f(cmd):\n    return await asyncio.create_subprocess_shell(cmd)\n",
    "a sandbox": "def f(self, script):\n    return self.sandbox.execute(script)\n",
    "code in other code": "import subprocess\ndef f(code):\n    wrapped_code = f'try: {code}'\n    return subprocess.run(wrapped_code)\n",
    "another process": "def f(self, code):\n    p = Process(target=self._run_code, args=(code,))\n    p.start()\n",
    "code by a longer name": "def f(code_str):\n    exec(code_str)\n",
    "a method by its name": "def f(tool, args):\n    return tool.run_python_code(code=args['code'], timeout=3)\n",
}
NONE = {
    "a command of the program": "import subprocess\ndef f():\n    cmd = ['git', 'status']\n    return subprocess.run(cmd)\n",
    "a command with a value": "import subprocess\ndef f(url):\n    cmd = f'curl {url}'\n    return subprocess.run(cmd, shell=True)\n",
    "a literal": "def f(): return eval('1 + 1')\n",
    "a query": "def f(db, query): return db.execute(query)\n",
    "a status code": "def f(client, status): return client.run(status)\n",
}
REFUSED = {
    "code that lacks a call": "import ast\ndef validate(code):\n    calls = names(ast.parse(code))\n    if 'run_query' not in calls:\n        raise QueryNotUsed('The code must use run_query')\n",
    "a table that is not allowed": "def replaced(sql_query, tables, allowed):\n    for table in tables:\n        if table in allowed:\n            sql_query = sql_query.replace(table, allowed[table])\n        else:\n            raise MaliciousQueryError(f'Query uses unauthorized table: {table}')\n",
    "a query that may write": "def run(self, query):\n    if not is_select(query):\n        raise ValueError('The SQL query is deemed unsafe.')\n    return self.db.execute(query)\n",
    "a word of SQL": "def filtered(command):\n    if 'DROP' in command:\n        raise SQLInjectionError('Sensitive SQL keyword detected in the query.')\n    return command\n",
}
NOT_REFUSED = {
    "no code at all": "def validate(code):\n    if not code:\n        raise ValueError('No code was given.')\n",
    "a message that is not allowed": "def check(text):\n    if is_bad(text):\n        raise NotAllowed('This message is not allowed.')\n",
    "a question that is unsafe": "def check(query):\n    if is_bad(query):\n        raise Unsafe('This topic is unsafe.')\n",
    "a file of a repository": "import ast\ndef functions_of(code):\n    tree = ast.parse(code)\n    if not tree.body:\n        raise ValueError('an empty file')\n    return tree.body\n",
}
APP = """
from fastapi import FastAPI
from openai import OpenAI

app = FastAPI()
client = OpenAI()


def run_code(code):
    try:
        exec(code, {})
    except Exception as e:
        return f"Error: {e}"
    return "done"


def look_up(name):
    try:
        return open(name).read()
    except OSError as e:
        return f"Error: {e}"


@app.post("/act")
def act(question):
    asked = [{"role": "user", "content": question + look_up(question)}]
    return run_code(client.chat.completions.create(model="m", messages=asked).choices[0].message.content)
"""


@pytest.mark.parametrize("name", sorted(RUNS))
def test_code_that_is_given_is_run(name: str, tmp_path: Path) -> None:
    assert "runs_code" in {h.pattern for h in patterns(tmp_path, {"m.py": RUNS[name]})}


@pytest.mark.parametrize("name", sorted(NONE))
def test_what_the_program_itself_says_is_no_code_of_others(name: str, tmp_path: Path) -> None:
    assert "runs_code" not in {h.pattern for h in patterns(tmp_path, {"m.py": NONE[name]})}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_code_that_is_refused_is_found_where_it_raises(name: str, tmp_path: Path) -> None:
    found = [(h.kind, h.line) for h in patterns(tmp_path, {"m.py": REFUSED[name]}) if h.pattern == "runs_code"]
    line = next(i for i, text in enumerate(REFUSED[name].splitlines(), 1) if "raise" in text)

    assert found == [("raises", line)]


@pytest.mark.parametrize("name", sorted(NOT_REFUSED))
def test_what_refuses_no_code_is_left_alone(name: str, tmp_path: Path) -> None:
    assert "runs_code" not in {h.pattern for h in patterns(tmp_path, {"m.py": NOT_REFUSED[name]})}


def _of(metrics: list[MetricDesign], family: str) -> list[int]:
    return [p.line for m in metrics if m.family == family for p in m.places]


def test_code_that_fails_is_counted_apart_from_other_failures(tmp_path: Path) -> None:
    made = run_design(scan_repository(write_tree(tmp_path, {"app.py": APP})))
    metrics = [*made.metrics, *(s.metric for s in made.selection.shelf)]

    assert _of(made.metrics, "code_failures") == [13]
    assert 13 not in _of(metrics, "failure_answers")
    assert 21 in _of(metrics, "failure_answers")


RAISES = APP.replace(
    '        return f"Error: {e}"\n    return "done"', '        raise CodeFailed("it failed") from e\n    return "done"'
)


def test_code_whose_failure_is_raised_has_failed_too(tmp_path: Path) -> None:
    assert RAISES != APP
    made = run_design(scan_repository(write_tree(tmp_path, {"app.py": RAISES})))

    assert _of(made.metrics, "code_failures") == [13]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    return run_code(", '    try:\n        return run_code("")\n    except CodeFailed:\n        return "Error: it failed"\n    return run_code('),
        ("except Exception as e:\n        raise", "except ImportError as e:\n        raise"),
        ("exec(code, {})", "compile(code)"),
    ],
    ids=["whose caller gives it back", "of what is to run it", "that is not run"],
)  # fmt: skip
def test_another_failure_that_is_raised_is_none_of_the_code(old: str, new: str, tmp_path: Path) -> None:
    made = run_design(scan_repository(write_tree(tmp_path, {"app.py": RAISES.replace(old, new)})))

    assert RAISES.replace(old, new) != RAISES
    assert 13 not in _of([*made.metrics, *(s.metric for s in made.selection.shelf)], "code_failures")
