"""Stores with requests that wait for judges, made by replaying traces."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gapwatch.scorers.judges.chat_model import ChatModel
from gapwatch.scorers.judges.scripted_model import Script, ScriptedModel, verdict_reply
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.store.ledger import imbalance
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.verdicts.open_requests import OpenRequests
from gapwatch.streams.batch.replay import replay
from gapwatch.streams.judges.models.model_maker import ModelAccess
from gapwatch.streams.judges.settings import JudgeSettings
from gapwatch.streams.judges.workers.judge_start import judge_store
from gapwatch.streams.pipeline.judge_result import JudgeResult

FREE = (0.0, 0.0)


def trace(number: int, output: str = "It was placed.", spans: int = 1, **top: Any) -> dict[str, Any]:
    """One trace of pipeline p with spans of component c."""
    return {
        "trace_id": f"t{number}", "pipeline": "p", "ended_at": 1774166400.0 + number, **top,
        "spans": [
            {
                "span_id": f"s{i}", "component": "c", "input": f"Was order {number} placed? ({i})", "output": output,
                "model": "gpt", "ended_at": 1774166400.0 + number,
            }
            for i in range(spans)
        ],
    }  # fmt: skip


def scored_store(folder: Path, portfolio: Portfolio, traces: list[dict[str, Any]]) -> Path:
    """Replay traces into a store, where their requests wait."""
    source, store = folder / "traces.jsonl", folder / "store.duckdb"
    source.write_text("".join(json.dumps(t) + "\n" for t in traces), encoding="utf-8")
    replay([str(source)], [portfolio], store)
    return store


def settings(**changed: Any) -> JudgeSettings:
    """Settings for tests: short delays, every vendor the same."""
    provider = {
        "adapter": "http", "base_url": "http://127.0.0.1:9/v1", "first_delay_seconds": 0.001,
        "longest_delay_seconds": 0.01, "breaker_seconds": 0.02, "timeout_seconds": 5.0, **changed.pop("provider", {}),
    }  # fmt: skip
    return JudgeSettings.model_validate({"providers": {"*": provider}, **changed})


def judge(
    path: Path,
    portfolio: Portfolio,
    script: Script | ChatModel,
    price: tuple[float, float] | None = FREE,
    on_batch: Callable[[JudgeResult], None] | None = None,
    patience: float = 30.0,
    **changed: Any,
) -> JudgeResult:
    """Judge what waits in a store by a script."""
    model = script if not callable(script) else ScriptedModel(script)
    with Store.open(path) as store:
        return judge_store(
            store, [portfolio], ModelAccess(settings(**{"prices": priced(price), **changed}), lambda vendor: model),
            patience_seconds=patience, on_batch=on_batch,
        )  # fmt: skip


def priced(price: tuple[float, float] | None) -> dict[str, Any]:
    """Prices of the settings: US dollars per token, input and output, for every model; None: no price is known."""
    return {} if price is None else {"*": {"input": 1e6 * price[0], "output": 1e6 * price[1]}}


def says(score: object) -> Script:
    """A model that always gives this band."""
    return lambda call: verdict_reply(call, score)


def query(path: Path, sql: str) -> list[tuple[Any, ...]]:
    """Rows of a query on a store that is closed."""
    with Store.open(path) as store:
        return store.query(sql)


def imbalance_of(path: Path) -> int:
    """By how much the ledger of a closed store disagrees."""
    with Store.open(path) as store:
        return imbalance(store.cursor())


def open_ids(store: Store) -> list[str]:
    """Ids of the requests that wait in a store, in the order in which they were asked."""
    pages = OpenRequests(store.cursor)
    return [id_ for page in iter(pages.read, []) for id_, _, _ in page]


def states(path: Path, metric: str) -> dict[str, int]:
    """Ledger of one metric, without zeros."""
    rows = query(path, f"SELECT state, sum(n)::BIGINT FROM ledger WHERE metric = '{metric}' GROUP BY state")
    return {state: n for state, n in rows if n}
