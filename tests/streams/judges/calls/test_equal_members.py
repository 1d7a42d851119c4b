"""Equal members of an ensemble are asked apart, so that their agreement is that of several answers."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.verdicts.agreement import agreements
from gapwatch.streams.batch.replay import replay
from gapwatch.streams.judges.models.http_model import HttpModel
from tests.scorers.judges.rubrics import judged_metric, portfolio_of
from tests.streams.judges.judged_store import imbalance_of, judge, query, scored_store, trace
from tests.streams.judges.model_server import HttpAnswer, served, verdict

_NAMES = ("one", "two", "three")
#: US dollars per token; a reply of the server has 500 tokens of input and 40 of output.
_PRICE = (1e-6, 2e-6)
_USD = 500 * _PRICE[0] + 40 * _PRICE[1]


def _three() -> Portfolio:
    metric = judged_metric()
    params = {"temperature": 1}
    metric["claim"]["judges"] = [{"name": name, "model": "local/coin", "params": params} for name in _NAMES]
    return portfolio_of(metric)


def test_three_judges_of_one_model_that_tosses_a_coin_do_not_agree_beyond_chance(tmp_path: Path) -> None:
    coin = random.Random(20261124)

    def toss(body: dict[str, Any], headers: dict[str, str]) -> HttpAnswer:
        return verdict(body, coin.choice(["Good", "Poor"]))

    portfolio = _three()
    path = scored_store(tmp_path, portfolio, [trace(i) for i in range(100)])
    with served(toss) as server:
        result = judge(path, portfolio, HttpModel(server.base_url), price=_PRICE)
        asked = len(server.server.requests)

    with Store.open(path) as store:
        found = list(agreements(store.cursor()))
    assert (asked, result.calls, result.cached) == (300, 300, 0)
    assert len(found) == 3
    # The standard deviation of the kappa of two coins is 0.1 at 100 spans.
    assert all(abs(pair.kappa.value) < 0.6 for pair in found)


def test_after_a_restart_each_member_is_asked_once_for_each_input_and_paid_once(tmp_path: Path) -> None:
    portfolio = _three()
    path = scored_store(tmp_path, portfolio, [trace(i) for i in range(4)])
    again = tmp_path / "again.jsonl"
    traces = [trace(i, trace_id=f"{name}{i}") for name in ("first", "second") for i in range(4)]
    again.write_text("".join(json.dumps(one) + "\n" for one in traces), encoding="utf-8")
    with served(lambda body, headers: verdict(body)) as server:
        before = judge(path, portfolio, HttpModel(server.base_url), price=_PRICE)
        replay([str(again)], [portfolio], path)
        after = judge(path, portfolio, HttpModel(server.base_url), price=_PRICE)
        asked = len(server.server.requests)

    assert (before.calls, before.cached) == (12, 0)
    assert (after.calls, after.cached) == (12, 12)
    assert asked == 24
    assert query(path, "SELECT judge, count(*) FROM gaps GROUP BY ALL HAVING judge <> 'ensemble' ORDER BY judge") == [
        ("one", 12), ("three", 12), ("two", 12),
    ]  # fmt: skip
    assert query(path, "SELECT sum(usd) FROM judge_calls")[0][0] == pytest.approx(24 * _USD)
    assert imbalance_of(path) == 0
