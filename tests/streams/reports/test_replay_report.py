"""What an engineer reads at the end of `gapwatch replay`, on wide and narrow terminals and in a file."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from gapwatch.scorers.loading.load import load_portfolio
from tests.deploy.demo_traces import TRACES, run_script
from tests.gapwatch_command import gapwatch
from tests.paths import AIRLINE
from tests.terminal import on_terminal

PORTFOLIO = AIRLINE / "portfolio.yaml"
BAD_RELEASE = TRACES / "airline_qwen2.5-7b.jsonl.gz"
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def replayed_on(columns: int, store: Path, *options: str) -> list[str]:
    status, seen = on_terminal(columns, "replay", BAD_RELEASE, "--portfolio", PORTFOLIO, "--store", store, *options)
    assert status == 0, seen
    return COLOURS.sub("", seen).splitlines()


@pytest.mark.parametrize(
    "columns",
    [
        80,
        pytest.param(100, marks=pytest.mark.slow),
        pytest.param(120, marks=pytest.mark.slow),
        pytest.param(200, marks=pytest.mark.slow),
    ],
)
def test_no_name_and_no_interval_is_broken_on_a_terminal_of_any_usual_width(columns: int, tmp_path: Path) -> None:
    lines = replayed_on(columns, tmp_path / "S.duckdb", "--all")
    words = {word for line in lines for word in line.replace(":", " ").split()}

    assert {metric.name for metric in load_portfolio(PORTFOLIO).metrics} <= words
    assert [line for line in lines if line.count("[") != line.count("]")] == []
    table = lines[: next(i for i, line in enumerate(lines) if line.startswith("Next"))]
    assert [line for line in table if len(line.rstrip()) > columns] == []


@pytest.mark.slow
def test_values_stand_in_the_table_where_there_is_room(tmp_path: Path) -> None:
    assert "median / 95th" in "\n".join(replayed_on(140, tmp_path / "wide.duckdb", "--all"))
    assert "median / 95th" not in "\n".join(replayed_on(80, tmp_path / "narrow.duckdb", "--all"))


def test_what_is_proposed_next_can_be_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = gapwatch("replay", BAD_RELEASE, "--portfolio", PORTFOLIO, "--store", tmp_path / "a store.duckdb")
    proposed = [line.strip() for line in said.out.split("\nNext commands\n")[1].splitlines() if line.strip()]

    assert len(proposed) == 5
    for line in proposed:
        program, *arguments = shlex.split(line)
        ran = gapwatch(*arguments)
        assert (program, ran.status) == ("gapwatch", 0), ran.err
        assert ran.out.strip()


def test_what_a_trace_says_cannot_steer_the_terminal(tmp_path: Path) -> None:
    evil = "\x1b[2J\x1b]0;owned\x07\u202e"
    span = {"span_id": "s", "component": "agent", "kind": "llm", "output": "", "model": evil, "tier": evil}
    trace = {"pipeline": "airline-agent", "release": evil, "session_id": evil, "spans": [span]}
    source = tmp_path / "evil.jsonl"
    source.write_text("".join(json.dumps({**trace, "trace_id": f"{evil}{i}"}) + "\n" for i in range(20)))

    status, seen = on_terminal(
        120, "replay", source, "--portfolio", PORTFOLIO, "--store", tmp_path / "S.duckdb",
        "--all",
    )  # fmt: skip

    assert status == 0, seen
    assert "Worst traces" in seen
    assert [character for character in ("\x1b[2J", "\x1b]", "\x07", "\u202e") if character in seen] == []
    assert "--trace" not in seen  # what cannot be typed is not proposed


def test_a_name_with_brackets_is_no_markup(tmp_path: Path) -> None:
    store = tmp_path / "S.duckdb"
    source = tmp_path / "[red]x.jsonl"
    source.write_text('{"trace_id": "t", "pipeline": "airline-agent", "spans": []}\n')

    ran = gapwatch("replay", source, "--portfolio", PORTFOLIO, "--store", store)

    assert ran.status == 0, ran.err
    assert "[red]x.jsonl" in ran.err


def test_a_terminal_shows_the_same_release_as_worse_as_a_file_does(tmp_path: Path) -> None:
    store = tmp_path / "S.duckdb"
    for name in ("airline_gpt-4.1", "airline_qwen2.5-7b"):
        ran = gapwatch("replay", TRACES / f"{name}.jsonl.gz", "--portfolio", PORTFOLIO, "--store", store)
        assert ran.status == 0, ran.err

    listed = ran.out.split("Releases that differ")[1].split("Not monitored")[0]
    narrow = "\n".join(replayed_on(80, store)).split("Releases that differ")[1].split("Not monitored")[0]

    def worse(text: str) -> set[str]:
        names = [m.name for m in load_portfolio(PORTFOLIO).metrics]
        return {name for name in names for line in text.splitlines() if name in line.split() and "worse" in line}

    assert {"ids_known", "tool_calls_succeed"} <= worse(listed)
    assert worse(listed) == worse(narrow)


# ---- the conclusion ----

START = "2026-03-02T07:40:00Z"


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four good releases of 140 conversations, one a minute, then the bad one, which counts as their fallback."""
    names = ("gpt-4.1", "ft-gpt-4.1-sft", "claude-sonnet-4-5", "gpt-4o-2024-11-20", "qwen2.5-7b")
    files = [TRACES / f"airline_{name}.jsonl.gz" for name in names]
    played = run_script(AIRLINE / "play.py", "--start", START, "--every", "60", "--fallback", "qwen2.5-7b", *files)
    path = tmp_path_factory.mktemp("stream") / "stream.jsonl"
    path.write_text(played.stdout)
    return path


@pytest.mark.parametrize("columns", [80, pytest.param(120, marks=pytest.mark.slow)])
def test_the_report_begins_with_its_conclusion_and_shows_what_is_broken_or_moved(
    columns: int, stream: Path, tmp_path: Path
) -> None:
    store = tmp_path / "S.duckdb"
    status, seen = on_terminal(columns, "replay", stream, "--portfolio", PORTFOLIO, "--store", store, "--alerts")
    lines = [line.rstrip() for line in COLOURS.sub("", seen).splitlines()]
    said = "\n".join(lines)

    assert status == 0
    sections = ["It got worse", "Since the change:", "Whole file:", "One failing trace:", "Not monitored:", "Ledger"]
    places = [said.index(name) for name in (*sections, "Next commands")]
    assert places == sorted(places)
    whats = {line.split()[0]: line for line in lines[: said[: places[1]].count("\n")] if line.strip()}
    assert "fallback_rate of agent: " in whats["What"] and "of the traces fail" in whats["What"]
    assert "2026-03-02 10:0" in whats["When"]
    assert "release qwen2.5-7b: 100% of the excess, first seen at" in whats["Why"]
    assert "1 page open at the end of the traces: an incident of " in " ".join(said.split())
    # A release that stopped recording rejected replies, long before: nothing is known to have broken.
    assert "rejected_reply_rate (undecided) of agent" in whats["Blind"]
    # The bad release came after 140 minutes, at 10:00.
    assert re.search(r"at 10:\d\d:\d\dZ, at most \d+ minutes after it, by event time", whats["Found"])

    table = said[places[1] : places[2]]
    assert {"fallback_rate", "tool_calls_succeed"} <= set(table.split())
    rows = [line.split() for line in table.splitlines()]
    listed = [row[1] for row in rows if row and row[0] in ("page", "ticket", "note")]
    assert "rejected_reply_rate" in listed and len(listed) == len(set(listed))
    assert "before the change together" not in table and "before and after the change together" in said[places[2] :]
    whole = said[places[2] : places[3]]
    assert "ids_known" in whole and "arguments_are_json" not in whole
    assert re.search(r"\d+ of 25 metrics are neither broken nor moved; replay --all", " ".join(whole.split()))
    assert "Error: " in said[places[3] : places[4]] and "fails tool_calls_succeed" in said[places[3] : places[4]]
    assert [line for line in said[: places[-1]].splitlines() if len(line) > columns] == []


def test_without_alerts_the_conclusion_says_that_shifts_were_not_looked_for(tmp_path: Path) -> None:
    ran = gapwatch("replay", BAD_RELEASE, "--portfolio", PORTFOLIO, "--store", tmp_path / "S.duckdb")

    assert ran.status == 0, ran.err
    assert "Shifts were not looked for: --alerts does that" in ran.out
    assert "Broken over the whole file: " in ran.out
    assert "Since the change" not in ran.out and "before and after" not in ran.out


def test_a_portfolio_that_tells_nobody_says_so_in_its_report(tmp_path: Path) -> None:
    portfolio = tmp_path / "p.yaml"
    portfolio.write_text(
        "gapwatch: 1\nportfolio: airline-agent\nversion: 1\npipeline: airline-agent\n"
        "components: [{id: agent, kind: llm}]\n"
        "metrics: [{name: says, component: agent, claim: {form: check, field: output, present: true}}]\n"
    )
    ran = gapwatch("replay", BAD_RELEASE, "--portfolio", portfolio, "--store", tmp_path / "S.duckdb", "--alerts")

    assert "No metric asks for an alert, so nobody would have been told of anything." in ran.out


def test_the_change_is_dated_by_an_alert_that_knows_it_and_a_release_is_named_only_if_it_is_new(tmp_path: Path) -> None:
    portfolio, source = tmp_path / "p.yaml", tmp_path / "t.jsonl"
    portfolio.write_text(
        "gapwatch: 1\nportfolio: p\nversion: 1\npipeline: p\ncomponents: [{id: a, kind: llm}]\n"
        "metrics: [{name: says, component: a, claim: {form: check, field: output, present: true},"
        " threshold: {operator: '<=', value: 0.05}, alert: {severity: page}}]\n"
    )
    lines = []
    for number in range(400):
        at, (model, output) = 1774166400.0 + 60 * number, ("small", "") if number >= 300 else ("large", "yes")
        span = {
            "span_id": "1",
            "component": "a",
            "started_at": at,
            "ended_at": at + 1.5,
            "output": output,
            "model": model,
        }
        lines.append(json.dumps({"trace_id": f"t{number}", "pipeline": "p", "release": "r1", "spans": [span]}) + "\n")
    source.write_text("".join(lines))
    ran = gapwatch("replay", source, "--portfolio", portfolio, "--store", tmp_path / "S.duckdb", "--alerts")
    said = {line.split()[0]: line for line in ran.out.split("\nSince the change")[0].splitlines() if line.strip()}

    assert "-> 100%" in said["What"]  # not the broken threshold, which was found first and dates nothing
    assert said["When"].split()[1] == "2026-03-22" and "13:00:00Z" in said["When"]
    assert "release" not in said["Why"] and "model small" in said["Why"]
