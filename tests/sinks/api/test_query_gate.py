"""Untrusted queries over HTTP, in the process that has the store open for writing."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from gapwatch.scorers.errors import UsageError
from gapwatch.sinks.api.query_gate import TABLE_FUNCTIONS, QueryGate
from tests.builders import whole_slice
from tests.http_client import post
from tests.live_store import Kept
from tests.sinks.query_attacks import ATTACKS, SECRET

#: Besides those of `test_history`; `@` stands for a folder with secret.txt, secret.csv and other.duckdb.
MORE_ATTACKS = [
    # memory and the process itself
    "SELECT * FROM arrow_scan(1, 2, 3)",
    "SELECT * FROM arrow_scan_dumb(1, 2, 3)",
    "SELECT * FROM pandas_scan(1)",
    "SELECT * FROM python_arrow_scan(1)",
    "SELECT * FROM python_map_function(1)",
    "SELECT * FROM seq_scan()",
    "SELECT * FROM duckdb_memory()",
    "SELECT * FROM duckdb_settings()",
    "SELECT value FROM \"duckdb_settings\"()",
    "SELECT value FROM system.main.duckdb_settings()",
    "SELECT * FROM DuckDB_Settings()",
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM which_secret('s3://x', 's3')",
    "SELECT * FROM duckdb_extensions()",
    "SELECT * FROM duckdb_temporary_files()",
    "SELECT * FROM duckdb_prepared_statements()",
    "SELECT * FROM duckdb_variables()",
    "SELECT * FROM duckdb_databases",
    "SELECT * FROM pragma_database_list",
    "SELECT * FROM pragma_database_list()",
    "SELECT * FROM pragma_storage_info('gaps')",
    "SELECT * FROM pragma_user_agent()",
    "SELECT current_setting('temp_directory')",
    "SELECT current_setting('secret_directory')",
    "SELECT 'temp_directory'.current_setting()",
    "SELECT getvariable('x')",
    "SELECT * FROM test_all_types()",
    # what acts although it reads
    "SELECT * FROM checkpoint()",
    "SELECT * FROM force_checkpoint()",
    "SELECT * FROM enable_logging()",
    "SELECT * FROM disable_logging()",
    "SELECT * FROM enable_profiling()",
    "SELECT * FROM truncate_duckdb_logs()",
    "SELECT * FROM duckdb_logs()",
    "SELECT * FROM duckdb_logs",
    "SELECT write_log('x')",
    "SELECT nextval('s')",
    "SELECT sleep_ms(1)",
    "SELECT Pg_Sleep(0.001)",
    "SELECT count(*) FROM gaps WHERE 1.sleep_ms() IS NULL",
    "SELECT * FROM create_external_resource('x')",
    "SELECT * FROM register_external_resource('x')",
    # a text that is run as SQL
    "SELECT * FROM query('SELECT 1')",
    "SELECT * FROM query_table('gaps')",
    "SELECT * FROM query('SELECT * FROM duckdb_settings()')",
    "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
    "SELECT * FROM json_execute_serialized_sql('{}')",
    # hidden in places
    "SELECT (SELECT count(*) FROM duckdb_settings())",
    "SELECT 1 WHERE EXISTS (SELECT * FROM duckdb_settings())",
    "WITH s AS (SELECT * FROM duckdb_settings()) SELECT * FROM s",
    "WITH RECURSIVE s AS (SELECT 1 AS x UNION ALL SELECT x FROM s, duckdb_settings()) SELECT * FROM s",
    "SELECT * FROM gaps UNION ALL BY NAME SELECT * FROM duckdb_settings()",
    "SELECT * FROM gaps ORDER BY (SELECT count(*) FROM duckdb_settings())",
    "SELECT * FROM gaps LIMIT (SELECT count(*) FROM duckdb_settings())",
    "SELECT list_transform([1], lambda x: (SELECT count(*) FROM duckdb_settings()))",
    "SELECT * FROM gaps JOIN duckdb_settings() ON true",
    "SELECT * FROM gaps POSITIONAL JOIN duckdb_settings()",
    "DESCRIBE SELECT * FROM duckdb_settings()",
    "SUMMARIZE SELECT * FROM duckdb_settings()",
    "SELECT * FROM (DESCRIBE SELECT * FROM duckdb_settings())",
    "FROM (PIVOT (SELECT name, value FROM duckdb_settings()) ON name IN ('threads') USING first(value))",
    "SELECT * FROM unnest((SELECT list(value) FROM duckdb_settings()))",
    "SELECT COLUMNS(*) FROM duckdb_settings()",
    "VALUES ((SELECT count(*) FROM duckdb_settings()))",
    "SELECT * FROM gaps WHERE outcome IN (FROM query('SELECT 1'))",
    "SELECT count(*) FILTER (WHERE EXISTS (FROM duckdb_settings())) FROM gaps",
    "SELECT sum(1) OVER (ORDER BY (SELECT count(*) FROM duckdb_settings())) FROM gaps",
    "SELECT * FROM gaps TABLESAMPLE 10%, duckdb_settings()",
    "WITH x AS (COPY gaps TO '@/stolen.csv') SELECT 1",
    "WITH x AS (SELECT 1), y AS (DELETE FROM gaps RETURNING 1) SELECT * FROM x",
    # much out of little
    "SELECT repeat('x', 4000000000)",
    "SELECT 'x'.repeat(4000000000)",
    "SELECT RePeAt('x', 4000000000)",
    "SELECT \"repeat\"('x', 4000000000)",
    "SELECT lpad('x', 2000000000, 'y')",
    "SELECT rpad('x', 2000000000, 'y')",
    "SELECT range(1000000000)",
    "SELECT range(1, (SELECT 1000000000))",
    "SELECT generate_series(1, 1000000000)",
    "SELECT unnest(range(1000000000))",
    "SELECT * FROM unnest(range(1000000000))",
    "SELECT * FROM gaps WHERE 5 = ANY(range(source_offset * 1000000000))",
    "SELECT levenshtein(string_agg(observed), string_agg(trace_id)) FROM gaps",
    "SELECT damerau_levenshtein('a', 'b')",
    "SELECT printf('%1000000000d', 1)",
    "SELECT format('{:>1000000000}', 'x')",
    "SELECT list_resize([1], 1000000000)",
    "SELECT array_resize([1], 1000000000)",
    "SELECT bitstring('1', 1000000000)",
    "SELECT bar(1, 0, 1, 1000000000)",
    "SELECT * FROM repeat_row(1, num_rows = 1000000000)",
    "SELECT * FROM repeat(1, 1000000000)",
    # beyond the parser
    "SELECT " + "(" * 5_000 + "1" + ")" * 5_000,
    "SELECT " + "abs(" * 3_000 + "1" + ")" * 3_000,
    "SELECT 1" + " + 1" * 20_000,
    "SELECT * FROM " + "(SELECT * FROM " * 3_000 + "gaps" + ")" * 3_000,
    "SELECT 1 -- " + "x" * 200_000,
    "SELECT [" * 500,
]  # fmt: skip
ALL_ATTACKS = [*ATTACKS, *MORE_ATTACKS]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    folder = tmp_path_factory.mktemp("gate")
    for name in ("secret.txt", "secret.csv"):
        (folder / name).write_text(f"a,b\n{SECRET},2\n")
    with duckdb.connect(str(folder / "other.duckdb")) as con:
        con.execute(f"CREATE TABLE x AS SELECT '{SECRET}' AS secret")
    with Kept(folder / "s.duckdb", portfolios=[]) as opened:
        opened.write_slice(whole_slice(0, 30))
        yield opened


def state(kept: Kept) -> list[tuple[object, ...]]:
    """Return the contents and settings of the store, and the files around it."""
    files = sorted(file.name for file in kept.path.parent.iterdir())
    return [
        *kept.store.query("SELECT count(*), sum(hash(gaps)) FROM gaps"),
        *kept.store.query("SELECT table_name FROM duckdb_tables() ORDER BY ALL"),
        *kept.store.query("SELECT name, value FROM duckdb_settings() WHERE name != 'threads' ORDER BY ALL"),
        *kept.store.query("SELECT count(*) FROM annotations"),
        *((name,) for name in files),
    ]


def test_the_corpus_is_as_large_as_promised() -> None:
    assert len(set(ALL_ATTACKS)) >= 180


@pytest.mark.parametrize("attack", ALL_ATTACKS, ids=lambda text: text[:60])
def test_what_is_no_plain_select_is_refused_beside_the_keeper(kept: Kept, attack: str) -> None:
    before = state(kept)
    got = post(kept.server.url, "/v1/query", {"sql": attack.replace("@", str(kept.path.parent))})

    assert got.status == 400, got.body
    assert "the query is refused: " in got.json()["error"]
    assert SECRET.encode() not in got.body
    assert state(kept) == before


def test_the_keeper_goes_on_after_all_of_it(kept: Kept) -> None:
    position = kept.store.position("live", "traces", 0)
    assert position is not None
    kept.write_slice(whole_slice(position.to_offset, position.to_offset + 3))
    assert post(kept.server.url, "/v1/query", {"sql": "SELECT 1 AS x"}).json() == [{"x": 1}]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM rates",
        "SELECT * FROM main.verdicts LIMIT 3",
        "SHOW TABLES",
        "SHOW ALL TABLES",
        "DESCRIBE gaps",
        "SUMMARIZE gaps",
        "SELECT column_name FROM information_schema.columns",
        "SELECT * FROM duckdb_columns LIMIT 3",
        "SELECT name FROM sqlite_master",
        "SELECT unnest(range(5)), list_transform([1, 2], lambda x: x + 1)",
        "SELECT * FROM range(10), generate_series(1, 3), unnest([1, 2])",
        "SELECT * FROM metrics, json_each(evidence)",
        "SELECT evidence->>'$.code' FROM metrics",
        "SELECT unnest(map_entries(histogram)) FROM ticks",
        "SELECT quantile_cont(score, 0.9) FROM gaps",
        "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT * FROM t",
        "FROM gaps SELECT outcome, count(*) GROUP BY ALL",
        "PIVOT gaps ON outcome IN ('pass', 'fail') USING count(*)",
        "SELECT * FROM gaps ASOF JOIN ticks ON gaps.event_at >= ticks.bucket LIMIT 1",
        "SELECT string_agg(trace_id, ',') FROM gaps",
        "SELECT 'repeat(1, 2) FROM read_text(3)' AS text -- duckdb_settings()",
        "SELECT outcome AS repeat FROM gaps AS duckdb_settings",
    ],
)
def test_what_reads_is_answered(kept: Kept, sql: str) -> None:
    got = post(kept.server.url, "/v1/query", {"sql": sql})
    assert got.status == 200, got.body


def test_every_table_function_of_the_engine_but_a_few_is_refused() -> None:
    """Also holds for a DuckDB with more functions than the one for which the list was made."""
    names = duckdb.connect().execute(
        """SELECT DISTINCT function_name FROM duckdb_functions()
            WHERE function_type IN ('table', 'table_macro', 'pragma')"""
    )
    gate = QueryGate()
    refused = 0
    for (name,) in names.fetchall():
        if name not in TABLE_FUNCTIONS:
            with pytest.raises(UsageError, match="refused"):
                gate.check(f'SELECT * FROM "{name}"()')
            refused += 1
    gate.close()
    assert refused > 80
