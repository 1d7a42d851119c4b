"""A local server of models and of what else the applications ask: chat, embeddings, searches, passages, tools of MCP.

It answers by the form of the request: an object for a schema, the calls of tools that the phase lists, else a text;
whole or as a stream; with usage. A phase says which fault the requests get that contain a text.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ANSWER = "Within thirty days, opened or not [returns.md]."
_PASSAGES = ["Customers may return goods within thirty days.", "Batteries are shipped by road."]


@dataclass
class Phase:
    """What the server does from `start` on.

    Attributes:
        name: Name; `healthy` has no fault.
        start: Seconds since the epoch.
        fault: error, limit, context, empty, cut, prose, bad_arguments, nothing_found or slow; empty for none.
        where: Text of the requests that get the fault; empty for all.
        times: Number of requests that get it; 0 for all.
        tools: Names and arguments of the tools that the model calls, in this order.
        values: Values of members of objects that are asked for by a schema.
        answer: Text of answers.
    """

    name: str = "start"
    start: float = 0.0
    fault: str = ""
    where: str = ""
    times: int = 0
    tools: list[list[Any]] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    answer: str = ANSWER


class ModelServer(ThreadingHTTPServer):
    """Server on a free port of this machine.

    Attributes:
        phases: All phases so far; the last one holds.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.phases = [Phase()]
        self._served = 0
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """Address without a path."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def begin(self, phase: dict[str, Any]) -> None:
        """Begin a phase."""
        with self._lock:
            self.phases.append(Phase(**phase, start=time.time()))
            self._served = 0

    def fault_of(self, body: str) -> str:
        """Return the fault that a request gets."""
        with self._lock:
            phase = self.phases[-1]
            if not phase.fault or phase.where not in body or (phase.times and self._served >= phase.times):
                return ""
            self._served += 1
            return phase.fault


class _Handler(BaseHTTPRequestHandler):
    server: ModelServer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode("utf-8", "replace")
        if self.path == "/phase":
            self.server.begin(json.loads(body))
            self._send({})
            return
        end = self.path.partition("?")[0].rpartition("/")[2]
        make = {
            "completions": _chat, "messages": _message, "responses": _response, "embeddings": _embeddings,
            "search": _search, "retrieve": _retrieve, "token": _token, "mcp": _mcp,
        }.get(end)  # fmt: skip
        if make is None:
            self._send({})
            return
        fault = self.server.fault_of(body)
        if fault in _STATUSES:
            status, code, words = _STATUSES[fault]
            self._send({"error": {"message": words, "type": code, "code": code}}, status)
            return
        if fault == "slow":
            time.sleep(1.5)
        asked = json.loads(body) if body.startswith(("{", "[")) else {}
        made = make(asked, fault, self.server.phases[-1])
        stream = {
            "completions": self._stream, "messages": self._stream_message, "responses": self._stream_response,
        }.get(end)  # fmt: skip
        if made is not None and asked.get("stream") and stream is not None:
            stream(asked, made)
        else:
            self._send(made, 202 if made is None else 200)

    def do_GET(self) -> None:
        self._send({}, 405 if self.path.endswith("/mcp") else 200)

    do_DELETE = do_GET  # noqa: N815  # the name is the base class's

    def _send(self, value: Any, status: int = 200) -> None:
        data = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, asked: dict[str, Any], whole: dict[str, Any]) -> None:
        """Send a reply in the chunks of OpenAI's API; usage comes last, and only where it was asked for."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        (choice,) = whole["choices"]
        message, head = choice["message"], {k: v for k, v in whole.items() if k not in ("choices", "usage")}
        head["object"] = "chat.completion.chunk"
        text = message.get("content") or ""
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": text[i : i + 20]} for i in range(0, len(text), 20)]
        deltas += [{"tool_calls": [call | {"index": i}]} for i, call in enumerate(message.get("tool_calls") or ())]
        for delta in deltas:
            self._event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        end = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
        self._event({**head, "choices": [end]})
        if (asked.get("stream_options") or {}).get("include_usage"):
            self._event({**head, "choices": [], "usage": whole["usage"]})
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def _stream_message(self, asked: dict[str, Any], whole: dict[str, Any]) -> None:
        """Send a reply in the events of Anthropic's API: input tokens come first, output tokens and the reason last."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        usage, text = whole["usage"], whole["content"][0]["text"]
        begun = {**whole, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
        ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        for event in (
            {"type": "message_start", "message": begun},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": ended, "usage": {"output_tokens": usage["output_tokens"]}},
            {"type": "message_stop"},
        ):
            self.wfile.write(f"event: {event['type']}\n".encode())
            self._event(event)
        self.close_connection = True

    def _stream_response(self, asked: dict[str, Any], whole: dict[str, Any]) -> None:
        """Send a reply in the events of OpenAI's API of responses: the whole response comes first and last."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        begun = {**whole, "output": [], "status": "in_progress", "usage": None}
        events: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
        for index, item in enumerate(whole["output"]):
            place = {"item_id": item["id"], "output_index": index}
            empty = {**item, "content": []} if item["type"] == "message" else {**item, "arguments": ""}
            events.append({"type": "response.output_item.added", "output_index": index, "item": empty})
            for part in item.get("content", ()):
                place |= {"content_index": 0}
                text = part["text"]
                events.append({"type": "response.content_part.added", "part": {**part, "text": ""}, **place})
                parts = [text[i : i + 20] for i in range(0, len(text), 20)]
                events += [{"type": "response.output_text.delta", "delta": p, "logprobs": [], **place} for p in parts]
                events.append({"type": "response.output_text.done", "text": text, "logprobs": [], **place})
            if item["type"] == "function_call":
                given = item["arguments"]
                events.append({"type": "response.function_call_arguments.delta", "delta": given, **place})
            events.append({"type": "response.output_item.done", "output_index": index, "item": item})
        events.append({"type": f"response.{whole['status']}", "response": whole})
        for number, event in enumerate(events):
            self.wfile.write(f"event: {event['type']}\n".encode())
            self._event({**event, "sequence_number": number})
        self.close_connection = True

    def _event(self, value: dict[str, Any]) -> None:
        self.wfile.write(b"data: " + json.dumps(value).encode() + b"\n\n")

    def log_message(self, *args: Any) -> None:
        """Stay silent."""


_STATUSES = {
    "error": (500, "server_error", "The server had an error."),
    "limit": (429, "rate_limit_exceeded", "Rate limit reached."),
    "context": (400, "context_length_exceeded", "This model's maximum context length is 128000 tokens."),
}


def _chat(asked: dict[str, Any], fault: str, phase: Phase) -> dict[str, Any]:
    if "prompt" in asked:  # the API before the one of chats
        choice = {"index": 0, "text": phase.answer, "finish_reason": "stop", "logprobs": None}
        usage = {"prompt_tokens": 120, "completion_tokens": 30, "total_tokens": 150}
        head = {"id": "cmpl", "object": "text_completion", "created": 1, "model": asked["model"]}
        return {**head, "choices": [choice], "usage": usage}
    message: dict[str, Any] = {"role": "assistant", "content": phase.answer}
    wanted = asked.get("response_format") or {}
    call = _next_tool(asked, phase)
    if "json_schema" in wanted:
        schema = wanted["json_schema"]["schema"]
        message["content"] = json.dumps(_sample(schema, schema, phase.values))
    elif "classify" in json.dumps(asked["messages"][-1]).lower():
        message["content"] = '{"violation": 0, "category": null, "rationale": "a question"}'
    elif call is not None:
        name, arguments = call
        text = json.dumps(arguments)
        message |= {
            "content": None,
            "tool_calls": [
                {
                    "id": f"call_{time.time_ns()}",
                    "type": "function",
                    "function": {"name": name, "arguments": text[:-2] if fault == "bad_arguments" else text},
                }
            ],
        }
    if fault == "prose":
        message = {"role": "assistant", "content": "Let me think about it."}
    elif fault in ("empty", "cut"):
        text = message["content"] or ""
        message = {"role": "assistant", "content": text[: len(text) // 2] if fault == "cut" else ""}
    reason = "length" if fault == "cut" else "tool_calls" if "tool_calls" in message else "stop"
    return {
        "id": f"chatcmpl-{time.time_ns()}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": asked["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {
            "prompt_tokens": 120,
            "completion_tokens": 30,
            "total_tokens": 150,
            # OpenRouter says the price where it is asked for it.
            **({"cost": 0.0004} if "usage" in asked else {}),
        },
    }


def _message(asked: dict[str, Any], fault: str, phase: Phase) -> dict[str, Any]:
    """Answer as Anthropic's API does, without tools."""
    (choice,) = _chat({"model": asked["model"], "messages": asked["messages"]}, fault, phase)["choices"]
    return {
        "id": f"msg_{time.time_ns()}", "type": "message", "role": "assistant", "model": asked["model"],
        "content": [{"type": "text", "text": choice["message"]["content"]}],
        "stop_reason": "max_tokens" if choice["finish_reason"] == "length" else "end_turn", "stop_sequence": None,
        "usage": {"input_tokens": 120, "output_tokens": 30},
    }  # fmt: skip


def _response(asked: dict[str, Any], fault: str, phase: Phase) -> dict[str, Any]:
    """Answer as OpenAI's API of responses does, by what the API of chats answers."""
    tools = [{"function": t} for t in asked.get("tools") or ()]
    items = asked["input"] if isinstance(asked["input"], list) else [{"content": asked["input"]}]
    called = [{"tool_calls": [{"function": i}]} for i in items if i.get("type") == "function_call"]
    made = _chat({"model": asked["model"], "tools": tools, "messages": [*called, {"content": "work"}]}, fault, phase)
    (choice,) = made["choices"]
    output: list[dict[str, Any]] = [
        {"type": "function_call", "id": f"fc{i}", "call_id": c["id"], "status": "completed", **c["function"]}
        for i, c in enumerate(choice["message"].get("tool_calls") or ())
    ] or [
        {
            "type": "message", "id": "m", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": choice["message"]["content"], "annotations": []}],
        }
    ]  # fmt: skip
    is_cut = choice["finish_reason"] == "length"
    return {
        "id": f"resp_{time.time_ns()}", "object": "response", "created_at": 1, "model": asked["model"],
        "output": output, "status": "incomplete" if is_cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
        "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "temperature": 1.0, "top_p": 1.0,
        "error": None, "instructions": None, "metadata": {},
        "usage": {
            "input_tokens": 120, "output_tokens": 30, "total_tokens": 150,
            "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0},
        },
    }  # fmt: skip


def _next_tool(asked: dict[str, Any], phase: Phase) -> tuple[str, Any] | None:
    """Return the first listed call of an offered tool that the conversation does not hold yet."""
    offered = {t["function"]["name"]: t["function"] for t in asked.get("tools") or () if "function" in t}
    choice = asked.get("tool_choice")
    if isinstance(choice, dict) or (choice in ("required", "any") and len(offered) == 1):
        name = choice["function"]["name"] if isinstance(choice, dict) else next(iter(offered))
        schema = offered[name]["parameters"]
        return name, _sample(schema, schema, phase.values)
    called: dict[str, int] = {}
    for message in asked["messages"]:
        for made in message.get("tool_calls") or ():
            called[made["function"]["name"]] = called.get(made["function"]["name"], 0) + 1
    for name, arguments in phase.tools:
        if name in offered:
            if not called.get(name, 0):
                return name, arguments
            called[name] -= 1
    return None


def _sample(schema: dict[str, Any], root: dict[str, Any], values: dict[str, Any]) -> Any:
    """Return a value of a JSON schema."""
    if "$ref" in schema:
        schema = root[schema["$ref"].split("/")[1]][schema["$ref"].split("/")[2]]
    if "enum" in schema:
        return schema["enum"][0]
    if "anyOf" in schema:
        return _sample(schema["anyOf"][0], root, values)
    kind = schema.get("type")
    if kind == "object" or "properties" in schema:
        members = schema.get("properties", {})
        return {n: values[n] if n in values else _sample(s, root, values) for n, s in members.items()}
    if kind == "array":
        return [_sample(schema.get("items", {}), root, values)]
    return {"boolean": False, "integer": 1, "number": 1.0, "null": None}.get(str(kind), ANSWER)


def _embeddings(asked: dict[str, Any], fault: str, phase: Phase) -> dict[str, Any]:
    texts = asked["input"] if isinstance(asked["input"], list) else [asked["input"]]
    data = [{"object": "embedding", "index": i, "embedding": [0.1] * 8} for i in range(len(texts))]
    return {"object": "list", "data": data, "model": asked["model"], "usage": {"prompt_tokens": 8, "total_tokens": 8}}


def _search(asked: dict[str, Any], fault: str, phase: Phase) -> dict[str, Any]:
    found = [] if fault == "nothing_found" else _PASSAGES
    results = [
        {"url": f"http://shop/{i}", "title": f"Page {i}", "content": text, "raw_content": text * 20, "score": 0.9}
        for i, text in enumerate(found)
    ]
    return {"query": asked["query"], "results": results, "images": [], "response_time": 0.1}


def _retrieve(asked: dict[str, Any], fault: str, phase: Phase) -> dict[str, Any]:
    found = [] if fault == "nothing_found" else _PASSAGES
    return {
        "retrievalResults": [
            {"content": {"text": text, "type": "TEXT"}, "score": 0.9, "location": {"type": "S3"}} for text in found
        ]
    }


def _token(asked: dict[str, Any], fault: str, phase: Phase) -> dict[str, Any]:
    return {"access_token": "t", "expires_in": 3600, "token_type": "Bearer"}


def _mcp(asked: dict[str, Any], fault: str, phase: Phase) -> dict[str, Any] | None:
    """Answer a request of the Model Context Protocol; None for a notification."""
    method = asked["method"]
    if "id" not in asked:
        return None
    head = {"jsonrpc": "2.0", "id": asked["id"]}
    if fault == "bad_arguments" and method == "tools/call":
        return {**head, "error": {"code": -32602, "message": "bad arguments"}}
    result: dict[str, Any] = {
        "initialize": {
            "protocolVersion": asked.get("params", {}).get("protocolVersion", "2025-03-26"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "shop", "version": "1"},
        },
        "tools/list": {
            "tools": [
                {
                    "name": "stock",
                    "description": "Number of pieces of a good.",
                    "inputSchema": {"type": "object", "properties": {"good": {"type": "string"}}},
                }
            ]
        },
        "tools/call": {"content": [{"type": "text", "text": "12"}], "isError": False},
    }.get(method, {})
    return {**head, "result": result}


@contextmanager
def model_server() -> Iterator[ModelServer]:
    """Serve until the block ends."""
    with ModelServer() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
