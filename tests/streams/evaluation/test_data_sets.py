"""Data sets are read from each form; a broken example is named with its file, its line and what to write."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from gapwatch.scorers.errors import SourceError, UsageError
from gapwatch.streams.evaluation.datasets.data_set import load_data_set, load_from_store
from gapwatch.streams.evaluation.datasets.example import Example
from tests.deploy.demo_traces import AIRLINE, TRACES
from tests.gapwatch_command import gapwatch

ROWS = [
    {"id": "a", "inputs": {"question": "1 + 1?"}, "reference": "2", "context": ["one"], "metadata": {"topic": "sums"}},
    {"id": "b", "inputs": {"question": "Who?"}},
]
EXPECTED = [
    Example("a", {"question": "1 + 1?"}, reference="2", context=["one"], metadata={"topic": "sums"}),
    Example("b", {"question": "Who?"}),
]
FLAT = {"id": ["a", "b"], "question": ["1 + 1?", "Who?"], "reference": ["2", None]}


def test_json_lines_are_read_plain_and_compressed(tmp_path: Path) -> None:
    text = "\n\n".join(json.dumps(row) for row in ROWS)
    (tmp_path / "d.jsonl").write_text(text)
    (tmp_path / "d.jsonl.gz").write_bytes(gzip.compress(text.encode()))

    assert load_data_set(tmp_path / "d.jsonl") == EXPECTED
    assert load_data_set(str(tmp_path / "d.jsonl.gz")) == EXPECTED


def test_tables_of_files_and_of_libraries_give_the_same_examples(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("id,question,reference\na,1 + 1?,2\nb,Who?,\n")
    parquet.write_table(pa.table(FLAT), tmp_path / "d.parquet")
    expected = [Example("a", {"question": "1 + 1?"}, reference="2"), Example("b", {"question": "Who?"})]

    assert [e.inputs for e in load_data_set(tmp_path / "d.csv")] == [e.inputs for e in expected]
    for table in (tmp_path / "d.parquet", pa.table(FLAT), polars.DataFrame(FLAT), pandas.DataFrame(FLAT)):
        assert load_data_set(table) == expected


def test_json_in_a_column_of_a_table_is_read(tmp_path: Path) -> None:
    table = pa.table({"inputs": ['{"q": [1]}'], "context": ['["x"]']})

    assert load_data_set(table) == [Example("1", {"q": [1]}, context=["x"])]


def test_the_callers_examples_are_not_changed() -> None:
    given = Example("a", {"q": 1}, output="before")

    (loaded,) = load_data_set([given])

    assert (given.output, loaded.output) == ("before", None)


def test_a_query_over_a_store_is_a_data_set(tmp_path: Path) -> None:
    store = tmp_path / "s.duckdb"
    made = gapwatch(
        "replay",
        next(iter(sorted(TRACES.glob("*.gz")))),
        "--portfolio",
        AIRLINE / "portfolio.yaml",
        "--store",
        store,
        "--quiet",
    )
    assert made.status == 0, made.err

    found = load_from_store(store, "SELECT DISTINCT trace_id AS id, pipeline FROM gaps ORDER BY id LIMIT 3")

    assert len(found) == 3
    assert found[0].inputs == {"pipeline": "airline-agent"}
    with pytest.raises(UsageError, match="no row"):
        load_from_store(store, "SELECT trace_id AS id FROM gaps WHERE false")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"id": "b", "inputs": ', "not valid JSON"),
        ("[1]", "an object is expected"),
        ('{"inputs": {}}', 'write "id": "3"'),
        ('{"id": "b"}', "has no inputs; write the function's arguments by name"),
        ('{"id": "b", "inputs": "x"}', "has x as inputs"),
        ('{"id": "b", "inputs": {}, "expected": 1}', "no such key expected; keys are id, inputs"),
        ('{"id": "a", "inputs": {}}', "is that of example 1"),
        ('{"id": "b", "inputs": {}, "metadata": 3}', '"metadata": {"topic": "x"}'),
    ],
)
def test_a_broken_line_is_named_with_file_and_line(line: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "d.jsonl"
    file.write_text(f'{{"id": "a", "inputs": {{}}}}\n\n{line}\n')

    with pytest.raises(SourceError) as refused:
        load_data_set(file)

    assert str(refused.value).startswith(f"{file}, line 3: ")
    assert told in str(refused.value)


def test_what_is_no_data_set_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n")
    for given, told in (
        (tmp_path / "none.csv", "no such file"),
        (tmp_path / "empty.jsonl", "no example"),
        (3, "type int"),
        ([{"id": "a"}], "member 1 of the data set is a dict"),
        ([Example("a", {}), Example("a", {})], "two examples have the id 'a'"),
    ):
        with pytest.raises(UsageError, match=told):
            load_data_set(given)
