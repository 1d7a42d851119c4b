"""Views: rates by dimension agree with `gapwatch rates`, comments are complete, and older DuckDBs read a store."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gapwatch.sinks.catalog.view_texts import VIEW_TEXTS
from gapwatch.sinks.migration.migrating import migrate
from gapwatch.sinks.store.store import Store
from tests.builders import KEPT_AT, NOON, scored_slice
from tests.gapwatch_command import gapwatch
from tests.sinks.migration.old_stores import old_store

NUMBERS = 'units, bad, unknown, unknown_share, effective_units, rate, "lower", "upper"'


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = old_store(tmp_path_factory.mktemp("views"))
    migrate(path, lambda *_: None)
    return path


def test_everything_in_a_new_store_has_a_comment(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.duckdb", create=True) as store:
        for kind in ("columns", "tables", "views"):
            assert store.query(f'SELECT * FROM duckdb_{kind}() WHERE NOT internal AND "comment" IS NULL') == []
        views = {name for (name,) in store.query("SELECT view_name FROM duckdb_views() WHERE NOT internal")}
        assert views == set(VIEW_TEXTS)


def test_rates_by_day_are_those_of_the_command(migrated: Path) -> None:
    command = gapwatch("rates", "--per", "day", "--store", migrated, "--format", "json").json()
    view = gapwatch(
        "history", f"SELECT component, metric, judge, \"day\", {NUMBERS} FROM rates_by WHERE dimension = 'all'",
        "--store", migrated, "--format", "json",
    ).json()  # fmt: skip
    key = ["component", "metric", "judge", "day"]
    assert len(view) > 5

    def keyed(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
        numbers = [name for name in view[0] if name not in key]
        return {
            json.dumps([row[name] for name in key]): [row[n] if row[n] is None else round(row[n], 9) for n in numbers]
            for row in rows
        }

    assert keyed(view) == keyed(command)


def ticks(level: str, facet: str, value: str | None, outcome: str, n: int, p: float = 1.0) -> dict[str, object]:
    return {"level": level, "facet": facet, "value": value, "outcome": outcome, "n": n, "p": p}


def test_spans_without_a_model_have_a_row_and_spans_of_a_trace_count_as_one(tmp_path: Path) -> None:
    rows = [
        ticks("unit", "all", None, "good", 80), ticks("unit", "all", None, "bad", 20),
        ticks("span", "all", None, "pass", 360), ticks("span", "all", None, "fail", 40),
        ticks("span", "model", "m", "pass", 270), ticks("span", "model", "m", "fail", 30),
    ]  # fmt: skip
    with Store.open(tmp_path / "s.duckdb", create=True) as store:
        store.write_slice(scored_slice(ticks=rows), KEPT_AT)
        found = store.query(
            """SELECT dimension, "value", counted, units, bad, rate, effective_units FROM rates_by ORDER BY ALL"""
        )
    assert [(*row[:5], round(row[5], 9), round(row[6], 6)) for row in found] == [
        ("all", None, "traces", 100, 20, 0.2, 100.0),
        ("model", "m", "spans", 300, 30, 0.1, 75.0),  # four spans a trace
        ("model", None, "spans", 100, 10, 0.1, 25.0),
        ("release", None, "traces", 100, 20, 0.2, 100.0),
        ("tier", None, "spans", 400, 40, 0.1, 100.0),
    ]


def test_rates_by_weigh_each_selection_by_its_probability(tmp_path: Path) -> None:
    rows = [
        ticks("unit", facet, value, outcome, n, p)
        for facet, value in (("all", None), ("release", "r1"))
        for outcome, n, p in (("bad", 10, 1.0), ("good", 30, 1.0), ("good", 10, 0.1))
    ]
    with Store.open(tmp_path / "s.duckdb", create=True) as store:
        store.write_slice(scored_slice(ticks=rows), KEPT_AT)
        view = store.query(f"""SELECT {NUMBERS} FROM rates_by WHERE dimension = 'release' AND "value" = 'r1'""")
        assert view[0] == pytest.approx(store.query(f"SELECT {NUMBERS} FROM rates")[0])
    assert view[0][5] == pytest.approx(10 / 140)


def test_a_component_joins_its_metrics_without_those_whose_failures_are_no_fault(tmp_path: Path) -> None:
    rows = [
        {"metric": metric, "outcome": outcome, "n": n}
        for metric, bad in (("a", 10), ("b", 30), ("fallback", 90), ("seconds", 0))
        for outcome, n in (("bad", bad), ("good", 100 - bad))
    ]
    with Store.open(tmp_path / "s.duckdb", create=True) as store:
        store.write_slice(scored_slice(ticks=rows), KEPT_AT)
        cursor = store.cursor()
        cursor.execute(
            """INSERT INTO metrics VALUES ('x', 'fallback', '0123456789ab', 'label', NULL, '', NULL,
                '{"better": "unknown"}', ?)""",
            [NOON],
        )
        cursor.execute(
            """INSERT INTO metrics VALUES ('x', 'seconds', '0123456789ab', 'measure', NULL, 'duration in s, no limit',
                NULL, NULL, ?)""",
            [NOON],
        )
        cursor.close()
        found = store.query(
            """SELECT component, metrics, units, bad, rate, effective_units, worst_metric, worst_rate
                FROM component_rates"""
        )
    assert found == [("agent", 2, 200, 40, 0.2, 100.0, "b", 0.3)]


def test_open_alerts_are_those_of_the_command(migrated: Path) -> None:
    command = gapwatch("alerts", "--store", migrated, "--format", "json").json()
    sql = "SELECT alert_id, severity, state, metric FROM alerts_open"
    view = gapwatch("history", sql, "--store", migrated, "--format", "json").json()
    assert view == [{"alert_id": "add5bcb4d0", "severity": "page", "state": "acknowledged", "metric": "parses"}]
    assert [one["alert_id"] for one in command] == [view[0]["alert_id"]]


def test_costs_are_what_the_calls_cost(migrated: Path) -> None:
    sql = "SELECT round(sum(usd), 6) AS usd, sum(calls) AS calls FROM costs"
    (costs,) = gapwatch("history", sql, "--store", migrated, "--format", "json").json()
    assert (costs["usd"], costs["calls"]) == (0.02556, 142)


OLD = """
import sys
sys.path.insert(0, sys.argv[1])
import duckdb
con = duckdb.connect(sys.argv[2], read_only=True)
tables = con.execute(
    "SELECT schema_name || '.' || table_name FROM duckdb_tables() UNION ALL "
    "SELECT view_name FROM duckdb_views() WHERE NOT internal"
).fetchall()
for (name,) in tables:
    con.execute(f"SELECT * FROM {name}").fetchall()
text = con.execute('SELECT count("text") FROM failing_traces').fetchall()[0][0]
said = con.execute("SELECT count(comment) FROM duckdb_columns() WHERE NOT internal").fetchall()[0][0]
print(duckdb.__version__, len(tables) >= 40, text > 50, said > 400)
"""


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1.3.2", "1.5.6"])
def test_an_older_duckdb_reads_every_table_and_view(migrated: Path, tmp_path: Path, version: str) -> None:
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(tmp_path / "d")]
    installed = subprocess.run([*pip, f"duckdb=={version}"], capture_output=True, text=True, check=False)
    if installed.returncode != 0:
        pytest.skip(f"duckdb {version} cannot be installed: {installed.stderr[-300:]}")
    done = subprocess.run(
        [sys.executable, "-S", "-c", OLD, str(tmp_path / "d"), str(migrated)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [version, "True", "True", "True"]
