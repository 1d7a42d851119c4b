"""A request that does not fit into the window of its model is cut before it is sent, or ends with a named reason."""

from __future__ import annotations

import gzip
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapwatch.scorers.judges.prompt import request_bytes
from gapwatch.sinks.reading.verdict_archive import VerdictArchive
from gapwatch.sinks.store.store import Store
from gapwatch.streams.judges.audit.rebuilding import Rebuilder
from gapwatch.streams.judges.calls import tokens
from gapwatch.streams.judges.calls.tokens import count_tokens
from gapwatch.streams.judges.models.model_maker import model_access
from gapwatch.streams.judges.settings import JudgeSettings
from gapwatch.streams.judges.workers.judge_start import judge_store
from tests.paths import ROOT
from tests.scorers.judges.rubrics import judged_metric, portfolio_of
from tests.streams.judges.judged_store import imbalance_of, query, scored_store, states, trace
from tests.streams.judges.model_server import HttpAnswer, served, verdict

RECORDED = json.loads(gzip.decompress((ROOT / "tests/data/judges/tau2_prompt.json.gz").read_bytes()))
WINDOW, OUTPUT = 4_000, 300
#: As the metric of a rubric writes them: a conversation of a trace, and one that a span was sent.
OF_TRACE = {"inputs": ["trace.transcript"]}
OF_SPAN = {"inputs": ["input", "output"], "transcript": {"characters": 100_000}}


def conversation(turns: int, characters: int = 300) -> list[dict[str, str]]:
    words = "The order left the house on Monday and it is on its way to you. "
    return [
        {"role": ("user", "assistant")[i % 2], "content": f"Turn {i}. " + (words * 1_000)[:characters]}
        for i in range(turns)
    ]


def judged(
    folder: Path, rubric: dict[str, Any], spans: list[dict[str, Any]], **changed: Any
) -> tuple[Path, list[bytes]]:
    """Judge one trace by a server with a window, which fails what is too long; return the store and what was sent."""
    metric = judged_metric(**rubric)
    if "trace.transcript" in rubric["inputs"]:
        metric = {k: v for k, v in metric.items() if k != "component"} | {"scope": "trace"}
    metric["claim"]["judges"] = [{"model": "small/judge"}]
    portfolio = portfolio_of(metric)
    record = trace(1) | {
        "spans": [{"span_id": f"s{i}", "component": "c", "kind": "llm"} | s for i, s in enumerate(spans)]
    }
    store = scored_store(folder, portfolio, [record])
    sent: list[bytes] = []

    def answer(body: dict[str, Any], headers: dict[str, str]) -> HttpAnswer:
        given = sum(count_tokens(message["content"], "openai/x") for message in body["messages"])
        if given + body["max_tokens"] > changed.get("context_tokens", {}).get("small/judge", WINDOW):
            return HttpAnswer(400, b'{"error": {"code": "context_length_exceeded", "message": "too long"}}')
        sent.append(json.dumps(body, sort_keys=True).encode())
        return verdict(body)

    with served(answer) as server:
        written = {
            "providers": {"*": {"adapter": "http", "base_url": server.base_url}}, "max_output_tokens": OUTPUT,
            "context_tokens": {"small/judge": WINDOW}, **changed,
        }  # fmt: skip
        access = JudgeSettings.model_validate(written)
        with Store.open(store) as opened:
            judge_store(opened, [portfolio], model_access(access))
    return store, sent


@pytest.mark.parametrize("of", ["trace", "span", "text"])
def test_a_long_request_is_cut_and_rebuilt_in_every_byte(tmp_path: Path, of: str) -> None:
    spans: list[dict[str, Any]] = [{"input": conversation(120), "output": "It arrived."}]
    if of == "text":
        spans[0]["input"] = "It is on its way. " * 5_000
    rubric = OF_TRACE if of == "trace" else OF_SPAN
    store, (sent,) = judged(tmp_path, rubric, spans)
    shown = json.loads(sent)["messages"][1]["content"]

    assert states(store, "faithful") == {"pass": 1}
    assert imbalance_of(store) == 0
    assert "It arrived." in shown and "left out ...]" in shown
    assert of == "text" or ("Turn 0. " in shown and "Turn 119. " in shown)
    assert of == "text" or " turns with " in shown
    with Store.open(store) as opened:
        archive = VerdictArchive(opened.cursor())
        place = "traces.jsonl/0/0/" + ("-1" if of == "trace" else "0") + "/faithful"
        row = archive.verdict(place)
        rebuilt = Rebuilder(archive).rebuild(row)
    assert row.evidence["request"]["characters"] > 1_000
    assert json.dumps(json.loads(request_bytes(rebuilt.call)), sort_keys=True).encode() == sent


def test_a_request_that_fits_is_not_cut(tmp_path: Path) -> None:
    store, (sent,) = judged(tmp_path, OF_TRACE, [{"input": conversation(9, 100), "output": "It arrived."}])

    assert "left out" not in json.loads(sent)["messages"][1]["content"].split("<<<DATA", 1)[1]
    (row,) = query(store, "SELECT row_evidence->>'$.request.characters' FROM verdicts")
    assert row == (None,)


def test_a_criterion_that_fills_the_window_ends_with_its_reason(tmp_path: Path) -> None:
    rubric = OF_TRACE | {"criterion": "Is it right? " * 1_400}
    store, sent = judged(tmp_path, rubric, [{"input": conversation(20), "output": "It arrived."}])

    assert sent == []
    assert states(store, "faithful") == {"error": 1}
    (why,) = query(store, "SELECT reason FROM verdicts")
    assert why[0].startswith("over_window: the request has about ")
    assert "small/judge takes 3,000 of 4,000" in why[0]


def test_without_a_tokenizer_bytes_are_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_tokenizer", lambda: None)
    rubric = OF_TRACE | {"steps": ["Read."]}
    store, sent = judged(
        tmp_path, rubric, [{"input": conversation(60), "output": "It arrived."}], context_tokens={"small/judge": 9_000}
    )

    assert states(store, "faithful") == {"pass": 1}
    assert sum(len(message["content"]) for message in json.loads(sent[0])["messages"]) < 9_000


def test_a_recorded_prompt_has_no_more_tokens_than_are_counted() -> None:
    model = RECORDED["judge_model"]
    counted = count_tokens(RECORDED["judge_prompt"], model) + count_tokens(RECORDED["judge_system_prompt"], model)

    assert RECORDED["judge_prompt_tokens"] <= counted <= 1.1 * RECORDED["judge_prompt_tokens"]


@settings(max_examples=30)
@given(st.text(max_size=3_000))
def test_tokens_are_counted_as_tiktoken_counts_them(text: str) -> None:
    plain = tokens._tokenizer()
    assert plain is not None
    assert plain(text) <= len(text.encode("utf-8", "replace"))
    assert (
        count_tokens(text, "openai/x")
        == int(sum(plain(text[i : i + 2_000]) for i in range(0, len(text), 2_000)) * 1.05) + 1
    )


def test_the_tokenizer_is_that_of_tiktoken(monkeypatch: pytest.MonkeyPatch) -> None:
    import tiktoken

    found = find_spec("litellm")
    assert found is not None and found.origin is not None
    folder = Path(found.origin).parent / "litellm_core_utils" / "tokenizers"
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(folder))
    theirs, ours = tiktoken.get_encoding("cl100k_base"), tokens._tokenizer()
    assert ours is not None
    for text in (RECORDED["judge_prompt"], "Grüße\r\n  мир 世界\t\t12345 don't I'LL\n\n \n x", "a" * 500):
        assert ours(text) == len(theirs.encode_ordinary(text))
