"""`gapwatch replay`: what it says, and that a store ends up the same however the records came to it."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard

from gapwatch.streams.sources import file_source
from tests.gapwatch_command import Ran, gapwatch
from tests.paths import ROOT
from tests.streams.replayed import JSON_KEYS, contents, is_balanced, mixed_lines, portfolio, replay, trace, written

LINES = mixed_lines(600)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    portfolio(tmp_path)
    return tmp_path / "s.duckdb"


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make small files have many slices, each of which is a commit."""
    monkeypatch.setattr(file_source, "SLICE_RECORDS", 150)


def summary(ran: Ran) -> dict[str, object]:
    assert ran.status == 0, ran.err
    found: dict[str, object] = ran.json()
    return found


def test_json_ends_with_one_object_of_the_agreed_keys(store: Path, tmp_path: Path) -> None:
    ran = replay(store, written(tmp_path / "t.jsonl", LINES))

    found = summary(ran)
    assert tuple(found) == JSON_KEYS
    assert ran.out.count("\n") == 1
    assert found["records"] == 576  # 24 lines are blank
    assert (found["read"], found["dead_letters"], found["foreign"], found["duplicates"]) == (528, 36, 12, 0)
    assert found["traces"] == found["read"]
    assert found["ledger_imbalance"] == 0
    assert "t.jsonl" in ran.err and "528 traces" in ran.err


def test_json_counts_what_the_store_holds(store: Path, tmp_path: Path) -> None:
    found = summary(replay(store, written(tmp_path / "t.jsonl", LINES)))

    kept = contents(store)
    states: dict[str, dict[str, int]] = {}
    for *_, metric, state, n in kept["ledger"]:
        if metric is not None:
            states.setdefault(metric, {})[state] = n
    assert found["outcomes"] == states
    assert found["rows"] == len(kept["gaps"])
    assert found["dead_letters"] == len(kept["dead_letters"])
    assert found["spans"] == sum(
        len(json.loads(line)["spans"]) for line in LINES if '"shop"' in line and "spans" in line
    )
    assert is_balanced(store)


def test_without_json_a_report_is_standard_output_and_quiet_says_nothing(store: Path, tmp_path: Path) -> None:
    path = written(tmp_path / "t.jsonl", LINES)
    arguments = ["--portfolio", tmp_path / "shop.yaml", "--store"]

    told = gapwatch("replay", path, *arguments, store)
    quiet = gapwatch("replay", path, *arguments, tmp_path / "other.duckdb", "--quiet")

    assert "Whole file" in told.out and "traces" in told.err
    assert (quiet.status, quiet.out, quiet.err) == (0, "", "")
    assert contents(store) == contents(tmp_path / "other.duckdb")


def test_progress_and_report_of_a_real_process_are_on_their_own_streams(store: Path, tmp_path: Path) -> None:
    path = written(tmp_path / "t.jsonl", LINES[:50])
    command = ["replay", path, "--portfolio", tmp_path / "shop.yaml", "--store", store, "--json"]

    ran = subprocess.run(
        [sys.executable, "-m", "gapwatch.scorers.command_line", *map(str, command)],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )

    assert tuple(json.loads(ran.stdout)) == JSON_KEYS
    assert b"t.jsonl" in ran.stderr


def test_a_second_run_adds_nothing(store: Path, tmp_path: Path) -> None:
    path = written(tmp_path / "t.jsonl", LINES)
    first = summary(replay(store, path))
    before = contents(store)

    again = summary(replay(store, path))

    assert contents(store) == before
    assert again["duplicates"] == first["records"]
    nothing = {"records", "read", "dead_letters", "foreign", "traces", "spans", "rows", "ledger_imbalance"}
    assert {again[name] for name in nothing} == {0}
    assert again["outcomes"] == {}
    assert is_balanced(store)


@pytest.mark.usefixtures("small_slices")
@pytest.mark.parametrize("cut", [1, 14, 300, 599])
def test_a_file_that_grew_is_read_on_from_where_it_was(store: Path, tmp_path: Path, cut: int) -> None:
    path = written(tmp_path / "t.jsonl", LINES[:cut])
    first = summary(replay(store, path))
    written(path, LINES)

    second = summary(replay(store, path))

    assert second["duplicates"] == first["records"]
    assert first["records"] + second["records"] == 576  # type: ignore[operator]
    whole = tmp_path / "whole.duckdb"
    replay(whole, path)
    assert contents(store) == contents(whole)
    assert is_balanced(store)


@pytest.mark.usefixtures("small_slices")
def test_the_store_is_the_same_whatever_the_slices_and_the_compression(store: Path, tmp_path: Path) -> None:
    path = written(tmp_path / "t.jsonl", LINES)
    replay(store, path)
    expected = contents(store)
    plain = path.read_bytes()
    for number, content in enumerate((plain, gzip.compress(plain), zstandard.compress(plain), plain.rstrip(b"\n"))):
        file_source.SLICE_RECORDS = (50, 90, 200, 599)[number]  # put back by the fixture
        path.write_bytes(content)
        other = tmp_path / f"{number}.duckdb"

        assert replay(other, path).status == 0

        assert contents(other) == expected


def test_windows_lines_are_the_same_records(store: Path, tmp_path: Path) -> None:
    path = written(tmp_path / "t.jsonl", LINES)
    replay(store, path)
    expected = contents(store)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    other = tmp_path / "other.duckdb"

    replay(other, path)

    found = contents(other)
    digests = [kept.pop("positions")[0][-1] for kept in (expected, found)]
    assert found == expected
    assert digests[0] != digests[1]


def test_the_last_line_counts_without_its_end_and_gets_it_later(store: Path, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(f"{trace(0)}\n{trace(1)}")

    first = summary(replay(store, path))
    path.write_text(f"{trace(0)}\n{trace(1)}\n{trace(2)}")
    second = summary(replay(store, path))

    assert (first["read"], second["read"], second["duplicates"]) == (2, 1, 2)


@pytest.mark.parametrize("change", ["another first line", "a line less", "another line between"])
def test_a_file_that_no_longer_begins_as_it_did_is_refused_with_the_remedy(
    store: Path, tmp_path: Path, change: str
) -> None:
    path = written(tmp_path / "t.jsonl", LINES)
    replay(store, path)
    before = contents(store)
    changed = {
        "another first line": [trace(999), *LINES[1:], trace(1_000)],
        "a line less": LINES[:-1],
        "another line between": [*LINES[:300], trace(999), *LINES[300:]],
    }[change]
    written(path, changed)

    ran = replay(store, path)

    assert (ran.status, ran.out) == (2, "")
    assert str(path) in ran.err and "600 lines" in ran.err
    assert "give it another name with --source" in ran.err
    assert contents(store) == before
    assert summary(replay(store, path, options=["--source", "new"]))["duplicates"] == 0
    assert is_balanced(store)


def test_a_source_has_the_name_of_the_file_or_the_one_that_is_given(store: Path, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    path = written(tmp_path / "t.jsonl", LINES[:10])
    moved = written(tmp_path / "sub" / "t.jsonl", LINES[:10])

    assert summary(replay(store, path))["records"] == 10
    assert summary(replay(store, moved))["duplicates"] == 10
    assert summary(replay(store, moved, options=["--source", "mine"]))["records"] == 10
    assert summary(replay(store, path, options=["--source", "mine"]))["duplicates"] == 10

    lanes = [position[:2] for position in contents(store)["positions"]]
    assert lanes == [("file:mine", "mine"), ("file:t.jsonl", "t.jsonl")]


def test_several_files_are_sources_of_their_own(store: Path, tmp_path: Path) -> None:
    files = [written(tmp_path / f"{n}.jsonl", LINES[n::3]) for n in range(3)]
    together = replay(store, *files)
    one_by_one = tmp_path / "other.duckdb"

    for path in reversed(files):
        assert replay(one_by_one, path).status == 0

    assert summary(together)["records"] == 576
    assert contents(store) == contents(one_by_one)
    assert is_balanced(store)
    assert summary(replay(store, *files))["records"] == 0


def test_several_files_of_one_name_are_refused(store: Path, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    first = written(tmp_path / "t.jsonl", LINES[:10])
    second = written(tmp_path / "sub" / "t.jsonl", LINES[10:20])

    ran = replay(store, first, second)

    assert ran.status == 2
    assert "have the same name 't.jsonl'" in ran.err and "--source" in ran.err
    assert not store.exists()
    assert summary(replay(store, first, first))["records"] == 10


def test_names_are_asked_for_where_they_are_needed(store: Path, tmp_path: Path) -> None:
    path = written(tmp_path / "t.jsonl", LINES[:10])

    several = replay(store, path, path, options=["--source", "x"])
    stdin = replay(store, "-")

    assert (several.status, stdin.status) == (2, 2)
    assert "--source is for a single file" in several.err
    assert "standard input has no name; give it one with --source" in stdin.err
    assert not store.exists()


def test_standard_input_is_the_same_as_a_file(store: Path, tmp_path: Path) -> None:
    path = written(tmp_path / "t.jsonl", LINES)
    replay(store, path)
    piped = tmp_path / "piped.duckdb"
    command = ["replay", "-", "--source", "t.jsonl", "--portfolio", tmp_path / "shop.yaml", "--store", piped, "--json"]
    for expected in (576, 0):
        ran = subprocess.run(
            [sys.executable, "-m", "gapwatch.scorers.command_line", *map(str, command)],
            cwd=ROOT, input=path.read_bytes(), capture_output=True, check=True,
        )  # fmt: skip
        assert json.loads(ran.stdout)["records"] == expected

    assert contents(piped) == contents(store)


def test_a_record_goes_to_the_portfolio_of_its_pipeline(store: Path, tmp_path: Path) -> None:
    text = (tmp_path / "shop.yaml").read_text()
    stranger = written(tmp_path / "stranger.yaml", [text.replace(": shop", ": stranger")])
    path = written(tmp_path / "t.jsonl", LINES)

    found = summary(replay(store, path, options=["--portfolio", stranger]))

    assert (found["read"], found["foreign"]) == (540, 0)
    assert is_balanced(store)
    assert {row[3] for row in contents(store)["ledger"]} == {None, "shop", "stranger"}


def test_two_portfolios_of_one_pipeline_are_refused(store: Path, tmp_path: Path) -> None:
    path = written(tmp_path / "t.jsonl", LINES)

    ran = replay(store, path, options=["--portfolio", tmp_path / "shop.yaml"])

    assert ran.status == 2
    assert "two portfolios claim the pipeline 'shop'" in ran.err
