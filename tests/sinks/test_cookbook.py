"""Every SELECT, command and Python block of docs/cookbook.md runs on a store and finds rows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gapwatch.scorers.errors import StoreError, UsageError
from gapwatch.sinks.migration.migrating import migrate
from gapwatch.sinks.read import read
from tests.gapwatch_command import gapwatch
from tests.live_store import Kept
from tests.paths import ROOT
from tests.sinks.migration.old_stores import old_store

PAGE = (ROOT / "docs" / "cookbook.md").read_text(encoding="utf-8")
SELECTS = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = re.findall(r"^    (gapwatch .*)$", PAGE, re.MULTILINE)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = old_store(tmp_path_factory.mktemp("cookbook"))
    migrate(path, lambda *_: None)
    return path


def test_each_question_has_a_select_a_command_pandas_and_polars() -> None:
    questions = PAGE.split("\n## ")[1:]
    assert len(questions) == 5
    for question in questions:
        assert "```sql" in question
        assert "\n    gapwatch " in question
        assert ".to_pandas()" in question
        assert "import polars" in question


@pytest.mark.parametrize("select", SELECTS)
def test_a_select_finds_rows(store: Path, select: str) -> None:
    assert read(store).sql(select).num_rows > 0


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_prints_rows(store: Path, command: str) -> None:
    words = shlex.split(command.replace("--since 7d", "--since 2026-03-01"))[1:]
    done = gapwatch(*(str(store) if word == "S" else word for word in words))
    assert done.status == 0, done.err
    assert len(done.out.splitlines()) > 1


@pytest.mark.slow
def test_the_python_blocks_run(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(store.parent)
    names: dict[str, Any] = {}
    for program in PROGRAMS:
        exec(program, names)
        made = [value for name, value in names.items() if name not in ("read", "store", "polars", "__builtins__")]
        assert all(len(value) for value in made), program


def test_rates_read_as_arrow_are_those_of_the_command(store: Path) -> None:
    for by, options in ((None, ()), ("model", ("--by", "model")), ("component", ("--by", "component"))):
        rows = read(store).rates(by=by, per="week").drop_columns(["week"]).to_pylist()
        printed = gapwatch("rates", *options, "--per", "week", "--store", store, "--format", "json").json()
        assert rows
        assert rows == [{name: value for name, value in row.items() if name != "week"} for row in printed]


def test_a_store_in_use_gives_the_same_tables(tmp_path: Path) -> None:
    path = old_store(tmp_path)
    migrate(path, lambda *_: None)
    tables = {
        "rates": lambda: read(path).rates(by="release"),
        "failing": lambda: read(path).failing("answer_parses", limit=5),
        "costs": lambda: read(path).costs(),
        "alerts": lambda: read(path).alerts(),
    }
    at_rest = {name: table() for name, table in tables.items()}
    with Kept(path, portfolios=[]):
        live = {name: table() for name, table in tables.items()}
    for name, table in at_rest.items():
        assert isinstance(table, pa.Table)
        assert table.num_rows > 0
        assert live[name].to_pylist() == table.to_pylist(), name


def test_what_cannot_be_read_is_refused(store: Path) -> None:
    with pytest.raises(UsageError, match="by is 'modle'; write one of None, release, model, tier, component"):
        read(store).rates(by="modle")
    with pytest.raises(UsageError, match="not a reading statement"):
        read(store).sql("DELETE FROM gaps")
    with pytest.raises(UsageError, match="metric it's none: the store has no such metric; there are answer_parses, "):
        read(store).failing("it's none")
    with pytest.raises(UsageError, match=r"metric answer_parse: .* did you mean answer_parses?"):
        read(store).rates(metric="answer_parse")
    with pytest.raises(StoreError, match=f"there is no store .*; did you mean .*{store.name}?"):
        read(store.with_name(store.name.replace(".", "s.")))
    with pytest.raises(StoreError, match=r"there is no store /nope.duckdb; give the file that"):
        read("/nope.duckdb")
