"""Cost and throughput of judging, against a server of its own process that answers in 50 ms.

    python -m tests.benchmarks.judges [--items 5000] [--adapter http|litellm|anthropic|gemini|openrouter]...

litellm, anthropic, gemini, openrouter: litellm, each answered in the provider's dialect.
Prints, for each adapter, judged items a second of one process, and its CPU time an item: all of it (requests read,
prompt, client, verdict, rows, store), and, asked through the adapter alone, what the client takes of it.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import multiprocessing
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import orjson

from gapwatch.scorers.command_line import COLLECTED_AFTER
from gapwatch.scorers.judges.chat_model import ChatCall, ChatModel
from gapwatch.sinks.store.store import Store
from gapwatch.streams.judges.models.model_maker import ModelAccess, model_maker
from gapwatch.streams.judges.settings import JudgeSettings
from gapwatch.streams.judges.workers.judge_start import judge_store
from tests.scorers.judges.rubrics import judged_metric, portfolio_of
from tests.streams.judges.judged_store import scored_store, trace
from tests.streams.judges.model_server import HttpAnswer, ModelServer, verdict

ANSWER_SECONDS = 0.05
MODELS = {
    "http": "openai/gpt-4.1-mini",
    "litellm": "openai/gpt-4.1-mini",
    "anthropic": "anthropic/claude-sonnet-4-5",
    "gemini": "gemini/gemini-2.5-flash",
    "openrouter": "openrouter/openai/gpt-4.1-mini",
}
CONCURRENCY = 64


def _in_dialect(path: str, said: bytes) -> bytes:
    """Say a chat completion as the provider does that has this path."""
    if path.endswith("/chat/completions"):
        return said
    text = orjson.loads(said)["choices"][0]["message"]["content"]
    if path.endswith("/messages"):
        told: dict[str, Any] = {
            "id": "m-1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5-20250929",
            "content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "stop_sequence": None,
            "usage": {"input_tokens": 500, "output_tokens": 40},
        }  # fmt: skip
    else:
        told = {
            "candidates": [{"content": {"parts": [{"text": text}], "role": "model"}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 500, "candidatesTokenCount": 40, "totalTokenCount": 540},
            "modelVersion": "gemini-2.5-flash", "responseId": "r-1",
        }  # fmt: skip
    return orjson.dumps(told)


def _serve(pipe: Connection) -> None:
    def answer(body: dict[str, Any], headers: dict[str, str]) -> HttpAnswer:
        asked = {"messages": [{"role": "user", "content": orjson.dumps(body).decode()}]}  # for its number
        told = _in_dialect(headers[":path"], verdict(asked, "Good").body)
        return HttpAnswer(200, told, {"content-type": "application/json"}, ANSWER_SECONDS)

    async def serve() -> None:
        server = ModelServer(answer)
        await server.start()
        pipe.send(server.base_url)
        await asyncio.get_running_loop().run_in_executor(None, pipe.recv)

    asyncio.run(serve())


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def settings_for(adapter: str, base_url: str) -> JudgeSettings:
    """Settings of one provider, wide enough that only the machine is the limit."""
    os.environ["GAPWATCH_BENCHMARK_KEY"] = "sk-benchmark-0000000000"
    provider = {
        "adapter": "http" if adapter == "http" else "litellm",
        "base_url": base_url, "concurrency": CONCURRENCY, "key_env": "GAPWATCH_BENCHMARK_KEY",
    }  # fmt: skip
    return JudgeSettings.model_validate(
        {"providers": {"*": provider}, "prices": {"*": {"input": 1, "output": 4}}, "cache_entries": 0}
    )


def _maker(adapter: str, base_url: str) -> Callable[[str], ChatModel]:
    return model_maker(settings_for(adapter, base_url))


def judged(adapter: str, base_url: str, items: int) -> dict[str, float]:
    """Judge so many stored requests and return items a second and CPU milliseconds an item."""
    metric = judged_metric()
    metric["claim"]["judges"][0]["model"] = MODELS[adapter]
    portfolio = portfolio_of(metric)
    settings, make = settings_for(adapter, base_url), _maker(adapter, base_url)
    with tempfile.TemporaryDirectory() as folder:
        path = scored_store(Path(folder), portfolio, [trace(i, "It was placed. " * 20) for i in range(items)])
        asyncio.run(_ask(make("openai"), MODELS[adapter], 20, 4))  # whatever is loaded with the first call
        with Store.open(path) as store:
            began, cpu = time.perf_counter(), _cpu()
            result = judge_store(store, [portfolio], ModelAccess(settings, make))
            seconds, cpu = time.perf_counter() - began, _cpu() - cpu
        assert (result.closed, result.errors) == (items, {}), result
    return {"items_per_second": items / seconds, "cpu_ms_per_item": 1000 * cpu / items}


async def _ask(model: ChatModel, name: str, calls: int, at_once: int) -> None:
    call = ChatCall(name, (("system", "x" * 1500), ("user", "y" * 1500)), {"temperature": 0})
    gate = asyncio.Semaphore(at_once)

    async def one() -> None:
        async with gate:
            await model.ask(call)

    await asyncio.gather(*(one() for _ in range(calls)))
    await model.close()


def client_only(adapter: str, base_url: str, items: int) -> float:
    """Return the CPU milliseconds that the adapter alone takes for a call."""
    make = _maker(adapter, base_url)
    asyncio.run(_ask(make("openai"), MODELS[adapter], 50, 8))
    cpu = _cpu()
    asyncio.run(_ask(make("openai"), MODELS[adapter], items, CONCURRENCY))
    return 1000 * (_cpu() - cpu) / items


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--adapter", choices=[*MODELS], action="append")
    asked = parser.parse_args()
    gc.set_threshold(COLLECTED_AFTER)  # as the program does
    here, there = multiprocessing.get_context("spawn").Pipe()
    server = multiprocessing.get_context("spawn").Process(target=_serve, args=(there,), daemon=True)
    server.start()
    base_url = here.recv()
    try:
        for adapter in asked.adapter or MODELS:
            rounds = [judged(adapter, base_url, asked.items) for _ in range(asked.rounds)]
            told = {name: round(statistics.median(r[name] for r in rounds), 3) for name in rounds[0]}
            client = round(client_only(adapter, base_url, asked.items), 3)
            print(json.dumps({"adapter": adapter, **told, "cpu_ms_of_the_client_alone": client}), flush=True)
    finally:
        here.send("end")
        server.join(5)


if __name__ == "__main__":
    main()
