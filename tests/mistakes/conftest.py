"""A folder as a newcomer has it: a portfolio, traces, a store, and files that are something else."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from tests.gapwatch_command import gapwatch

PORTFOLIO = """\
gapwatch: 1
portfolio: support
version: 1
pipeline: support
components: [{id: answer, role: ai_core, kind: llm}]
edges: []
metrics:
  - name: answer_parses
    component: answer
    purpose: "the caller reads /answer"
    claim: {form: check, field: output, json: {required: [/answer]}}
"""


def _traces(pipeline: str) -> str:
    span = {"span_id": "1", "component": "answer", "kind": "llm", "output": '{"answer": 1}'}
    return "".join(json.dumps({"trace_id": f"t{n}", "pipeline": pipeline, "spans": [span]}) + "\n" for n in range(3))


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mistakes")
    texts = {
        "p.yaml": PORTFOLIO, "good.jsonl": _traces("support"), "other.jsonl": _traces("suport"), "empty.jsonl": "",
        "t.csv": "trace_id,output\nt1,hello\nt2,bye\n", "array.json": f"[{','.join(_traces('support').splitlines())}]",
        "broken.yaml": "gapwatch: [1\n  x: {", "list.yaml": "- a\n- b\n", "nothing.yaml": "",
        "misspelt.yaml": PORTFOLIO.replace("purpose:", "purpos:"),
        "unknown_component.yaml": PORTFOLIO.replace("component: answer", "component: anwser"),
        "junk.duckdb": "this is no database " * 99, "empty.duckdb": "", "token": "short\n", "password": "secret\n",
    }  # fmt: skip
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "bytes.yaml").write_bytes(b"\xb4\xff")
    (folder / "folder").mkdir()
    with duckdb.connect(str(folder / "foreign.duckdb")) as con:
        con.execute("CREATE TABLE t (i INTEGER)")
    store = folder / "s.duckdb"
    ran = gapwatch("replay", folder / "good.jsonl", "--portfolio", folder / "p.yaml", "--store", store, "--quiet")
    assert (ran.status, ran.err) == (0, "")
    return folder


@pytest.fixture
def folder(prepared: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder, current, in an environment without settings of Gapwatch; nothing in it may be changed."""
    for name in [name for name in os.environ if name.startswith("GAPWATCH_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(prepared)
    before = sorted(path.name for path in prepared.iterdir())
    yield prepared
    assert sorted(path.name for path in prepared.iterdir()) == before
