"""`deploy/demo --kafka` from its beginning to its end, and what it leaves behind."""

import os
import re
import subprocess
import sys

import duckdb
import pytest

from tests.paths import ROOT, SOURCE_ROOTS

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture
def environment(tmp_path):
    """The environment that `deploy/environment` would have made, from the interpreter that runs the tests."""
    folder = tmp_path / "environment"
    (folder / "bin").mkdir(parents=True)
    path = os.pathsep.join(str(root) for root in SOURCE_ROOTS)
    for name, command in (("python", ""), ("gapwatch", " -m gapwatch.scorers.command_line")):
        script = folder / "bin" / name
        script.write_text(f'#!/bin/sh\nPYTHONPATH="{path}" exec "{sys.executable}"{command} "$@"\n')
        script.chmod(0o755)
    projects = [ROOT / "pyproject.toml", ROOT / "streams" / "publisher" / "pyproject.toml"]
    (folder / ".gapwatch-installed-stream").write_text("".join(file.read_text() for file in projects) + f"{ROOT}\n")
    return folder


def test_it_publishes_watches_answers_and_cleans_up(tmp_path, environment, kafka_broker):
    (tmp_path / "temporary").mkdir()
    settings = {"GAPWATCH_ENVIRONMENT": str(environment), "TMPDIR": str(tmp_path / "temporary")}
    store = tmp_path / "demo.duckdb"
    done = subprocess.run(
        [ROOT / "deploy" / "demo", "--kafka", "--once", "--rate", "100/s", "--store", store],
        env={**os.environ, **settings}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert "All 190 conversations are stored in" in done.stderr
    assert re.match(r"page +http://127\.0\.0\.1:\d+/", done.stderr)
    assert " opens, PAGE: fallback_rate of agent " in done.stderr
    alerts, _, explained = done.stdout.partition("PAGE open")
    assert "fallback_rate" in alerts and "rows of" not in alerts
    assert "\nfallback_rate of agent, airline-agent in production\n" in explained and "\nSince " in explained
    with duckdb.connect(str(store), read_only=True) as con:
        assert con.execute("SELECT sum(records) FROM offsets").fetchall() == [(190,)]
    assert list((tmp_path / "temporary").iterdir()) == []
    assert str(tmp_path) not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout

    again = subprocess.run(
        [ROOT / "deploy" / "demo", "--kafka", "--store", store], capture_output=True, text=True, check=False
    )
    assert again.returncode == 2
    assert "exists already, from an earlier run" in again.stderr
