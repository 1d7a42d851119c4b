"""The two that the benchmark compares store the same; what they cost is no test's business."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import duckdb
import orjson
import pytest

from tests.benchmarks.contenders import run_pair
from tests.benchmarks.long_stream import long_stream
from tests.benchmarks.stages import STAGES, owner_of
from tests.benchmarks.store_contents import CONTENTS, contents, differences
from tests.benchmarks.traffic import lines, portfolio

pytestmark = pytest.mark.slow

BROKEN = [
    b"",
    b"   \t",
    b"no JSON",
    b'{"trace_id": "t", "pipeline": "support", "spans": [],}',
    b"\xff\xfe{}",
    b"[1, 2]",
    b'{"trace_id": "t", "pipeline": "support"}',
    b'{"trace_id": "t", "pipeline": "support", "spans": 3}',
    b'{"trace_id": "t", "pipeline": "support", "spans": [4]}',
    b'{"trace_id": "t", "pipeline": "support", "spans": [{"span_id": "s"}]}',
    b'{"trace_id": "t", "pipeline": "another", "spans": []}',
]


@pytest.fixture(scope="module")
def traffic(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """5,000 traces, of which some fail rarely and some often, with broken lines between them; and the portfolio."""
    folder = tmp_path_factory.mktemp("traffic")
    traces = [*lines(4_000), *lines(1_000, bad=0.3, seed=8)]
    traces.append(_with_secrets(traces[0]))
    mixed = [line for i, trace in enumerate(traces) for line in ([trace] if i % 400 else [*BROKEN, trace + b"\r"])]
    (folder / "traces.jsonl").write_bytes(b"\n".join(mixed))
    (folder / "portfolio.yaml").write_text(portfolio(), encoding="utf-8")
    return folder / "traces.jsonl", folder / "portfolio.yaml"


def _with_secrets(line: bytes) -> bytes:
    """Return a failing trace with secrets in what its rows show, one of them behind what is looked at."""
    trace = orjson.loads(line)
    trace["spans"][0]["status"] = "sk-" + "a1" * 20
    trace["spans"][1]["output"] = "Sorry, " + "word " * 300 + "the PASSWORD is not api-KEY"
    trace["spans"][2]["output"] = "I cannot tell ann@example.com\u212a"
    return orjson.dumps(trace)


@pytest.fixture(scope="module")
def stores(traffic: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The stores of loop and replay, which were found to be equal."""
    folder = tmp_path_factory.mktemp("stores")
    pair = run_pair(*traffic, folder)
    assert pair.loop.cpu > 0 and pair.replay.peak_mb > 50
    return folder / "loop.duckdb", folder / "replay.duckdb"


def test_loop_and_replay_store_the_same_of_every_kind(stores: tuple[Path, Path]) -> None:
    one, other = (contents(store) for store in stores)

    assert differences(one, other) == []
    assert all(one[name][0] > 0 for name in CONTENTS if name != "session_ticks")
    assert one["dead_letters"][0] == 13 * (len(BROKEN) - 3)


def test_each_outcome_of_the_traffic_is_compared(stores: tuple[Path, Path]) -> None:
    with duckdb.connect(str(stores[0]), read_only=True) as store:
        seen = {row[0] for row in store.execute("SELECT DISTINCT outcome FROM gaps").fetchall()}
        redacted = store.execute("SELECT count(*) FROM gaps WHERE observed LIKE '%[redacted]%'").fetchall()[0][0]

    assert seen == {"pass", "warn", "fail", "unknown"}
    assert redacted >= 2


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE gaps SET observed = 'x' WHERE rowid = 7",
        "UPDATE ticks SET n = n + 1 WHERE rowid = 7",
        "UPDATE ticks SET score_sum = score_sum * 1.00001 WHERE score_sum IS NOT NULL",
        "DELETE FROM internal.trace_ids WHERE rowid = 7",
    ],
)
def test_a_difference_of_one_cell_is_found(change: str, stores: tuple[Path, Path], tmp_path: Path) -> None:
    changed = tmp_path / "changed.duckdb"
    shutil.copy(stores[0], changed)
    with duckdb.connect(str(changed)) as connection:
        connection.execute(change)

    assert len(differences(contents(stores[0]), contents(changed))) == 1


def test_the_long_stream_repeats_its_traces_with_other_ids_and_later_times() -> None:
    traces = [json.loads(line) for line in long_stream(500, block=200)]

    assert len({trace["trace_id"] for trace in traces}) == 500
    assert traces[1]["spans"] == json.loads(list(lines(2, seed=11))[1])["spans"]
    for first, second in zip(traces[:200], traces[200:400], strict=True):
        assert second["ended_at"] - first["ended_at"] == pytest.approx(1.0)
        assert second["spans"][1]["output"] == first["spans"][1]["output"]


def test_the_stages_that_are_timed_are_functions_of_the_program() -> None:
    named = [(module, path) for stages in STAGES.values() for _, module, path, _ in stages]

    assert [path for module, path in named if not callable(getattr(*owner_of(module, path)))] == []
