"""A run exports its store while it lasts; what goes wrong with that is said, and ends nothing."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gapwatch.sinks.api.endpoint_note import read_note
from gapwatch.sinks.commands.options import reading
from gapwatch.sinks.export.delta_place import DeltaPlace
from gapwatch.streams.live.export_loop import ExportLoop, ExportOptions
from tests.builders import whole_slice
from tests.gapwatch_command import gapwatch
from tests.http_client import get
from tests.kafka_broker import KafkaBroker
from tests.live_store import Kept
from tests.streams.run_process import traces


def exported(folder: Path, sql: str) -> Any:
    with reading(DeltaPlace(str(folder))) as con:
        return con.execute(sql).fetchall()[0][0]


def test_an_export_that_fails_is_said_and_the_next_one_has_all(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place, shown, told, notes = tmp_path / "history", dict[str, float](), dict[str, Any](), dict[str, str]()
    options = ExportOptions(DeltaPlace(str(place)), timedelta(seconds=0.1))
    with Kept(tmp_path / "s.duckdb", portfolios=[]) as kept:
        kept.write_slice(whole_slice(0, 10))
        loop = ExportLoop(
            kept.path, options, lambda name, samples: shown.update({name: samples[()]}), told.__setitem__,
            notes.__setitem__,
        )  # fmt: skip

        async def until(done: Any) -> None:
            task = asyncio.create_task(loop.run())
            for _ in range(1200):
                await asyncio.sleep(0.05)
                if done():
                    break
            task.cancel()
            await asyncio.wait([task], timeout=10)

        place.write_text("no folder")
        asyncio.run(until(lambda: shown.get("gapwatch_export_failures_total", 0) > 0))
        assert "history cannot be" in notes["export"]
        assert "last_success" not in told["export"]
        place.unlink()
        asyncio.run(until(lambda: "last_success" in told.get("export", {})))

        assert notes["export"] == ""
        assert "the next attempt follows" in caplog.text
        assert shown["gapwatch_export_rows_total"] == told["export"]["rows"] == 20
        assert shown["gapwatch_export_lag_seconds"] < 60
        assert exported(place, "SELECT sum(records)::BIGINT FROM offsets") == 10


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--export", "gs://x/y"), "give a folder, or s3://BUCKET/PREFIX"),
        (("--export", "h", "--export-every", "soon"), "--export-every"),
        (("--export", "h", "--listen", "none"), "give --listen an address"),
        (("--export", "h", "--keep", "90m"), "keep them at least twice as long"),
    ],
)
def test_exports_that_cannot_work_are_refused(tmp_path: Path, options: tuple[str, ...], words: str) -> None:
    (tmp_path / "p.yaml").write_text("gapwatch: 1\n")
    given = ("--brokers", "127.0.0.1:9", "--portfolio", tmp_path / "p.yaml", "--store", tmp_path / "s.duckdb")

    ran = gapwatch("run", *given, *options)

    assert (ran.status, words in ran.err) == (2, True), ran.err
    assert not (tmp_path / "s.duckdb").exists()


@pytest.mark.kafka
@pytest.mark.slow
def test_a_run_on_a_broker_exports_what_it_stores(broker: KafkaBroker, watch: Any, tmp_path: Path) -> None:
    topic, place = broker.make_topic(partitions=2), tmp_path / "history"
    for partition in (0, 1):
        broker.produce(topic, traces(1000 * partition, 1000 * partition + 1000), partition=partition)
    watched = watch(broker, topic)
    watched.start(f"--export={place}", "--export-every=1s")
    records = "SELECT coalesce(sum(records), 0)::BIGINT FROM offsets"
    watched.wait_until(lambda: place.exists() and "reading partition" in watched.said())
    url = read_note(watched.store).url

    def health() -> Any:
        return get(url, "/healthz").json()

    def page() -> dict[str, float]:
        found = re.findall(r"^(gapwatch_export_\w+) (\S+)$", get(url, "/metrics").body.decode(), re.MULTILINE)
        return {name: float(value) for name, value in found}

    watched.wait_until(lambda: "last_success" in health().get("export", {}), 120.0)
    watched.wait_until(lambda: exported(place, records) == 2000, 120.0)
    away = place.rename(tmp_path / "away")
    place.write_text("no folder")
    watched.wait_until(lambda: "export" in health().get("notes", {}), 120.0)
    broker.produce(topic, traces(2000, 2500), partition=0)
    watched.wait_until(lambda: page()["gapwatch_export_failures_total"] > 0)
    assert "the export to" in watched.said()
    assert get(url, "/healthz").status == 200
    place.unlink()
    away.rename(place)
    watched.wait_until(lambda: exported(place, records) == 2500, 120.0)
    assert page()["gapwatch_export_lag_seconds"] < 120
    assert watched.end() == 0, watched.said()

    for sql in (records, "SELECT sum(n)::BIGINT FROM ticks", "SELECT count(*) FROM gaps"):
        assert exported(place, sql) <= watched.query(sql)[0][0]
    gapwatch("export", "--store", watched.store, "--to", place)
    for sql in (records, "SELECT sum(n)::BIGINT FROM ticks", "SELECT count(*) FROM gaps"):
        assert exported(place, sql) == watched.query(sql)[0][0]
