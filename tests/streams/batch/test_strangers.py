"""Records with wrong times, and pipelines of other hours, change no alert of a replay and no tick but their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.gapwatch_command import Ran, gapwatch
from tests.streams.broken_shop import CHANGE, PORTFOLIO, query, shop_trace

COUNT = CHANGE + 150
TRACES = [shop_trace(number) for number in range(COUNT)]


def at_time(number: int, seconds: float, **fields: Any) -> bytes:
    """A good trace of another clock, named for its place."""
    span = {"span_id": "s", "component": "agent", "kind": "llm", "output": "{}", "ended_at": seconds}
    record = {"trace_id": f"x{number}", "pipeline": "shop", "ended_at": seconds, "spans": [span]}
    return orjson.dumps({**record, **fields})


def own_time(number: int) -> float:
    return 1_774_166_400.0 + 30 * number


def with_stranger(seconds: float) -> list[bytes]:
    return [*TRACES[:200], at_time(200, seconds), *TRACES[200:]]


def with_host_ahead() -> list[bytes]:
    """A third of the records come from a host that is an hour ahead; the last ones as well."""
    made = []
    for number, trace in enumerate(TRACES):
        made.append(trace)
        if number % 2:
            made.append(at_time(number, own_time(number) + 3600, attributes={"host.name": "web-9"}))
    return made


def bakery(number: int, seconds: float) -> bytes:
    return at_time(number, seconds, pipeline="bakery")


def with_all_at_once() -> list[bytes]:
    """One record of 2030, one of 1970, a host an hour ahead, and a pipeline a day ahead between the records."""
    made = with_host_ahead()
    made[300:300] = [at_time(90_000, 1_900_000_000.0), at_time(90_001, 3_000.0)]
    return [record for n, one in enumerate(made) for record in (one, bakery(n, own_time(n) + 86_400))]


OTHER_PIPELINE = {
    "after": [*TRACES, *(bakery(n, own_time(n)) for n in range(COUNT))],
    "before": [*(bakery(n, own_time(n)) for n in range(COUNT)), *TRACES],
    "interleaved, a day ahead": [
        record for n, trace in enumerate(TRACES) for record in (bakery(n, own_time(n) + 86_400), trace)
    ],
}


def replayed(tmp_path: Path, lines: list[bytes], *pipelines: str) -> tuple[Path, Ran]:
    (tmp_path / "traces.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    options: list[str | Path] = []
    for pipeline in ("shop", *pipelines):
        path = tmp_path / f"{pipeline}.yaml"
        path.write_text(PORTFOLIO.replace(": shop", f": {pipeline}"))
        options += ["--portfolio", path]
    store = tmp_path / "s.duckdb"
    ran = gapwatch("replay", tmp_path / "traces.jsonl", *options, "--store", store, "--alerts")
    assert ran.status == 0, ran.err
    return store, ran


def found(store: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Alerts, shifts and ticks of the shop, without rows that have no time."""
    of_shop = "FROM {} WHERE pipeline = 'shop'"
    return {
        "alerts": query(store, f"SELECT * EXCLUDE (seq, attribution) {of_shop.format('alerts')} ORDER BY ALL"),
        "shifts": query(store, f"SELECT * EXCLUDE (seq) {of_shop.format('shifts')} ORDER BY ALL"),
        "watched": query(store, f"SELECT * EXCLUDE (seq) {of_shop.format('watched')} ORDER BY ALL"),
        "ticks": query(
            store,
            f"SELECT metric, bucket, fold_bucket, level, facet, value, outcome, sum(n) {of_shop.format('ticks')}"
            " AND bucket IS NOT NULL GROUP BY ALL ORDER BY ALL",
        ),
    }


def ledger(store: Path) -> dict[str, int]:
    sql = "SELECT state, sum(n)::INTEGER FROM ledger WHERE metric IS NULL AND pipeline = 'shop' GROUP BY ALL"
    return dict(query(store, sql))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[tuple[Any, ...]]]]:
    store, _ = replayed(tmp_path_factory.mktemp("alone"), TRACES)
    result = found(store)
    assert result["alerts"] and result["shifts"]
    assert ledger(store) == {"read": COUNT}
    yield result


@pytest.mark.parametrize(
    ("lines", "state", "count"),
    [
        pytest.param(with_stranger(1_900_000_000.0), "ahead", 1, id="one record of 2030"),
        pytest.param(with_stranger(3_000.0), "behind", 1, id="one record of 1970"),
        pytest.param(with_host_ahead(), "ahead", COUNT // 2, id="one host an hour ahead"),
    ],
)
def test_wrong_times_change_nothing_but_their_own_counts(
    tmp_path: Path, undisturbed: dict[str, list[tuple[Any, ...]]], lines: list[bytes], state: str, count: int
) -> None:
    store, ran = replayed(tmp_path, lines)

    assert found(store) == undisturbed
    assert ledger(store) == {"read": COUNT + count, state: count}
    assert f"{count:,} of {COUNT + count:,} records (" in ran.out and "count without a time" in ran.out
    assert f"{count:,} of {'host.name=web-9' if count > 1 else 'a host that they do not name'}" in " ".join(
        ran.out.split()
    )
    untimed = "SELECT sum(n)::INTEGER FROM ticks WHERE bucket IS NULL AND level = 'unit' AND facet = 'all'"
    assert query(store, untimed) == [(count,)]


@pytest.mark.parametrize("order", OTHER_PIPELINE)
def test_a_pipeline_of_other_hours_changes_nothing(
    tmp_path: Path, undisturbed: dict[str, list[tuple[Any, ...]]], order: str
) -> None:
    store, _ = replayed(tmp_path, OTHER_PIPELINE[order], "bakery")

    assert found(store) == undisturbed
    assert query(store, "SELECT count(*) FROM ticks WHERE fold_bucket <> bucket") == [(0,)]
    assert ledger(store) == {"read": COUNT}


def test_all_of_them_at_once_change_no_alert_and_no_tick(
    tmp_path: Path, undisturbed: dict[str, list[tuple[Any, ...]]]
) -> None:
    store, ran = replayed(tmp_path, with_all_at_once(), "bakery")

    wrong = {"ahead": COUNT // 2 + 1, "behind": 1}
    assert found(store) == undisturbed
    assert ledger(store) == {"read": COUNT + sum(wrong.values()), **wrong}
    assert "half an hour or more ahead" in ran.out and "two hours or more behind" in ran.out
