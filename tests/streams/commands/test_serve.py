"""`gapwatch serve`: the page of a finished store, which it does not change; a store in use names its own page."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gapwatch.sinks.api.access import ApiOptions
from gapwatch.sinks.api.overview_page import read_page
from gapwatch.sinks.store.store import Store
from tests.builders import KEPT_AT, whole_slice
from tests.gapwatch_command import gapwatch
from tests.http_client import get, post
from tests.live_store import Kept
from tests.paths import ROOT


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    path = tmp_path / "s.duckdb"
    with Store.open(path, create=True) as store:
        store.write_slice(whole_slice(0, 30), KEPT_AT)
    return path


@contextmanager
def served(*arguments: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run the command until it says its address; end it as Ctrl-C does."""
    process = subprocess.Popen(
        [sys.executable, "-c", "from gapwatch.scorers.command_line import main; main()", "serve",
         "--listen", "127.0.0.1:0", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip
    assert process.stderr is not None
    said = process.stderr.readline()
    try:
        assert "http://" in said, said
        yield said, process
    finally:
        process.terminate()
        _, rest = process.communicate(timeout=60)
    assert (process.returncode, rest.strip()) == (0, "gapwatch: stopped")


def test_the_page_of_a_finished_store_is_shown_and_nothing_is_written(finished: Path) -> None:
    before = hashlib.sha256(finished.read_bytes()).hexdigest()
    with served("--store", str(finished)) as (said, _):
        url = said.split()[1]
        assert said.endswith("until Ctrl-C\n") and str(finished) in said and "lane live" in said
        assert get(url, "/", {"Accept": "text/html"}).status == 200
        assert b"gapwatch_ledger_imbalance 0.0" in get(url, "/metrics").body
        assert post(url, "/v1/query", {"sql": "SELECT count(*) AS n FROM gaps"}).json() == [{"n": 30}]
        assert get(url, "/readyz").json() == {"status": "ready", "source": "finished"}
        assert post(url, "/v1/annotations", {"text": "x"}).status == 401
        assert gapwatch("history", "SELECT 1", "--store", finished).status == 0  # others may read it meanwhile

    assert sorted(one.name for one in finished.parent.iterdir()) == ["s.duckdb"]
    assert hashlib.sha256(finished.read_bytes()).hexdigest() == before


def test_a_store_in_use_names_the_page_of_its_process(tmp_path: Path) -> None:
    with Kept(tmp_path / "s.duckdb", ApiOptions(port=0), portfolios=[]) as kept:
        done = subprocess.run(
            [sys.executable, "-m", "gapwatch.scorers.command_line", "serve", "--listen", "0", "--store", kept.path],
            capture_output=True, text=True, cwd=ROOT, timeout=60,
        )  # fmt: skip

        assert done.returncode == 2
        assert f"its page is at {kept.server.url}" in done.stderr


def test_the_lane_of_the_alerts_is_written_into_the_script_and_cannot_end_its_text() -> None:
    plain, other = (read_page("/overview.js", lane=lane)[0].decode() for lane in ("live", "file:a'`${x}\\"))
    assert plain.count("lane = 'live'") == other.count("lane = 'file:a''\\`\\${x}\\\\'") >= 2
    assert "lane = 'live'" not in other


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--lane", "file:x"], "has no lane 'file:x'; it has live"),
        (["--listen", "none"], "needs an address to listen on"),
        (["--store", "no.duckdb"], "there is no store no.duckdb"),
        (["--store", "http://127.0.0.1:1"], "give --store the file"),
    ],
)
def test_what_cannot_be_shown_is_told(finished: Path, arguments: list[str], why: str) -> None:
    given = arguments if "--store" in arguments else ["--store", finished, *arguments]
    done = gapwatch("serve", *given)
    assert done.status == 2
    assert why in done.err
