"""The process dies at every step of keeping, and at any moment under load: the store holds whole slices only."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gapwatch.sinks.store.ledger import imbalance
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.store.transaction import STEPS
from tests.builders import KEPT_AT, whole_slice
from tests.paths import ROOT

POINTS = [name for name, _ in STEPS]

#: Forks a child for each step; it keeps one slice, and is killed in the middle of the next, before that step or,
#: for `after`, when the last step is done.
KILLED_AT_STEPS = """
import os, signal, sys
from gapwatch.sinks.store.store import Store
from tests.builders import KEPT_AT, whole_slice

class Mortal(Store):
    dies_before = None
    def steps(self):
        def die(keeping):
            os.kill(os.getpid(), signal.SIGKILL)
        steps = list(super().steps())
        names = [name for name, _ in steps] + ["after"]
        if self.dies_before is not None:
            steps.insert(names.index(self.dies_before), ("die", die))
        return steps

folder, points = sys.argv[1], sys.argv[2:]
for point in points:
    child = os.fork()
    if child == 0:
        store = Mortal.open(f"{folder}/{point}.duckdb", create=True)
        store.write_slice(whole_slice(0, 10), KEPT_AT)
        store.dies_before = point
        store.write_slice(whole_slice(10, 30), KEPT_AT)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, status
"""

UNDER_LOAD = """
import sys
from gapwatch.sinks.store.store import Store
from tests.builders import KEPT_AT, whole_slice

store = Store.open(sys.argv[1], create=True)
position = store.position("live", "traces", 0)
at = position.to_offset if position else 0
while True:
    store.write_slice(whole_slice(at, at + 40), KEPT_AT)
    at += 40
    print(at, flush=True)
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("killed")
    subprocess.run([sys.executable, "-c", KILLED_AT_STEPS, str(folder), *POINTS, "after"], cwd=ROOT, check=True)
    return folder


@pytest.mark.parametrize("point", [*POINTS, "after"])
def test_a_process_killed_at_any_step_leaves_all_or_nothing_of_a_slice(killed: Path, point: str) -> None:
    with Store.open(killed / f"{point}.duckdb") as store:
        kept = 30 if point == "after" else 10
        assert contents(store) == {"gaps": kept, "trace_ids": kept, "read": kept, "seq": 2 if kept == 30 else 1}
        position = store.position("live", "traces", 0)
        assert position is not None and position.to_offset == kept

        store.write_slice(whole_slice(kept, 40), KEPT_AT)
        assert contents(store)["gaps"] == 40
        assert imbalance(store.cursor()) == 0


@pytest.mark.slow
def test_a_process_killed_at_any_moment_loses_nothing_that_it_had_told(tmp_path: Path) -> None:
    path, chance, told = tmp_path / "s.duckdb", random.Random(7), 0
    for _ in range(5):
        process = subprocess.Popen(
            [sys.executable, "-c", UNDER_LOAD, str(path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        with process.stdout:
            told = int(process.stdout.readline())
            time.sleep(chance.uniform(0, 0.3))
            os.kill(process.pid, signal.SIGKILL)
            lines = process.stdout.read().split("\n")
            told = max([told, *(int(line) for line in lines[:-1])])
        process.wait()
        with Store.open(path) as store:
            position = store.position("live", "traces", 0)
            assert position is not None and position.to_offset >= told
            assert contents(store)["gaps"] == position.to_offset == position.records
            assert imbalance(store.cursor()) == 0


def contents(store: Store) -> dict[str, int]:
    def one(sql: str) -> int:
        return int(store.query(sql)[0][0])

    return {
        "gaps": one("SELECT count(*) FROM gaps"),
        "trace_ids": one("SELECT count(*) FROM internal.trace_ids"),
        "read": one("SELECT sum(n) FROM ledger WHERE metric IS NULL"),
        "seq": one("SELECT max(seq) FROM ledger"),
    }
