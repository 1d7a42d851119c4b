"""Lanes: a provider that is dead or slow keeps its own workers waiting, and nobody else's."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.store.store import Store
from gapwatch.streams.judges.calls.terms import price_of
from gapwatch.streams.judges.models.model_maker import model_access
from gapwatch.streams.judges.settings import JudgeSettings
from gapwatch.streams.judges.workers.judge_start import judge_store
from gapwatch.streams.pipeline.judge_result import JudgeResult
from tests.scorers.judges.rubrics import judged_metric, portfolio_of
from tests.streams.judges.judged_store import imbalance_of, scored_store, states, trace
from tests.streams.judges.model_server import HttpAnswer, free_port, served, verdict


def portfolio_of_two() -> Portfolio:
    """Two metrics on the same spans, each judged by the model of another vendor; requests come in turns."""
    first, second = judged_metric(name="a_first"), judged_metric(name="b_second")
    first["claim"]["judges"] = [{"model": "ill/small"}]
    second["claim"]["judges"] = [{"model": "well/small"}]
    return portfolio_of(first, second)


def judged(path: Path, portfolio: Portfolio, ill: str, well: str, patience: float, seconds: float = 0.1) -> JudgeResult:
    provider = {
        "adapter": "http", "concurrency": 2, "attempts": 3, "first_delay_seconds": 0.001, "breaker_failures": 2,
        "longest_delay_seconds": 0.002, "breaker_seconds": 0.02, "timeout_seconds": seconds,
    }  # fmt: skip
    providers = {"ill": {**provider, "base_url": ill}, "well": {**provider, "base_url": well, "timeout_seconds": 20.0}}
    settings = JudgeSettings.model_validate({"providers": providers})
    with Store.open(path) as store:
        return judge_store(store, [portfolio], model_access(settings), patience_seconds=patience)


def good(body: dict[str, Any], headers: dict[str, str]) -> HttpAnswer:
    return verdict(body, "Good")


@pytest.mark.parametrize("silent", [False, True], ids=["nothing listens", "nothing is answered"])
def test_a_dead_provider_keeps_only_its_own_requests_waiting(tmp_path: Path, silent: bool) -> None:
    portfolio = portfolio_of_two()
    path = scored_store(tmp_path, portfolio, [trace(i) for i in range(100)])
    nothing = f"http://127.0.0.1:{free_port()}/v1"
    with served(good) as well, served(lambda body, headers: HttpAnswer(seconds=60)) as mute:
        first = judged(path, portfolio, mute.base_url if silent else nothing, well.base_url, patience=0.5)

        assert states(path, "b_second") == {"pass": 100}
        assert states(path, "a_first") == {"pending": 100}
        assert (first.closed, first.left) == (100, 100)
        assert imbalance_of(path) == 0

        second = judged(path, portfolio, well.base_url, well.base_url, patience=0.5)

    assert (second.closed, second.left) == (100, 0)
    assert states(path, "a_first") == {"pass": 100}
    assert imbalance_of(path) == 0


def test_a_slow_provider_holds_up_nobody_else(tmp_path: Path) -> None:
    portfolio = portfolio_of_two()
    path = scored_store(tmp_path, portfolio, [trace(i) for i in range(20)])
    answered: list[str] = []
    all_quick = threading.Event()

    def slow(body: dict[str, Any], headers: dict[str, str]) -> HttpAnswer:
        """Answers nothing until the other has answered everything."""
        answered.append("slow" if all_quick.wait(60) else "too soon")
        return verdict(body, "Good")

    def quick(body: dict[str, Any], headers: dict[str, str]) -> HttpAnswer:
        answered.append("quick")
        if answered.count("quick") == 20:
            all_quick.set()
        return verdict(body, "Good")

    with served(slow) as ill, served(quick) as well:
        result = judged(path, portfolio, ill.base_url, well.base_url, patience=60.0, seconds=60.0)

    assert result.closed == 40
    assert answered == ["quick"] * 20 + ["slow"] * 20


def test_a_model_whose_provider_is_not_named_is_refused() -> None:
    settings = JudgeSettings.model_validate({"providers": {"well": {"adapter": "http", "base_url": "http://a/v1"}}})

    assert settings.lane("well") == "well"
    assert settings.lane("ill") == "*"
    with pytest.raises(UsageError, match="'ill'"):
        price_of("ill/small", settings)
