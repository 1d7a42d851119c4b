"""SQL over the tables of the store stands in `sinks` alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gapwatch.sinks.store.schema import INTERNAL_TABLES, KEPT_TABLES, creation_statements

ROOT = Path(__file__).parents[1]

#: Tables and views of the store. `store` itself is too much of a word.
NAMES = {
    match[1]
    for statement in creation_statements()
    if (match := re.match(r"CREATE (?:TABLE|VIEW) (?:internal\.)?(\w+)", statement)) and match[1] != "store"
}
_SQL = re.compile(rf"\b(?:FROM|JOIN|INTO|UPDATE|TABLE|EXISTS)\s+(internal\.)?\"?({'|'.join(sorted(NAMES))})\b")


def tables_in(source: str) -> Iterator[tuple[int, str]]:
    """Return the tables that the texts of a module speak of as SQL does: line, and name."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    tree = ast.parse(source)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            for match in _SQL.finditer(node.value):
                yield node.lineno, match[2]


def files() -> list[Path]:
    return sorted(path for folder in ("streams", "design") for path in (ROOT / folder).rglob("*.py"))


def test_no_program_holds_sql_over_the_tables_of_the_store() -> None:
    names = [(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")) for path in files()]
    found = [f"{name}:{line}: {table}" for name, text in names for line, table in tables_in(text)]
    assert found == [], "move it into a function of sinks"


def test_sql_names_the_schema_of_internal_tables() -> None:
    bare = re.compile(rf"\b(?:FROM|JOIN|INTO|UPDATE|TABLE)\s+\"?({'|'.join(sorted(INTERNAL_TABLES))})\b")
    found = [
        f"{path.relative_to(ROOT)}: {match[1]}"
        for folder in ("sinks", "tests")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for match in bare.finditer(path.read_text(encoding="utf-8"))
    ]
    assert found == [], "write internal.<table>"


@pytest.mark.parametrize(
    "text",
    [
        'con.execute("SELECT yaml FROM portfolios")',
        'f"INSERT INTO alerts VALUES ({marks})"',
        '"""WITH x AS (\n  SELECT 1 FROM\n  ticks) FROM x"""',
        'sql = "SELECT id FROM internal.outbox"',
        "sql = 'a JOIN \"outbox\" o ON true'",
    ],
)
def test_sql_would_be_found(text: str) -> None:
    assert len(list(tables_in(f"def f():\n    x = 1\n    {text}\n"))) == 1


@pytest.mark.parametrize(
    "text", ['"""Reads FROM ticks what was said."""', '"taken from alerts"', '"FROM ticks_of_mine"']
)
def test_words_are_no_sql(text: str) -> None:
    assert list(tables_in(f"def f():\n    {text}\n")) == []


def test_every_table_is_looked_for() -> None:
    assert {*KEPT_TABLES, "alerts", "verdicts", "rates", "judge_requests", "outbox", "rates_by"} < NAMES
    assert INTERNAL_TABLES < NAMES
