"""End to end: design a service, run it under `gapwatch instrument` against `gapwatch run --otlp`, see its metrics."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gapwatch.design.reports.output import write_design
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import run_design
from tests.design.emission.watched_programs import python_with_events, run_watched
from tests.design.rag_run import APP, model_server
from tests.gapwatch_command import gapwatch
from tests.streams.otlp.ports import free_port

PYTHON = python_with_events()

PROGRAM = """\
import sys
sys.path.insert(0, {parent!r})
from rag_app.retrieval import Passage, PassageIndex
from rag_app.service import QuestionService
from rag_app.store import AnswerStore

index = PassageIndex()
index.add(Passage("returns.md", "Customers may return goods within thirty days."))
service = QuestionService({url!r}, index, AnswerStore())
for question in ("When may customers return goods?", "What of batteries?", "When may customers return goods?"):
    service.ask(question)
"""


@pytest.mark.slow
@pytest.mark.skipif(PYTHON is None, reason="no Python of 3.12 or newer on this machine")
def test_a_service_without_a_line_of_instrumentation_is_in_the_rates(tmp_path: Path) -> None:
    assert PYTHON is not None
    made = run_design(scan_repository(APP))
    write_design(made, tmp_path / "design", "rag", 1)
    store, http = tmp_path / "s.duckdb", f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "gapwatch.scorers.command_line", "run", "--otlp", http]
    command += [
        "--portfolio",
        str(tmp_path / "design/portfolio.yaml"),
        "--store",
        str(store),
        "--listen",
        "127.0.0.1:0",
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    assert process.stderr is not None
    wanted = {m.name for m in made.metrics if m.is_exported and m.claim["form"] != "ratio"}
    answering: set[str] = set()
    try:
        assert any("type next" in line for line in process.stderr)
        with model_server() as server:
            server.faults[:] = ["down"]
            (tmp_path / "app.py").write_text(PROGRAM.format(parent=str(APP.parent), url=server.url))
            ran = run_watched(tmp_path / "design/spans.json", [PYTHON, str(tmp_path / "app.py")], f"http://{http}")
            assert (ran.returncode, ran.stderr) == (0, "")
        limit = time.monotonic() + 25
        while time.monotonic() < limit and len(answering) < 0.9 * len(wanted):
            time.sleep(0.5)
            said = gapwatch("rates", "--store", store, "--format", "json").out
            answering = {row["metric"] for row in json.loads(said or "[]") if row["units"]}
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        process.stderr.close()

    assert len(answering & wanted) >= 0.9 * len(wanted), sorted(wanted - answering)
