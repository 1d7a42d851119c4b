"""An HTTP server on this machine that answers as it is told: replies, errors, silence, cut connections."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from gapwatch.scorers.judges.chat_model import ChatCall
from gapwatch.scorers.judges.scripted_model import nonce_of


@dataclass(frozen=True)
class HttpAnswer:
    """One response.

    Attributes:
        status, headers, body: As sent.
        seconds: Waited before it is sent.
        sent: Bytes of the body that are sent before the connection is cut; None: all of them.
        length: Length that the header gives; None: the true one.
        drip_seconds: Waited before each tenth of the body.
    """

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    sent: int | None = None
    length: int | None = None
    drip_seconds: float = 0.0


Answering = Callable[[dict[str, Any], dict[str, str]], HttpAnswer]


def completion(text: str, **changed: Any) -> HttpAnswer:
    """A chat completion with this text."""
    document = {
        "id": "c-1", "object": "chat.completion", "model": "small-2026-01-01",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 500, "completion_tokens": 40, "total_tokens": 540}, **changed,
    }  # fmt: skip
    return HttpAnswer(body=orjson.dumps(document))


def nonce_in(body: dict[str, Any]) -> str:
    """The number that the fences of a request carry."""
    return nonce_of(ChatCall("m", tuple((m["role"], m["content"]) for m in body["messages"])))


def verdict(body: dict[str, Any], score: object = "Good", **changed: Any) -> HttpAnswer:
    """A well-formed verdict on a request."""
    document = {"call": nonce_in(body), "justification": "The data shows it.", "score": score}
    return completion(orjson.dumps(document).decode(), **changed)


class ModelServer:
    """Answers each request by a function of its body and headers, and counts what it was asked."""

    def __init__(self, answer: Answering) -> None:
        self.answer = answer
        self.requests: list[dict[str, Any]] = []
        self.open_now = 0
        self.most_open = 0
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    @property
    def base_url(self) -> str:
        """Where it listens."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port, backlog=1024)

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            while await self._serve_one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._serving.discard(task)
            writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        headers[":path"] = head[0].split(" ")[1]
        body = orjson.loads(await reader.readexactly(int(headers["content-length"])))
        self.requests.append(body)
        self.open_now += 1
        self.most_open = max(self.most_open, self.open_now)
        try:
            answer = self.answer(body, headers)
            if answer.seconds:
                await asyncio.sleep(answer.seconds)
        finally:
            self.open_now -= 1
        lines = [
            f"HTTP/1.1 {answer.status} X",
            f"content-length: {len(answer.body) if answer.length is None else answer.length}",
        ]
        lines += [f"{name}: {value}" for name, value in answer.headers.items()]
        body_sent = answer.body if answer.sent is None else answer.body[: answer.sent]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
        step = len(body_sent) // 10 + 1 if answer.drip_seconds else len(body_sent) or 1
        for start in range(0, len(body_sent), step):
            await asyncio.sleep(answer.drip_seconds)
            writer.write(body_sent[start : start + step])
            await writer.drain()
        await writer.drain()
        return answer.sent is None and answer.length is None


@contextlib.asynccontextmanager
async def serving(answer: Answering) -> AsyncIterator[ModelServer]:
    """A server for the duration of a block."""
    server = ModelServer(answer)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


class ServerThread:
    """A server on a thread of its own, for tests whose judges are other processes."""

    def __init__(self, answer: Answering, port: int = 0) -> None:
        self.server = ModelServer(answer)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.server.start(port), self._loop).result(10)
        self.base_url = self.server.base_url

    def close(self) -> None:
        """Cut every connection and end the thread."""
        asyncio.run_coroutine_threadsafe(self.server.stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


@contextlib.contextmanager
def served(answer: Answering, port: int = 0) -> Iterator[ServerThread]:
    """A server on a thread for the duration of a block."""
    server = ServerThread(answer, port)
    try:
        yield server
    finally:
        server.close()


def free_port() -> int:
    """A port on which nothing listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
