"""The two that the benchmark compares store the same; what they cost is no test's business."""

from __future__ import annotations

import json
import random
from pathlib import Path

import duckdb
import orjson
import pytest

from tests.benchmarks.contenders import contents_of, fresh, loop, replay, run_pair
from tests.benchmarks.long_stream import BLOCK, long_stream
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


def test_loop_and_replay_store_the_same(traffic: tuple[Path, Path], tmp_path: Path) -> None:
    pair = run_pair(*traffic, tmp_path)

    found = contents(tmp_path / "replay.duckdb")
    assert all(found[name][0] > 0 for name in CONTENTS if name != "session_ticks")
    assert found["dead_letters"][0] == 13 * (len(BROKEN) - 3)
    assert pair.loop.cpu > 0 and pair.replay.peak_mb > 50


def test_each_outcome_of_the_traffic_is_compared(traffic: tuple[Path, Path], tmp_path: Path) -> None:
    loop(*traffic, fresh(tmp_path / "loop.duckdb"))

    with duckdb.connect(str(tmp_path / "loop.duckdb"), read_only=True) as store:
        seen = {row[0] for row in store.execute("SELECT DISTINCT outcome FROM gaps").fetchall()}
        redacted = store.execute("SELECT count(*) FROM gaps WHERE observed LIKE '%[redacted]%'").fetchall()[0][0]
    assert seen == {"pass", "warn", "fail", "unknown"}
    assert redacted >= 2


def test_a_difference_of_one_cell_is_found(traffic: tuple[Path, Path], tmp_path: Path) -> None:
    store = fresh(tmp_path / "replay.duckdb")
    replay(*traffic, store)
    before = contents_of(store)
    for change in (
        "UPDATE gaps SET observed = 'x' WHERE rowid = 7",
        "UPDATE ticks SET n = n + 1 WHERE rowid = 7",
        "UPDATE ticks SET score_sum = score_sum * 1.00001 WHERE score_sum IS NOT NULL",
        "DELETE FROM trace_ids WHERE rowid = 7",
    ):
        with duckdb.connect(str(store)) as connection:
            connection.execute(change)
        after = contents_of(store)

        assert len(differences(before, after)) == 1, change
        before = after


def test_the_long_stream_repeats_its_traces_with_other_ids_and_later_times() -> None:
    few = [json.loads(line) for line in long_stream(50)]

    assert len({trace["trace_id"] for trace in few}) == 50
    assert few[1]["spans"] == json.loads(list(lines(2, seed=11))[1])["spans"]

    dice = random.Random(3)
    picked = dice.randrange(100)
    stream = long_stream(BLOCK + 100)
    traces = [json.loads(line) for i, line in enumerate(stream) if i % BLOCK == picked]
    first, second = traces
    assert second["trace_id"] != first["trace_id"]
    assert second["ended_at"] - first["ended_at"] == pytest.approx(100.0)
    assert second["spans"][1]["output"] == first["spans"][1]["output"]
