"""Verdicts that real judges gave, served again over HTTP: by each its own words, and its own failures."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from gapwatch.scorers.loading.load import parse_portfolio
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.store.overrides import Override
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.verdicts.agreement import Agreement, agreements
from gapwatch.streams.batch.replay import replay
from gapwatch.streams.judges.models.model_maker import model_access
from gapwatch.streams.judges.settings import JudgeSettings
from gapwatch.streams.judges.workers.judge_start import judge_store
from gapwatch.streams.pipeline.judge_result import JudgeResult
from tests.streams.judges.judged_store import priced
from tests.streams.judges.model_server import HttpAnswer, nonce_in, served

#: Words in which judges that were given no scale said pass or fail, as far as they leave no doubt.
TRUTHS = {True: "pass", False: "fail"}


@dataclass(frozen=True)
class Recorded:
    """What one judge said of one item.

    Attributes:
        item: Id of what was judged.
        judge: Its name; a slash is no part of it.
        said: In its words; None where the call failed.
        why: Its justification.
        truth: Whether the item is good, as a program or a person checked; None where nobody did.
        text: What was judged.
    """

    item: str
    judge: str
    said: str | None
    why: str
    truth: bool | None = None
    text: str = ""


def read_sample(path: Path) -> list[Recorded]:
    """Read the bundled sample."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [Recorded(**json.loads(line)) for line in lines]


def portfolio_for(
    recorded: Iterable[Recorded], scale: list[Any], template: str = "rubric", rate: float = 1.0
) -> Portfolio:
    """A portfolio whose one metric has every judge that is recorded, and asks about this share of the traces."""
    judges = [{"name": name, "model": f"recorded/{name}"} for name in sorted({one.judge for one in recorded})]
    rubric = {"criterion": "as recorded", "inputs": ["input", "output"], "scale": scale, "template": template}
    metric = {
        "name": "recorded", "component": "c", "claim": {"form": "judge", "rubric": rubric, "judges": judges},
        "sample": {"rate": rate},
    }  # fmt: skip
    written = {
        "gapwatch": 1, "portfolio": "recorded", "version": 1, "pipeline": "p", "edges": [], "metrics": [metric],
        "components": [{"id": "c", "role": "ai_core", "kind": "llm"}],
    }  # fmt: skip
    return parse_portfolio(yaml.dump(written, sort_keys=False, Dumper=yaml.CSafeDumper))


def judge_recorded(
    folder: Path, recorded: list[Recorded], scale: list[Any], template: str = "rubric", rate: float = 1.0
) -> tuple[Path, JudgeResult]:
    """Replay the items, ask the recorded judges about them, and let the truth override what they said."""
    portfolio = portfolio_for(recorded, scale, template, rate)
    said = {(one.judge, one.item): one for one in recorded}
    items = {one.item: one for one in recorded}
    source, path = folder / "traces.jsonl", folder / "store.duckdb"
    source.write_text("".join(json.dumps(_trace(i, one)) + "\n" for i, one in enumerate(items.values())))
    replay([str(source)], [portfolio], path)

    def answer(body: dict[str, Any], headers: dict[str, str]) -> HttpAnswer:
        text = body["messages"][1]["content"]
        item = text.split("item: ", 1)[1].split("\n", 1)[0]
        one = said.get((body["model"], item))
        if one is None or one.said is None:
            return HttpAnswer(400, json.dumps({"error": {"message": "the recorded call failed"}}).encode())
        document = {"call": nonce_in(body), "justification": one.why or "-", "score": one.said}
        reply = {
            "model": f"{body['model']}-2024-11-20", "usage": {"prompt_tokens": len(text) // 4, "completion_tokens": 60},
            "choices": [{"message": {"content": json.dumps(document)}, "finish_reason": "stop"}],
        }  # fmt: skip
        return HttpAnswer(200, json.dumps(reply).encode())

    with served(answer) as server:
        provider = {"adapter": "http", "base_url": server.base_url, "first_delay_seconds": 0.001}
        settings = JudgeSettings.model_validate({"providers": {"*": provider}, "prices": priced((2.5e-6, 1e-5))})
        with Store.open(path) as store:
            result = judge_store(store, [portfolio], model_access(settings))
            _override(store, list(items.values()))
    return path, result


def _trace(number: int, one: Recorded) -> dict[str, Any]:
    span = {"span_id": "s", "component": "c", "input": f"item: {one.item}\n", "output": one.text or one.item}
    return {"trace_id": f"t{number}", "pipeline": "p", "ended_at": 1774166400.0 + number / 10, "spans": [span]}


def _override(store: Store, items: list[Recorded]) -> None:
    rows = store.query("SELECT source_offset, judge FROM gaps WHERE judge IS NOT NULL ORDER BY ALL")
    for offset, judge in rows:
        truth = items[offset].truth
        if truth is not None:
            place = f"traces.jsonl/0/{offset}/0/recorded/{judge}"
            Override(place, TRUTHS[truth], "as checked", by="checked").apply(store, datetime.now(UTC))


def agreements_in(path: Path) -> Iterator[Agreement]:
    """Who agrees with whom in a closed store."""
    with Store.open(path) as store:
        yield from agreements(store.cursor())
