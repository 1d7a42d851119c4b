"""The batch interfaces of OpenAI and Anthropic on this machine, as their public documentation describes them.

Source: https://platform.openai.com/docs/api-reference/batch, https://platform.claude.com/docs/en/api/messages/batches
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from aiohttp import web

from tests.streams.judges.model_server import nonce_in

MODEL = "small-2026-01-01"
#: Billed for each answer: input and output tokens.
USAGE = (1_000, 100)

Answering = Callable[[str, dict[str, Any], int], dict[str, Any] | None]


def verdict_text(body: dict[str, Any], score: object = "Good") -> str:
    return json.dumps({"call": nonce_in(body), "justification": "The data shows it.", "score": score})


class BatchServer:
    """Takes batches and ends them after some questions.

    Args:
        answer: By the number of a batch and the request, the text of an answer; `expired`, `errored`, `refused`, or
            None for no result at all.
        polls: Questions after which a batch ends.
        at: Called with each step: `upload`, `uploaded`, `create`, `created`, `poll`, `download`, `downloaded`.

    Attributes:
        batches: Requests by batch, in order.
        answered: Answers that were billed.
        steps: How often each step was reached.
    """

    def __init__(self, answer: Callable[[int, dict[str, Any]], str | None], polls: int = 1) -> None:
        self.answer, self.polls = answer, polls
        self.at: Callable[[str], None] = lambda step: None
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.answered = 0
        self.steps: Counter[str] = Counter()
        self.keys: set[str] = set()

    def _step(self, name: str) -> None:
        self.steps[name] += 1
        self.at(name)

    def app(self) -> web.Application:
        """The routes of both interfaces."""
        app = web.Application(client_max_size=50_000_000)
        app.add_routes(
            [
                web.post("/v1/files", self.upload), web.get("/v1/files/{id}/content", self.content),
                web.post("/v1/batches", self.create), web.get("/v1/batches", self.list),
                web.get("/v1/batches/{id}", self.poll), web.post("/v1/messages/batches", self.create_messages),
                web.get("/v1/messages/batches", self.list_messages),
                web.get("/v1/messages/batches/{id}", self.poll_messages),
                web.get("/v1/messages/batches/{id}/results", self.results),
            ]
        )  # fmt: skip
        return app

    # --- OpenAI

    async def upload(self, request: web.Request) -> web.StreamResponse:
        self._step("upload")
        form = await request.post()
        assert form["purpose"] == "batch"
        id_ = f"file-{len(self.files)}"
        self.files[id_] = form["file"].file.read()  # type: ignore[union-attr]
        self._step("uploaded")
        return web.json_response({"id": id_, "object": "file", "purpose": "batch"})

    async def create(self, request: web.Request) -> web.StreamResponse:
        self._step("create")
        body = await request.json()
        assert body["endpoint"] == "/v1/chat/completions" and body["completion_window"] == "24h"
        id_ = f"batch_{len(self.batches)}"
        lines = [json.loads(line) for line in self.files[body["input_file_id"]].splitlines()]
        assert all(line["method"] == "POST" and line["url"] == body["endpoint"] for line in lines)
        asked = [(line["custom_id"], line["body"]) for line in lines]
        self.batches[id_] = {
            "id": id_, "object": "batch", "status": "in_progress", "metadata": body["metadata"], "asked": asked,
            "polls": 0, **self._ends(len(self.batches), asked),
        }  # fmt: skip
        self._step("created")
        return web.json_response(self._shown(self.batches[id_]))

    def _ends(self, number: int, asked: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
        good, bad = [], []
        for custom_id, body in asked:
            text = self.answer(number, body)
            if text is None:
                continue
            if text == "expired":
                bad.append(
                    {"custom_id": custom_id, "response": None, "error": {"code": "batch_expired", "message": "-"}}
                )
            elif text in ("errored", "refused"):
                status = 500 if text == "errored" else 400
                said = {
                    "error": {"message": "no", "type": "server_error" if status == 500 else "invalid_request_error"}
                }
                bad.append({"custom_id": custom_id, "response": {"status_code": status, "body": said}, "error": None})
            else:
                self.answered += 1
                completion = {
                    "model": MODEL, "usage": {"prompt_tokens": USAGE[0], "completion_tokens": USAGE[1]},
                    "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
                }  # fmt: skip
                good.append(
                    {"custom_id": custom_id, "response": {"status_code": 200, "body": completion}, "error": None}
                )
        ended: dict[str, Any] = {"last": "expired" if any(line["error"] for line in bad) else "completed"}
        for name, lines in (("output_file_id", good), ("error_file_id", bad)):
            ended[name] = None
            if lines:
                ended[name] = f"file-{name}-{number}"
                # Not in the order of the requests.
                self.files[ended[name]] = b"".join(json.dumps(line).encode() + b"\n" for line in reversed(lines))
        return ended

    def _shown(self, batch: dict[str, Any]) -> dict[str, Any]:
        hidden = ("asked", "polls", "last")
        is_over = batch["status"] != "in_progress"
        return {k: v if is_over or not k.endswith("file_id") else None for k, v in batch.items() if k not in hidden}

    async def list(self, request: web.Request) -> web.StreamResponse:
        self._step("list")
        return web.json_response({"data": [self._shown(b) for b in self.batches.values()], "has_more": False})

    async def poll(self, request: web.Request) -> web.StreamResponse:
        self._step("poll")
        batch = self.batches[request.match_info["id"]]
        batch["polls"] += 1
        if batch["polls"] > self.polls:
            batch["status"] = batch["last"]
        return web.json_response(self._shown(batch))

    async def content(self, request: web.Request) -> web.StreamResponse:
        return await self._download(request, self.files[request.match_info["id"]])

    async def _download(self, request: web.Request, content: bytes) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-length": str(len(content))})
        await response.prepare(request)
        await response.write(content[: len(content) // 2])
        self._step("download")
        await response.write(content[len(content) // 2 :])
        self._step("downloaded")
        return response

    # --- Anthropic

    async def create_messages(self, request: web.Request) -> web.StreamResponse:
        assert request.headers["anthropic-version"] == "2023-06-01"
        self._step("create")
        body = await request.json()
        id_ = f"msgbatch_{len(self.batches)}"
        lines = []
        for one in body["requests"]:
            params = one["params"]
            assert (
                params["max_tokens"] > 0 and all(m["role"] != "system" for m in params["messages"]) and params["system"]
            )
            text = self.answer(len(self.batches), params)
            if text is None:
                continue
            if text in ("expired", "errored", "refused"):
                kind = "invalid_request_error" if text == "refused" else "api_error"
                error = {"type": "error", "error": {"type": kind, "message": "no"}}
                result = {"type": "expired"} if text == "expired" else {"type": "errored", "error": error}
            else:
                self.answered += 1
                message = {
                    "model": MODEL, "content": [{"type": "text", "text": text}], "stop_reason": "end_turn",
                    "usage": {"input_tokens": USAGE[0], "output_tokens": USAGE[1]},
                }  # fmt: skip
                result = {"type": "succeeded", "message": message}
            lines.append({"custom_id": one["custom_id"], "result": result})
        content = b"".join(json.dumps(line).encode() + b"\n" for line in reversed(lines))
        self.batches[id_] = {
            "id": id_, "processing_status": "in_progress", "polls": 0, "content": content, "n": len(body["requests"]),
            "asked": [(one["custom_id"], one["params"]) for one in body["requests"]],
        }  # fmt: skip
        self._step("created")
        return web.json_response(self._message_batch(self.batches[id_]))

    def _message_batch(self, batch: dict[str, Any]) -> dict[str, Any]:
        counts = {"processing": batch["n"], "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0}
        return {"id": batch["id"], "processing_status": batch["processing_status"], "request_counts": counts}

    async def list_messages(self, request: web.Request) -> web.StreamResponse:
        self._step("list")
        for batch in self.batches.values():
            self._pass(batch)
        return web.json_response({"data": [self._message_batch(b) for b in self.batches.values()], "has_more": False})

    def _pass(self, batch: dict[str, Any]) -> None:
        batch["polls"] += 1
        if batch["polls"] > self.polls:
            batch["processing_status"] = "ended"

    async def poll_messages(self, request: web.Request) -> web.StreamResponse:
        self._step("poll")
        batch = self.batches[request.match_info["id"]]
        self._pass(batch)
        return web.json_response(self._message_batch(batch))

    async def results(self, request: web.Request) -> web.StreamResponse:
        return await self._download(request, self.batches[request.match_info["id"]]["content"])


@contextlib.contextmanager
def served_batches(server: BatchServer) -> Iterator[str]:
    """Serve on a thread; yields the address."""
    loop = asyncio.new_event_loop()
    started: list[tuple[web.AppRunner, str]] = []

    async def start() -> None:
        runner = web.AppRunner(server.app(), shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        started.append((runner, f"http://127.0.0.1:{runner.addresses[0][1]}/v1"))

    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(start(), loop).result(10)
    runner, url = started[0]
    try:
        yield url
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
