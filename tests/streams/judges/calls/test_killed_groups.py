"""A judge that asks about several items a call is killed in the middle: each item ends once, and the money is right."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from gapwatch.scorers.judges.prompt import request_bytes
from gapwatch.sinks.reading.verdict_archive import VerdictArchive
from gapwatch.sinks.store.store import Store
from gapwatch.streams.judges.audit.rebuilding import Rebuilder
from tests.streams.judges.calls.test_item_groups import PRICE, USD, expected, items_in, portfolio_of_items, said
from tests.streams.judges.judged_store import imbalance_of, priced, query, scored_store, states, trace
from tests.streams.judges.model_server import HttpAnswer, served

ORDERS, CAP = 40, 5.0


def run_judges(store: Path, settings: Path) -> subprocess.Popen[bytes]:
    command = ["judge", "run", "--store", str(store), "--judges", str(settings), "--patience", "20"]
    return subprocess.Popen(
        [sys.executable, "-m", "gapwatch.scorers.command_line", *command],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    "kill_at", [pytest.param(1, marks=pytest.mark.slow), 6, pytest.param(10, marks=pytest.mark.slow)]
)
def test_a_kill_in_the_middle_ends_each_item_once_and_loses_no_money(tmp_path: Path, kill_at: int) -> None:
    """Answers take 0.2 s, two at once, so that at the sixth call some verdicts are stored and some are lost."""
    portfolio = portfolio_of_items(budget={"judge_usd_per_week": CAP})
    store = scored_store(tmp_path, portfolio, [trace(i, output=f"Order {i}.") for i in range(ORDERS)])
    sent: list[dict[str, Any]] = []
    running: list[subprocess.Popen[bytes]] = []

    def answer(body: dict[str, Any], headers: dict[str, str]) -> HttpAnswer:
        sent.append(body)
        if len(sent) == kill_at:
            os.kill(running[0].pid, signal.SIGKILL)
        return replace(said(body), seconds=0.2)

    with served(answer) as server:
        provider = {"adapter": "http", "base_url": server.base_url, "concurrency": 2}
        settings = tmp_path / "judges.yaml"
        settings.write_text(yaml.safe_dump({"providers": {"*": provider}, "prices": priced(PRICE)}))
        running.append(run_judges(store, settings))
        running[0].communicate(timeout=120)
        assert running[0].returncode == -signal.SIGKILL
        stored = query(store, "SELECT count(*) FROM internal.judge_closed")[0][0]
        assert stored < ORDERS
        again = run_judges(store, settings)
        _, words = again.communicate(timeout=120)
        assert again.returncode == 0, words.decode()

    assert states(store, "faithful") == expected(ORDERS)
    assert imbalance_of(store) == 0
    rows = query(store, "SELECT source_offset, evidence->>'$.justification' FROM gaps WHERE judge IS NOT NULL")
    assert sorted(rows) == [(n, f"order {n}") for n in range(ORDERS)]
    assert query(store, "SELECT count(*), count(DISTINCT id) FROM internal.judge_closed") == [(ORDERS, ORDERS)]
    ((calls, usd, aside),) = query(
        store, "SELECT count(*), sum(usd), (SELECT sum(usd) FROM internal.judge_money) FROM judge_calls"
    )
    assert usd == pytest.approx(calls * USD)  # a call is booked once, by its first item
    assert calls <= len(sent) and len(sent) * USD <= aside + 1e-9 <= CAP  # what was billed and lost is set aside
    # What was stored before is not asked again.
    assert sum(len(items_in(body)) for body in sent[kill_at:]) <= ORDERS - stored + 4
    with Store.open(store) as opened:
        archive = VerdictArchive(opened.cursor())
        rebuilt = {request_bytes(Rebuilder(archive).rebuild(archive.verdict(p)).call) for p in archive.places(100)}
    assert len(rebuilt) == calls
    assert rebuilt <= {orjson.dumps(body, option=orjson.OPT_SORT_KEYS) for body in sent}
