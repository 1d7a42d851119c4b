"""Passes, failures, unknowns and errors of a judge are the same numbers in commands, ledger and `/metrics`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gapwatch.scorers.judges.chat_model import ChatCall, ChatReply, ModelFailure
from gapwatch.scorers.judges.scripted_model import verdict_reply
from gapwatch.sinks.catalog.rate_breakdown import breakdown_sql
from gapwatch.sinks.catalog.rate_interval import rates_sql
from gapwatch.sinks.metrics.live_metrics import LiveMetrics
from gapwatch.sinks.store.store import Store
from tests.gapwatch_command import gapwatch
from tests.prometheus import page_of
from tests.scorers.judges.rubrics import judged_metric, portfolio_of
from tests.sinks.metrics.test_live_metrics import only, samples
from tests.streams.judges.judged_store import judge, scored_store, states, trace

#: Traces of one span each: 4 pass, 2 fail, 3 end in an error.
NUMBERS = {"good": 4, "bad": 2, "unknown": 0, "error": 3}


def verdict_of(call: ChatCall) -> ChatReply | ModelFailure:
    number = int(call.messages[1][1].split("order ")[1].split()[0])
    if number < 3:
        return ModelFailure("bad_request", "status 400")
    return verdict_reply(call, "Good" if number < 7 else "Poor")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    portfolio = portfolio_of(judged_metric())
    made = scored_store(tmp_path_factory.mktemp("four"), portfolio, [trace(i, release="r1") for i in range(9)])
    judge(made, portfolio, verdict_of)
    yield made


def test_the_ledger_and_the_ticks_agree(path: Path) -> None:
    assert states(path, "faithful") == {"pass": 4, "fail": 2, "error": 3}
    with Store.open(path) as store:
        counted = store.query(
            "SELECT outcome, sum(n)::INT FROM ticks WHERE level = 'unit' AND facet = 'all' GROUP BY 1"
        )
    assert dict(counted) == {name: n for name, n in NUMBERS.items() if n}


@pytest.mark.parametrize("by", [None, "release", "model", "component"])
def test_every_breakdown_has_the_numbers_of_the_ledger(path: Path, by: str | None) -> None:
    with Store.open(path) as store:
        names = "units, bad, unknown, errors, unknown_share, rate"
        (row,) = store.query(f"SELECT {names} FROM ({breakdown_sql(by, 'all')})")
        (hour,) = store.query(f"SELECT {names} FROM ({rates_sql('metric')})")
    assert row == hour == (6, 2, 0, 3, pytest.approx(1 / 3), pytest.approx(1 / 3))


def test_the_commands_and_the_metrics_page_have_them(path: Path) -> None:
    rows: list[dict[str, Any]] = gapwatch("rates", "--per", "all", "--store", path, "--format", "json").json()
    counted = {name: sum(row[name] for row in rows) for name in ("units", "bad", "unknown", "errors")}
    assert counted == {"units": 6, "bad": 2, "unknown": 0, "errors": 3}
    metrics = LiveMetrics([portfolio_of(judged_metric())], lane=rows[0]["lane"])
    with Store.open(path) as store:
        metrics.rebuild(store)
    found = samples(page_of(metrics))
    for outcome, n in NUMBERS.items():
        assert only(found, "gapwatch_units_total", outcome=outcome) == ([n] if n else [])


def test_an_error_beside_a_verdict_does_not_decide_the_trace(tmp_path: Path) -> None:
    portfolio = portfolio_of(judged_metric())
    made = scored_store(tmp_path, portfolio, [trace(0, spans=2)])
    asked: list[int] = []

    def once(call: ChatCall) -> ChatReply | ModelFailure:
        asked.append(1)
        return verdict_reply(call, "Good") if len(asked) == 1 else ModelFailure("bad_request", "status 400")

    judge(made, portfolio, once)
    with Store.open(made) as store:
        found = store.query("SELECT outcome, sum(n)::INT FROM ticks WHERE level = 'unit' AND facet = 'all' GROUP BY 1")
    assert states(made, "faithful") == {"pass": 1, "error": 1}
    assert found == [("good", 1)]
