"""Runs small programs, patched or under `gapwatch instrument`, and collects the spans that they send."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gapwatch.design.reports.export_spans import spans_data, spans_json
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import run_design
from tests.paths import FOLDERS

_WANTED = "import sys; sys.exit(sys.version_info < (3, 12) or not hasattr(sys, 'monitoring'))"


@functools.cache
def python_with_events() -> str | None:
    """Return a Python of 3.12 or newer, this one or another on this machine; None without one."""
    found = [sys.executable, *(shutil.which(f"python3.{n}") or "" for n in (14, 13, 12))]
    found += sorted((str(p) for p in (Path.home() / ".pyenv/versions").glob("3.1[2-9]*/bin/python")), reverse=True)
    for name in filter(None, found):
        if subprocess.run([name, "-c", _WANTED], capture_output=True, check=False).returncode == 0:
            return name
    return None


@dataclass(frozen=True)
class SentSpan:
    """A span as it was received."""

    name: str
    trace: str
    id: str
    parent: str
    is_error: bool
    attributes: dict[str, Any] = field(hash=False)
    service: str = ""
    #: What its status and its events say of errors.
    errors: list[str] = field(default_factory=list, hash=False)


@dataclass
class Collector:
    """Address of a local receiver, and the spans that came."""

    url: str
    spans: list[SentSpan] = field(default_factory=list)

    def named(self, name: str) -> list[SentSpan]:
        return [span for span in self.spans if span.name == name]


@contextmanager
def collector() -> Iterator[Collector]:
    """Receive spans over HTTP, decoded by the messages of opentelemetry-proto."""
    made = Collector("")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            request = ExportTraceServiceRequest.FromString(body)
            for resource in request.resource_spans:
                service = next(a.value.string_value for a in resource.resource.attributes if a.key == "service.name")
                for scope in resource.scope_spans:
                    made.spans += [_span(s, service) for s in scope.spans]
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            """Stay silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        made.url = f"http://127.0.0.1:{server.server_address[1]}"
        yield made
        server.shutdown()
        thread.join()


def _span(span: Any, service: str) -> SentSpan:
    attributes = {a.key: _value(a.value) for a in span.attributes}
    return SentSpan(
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.status.code == 2,
        attributes,
        service,
        [span.status.message, *(_value(a.value) for e in span.events for a in e.attributes)],
    )


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return [_value(v) for v in value.array_value.values] if kind == "array_value" else getattr(value, kind)


@functools.cache
def _compile_recorder() -> None:
    """Have the Python with events keep what it compiled of OpenTelemetry; else each program compiles it anew."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([sysconfig.get_paths()["purelib"], str(FOLDERS["design"])])
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if (python := python_with_events()) is not None:
        wanted = (
            "import opentelemetry.exporter.otlp.proto.http.trace_exporter, opentelemetry.sdk.trace\n"
            "import gapwatch.design.emission.interpreter.code_events"
        )
        subprocess.run([python, "-c", wanted], env=environment, capture_output=True, check=False)


def program_environment(**settings: str) -> dict[str, str]:
    """Return an environment in which another Python finds the OpenTelemetry of this one, which is pure Python."""
    _compile_recorder()
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "GAPWATCH_"))}
    return environment | {"PYTHONPATH": sysconfig.get_paths()["purelib"], "PYTHONDONTWRITEBYTECODE": "1", **settings}


def run_watched(
    plan: Path, command: list[str], endpoint: str, *options: str, **settings: str
) -> subprocess.CompletedProcess[str]:
    """Run a command under `gapwatch instrument`."""
    gapwatch = str(Path(sys.executable).with_name("gapwatch"))
    return subprocess.run(
        [gapwatch, "instrument", "--design", str(plan.parent), *options, "--", *command],
        env=program_environment(OTEL_EXPORTER_OTLP_ENDPOINT=endpoint, **settings),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def write_plan(folder: Path, emit: list[dict[str, Any]] | None = None, repository: Path | None = None) -> Path:
    """Write a `spans.json`: of a repository's design, or of hand-written spans."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "spans.json"
    if repository is not None:
        path.write_text(spans_json(spans_data(run_design(scan_repository(repository)), "watched")))
    else:
        path.write_text(json.dumps({"gapwatch_spans": 1, "pipeline": "watched", "emit": emit, "clients": []}))
    return path


def planned(name: str, **more: Any) -> dict[str, Any]:
    """Return one span of a plan for a function of `app.py`."""
    marks = more.pop("marks", [])
    plan = {"component": "c", "span": name, "kind": "chain", "path": "app.py", "start": {}, "is_there": False}
    return plan | {"functions": [{"name": name, "line": 1, "marks": marks}]} | more


def run_patched(source: str, folder: Path) -> Collector:
    """Run a patched program with the OpenTelemetry SDK set up as its documentation says, and return what it sent."""
    setup = (
        "from opentelemetry import trace\n"
        "from opentelemetry.sdk.trace import TracerProvider\n"
        "from opentelemetry.sdk.trace.export import SimpleSpanProcessor\n"
        "from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter\n"
        "trace.set_tracer_provider(TracerProvider())\n"
        "trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))\n"
    )
    with collector() as found:
        environment = program_environment(OTEL_EXPORTER_OTLP_ENDPOINT=found.url)
        environment["PYTHONPATH"] = f"{folder}:{environment['PYTHONPATH']}"
        ran = subprocess.run(
            [sys.executable, "-c", setup + source],
            env=environment,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
    return found
