"""The tutorial, typed as it stands: once with a file, once with a broker of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gapwatch_command import gapwatch
from tests.kafka_broker import running_broker
from tests.paths import ROOT, SOURCE_ROOTS
from tests.readme_commands import commands_of

TUTORIAL = ROOT / "docs" / "tutorial.md"
TEXT = TUTORIAL.read_text(encoding="utf-8")
_KAFKA_LINE = TEXT[: TEXT.index("## With Kafka")].count("\n")
WITH_A_FILE = [command.text for command in commands_of(TUTORIAL) if command.line < _KAFKA_LINE]
WITH_KAFKA = [command.text for command in commands_of(TUTORIAL) if command.line > _KAFKA_LINE]


def _block(language: str) -> str:
    found = re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    assert len(found) == 1
    return str(found[0])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The reader's folder, with the two files of the tutorial and the programs that it installs."""
    path = os.pathsep.join(str(root) for root in SOURCE_ROOTS)
    (tmp_path / "bin").mkdir()
    for name, code in (("python", ""), ("gapwatch", " -m gapwatch.scorers.command_line")):
        script = tmp_path / "bin" / name
        script.write_text(f'#!/bin/sh\nPYTHONPATH="{path}" exec "{sys.executable}"{code} "$@"\n')
        script.chmod(0o755)
    bot = tmp_path / "bot"
    bot.mkdir()
    (bot / "bot.py").write_text(_block("python"))
    (bot / "portfolio.yaml").write_text(_block("yaml"))
    return bot


def _environment(folder: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GAPWATCH_")}
    return {**kept, "PATH": f"{folder.parent / 'bin'}{os.pathsep}{os.environ['PATH']}", **more}


def _typed(command: str, folder: Path, **more: str) -> str:
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=_environment(folder, **more), capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _alerts(folder: Path, store: str) -> dict[str, str]:
    """Return the open alerts: id by metric."""
    found = json.loads(_typed(f"gapwatch alerts --store {store} --format json", folder))
    return {alert["metric"]: alert["alert_id"] for alert in found if alert["state"] == "open"}


def test_the_bot_publishes_and_its_portfolio_finds_the_shift(folder: Path) -> None:
    _typed("python bot.py", folder)
    ran = gapwatch(
        "replay", folder / "traces.jsonl", "--portfolio", folder / "portfolio.yaml", "--store", folder / "s.duckdb",
        "--alerts", "--quiet",
    )  # fmt: skip
    assert ran.status == 0, ran.err

    found = gapwatch("alerts", "--store", folder / "s.duckdb", "--format", "json").json()
    assert {(alert["metric"], alert["severity"], alert["verdict"]) for alert in found} == {
        ("answered_by", "page", "worse"),
        ("answer_parses", "page", "worse"),
    }


def test_without_the_fact_the_page_on_the_route_is_refused_with_the_fact_to_paste(folder: Path) -> None:
    portfolio = folder / "portfolio.yaml"
    portfolio.write_text(portfolio.read_text().split("facts:")[0])
    checked = gapwatch("check", portfolio)

    assert checked.status == 2
    assert "kind: direction, metric: answered_by, better:" in checked.out + checked.err


@pytest.mark.slow
def test_the_way_with_a_file_is_as_the_tutorial_types_it(folder: Path) -> None:
    said = {}
    for command in WITH_A_FILE:
        if command.startswith("deploy/environment"):  # the fixture has made the programs
            continue
        if " ID " in command:
            command = command.replace(" ID ", f" {_alerts(folder, 'bot.duckdb')['answer_parses']} ")
        said[" ".join(command.split()[:2])] = _typed(command, folder)

    assert said["python bot.py"].strip() == "{'sent': 3000, 'waiting': 0}"
    assert len((folder / "traces.jsonl").read_text().splitlines()) == 3000
    # Both alerts are found at the same moment; either may be named first.
    quoted = TEXT.split("```text\n")[1].split("```")[0].splitlines()
    assert quoted[0] in said["gapwatch replay"]
    assert re.search("^What +(answered_by|answer_parses) of answer: ", said["gapwatch replay"], re.MULTILINE)
    assert "fallback" in said["gapwatch explain"] and "small-1" in said["gapwatch explain"]
    assert "output is JSON and has /answer and /citations" in said["gapwatch gaps"]


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    """Programs of the reader's other terminals; those that still run at the end are killed."""
    running: list[subprocess.Popen[str]] = []
    yield running
    for process in running:
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.mark.slow
@pytest.mark.kafka
def test_the_way_with_kafka_is_as_the_tutorial_types_it(
    folder: Path, processes: list[subprocess.Popen[str]], tmp_path: Path
) -> None:
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            pytest.skip(f"no `{tool}` here, which a real Kafka broker needs")
    with running_broker(tmp_path / "broker") as broker:  # a port of its own, whatever else runs here
        for command in WITH_KAFKA:
            here = command.replace("127.0.0.1:9092", broker.address).replace(" --port 9092", "")
            if here.startswith("deploy/kafka/broker"):
                here = f"{sys.executable} {ROOT}/{here} --folder {broker.folder}"
            if here.startswith("gapwatch run"):
                processes.append(
                    subprocess.Popen(
                        [*here.split(), "--listen", "127.0.0.1:0"], cwd=folder, env=_environment(folder), text=True,
                        stderr=(folder / "run.log").open("w"),
                    )
                )  # fmt: skip
                _until((folder / "live.duckdb.api").exists, folder)  # from here on the commands find the process
                continue
            if here.startswith("gapwatch alerts"):
                _until(lambda: len(_alerts(folder, "live.duckdb")) == 2, folder)
            if " ID " in here:
                here = here.replace(" ID ", f" {_alerts(folder, 'live.duckdb')['answer_parses']} ")
            if "broker stop" in here:  # Ctrl-C in the terminal of the run comes first
                processes[0].send_signal(signal.SIGINT)
                assert processes[0].wait(60) in (0, 1), (folder / "run.log").read_text()
            _typed(here, folder, GAPWATCH_KAFKA_BROKERS=broker.address)


def _until(is_so: object, folder: Path, seconds: float = 120.0) -> None:
    assert callable(is_so)
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, (folder / "run.log").read_text()
        time.sleep(0.3)
