"""The publisher's files work without the rest of Gapwatch: they import each other, orjson and aiokafka only."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

STREAMS = Path(__file__).parents[2] / "streams"
FILES = (
    "back_off", "function_wrapping", "kafka_settings", "model_response", "publisher", "publisher_errors",
    "trace_recording", "trace_sender",
)  # fmt: skip
#: An application's own packages have the names of Gapwatch's; its pipeline uses the publisher all the same.
APPLICATION = """\
import sys
from gapwatch.publisher.trace_publisher import TracePublisher
from gapwatch.publisher.errors import SettingsError

publisher = TracePublisher("bot", brokers="127.0.0.1:1")
with publisher.trace() as trace:
    with publisher.span("answer", kind="llm", input="question") as span:
        span.output = "answer"
print(publisher.counts["waiting"], publisher.close(0.0))
try:
    TracePublisher("bot", brokers="nowhere")
except SettingsError as error:
    print(error)
print(*sorted({name.partition(".")[0] for name in sys.modules} & {"scorers", "sinks", "design", "duckdb", "numpy"}))
"""


def imported(path):
    """Return what a file imports, at its top or in a function."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


@pytest.mark.parametrize("name", FILES)
def test_a_file_imports_the_standard_library_its_two_libraries_and_its_neighbours(name):
    allowed = {*sys.stdlib_module_names, "orjson", "aiokafka", *(f"streams.{file}" for file in FILES)}

    assert [one for one in imported(STREAMS / f"{name}.py") if one.partition(".")[0] not in allowed
            and one not in allowed] == []  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_aiokafka_is_imported_by_the_sender_alone_and_when_one_is_made(name):
    tree = ast.parse((STREAMS / f"{name}.py").read_text(encoding="utf-8"))
    at_top = {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
    everywhere = {one.partition(".")[0] for one in imported(STREAMS / f"{name}.py")}

    assert "aiokafka" not in at_top
    assert ("aiokafka" in everywhere) is (name == "trace_sender")


def test_a_pipeline_publishes_with_these_files_alone(tmp_path):
    (tmp_path / "streams").mkdir()
    for name in ("__init__", *FILES):
        shutil.copy(STREAMS / f"{name}.py", tmp_path / "streams")
    (tmp_path / "application.py").write_text(APPLICATION)
    # By the folder of the application alone: what is installed for the tests is there, the house's own tree is not.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "application.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["1 False", "brokers: 'nowhere' is no HOST:PORT", ""]
