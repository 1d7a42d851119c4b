"""replay that is interrupted at any point and run again ends as if never interrupted."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gapwatch.sinks.store.transaction import STEPS
from gapwatch.streams.sources import file_source
from tests.paths import ROOT
from tests.streams.replayed import contents, is_balanced, mixed_lines, replay, written

#: Records a slice, in the tests and in the processes that they interrupt: a slice is a commit.
SLICE_RECORDS = 100
LINES = mixed_lines(900)
POINTS = [*(name for name, _ in STEPS), "after"]
#: The first and the last step, and after it.
EVERY_DAY = (POINTS[0], POINTS[-2], POINTS[-1])

#: Runs `gapwatch` with small slices.
PROGRAM = f"""
import sys
from gapwatch.scorers.arrow_without_pandas import hide_pandas
from gapwatch.streams.sources import file_source

hide_pandas()
file_source.SLICE_RECORDS = {SLICE_RECORDS}
from gapwatch.scorers import command_line
"""

#: Forks a child a point, which is killed in its third commit: before that step or, for `after`, when it is done.
KILLED_AT_STEPS = (
    PROGRAM
    + """
import os, signal
from gapwatch.sinks.store.store import Store
# What the command imports when it runs: before the forks, so that they need not.
import gapwatch.streams.batch.progress, gapwatch.streams.batch.replay, gapwatch.streams.commands.replay
import gapwatch.streams.reports.replay_report

class Mortal:
    def __init__(self, point):
        self.point, self.commits, self.steps = point, 0, Store.steps

    def __call__(self, store):
        def die(transaction):
            os.kill(os.getpid(), signal.SIGKILL)
        steps = list(self.steps(store))
        names = [name for name, _ in steps] + ["after"]
        self.commits += 1
        if self.commits == 3:
            steps.insert(names.index(self.point), ("die", die))
        return steps

file, portfolio, folder, *points = sys.argv[1:]
for point in points:
    child = os.fork()
    if child == 0:
        mortal = Mortal(point)
        Store.steps = lambda store: mortal(store)
        command_line.run(
            ["replay", file, "--portfolio", portfolio, "--store", f"{folder}/{point}.duckdb", "--quiet"]
        )
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, (point, status)
"""
)

#: Says on standard error that a slice is kept, and takes a little time for it.
TALKING = (
    PROGRAM
    + """
import time
from gapwatch.sinks.store.store import Store

file_source._READ_BYTES = 100_000  # some slices
write_slice = Store.write_slice

def slow_write_slice(store, *arguments):
    time.sleep(0.02)
    seq = write_slice(store, *arguments)
    print("kept", file=sys.stderr, flush=True)
    return seq

Store.write_slice = slow_write_slice
command_line.main()
"""
)


@pytest.fixture(autouse=True)
def _small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_source, "SLICE_RECORDS", SLICE_RECORDS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("interrupted")
    written(folder / "t.jsonl", LINES)
    replay(folder / "whole.duckdb", folder / "t.jsonl")
    return folder


@pytest.fixture(scope="module")
def expected(folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    return contents(folder / "whole.duckdb")


@pytest.fixture(scope="module")
def killed(folder: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    chosen = [item.name for item in request.session.items if item.path == request.path]
    points = [point for point in POINTS if any(f"[{point}]" in name for name in chosen)]
    arguments = [folder / "t.jsonl", folder / "shop.yaml", folder, *points]
    subprocess.run([sys.executable, "-c", KILLED_AT_STEPS, *map(str, arguments)], cwd=ROOT, check=True)
    yield folder


@pytest.mark.parametrize(
    "point", [pytest.param(point, marks=() if point in EVERY_DAY else pytest.mark.slow) for point in POINTS]
)
def test_killed_at_a_named_point_of_a_commit_and_run_again(
    killed: Path, point: str, expected: dict[str, list[tuple[Any, ...]]]
) -> None:
    store = killed / f"{point}.duckdb"

    again = replay(store, killed / "t.jsonl")

    assert again.status == 0, again.err
    kept = (3 if point == "after" else 2) * SLICE_RECORDS
    assert again.json()["duplicates"] == sum(bool(line.strip()) for line in LINES[:kept])
    assert contents(store) == expected
    assert is_balanced(store)


def interrupt(folder: Path, store: Path, sent: signal.Signals, commits: int, seconds: float) -> tuple[int, str]:
    """Run replay, wait for some commits and a little longer, send a signal; return the status and the last words."""
    arguments = ["replay", folder / "t.jsonl", "--portfolio", folder / "shop.yaml", "--store", store, "--json"]
    with subprocess.Popen(
        [sys.executable, "-c", TALKING, *map(str, arguments)],
        cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        seen = 0
        for line in process.stderr:
            seen += line == "kept\n"
            if seen >= commits:
                break
        time.sleep(seconds)
        os.kill(process.pid, sent)
        return process.wait(), process.stderr.read()


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda sent: sent.name)
@pytest.mark.slow
def test_interrupted_at_random_points_and_run_again(
    folder: Path, tmp_path: Path, sent: signal.Signals, expected: dict[str, list[tuple[Any, ...]]]
) -> None:
    chance, store = random.Random(sent), tmp_path / "s.duckdb"

    # Each run goes on where the one before was interrupted, or comes to the end before the signal does.
    for _ in range(3):
        status, said = interrupt(folder, store, sent, commits=1, seconds=chance.uniform(0, 0.08))
        if sent == signal.SIGKILL:
            assert status in (-signal.SIGKILL, 0)
        else:
            assert (status, "gapwatch: interrupted" in said) in ((1, True), (0, False)), said
            assert "Traceback" not in said
    replay(store, folder / "t.jsonl")

    assert contents(store) == expected
    assert is_balanced(store)


def test_interrupted_before_the_first_commit(
    folder: Path, tmp_path: Path, expected: dict[str, list[tuple[Any, ...]]]
) -> None:
    store = tmp_path / "s.duckdb"

    status, _ = interrupt(folder, store, signal.SIGKILL, commits=0, seconds=0)
    again = replay(store, folder / "t.jsonl")

    assert (status, again.status) == (-signal.SIGKILL, 0)
    assert contents(store) == expected


@pytest.fixture
def waiting(folder: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A replay that has kept something into the store `s.duckdb` and waits for more of its standard input."""
    store = tmp_path / "s.duckdb"
    arguments = ["replay", "-", "--source", "x", "--portfolio", folder / "shop.yaml", "--store", store]
    with subprocess.Popen(
        [sys.executable, "-c", TALKING, *map(str, arguments)],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdin is not None and process.stderr is not None
        process.stdin.write("".join(f"{line}\n" for line in LINES))
        process.stdin.flush()
        assert process.stderr.readline() == "kept\n"
        yield process
        process.kill()


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM], ids=lambda sent: sent.name)
def test_an_interrupt_is_status_1_one_line_and_a_store_that_is_let_go_of(
    waiting: subprocess.Popen[str], tmp_path: Path, sent: signal.Signals
) -> None:
    waiting.send_signal(sent)
    out, err = waiting.communicate()

    assert (waiting.returncode, out) == (1, "")
    assert err.splitlines()[-1] == "gapwatch: interrupted"
    assert "Traceback" not in err
    assert is_balanced(tmp_path / "s.duckdb")
    [position] = contents(tmp_path / "s.duckdb")["positions"]
    assert SLICE_RECORDS <= position[4] < len(LINES)


def test_while_one_runs_a_second_is_refused_and_told_who_holds_the_store(
    waiting: subprocess.Popen[str], folder: Path, tmp_path: Path
) -> None:
    store = tmp_path / "s.duckdb"
    written(tmp_path / "shop.yaml", [(folder / "shop.yaml").read_text()])

    second = replay(store, folder / "t.jsonl")

    assert (second.status, second.out) == (2, "")
    assert f"held by another process, pid {waiting.pid}" in second.err
    waiting.kill()
    waiting.wait()
    assert replay(store, folder / "t.jsonl").status == 0
    assert is_balanced(store)
