"""Programs of users with real instrumentors are watched without a line: only OTEL_EXPORTER_OTLP_ENDPOINT is set."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.gapwatch_command import gapwatch
from tests.paths import ROOT
from tests.streams.otlp.instrumented.model_server import model_server
from tests.streams.otlp.instrumented.programs import PROGRAM, start_program
from tests.streams.otlp.ports import free_port

PORTFOLIO = """\
gapwatch: 1
portfolio: {name}
version: 1
pipeline: {name}
components: [{{id: {component}, kind: llm}}]
metrics:
  - name: {metric}
    component: {component}
    claim: {{form: check, field: output, format: json}}
    alert: {{severity: page}}
"""
PACKAGES = PROGRAM.with_name("requirements.txt")
#: Instrumentor to the component of its calls, and whether its spans hold the answer without being asked to.
INSTRUMENTORS = {
    "openinference": ("answer_question", True),
    "openinference-grpc": ("answer_question", True),
    "openinference-anthropic": ("answer_question", True),
    "openllmetry": ("answer_question", True),
    "openllmetry-anthropic": ("answer_question", True),
    "openai-v2": ("answer_question", False),
    "logfire": ("answer_question", True),
    "langfuse": ("answer_question", True),
    "pydantic-ai": ("answerer", True),
}


def metric_of(name: str) -> str:
    return name.replace("-", "_") + "_parses"


@pytest.fixture(scope="module")
def python() -> Path:
    """Python of an environment with the instrumentors: the variable names one, else it is made once."""
    folder = Path(os.environ.get("GAPWATCH_INSTRUMENTORS", ROOT / ".venv-instrumentors"))
    found = folder / "bin" / "python"
    stamp, wanted = folder / "wanted", PACKAGES.read_text()
    if "GAPWATCH_INSTRUMENTORS" not in os.environ and (not stamp.exists() or stamp.read_text() != wanted):
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        ways = [[uv, "pip", "install", "-q", "--compile-bytecode", "--python", found]] if uv else []
        ways.append([found, "-m", "pip", "install", "-q"])  # a pip with settings that uv does not read
        if all(subprocess.run([*way, "-r", PACKAGES], check=False).returncode for way in ways):
            pytest.skip("pip cannot install the instrumentors here")
        stamp.write_text(wanted)
    return found


@pytest.fixture
def run(tmp_path: Path) -> Iterator[tuple[Path, str, str]]:
    """A run that listens for OTLP; its store and the addresses for HTTP and gRPC."""
    store, portfolios = tmp_path / "s.duckdb", list[str]()
    for name, (component, _) in INSTRUMENTORS.items():
        portfolio = tmp_path / f"{name}.yaml"
        portfolio.write_text(PORTFOLIO.format(name=name, metric=metric_of(name), component=component))
        portfolios += ["--portfolio", str(portfolio)]
    http, grpc = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    process = subprocess.Popen(
        [
            sys.executable, "-m", "gapwatch.scorers.command_line", "run", "--otlp", http, "--otlp-grpc", grpc,
            *portfolios, "--store", str(store), "--listen", "127.0.0.1:0",
        ],
        stderr=subprocess.PIPE, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        assert any("type next" in line for line in process.stderr)
        yield store, f"http://{http}", f"http://{grpc}"
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


@pytest.mark.slow
def test_unchanged_programs_are_in_the_rates_within_20_seconds(python: Path, run: tuple[Path, str, str]) -> None:
    store, http, grpc = run
    with ExitStack() as stack:
        servers = {name: stack.enter_context(model_server()) for name in INSTRUMENTORS}
        left = list(INSTRUMENTORS)
        while left:  # three at a time: most of it is the import of libraries
            started = {
                name: start_program(python, name, grpc if name.endswith("-grpc") else http, servers[name])
                for name in [left.pop() for _ in range(min(3, len(left)))]
            }
            for name, program in started.items():
                _, said = program.communicate(timeout=90)
                assert program.returncode == 0, f"{name}: {said}"
                assert (servers[name].answered, servers[name].failed) == (4, 1), name

    ended, missing = time.monotonic(), [*INSTRUMENTORS]
    while missing and time.monotonic() - ended < 20:
        time.sleep(0.5)
        rates = gapwatch("rates", "--store", store, "--format", "json").out
        missing = [name for name in missing if f'"{metric_of(name)}"' not in rates]
    assert not missing
    assert gapwatch("ledger", "--store", store).status == 0
    # What was read from the spans is what the model server counted.
    files = (store.parent / "s.duckdb.otlp" / "traces").iterdir()
    traces = [orjson.loads(line) for file in files for line in file.read_bytes().splitlines()]
    for name, server in servers.items():
        assert_counted([trace for trace in traces if trace["pipeline"] == name], *INSTRUMENTORS[name], vars(server))


def assert_counted(traces: list[dict[str, Any]], component: str, has_answer: bool, truth: dict[str, Any]) -> None:
    """The calls of the traces are those that the model server counted."""
    calls = [span for trace in traces for span in trace["spans"] if span["kind"] == "llm"]
    answered = [span for span in calls if span["status"] == "ok"]
    assert (len(traces), len(answered), len(calls) - len(answered)) == (4, truth["answered"], truth["failed"])
    for name in ("input_tokens", "output_tokens"):
        said = [span["usage"][name] for span in answered if "usage" in span]
        assert (sum(said) if said else None) == truth[name]
    assert {span["component"] for span in calls} == {component}
    assert all(("output" in span) == has_answer for span in answered)
    assert [span["tier"] for span in calls if span["status"] == "error"] == ["primary"]
    assert "fallback" in [span["tier"] for span in answered]
