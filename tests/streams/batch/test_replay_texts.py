"""The text of the first 20 failing traces after a change is stored, whatever the sampling, and shown."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import zstandard

from gapwatch.scorers.loading.load import load_portfolio
from gapwatch.streams.batch.replay import ReplayOptions, replay
from tests.gapwatch_command import gapwatch
from tests.streams.broken_shop import FIRST, PORTFOLIO, query, shop_trace

LINES = b"\n".join(map(shop_trace, range(700))) + b"\n"
_COUNTS = ("gaps", "ticks", "ledger", "offsets", "alerts")


def told(folder: Path, name: str = "shop.jsonl", data: bytes = LINES, alerts: bool = True) -> Path:
    """Replay a file; return the store."""
    written = folder / "portfolio.yaml"
    written.write_text(PORTFOLIO)
    (folder / name).write_bytes(data)
    store = folder / "s.duckdb"
    options = ReplayOptions(source_name="shop.jsonl", alerts=alerts)
    replay([str(folder / name)], [load_portfolio(written)], store, options)
    return store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return told(tmp_path_factory.mktemp("told"))


def test_the_first_failing_traces_after_a_change_have_their_text(store: Path) -> None:
    first = query(store, FIRST)
    assert len(first) == 20
    assert all(has_text for _, has_text in first)
    texts = [text for (text,) in query(store, "SELECT decode(record) FROM samples WHERE cause = 'alert'")]
    assert texts
    assert all("[redacted] {broken" in text and "customer-" not in text for text in texts)


def test_explain_and_gaps_show_them(store: Path) -> None:
    ((alert,),) = query(store, "SELECT min(alert_id) FROM alerts WHERE attribution->>'kind' <> 'bound'")
    page = gapwatch("explain", alert, "--store", store).out
    assert page.count("# its text") == 5
    trace = query(store, FIRST)[0][0]
    assert "[redacted] {broken" in gapwatch("gaps", "--trace", trace, "--store", store).out
    shown = query(store, "SELECT text IS NOT NULL FROM failing_traces WHERE trace_id = ?", trace)
    assert shown == [(True,)]


def test_nothing_else_of_the_store_changes_and_a_second_replay_adds_nothing(tmp_path: Path) -> None:
    (tmp_path / "without").mkdir()
    store, without = told(tmp_path), told(tmp_path / "without", alerts=False)

    counts = {table: query(store, f"SELECT count(*) FROM {table}") for table in (*_COUNTS, "samples")}
    plain = {table: query(without, f"SELECT count(*) FROM {table}") for table in ("gaps", "ledger", "offsets")}
    assert {name: counts[name] for name in plain} == plain
    told(tmp_path)
    assert {table: query(store, f"SELECT count(*) FROM {table}") for table in counts} == counts
    assert gapwatch("ledger", "--store", store).status == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["shop.jsonl.gz", "shop.jsonl.zst"])
def test_compressed_files_are_read_again_too(tmp_path: Path, name: str) -> None:
    packed = gzip.compress(LINES) if name.endswith("gz") else zstandard.compress(LINES)

    assert [has_text for _, has_text in query(told(tmp_path, name, packed), FIRST)] == [True] * 20
