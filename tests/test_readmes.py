"""READMEs name every room and file, their links lead somewhere, and every command that they show is run."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import click
import pytest

from gapwatch.scorers.command_line import discover_commands
from gapwatch.scorers.loading.load import load_portfolio
from tests.deploy import test_tutorial as tutorial
from tests.deploy.demo_traces import TRACES, ledger_of
from tests.gapwatch_command import gapwatch
from tests.kafka_broker import KafkaBroker
from tests.paths import AIRLINE, FOLDERS, ROOT, SOURCE_ROOTS
from tests.readme_commands import commands_of, readmes, synopses_of
from tests.scorers.scored_slice import record_slice

COMMANDS = [command for readme in readmes() for command in commands_of(readme)]

#: Commands that cannot be run in a test as they stand, and the test that runs what they run.
ELSEWHERE = {
    **{
        f"deploy/demo --kafka{rest}": (
            "tests/deploy/test_kafka_demo.py::test_it_publishes_watches_answers_and_cleans_up"
        )
        for rest in ("", " --once")
    },
    "gapwatch run --brokers 127.0.0.1:9092 --topic traces --portfolio portfolio.yaml --store live.duckdb": (
        "tests/deploy/test_kafka_demo.py::test_it_publishes_watches_answers_and_cleans_up"
    ),
    "tests/run": "tests/test_readmes.py::test_the_script_of_the_tests_hands_its_arguments_to_pytest",
    **{
        f"pip install {what}": f"tests/test_package.py::{name}"
        for what, name in (
            (".", "test_what_is_installed_works_in_another_folder"),
            ("./streams/publisher", "test_a_pipeline_publishes_with_the_publisher_alone_beside_modules_of_our_names"),
            ("./streams/publisher '.[stream]'", "test_both_distributions_work_beside_modules_of_our_names"),
            ("'gapwatch[design]'", "test_what_is_installed_designs_a_portfolio_that_it_accepts"),
        )
    },
    "gapwatch consume --brokers 127.0.0.1:9092 --topic traces --limit 1000 > traces.jsonl": (
        "tests/streams/batch/test_consume_topic.py::test_all_values_are_lines_that_can_be_replayed"
    ),
    'python deploy/airline/convert_tau2.py "$f" | gzip -9n > "deploy/airline/traces/${f%.json.gz}.jsonl.gz"': (
        "tests/deploy/test_convert_tau2.py::test_every_message_becomes_a_span_of_a_sound_envelope"
    ),
    "gapwatch publish traces.jsonl.gz --brokers 127.0.0.1:9092 --topic traces --rate 500/s": (
        "tests/test_readmes.py::test_publish_as_it_is_shown"
    ),
    'gapwatch override traces/0/17/2/faithful/mini --store S --outcome fail --score 2 --why "invents a fare rule"': (
        "tests/streams/commands/test_judge.py::test_a_person_overrides_a_verdict_which_stays"
    ),
    **{
        f"deploy/kafka/broker {rest}": f"tests/deploy/test_broker.py::{name}"
        for rest, name in (
            ("start", "test_a_second_start_finds_the_first"),
            ("topic traces --partitions 4", "test_topics_are_made_once_listed_and_deleted"),
            ("status", "test_status_says_where_it_listens"),
            ("stop", "test_stopping_what_does_not_run_is_no_error"),
        )
    },
    "gapwatch run --otlp 127.0.0.1:4318 --portfolio portfolio.yaml --store s.duckdb": (
        "tests/streams/otlp/instrumented/test_instrumented.py::"
        "test_unchanged_programs_are_in_the_rates_within_20_seconds"
    ),
    **{
        f"gapwatch {rest}": ("tests/chaos/test_otlp_receive.py::test_a_broker_that_goes_away_loses_and_doubles_nothing")
        for rest in (
            "receive --brokers 127.0.0.1:9092 --otlp 127.0.0.1:4318 --spans spans --logs span_logs",
            "run --brokers 127.0.0.1:9092 --spans spans --logs span_logs --portfolio portfolio.yaml --store s.duckdb",
        )
    },
    # They name a metric and a trace of the store that the test of that page makes.
    **{
        f"gapwatch gaps {what} --store S": "tests/sinks/test_cookbook.py::test_a_command_prints_rows"
        for what in ("--metric answer_parses", "--trace t00355")
    },
    # A reader types these one after the other, with files that the tutorial shows; its own test does so.
    **{
        command.text: f"tests/deploy/test_tutorial.py::test_the_way_with_{way}_is_as_the_tutorial_types_it"
        for way, commands in (("a_file", tutorial.WITH_A_FILE), ("kafka", tutorial.WITH_KAFKA))
        for command in COMMANDS
        if command.readme == "docs/tutorial.md" and command.text in commands
    },
    # They take minutes; what they compare is compared by the test.
    **{
        f"python -m tests.benchmarks.replay{rest}": (
            "tests/benchmarks/test_replay_benchmark.py::test_loop_and_replay_store_the_same_of_every_kind"
        )
        for rest in ("", " loop", " memory", " --quick")
    },
}
HERE = list({command.text: command for command in COMMANDS if command.text not in ELSEWHERE}.values())
#: What an answer of the design stage would otherwise ask of a person.
ALTERNATIVES = re.compile(r"(?<= )(\w+)\|(\w+)")


# ---- files ----

_NOT_TOLD = ("__init__.py", "README.md", "__pycache__", ".hypothesis")


def _named(readme: Path) -> list[str]:
    """Return the names in backticks in the first cells of a README's tables of files; a folder ends with a slash."""
    tables = re.findall(
        r"^\| (?:file|folder|room|what)\b[^|]*\|.*\n\|[ |-]+\n((?:\|.*\n)+)",
        readme.read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    cells = [line.split("|")[1] for table in tables for line in table.splitlines()]
    return [name for cell in cells for name in re.findall(r"`([\w./*-]+)`", cell)]


def _is_named(entry: Path, name: str) -> bool:
    if entry.is_dir() or name.endswith("/"):
        return entry.is_dir() and name == f"{entry.name}/"
    return fnmatch(entry.name, name) or ("." not in name and entry.suffix != "" and fnmatch(entry.stem, name))


@pytest.mark.parametrize("package", FOLDERS)
def test_every_room_of_a_package_is_named_in_its_readme(package: str) -> None:
    folder = FOLDERS[package]
    named = {name.rstrip("/").rsplit("/", 1)[-1] for name in _named(folder / "README.md")}
    entries = [path for path in (folder / "gapwatch" / package).iterdir() if path.name not in _NOT_TOLD]

    assert [path.name for path in entries if not named & {path.name, path.stem}] == []


@pytest.mark.parametrize("folder", ["streams/gapwatch/streams/detectors", "deploy", "docs", "tests"])
def test_every_file_of_a_folder_is_named_once_in_its_readme(folder: str) -> None:
    named = _named(ROOT / folder / "README.md")
    entries = [path for path in (ROOT / folder).iterdir() if path.name not in _NOT_TOLD]
    times = {entry.name: sum(_is_named(entry, name) for name in named) for entry in entries}

    assert {entry: n for entry, n in times.items() if n != 1} == {}
    assert [name for name in named if not any(_is_named(entry, name) for entry in entries)] == []


def test_what_a_readme_names_is_there() -> None:
    for readme in readmes():
        text = re.sub(r"`[^`\n]*`", "code", readme.read_text(encoding="utf-8"))
        links = re.findall(r"\]\(([^)#]+)(?:#[\w-]+)?\)", text)
        local = [link for link in links if "://" not in link]
        assert [link for link in local if not (readme.parent / link).exists()] == [], readme


def test_an_anchor_leads_to_a_heading() -> None:
    for readme in readmes():
        for link, anchor in re.findall(r"\]\(([^)#]*)#([\w-]+)\)", readme.read_text(encoding="utf-8")):
            target = (readme.parent / link).read_text(encoding="utf-8") if link else readme.read_text(encoding="utf-8")
            heads = re.findall(r"^#+ (.+)$", target, re.MULTILINE)
            assert anchor in [re.sub(r"[^\w -]", "", head).lower().replace(" ", "-") for head in heads], (
                readme,
                anchor,
            )


# ---- commands ----


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone, with all beside it that the READMEs' commands speak of."""
    folder = tmp_path_factory.mktemp("clone")
    for name in ("pyproject.toml", "README.md", "CONTRIBUTING.md"):
        shutil.copy(ROOT / name, folder)
    for name in (*FOLDERS, "deploy", "docs", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "traces.jsonl").write_text(json.dumps(_envelope()) + "\n")
    (folder / "portfolio.yaml").write_text(_blocks("yaml")[0])
    shutil.copy(ROOT / "tests" / "data" / "otlp" / "oi-langchain-agent.jsonl.gz", folder / "spans.jsonl.gz")
    ran = gapwatch(
        "replay", TRACES / "airline_qwen2.5-7b.jsonl.gz", "--portfolio", AIRLINE / "portfolio.yaml", "--store",
        folder / "S", "--quiet",
    )  # fmt: skip
    assert ran.status == 0, ran.err
    app = ROOT / "tests" / "design" / "rag_app"
    for name in ("REPO", "OLD", "NEW"):
        shutil.copytree(app, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    with (folder / "NEW" / "answering.py").open("a") as changed:
        changed.write("\n\ndef added() -> int:\n    return 1\n")
    return folder


@pytest.fixture(scope="module")
def programs(stage: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment as `deploy/environment` makes it there, of the interpreter that runs the tests."""
    target = tmp_path_factory.mktemp("environment")
    (target / "bin").mkdir()
    path = os.pathsep.join(str(stage / root.relative_to(ROOT)) for root in (ROOT, *SOURCE_ROOTS))
    for name, code in (("python", '"$@"'), ("gapwatch", '-m gapwatch.scorers.command_line "$@"')):
        script = target / "bin" / name
        script.write_text(f"#!/bin/sh\nPYTHONPATH='{path}' exec '{sys.executable}' {code}\n")
        script.chmod(0o755)
    for extras in ("", "dev,stream"):
        stamp = f".gapwatch-installed{'-' + extras.replace(',', '-') if extras else ''}"
        projects = [stage / "pyproject.toml", stage / "streams" / "publisher" / "pyproject.toml"]
        (target / stamp).write_text("".join(path.read_text(encoding="utf-8") for path in projects) + f"{stage}\n")
    return target


def _shell(command: str, folder: Path, programs: Path) -> subprocess.CompletedProcess[str]:
    path = f"{programs / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "GAPWATCH_ENVIRONMENT": str(programs), "PIP_NO_INDEX": "1"}
    environment["XDG_CACHE_HOME"] = str(programs / "cache")
    return subprocess.run(
        ["bash", "-c", f"set -eu -o pipefail; {command}"], cwd=folder, env=environment, capture_output=True, text=True,
        check=False, timeout=300,
    )  # fmt: skip


def _blocks(language: str, readme: str = "README.md") -> list[str]:
    text = (ROOT / readme).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def _envelope() -> dict[str, object]:
    trace: dict[str, object] = json.loads(_blocks("json")[0])
    return trace


@pytest.mark.parametrize(
    "readme",
    [
        pytest.param(readme, marks=() if readme == "README.md" else pytest.mark.slow)
        for readme in sorted({command.readme for command in HERE})
    ],
)
def test_the_commands_of_a_readme_run_as_they_are_shown(readme: str, stage: Path, programs: Path) -> None:
    # One test a README: a command reads what the ones before it wrote.
    for text in [text for command in HERE if command.readme == readme for text in _spelled_out(command.text)]:
        done = _shell(text, stage, programs)
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        assert (done.stdout + done.stderr).strip() or ">" in text


def _spelled_out(command: str) -> Iterator[str]:
    """Each reading of `--format json|pycg`; and the tests' own script only looks for tests, for they are running."""
    if command.startswith("tests/run "):
        command += " --collect-only -p no:randomly"
    command = command.replace("/tmp/d.duckdb", "elsewhere.duckdb")
    found = ALTERNATIVES.search(command)
    if found is None or "'" in command:
        yield command
        return
    for word in found.groups():
        yield command[: found.start()] + word + command[found.end() :]


@pytest.mark.slow
def test_the_demo_stands_in_the_front_readme_as_it_prints(stage: Path, programs: Path) -> None:
    done = _shell("deploy/demo --store front.duckdb", stage, programs)
    assert done.returncode == 0, done.stderr

    said = {" ".join(line.split()) for line in done.stdout.splitlines()}
    block = next(block for block in _blocks("text") if "Since the change" in block)
    shown = [" ".join(line.split()) for line in block.splitlines() if line.strip(" .")]
    assert [line for line in shown if not any(line in s for s in said)] == []  # columns at the end are cut


@pytest.mark.slow
def test_the_script_of_the_tests_hands_its_arguments_to_pytest(stage: Path, programs: Path) -> None:
    done = _shell("tests/run tests/test_readmes.py --collect-only", stage, programs)

    assert done.returncode == 0, done.stderr
    assert "test_the_script_of_the_tests_hands_its_arguments_to_pytest" in done.stdout


@pytest.mark.kafka
def test_publish_as_it_is_shown(kafka_broker: KafkaBroker, tmp_path: Path, programs: Path) -> None:
    command = next(command.text for command in COMMANDS if command.text.startswith("gapwatch publish"))
    shutil.copy(TRACES / "airline_gpt-4.1.jsonl.gz", tmp_path / "traces.jsonl.gz")
    topic = kafka_broker.make_topic()
    here = command.replace("127.0.0.1:9092", kafka_broker.address).replace("--topic traces", f"--topic {topic}")
    assert here != command
    done = _shell(here, tmp_path, programs)

    assert done.returncode == 0, done.stderr
    assert len(kafka_broker.consume(topic, 20)) == 20


@pytest.mark.kafka
def test_the_first_trace_of_the_front_readme_arrives(
    kafka_broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GAPWATCH_KAFKA_BROKERS", kafka_broker.address)
    topic = kafka_broker.make_topic()
    (shown,) = _blocks("python")
    names: dict[str, Any] = {}
    exec(shown.replace('("support")', f'("support", topic="{topic}")'), names)

    assert names["publisher"].close(30)
    (record,) = kafka_broker.consume(topic, 1)
    trace = json.loads(record.value)
    assert (trace["pipeline"], trace["session_id"]) == ("support", "s-81")
    assert trace["spans"][0]["output"] == '{"answer": "It left yesterday."}'


@pytest.mark.parametrize("command", sorted(ELSEWHERE))
def test_a_command_that_is_run_elsewhere_stands_in_a_readme_and_its_test_is_there(command: str) -> None:
    assert command in {found.text for found in COMMANDS}
    file, name = ELSEWHERE[command].split("::")
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("readme", readmes(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_synopsis_names_commands_and_options_that_there_are(readme: Path) -> None:
    commands = discover_commands()
    for synopsis in synopses_of(readme):
        name = synopsis.split()[1]
        if f"{synopsis}`, which this version does not have" in " ".join(readme.read_text(encoding="utf-8").split()):
            continue
        if name.startswith("-"):
            assert name == "--help"
            continue
        assert name in commands, synopsis
        options = _options(commands[name].load())
        assert set(re.findall(r"--[a-z-]+", synopsis)) <= options, synopsis


def _options(command: click.Command) -> set[str]:
    own = {name for option in command.params for name in option.opts} | {"--help"}
    parts = command.commands.values() if isinstance(command, click.Group) else ()
    return own.union(*(_options(part) for part in parts))


# ---- examples ----


def test_the_envelope_and_the_portfolio_of_the_front_readme_load_and_score(tmp_path: Path) -> None:
    (tmp_path / "portfolio.yaml").write_text(_blocks("yaml")[0])
    (tmp_path / "traces.jsonl").write_text(json.dumps(_envelope()) + "\n")
    names = [metric.name for metric in load_portfolio(tmp_path / "portfolio.yaml").metrics]

    ran = gapwatch(
        "replay", tmp_path / "traces.jsonl", "--portfolio", tmp_path / "portfolio.yaml", "--store",
        tmp_path / "s.duckdb", "--json",
    )  # fmt: skip

    assert ran.status == 0, ran.err
    assert ran.json()["outcomes"] == {
        "answer_parses": {"pass": 1}, "answer_latency": {"fail": 1}, "fallback_rate": {"pass": 1},
    }  # fmt: skip
    assert sorted(names) == sorted(ran.json()["outcomes"])


def test_the_portfolio_of_the_front_readme_pages_when_its_promises_break(tmp_path: Path) -> None:
    (tmp_path / "portfolio.yaml").write_text(_blocks("yaml")[0])
    whole = _envelope()
    (span,) = whole["spans"]  # type: ignore[misc]
    lines = []
    for number in range(400):  # a trace a minute; the last 100 are answered by the fallback, in plain words
        at = 1774166400.0 + 60 * number
        times = {"started_at": at, "ended_at": at + 1.5}
        after = {"tier": "fallback", "output": "It left yesterday."} if number >= 300 else {}
        lines.append(json.dumps({**whole, "trace_id": f"t{number}", "spans": [{**span, **times, **after}]}))
    (tmp_path / "traces.jsonl").write_text("\n".join(lines) + "\n")

    ran = gapwatch(
        "replay", tmp_path / "traces.jsonl", "--portfolio", tmp_path / "portfolio.yaml", "--store",
        tmp_path / "s.duckdb", "--alerts",
    )  # fmt: skip

    assert ran.status == 0, ran.err
    pages = {line.split()[1] for line in ran.out.splitlines() if line.startswith("page ")}
    assert pages == {"answer_parses", "fallback_rate"}


def test_the_front_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 900


def test_the_example_of_the_scorers_readme_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "portfolio.yaml").write_text(_blocks("yaml")[0])
    names: dict[str, object] = {"records": record_slice([json.dumps(_envelope()).encode()])}
    exec(_blocks("python", "scorers/README.md")[0], names)

    assert ledger_of(names["scored"], None) == {"read": 1}  # type: ignore[arg-type]


def test_the_table_of_the_slice_source_says_its_defaults() -> None:
    from gapwatch.streams.sources.faust_slices import (
        FETCH_MIN_BYTES,
        FETCH_SHARE,
        PARTITION_FETCH_BYTES,
        SliceAppOptions,
    )
    from gapwatch.streams.sources.slice_source import SourceOptions

    app = SliceAppOptions("topic", "group")
    source = SourceOptions(app)
    table = (ROOT / "streams" / "README.md").read_text()
    for cells in (
        f"| `max_records` | {app.max_records:,} records |",
        f"| `slices_buffered` | {app.slices_buffered} slices |",
        f"| `slices_in_work` | {source.slices_in_work} slices |",
        f"| `records_in_work` | {source.records_in_work:,} records |",
        f"| `session_seconds` | {app.session_seconds:g} s |",
        f"| `commit_seconds` | {app.commit_seconds:g} s |",
        f"| `drain_seconds` | {source.drain_seconds:g} s |",
        f"| `linger_seconds` | {app.linger_seconds:g} s |",
        f"| `FETCH_MIN_BYTES`, `FETCH_SHARE` | {FETCH_MIN_BYTES >> 20} MiB, {FETCH_SHARE:g} |",
        f"| `PARTITION_FETCH_BYTES` | {PARTITION_FETCH_BYTES >> 20} MiB |",
    ):
        assert cells in table, cells
