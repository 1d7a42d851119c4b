"""The publisher's files work without the rest of Gapwatch: they import each other, orjson and aiokafka only."""

import ast
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.paths import ROOT

PUBLISHER = ROOT / "streams" / "publisher"
LIBRARIES = ("orjson", "aiokafka")
FILES = sorted((PUBLISHER / "gapwatch" / "publisher").glob("*.py"))
NAMES = [path.stem for path in FILES]
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
    TracePublisher("bot", brokers="nowhere", strict=True)
except SettingsError as error:
    print(error)
ours = {".".join(name.split(".")[:2]) for name in sys.modules if name.startswith("gapwatch.")} - {"gapwatch.publisher"}
print(*sorted(ours | ({name.partition(".")[0] for name in sys.modules} & {"duckdb", "numpy", "pydantic"})))
"""


def imported(path):
    """Return what a file imports, at its top or in a function."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_a_file_imports_the_standard_library_its_two_libraries_and_its_neighbours(path):
    neighbours = {"gapwatch.publisher", *(f"gapwatch.publisher.{name}" for name in NAMES)}
    allowed = {*sys.stdlib_module_names, "orjson", "aiokafka"}

    assert [one for one in imported(path) if one.partition(".")[0] not in allowed and one not in neighbours] == []


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_aiokafka_is_imported_by_the_kafka_sender_alone_and_when_one_is_made(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    at_top = {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
    everywhere = {one.partition(".")[0] for one in imported(path)}

    assert "aiokafka" not in at_top
    assert ("aiokafka" in everywhere) is (path.stem == "kafka_sender")


def test_a_pipeline_publishes_with_these_files_alone(tmp_path):
    for name in ("streams", "sinks", "scorers", "design"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('this is the application's own')")
    (tmp_path / "application.py").write_text(APPLICATION)
    # Without the site: no editable install of the tree, but the two libraries of the publisher by their folders.
    path = os.pathsep.join([str(PUBLISHER), *{str(Path(find_spec(name).origin).parents[1]) for name in LIBRARIES}])
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-S", "application.py"], cwd=tmp_path, env=environment, capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["1 False", "brokers: 'nowhere' is not HOST:PORT", ""]
