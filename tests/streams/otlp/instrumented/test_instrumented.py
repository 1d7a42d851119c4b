"""Programs of users with real instrumentors are watched without a line: only OTEL_EXPORTER_OTLP_ENDPOINT is set."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from tests.gapwatch_command import gapwatch
from tests.paths import ROOT
from tests.streams.otlp.instrumented.model_server import model_server
from tests.streams.otlp.ports import free_port

PROGRAM = ROOT / "tests" / "streams" / "otlp" / "instrumented" / "program.py"
PORTFOLIO = """\
gapwatch: 1
portfolio: support
version: 1
pipeline: support
components: [{id: answer_question, kind: llm}]
metrics:
  - name: answer_parses
    component: answer_question
    claim: {form: check, field: output, format: json}
    alert: {severity: page}
"""
#: Instrumentor to whether its spans hold the answer without being asked to.
INSTRUMENTORS = {"openinference": True, "openinference-grpc": True, "openllmetry": True, "openai-v2": False}


@pytest.fixture(scope="module")
def python() -> Path:
    """Python of an environment with the instrumentors: the variable names one, else it is made once."""
    folder = Path(os.environ.get("GAPWATCH_INSTRUMENTORS", ROOT / ".venv-instrumentors"))
    found = folder / "bin" / "python"
    stamp, wanted = folder / "wanted", PACKAGES.read_text()
    if "GAPWATCH_INSTRUMENTORS" not in os.environ and (not stamp.exists() or stamp.read_text() != wanted):
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        done = subprocess.run([found, "-m", "pip", "install", "-q", "-r", PACKAGES], check=False)
        if done.returncode:
            pytest.skip("pip cannot install the instrumentors here")
        stamp.write_text(wanted)
    return found


PACKAGES = PROGRAM.with_name("requirements.txt")


@pytest.fixture
def run(tmp_path: Path) -> Iterator[tuple[Path, str, str]]:
    """A run that listens for OTLP; its store and the addresses for HTTP and gRPC."""
    portfolio, store = tmp_path / "p.yaml", tmp_path / "s.duckdb"
    portfolio.write_text(PORTFOLIO)
    http, grpc = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    process = subprocess.Popen(
        [
            sys.executable, "-m", "gapwatch.scorers.command_line", "run", "--otlp", http, "--otlp-grpc", grpc,
            "--portfolio", str(portfolio), "--store", str(store), "--listen", "127.0.0.1:0",
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
@pytest.mark.parametrize("instrumentor", INSTRUMENTORS)
def test_an_unchanged_program_is_in_the_rates_within_20_seconds(
    python: Path, run: tuple[Path, str, str], instrumentor: str
) -> None:
    store, http, grpc = run
    with model_server() as server:
        server.fails["gpt-4.1"] = 1
        environment = {
            **os.environ, "OTEL_SERVICE_NAME": "support", "PYTHONWARNINGS": "ignore",
            "OTEL_EXPORTER_OTLP_ENDPOINT": grpc if instrumentor.endswith("-grpc") else http,
        }  # fmt: skip
        done = subprocess.run(
            [python, PROGRAM, instrumentor, server.url, "4"],
            env=environment, capture_output=True, text=True, timeout=90, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert (server.answered, server.failed) == (4, 1)

    ended, rates = time.monotonic(), ""
    while "answer_parses" not in rates and time.monotonic() - ended < 20:
        rates = gapwatch("rates", "--store", store).out
        time.sleep(0.5)
    assert "answer_parses" in rates
    assert gapwatch("ledger", "--store", store).status == 0
    # What was read from the spans is what the model server counted.
    files = (store.parent / "s.duckdb.otlp" / "traces").iterdir()
    lines = [line for file in files for line in file.read_bytes().splitlines()]
    calls = [span for line in lines for span in orjson.loads(line)["spans"] if span["kind"] == "llm"]
    answered = [span for span in calls if span["status"] == "ok"]
    assert (len(lines), len(answered), len(calls) - len(answered)) == (4, server.answered, server.failed)
    assert sum(span["usage"]["input_tokens"] for span in answered) == server.input_tokens
    assert sum(span["usage"]["output_tokens"] for span in answered) == server.output_tokens
    assert {span["component"] for span in calls} == {"answer_question"}
    assert all(("output" in span) == INSTRUMENTORS[instrumentor] for span in answered)
