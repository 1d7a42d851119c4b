"""Batches beside a live run: later requests go into later batches, and a stop leaves a batch to the next run."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.verdicts.intake import VerdictIntake
from gapwatch.streams.judges.batches.batch_maker import refuse_batches
from gapwatch.streams.judges.calls.terms import caps_of
from gapwatch.streams.judges.models.model_maker import model_access
from gapwatch.streams.judges.settings import JudgeSettings
from gapwatch.streams.judges.workers.judge_start import LiveJudges
from tests.live_store import live_slices
from tests.scorers.judges.rubrics import judged_metric, portfolio_of
from tests.streams.judges.batch_server import BatchServer, served_batches, verdict_text
from tests.streams.judges.batches.test_batches import settings_of
from tests.streams.judges.judged_store import states, trace


def until(holds: Callable[[], bool]) -> None:
    for _ in range(600):
        if holds():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen within 30 s")


def live(store: Store, writer: ThreadPoolExecutor, portfolio: Portfolio, settings: JudgeSettings) -> LiveJudges:
    intake = VerdictIntake(store, store.write_slice, [portfolio], caps_of([portfolio], settings))
    failures: list[BaseException] = []
    judges = LiveJudges(store, intake, writer, [portfolio], model_access(settings), failures.append)
    judges.start()
    return judges


def test_a_stop_leaves_the_batch_to_the_next_run(tmp_path: Path) -> None:
    portfolio = portfolio_of(judged_metric())
    source = tmp_path / "t.jsonl"
    source.write_text("".join(json.dumps(trace(i, output=f"Order {i}.")) + "\n" for i in range(12)))
    first, second = live_slices(source, portfolio, 6)
    server = BatchServer(lambda n, body: verdict_text(body), polls=1_000_000)
    path = tmp_path / "s.duckdb"
    with served_batches(server) as url:
        settings = JudgeSettings.model_validate(settings_of(url, "openai"))
        with ThreadPoolExecutor(1, "writer") as writer, Store.open(path, create=True) as store:
            writer.submit(store.write_slice, first, datetime.now(UTC)).result()
            judges = live(store, writer, portfolio, settings)
            until(lambda: server.steps["poll"] > 2)
            writer.submit(store.write_slice, second, datetime.now(UTC)).result()
            judges.wake()
            until(lambda: len(server.batches) == 2)
            assert judges.stop(30.0)
        server.polls = 0
        with ThreadPoolExecutor(1, "writer") as writer, Store.open(path) as store:
            judges = live(store, writer, portfolio, settings)
            closed = "SELECT count(*) = 12 FROM internal.judge_closed"
            until(lambda: bool(store.query(closed)[0][0]))
            assert judges.stop(30.0)

    assert states(path, "faithful") == {"pass": 12}
    assert [len(batch["asked"]) for batch in server.batches.values()] == [6, 6]


def test_a_process_without_a_store_refuses_batches() -> None:
    settings = JudgeSettings.model_validate(settings_of("http://127.0.0.1:9/v1", "openai"))

    with pytest.raises(UsageError, match="gapwatch judge run"):
        refuse_batches(settings)
