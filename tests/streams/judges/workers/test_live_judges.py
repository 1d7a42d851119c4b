"""Judges in the process that stores: what reaches them while their thread starts, or has ended, is not lost."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from gapwatch.sinks.store.store import Store
from gapwatch.sinks.verdicts.intake import VerdictIntake
from gapwatch.streams.judges.calls.terms import caps_of
from gapwatch.streams.judges.models.model_maker import ModelAccess
from gapwatch.streams.judges.workers import judge_worker
from gapwatch.streams.judges.workers.judge_start import LiveJudges
from tests.streams.judges.judged_store import settings


@pytest.fixture
def made(tmp_path: Any) -> Any:
    """Judges of an empty store, and the errors that ended them."""
    failures: list[BaseException] = []
    access = ModelAccess(settings(), lambda vendor: None)  # type: ignore[arg-type, return-value]
    with ThreadPoolExecutor(1, "writer") as writer, Store.open(tmp_path / "s.duckdb", create=True) as store:
        intake = VerdictIntake(store, lambda *given: None, [], caps_of([], access.settings))  # type: ignore[arg-type]
        judges = LiveJudges(store, intake, writer, [], access, failures.append)
        yield judges, failures
        judges.stop(60.0)


def test_a_stop_that_comes_while_the_thread_starts_ends_it(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    judges, failures = made
    at_start, stopped = threading.Event(), threading.Event()
    wallet = judge_worker.Wallet

    def slow_wallet(*given: Any) -> Any:
        at_start.set()
        assert stopped.wait(60.0)
        return wallet(*given)

    monkeypatch.setattr(judge_worker, "Wallet", slow_wallet)
    judges.start()
    assert at_start.wait(60.0)
    assert not judges.stop(0.0)
    stopped.set()

    judges._thread.join(60.0)
    assert not judges._thread.is_alive()
    assert failures == []


def test_after_the_end_a_wake_up_and_a_stop_do_nothing(made: Any) -> None:
    judges, failures = made
    judges.start()
    assert judges.stop(60.0)
    judges.wake()

    assert judges.stop(60.0)
    assert failures == []
