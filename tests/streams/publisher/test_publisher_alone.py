"""The publisher's files work without the rest of Gapwatch: they import each other, orjson and aiokafka only."""

import ast
import os
import shutil
import subprocess
import sys

import pytest

from tests.paths import ROOT

PUBLISHER = ROOT / "streams" / "publisher" / "gapwatch" / "publisher"
FILES = sorted(path.stem for path in PUBLISHER.glob("*.py"))
#: Runs without the roots of Gapwatch's other packages; an application's own packages may have their names.
APPLICATION = """\
import sys
sys.path[:] = [path for path in sys.path if not path.endswith(("scorers", "sinks", "streams", "design", "publisher"))]
from gapwatch.publisher import SettingsError, TracePublisher

publisher = TracePublisher("bot", brokers="127.0.0.1:1")
with publisher.trace() as trace:
    with publisher.span("answer", kind="llm", input="question") as span:
        span.output = "answer"
print(publisher.counts["waiting"], publisher.close(0.0))
try:
    TracePublisher("bot", brokers="nowhere")
except SettingsError as error:
    print(error)
print(*sorted(name for name in sys.modules if name.startswith("gapwatch.") and "publisher" not in name))
print(*sorted({name.partition(".")[0] for name in sys.modules} & {"scorers", "sinks", "design", "duckdb", "numpy"}))
"""


def imported(name):
    """Return what a file imports, at its top or in a function."""
    for node in ast.walk(ast.parse((PUBLISHER / f"{name}.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


@pytest.mark.parametrize("name", FILES)
def test_a_file_imports_the_standard_library_its_two_libraries_and_its_neighbours(name):
    allowed = {*sys.stdlib_module_names, "orjson", "aiokafka"}
    own = {f"gapwatch.publisher.{file}" for file in FILES}

    assert [one for one in imported(name) if one.partition(".")[0] not in allowed and one not in own] == []


@pytest.mark.parametrize("name", FILES)
def test_aiokafka_is_imported_by_the_sender_alone_and_when_one_is_made(name):
    tree = ast.parse((PUBLISHER / f"{name}.py").read_text(encoding="utf-8"))
    at_top = {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
    everywhere = {one.partition(".")[0] for one in imported(name)}

    assert "aiokafka" not in at_top
    assert ("aiokafka" in everywhere) is (name == "sender")


def test_a_pipeline_publishes_with_these_files_alone(tmp_path):
    shutil.copytree(PUBLISHER, tmp_path / "gapwatch" / "publisher", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("scorers", "sinks"):
        (tmp_path / f"{name}.py").write_text("raise AssertionError('the application has this name, not Gapwatch')\n")
    (tmp_path / "application.py").write_text(APPLICATION)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "application.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["1 False", "brokers: 'nowhere' is not HOST:PORT", "", ""]
