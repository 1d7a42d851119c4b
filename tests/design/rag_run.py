"""Runs the question-answering service under the spans of its design, against a server with planted faults."""

from __future__ import annotations

import functools
import importlib
import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from gapwatch.design.metrics.spans import IntegrationPoint
from tests.paths import ROOT

APP = ROOT / "tests/design/rag_app"
GOOD = json.dumps({"answer": "Within thirty days.", "citations": ["returns.md"]})


class FakeModelServer(ThreadingHTTPServer):
    """An OpenAI-compatible endpoint; `faults` says what the next requests get."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.faults: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: FakeModelServer

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        fault = self.server.faults.pop(0) if self.server.faults else ""
        if fault == "down":
            self.send_error(503)
            return
        content = {"prose": "Within thirty days, I think.", "no_citations": '{"answer": "Within thirty days."}'}.get(
            fault, GOOD
        )
        if fault == "cut":
            content = GOOD[:-1]
        body = {
            "model": asked["model"],
            "choices": [{"message": {"content": content}, "finish_reason": "length" if fault == "cut" else "stop"}],
            "usage": {"input_tokens": 100, "output_tokens": 20, "cost_usd": 0.0004},
        }
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: Any) -> None:
        """Stay silent."""


@contextmanager
def model_server() -> Iterator[FakeModelServer]:
    with FakeModelServer() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


class Recorder:
    """Collects the spans of the request that is running."""

    def __init__(self) -> None:
        self.spans: list[dict[str, Any]] = []
        self._number = 0

    def envelope(self, pipeline: str) -> dict[str, Any]:
        self._number += 1
        spans, self.spans = self.spans, []
        return {
            "trace_id": f"t{self._number}",
            "pipeline": pipeline,
            "started_at": min((s["started_at"] for s in spans), default=time.time()),
            "ended_at": max((s["ended_at"] for s in spans), default=time.time()),
            "spans": spans,
        }


@contextmanager
def instrumented(points: list[IntegrationPoint], recorder: Recorder) -> Iterator[Any]:
    """Import the service and put a span around each function that the design names, exactly as it names it."""
    sys.path.insert(0, str(APP.parent))
    undo: list[tuple[Any, str, Any]] = []
    try:
        telemetry = importlib.import_module("rag_app.telemetry")
        for point in points:
            holder, name = _holder(point.symbol)
            original = getattr(holder, name)
            undo.append((holder, name, original))
            setattr(holder, name, _watched(original, point, recorder, telemetry))
        yield importlib.import_module("rag_app.service")
    finally:
        for holder, name, original in reversed(undo):
            setattr(holder, name, original)
        sys.path.remove(str(APP.parent))
        for module in [m for m in sys.modules if m == "rag_app" or m.startswith("rag_app.")]:
            del sys.modules[module]


def _holder(symbol: str) -> tuple[Any, str]:
    module, *path, name = symbol.split(".")
    holder: Any = importlib.import_module(f"rag_app.{module}")
    for part in path:
        holder = getattr(holder, part)
    return holder, name


_TOP_LEVEL = ("tier", "model", "usage")


def _watched(original: Any, point: IntegrationPoint, recorder: Recorder, telemetry: Any) -> Any:
    @functools.wraps(original)
    def run(*args: Any, **kwargs: Any) -> Any:
        span: dict[str, Any] = {
            "span_id": f"s{len(recorder.spans)}",
            "component": point.component,
            "name": point.name,
            "kind": point.kind,
            "started_at": time.time(),
            "input": [str(a) for a in args[1:]],
            "status": "ok",
        }
        recorder.spans.append(span)
        notes, token = telemetry.listen()
        is_unanswered = False
        try:
            result = original(*args, **kwargs)
            span["output"] = result if isinstance(result, str | dict | type(None)) else str(result)
            return result
        except Exception as error:
            span |= {"status": "error", "error_type": type(error).__name__}
            is_unanswered = isinstance(error, OSError)
            raise
        finally:
            telemetry.stop(token)
            span["ended_at"] = time.time()
            span |= {k: v for k, v in notes.items() if k in _TOP_LEVEL}
            span["attributes"] = {k: v for k, v in notes.items() if k not in _TOP_LEVEL}
            if "attributes.model_errors" in point.fields:
                span["attributes"]["model_errors"] = int(is_unanswered)

    return run


QUESTIONS = (
    "When may customers return goods?",
    "How long does shipping abroad take?",
    "Which warranty covers batteries?",
)


def run_traffic(points: list[IntegrationPoint], pipeline: str) -> dict[str, list[dict[str, Any]]]:
    """Run healthy traffic and one planted fault after the other; return the traces of each."""
    recorder = Recorder()
    out: dict[str, list[dict[str, Any]]] = {}
    with model_server() as server, instrumented(points, recorder) as service_module:
        service = _service(service_module, server.url)

        def ask(case: str, question: str, *faults: str) -> None:
            server.faults[:] = faults
            try:
                service.ask(question)
            except Exception as error:  # the user sees an error page; the trace tells why
                out.setdefault(case, []).append(
                    {**recorder.envelope(pipeline), "attributes": {"seen": type(error).__name__}}
                )
            else:
                out.setdefault(case, []).append(recorder.envelope(pipeline))

        for turn in range(3):
            for question in QUESTIONS:
                ask("healthy", f"{question} ({turn // 2})")
        ask("prose", "Can customers return opened goods?", "prose")
        ask("no_citations", "Can customers return shipping fees?", "no_citations")
        ask("cut", "Does warranty cover customers abroad?", "cut")
        ask("blip", "Do batteries return with goods?", "down")
        ask("large_down", "Is shipping of batteries allowed?", "down", "down", "down")
        ask("nothing_found", "Zzzz qqqq xxxx?")
        service.store.connection.execute("DROP TABLE answers")
        service.lookup = lambda question: None
        ask("store_broken", "May customers return batteries?")
    return out


def _service(module: Any, url: str) -> Any:
    retrieval = importlib.import_module("rag_app.retrieval")
    store = importlib.import_module("rag_app.store")
    index = retrieval.PassageIndex()
    for source, text in (
        ("returns.md", "Customers may return goods within thirty days, opened or not."),
        ("shipping.md", "Shipping abroad takes five days; batteries are shipped by road."),
        ("warranty.md", "The warranty covers batteries for one year."),
    ):
        index.add(retrieval.Passage(source, text))
    return module.QuestionService(url, index, store.AnswerStore())
