"""Slices of several partitions that wait together are one group, and the store holds what they give alone."""

import asyncio
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from gapwatch.scorers.errors import JobError
from gapwatch.scorers.loading.load import parse_portfolio
from gapwatch.sinks.store.store import Store
from gapwatch.streams.pipeline.gathered_slices import MOST_RECORDS
from gapwatch.streams.pipeline.pipeline import Pipeline
from gapwatch.streams.pipeline.regime import make_regime
from gapwatch.streams.pipeline.slice_writer import SliceWriter
from gapwatch.streams.pipeline.store_thread import StoreThread
from gapwatch.streams.pipeline.thinning_options import ThinningOptions
from gapwatch.streams.sources.raw_slice import RawSlice
from tests.streams.run_process import portfolio, trace

PARTITIONS, ROUNDS, SLICE = 4, 6, 30
#: Windows end inside of slices, at other places in each partition, and some metrics are thinned.
THINNED = ThinningOptions(window=50, rows=4)
_TABLES = ("gaps", "ticks", "session_ticks", "ledger", "samples", "trace_ids", "offsets", "policies", "outbox")


def raw_slice(partition, number, records=SLICE):
    begin = 7 * partition + SLICE * number
    values = [trace(1000 * partition + begin + n) for n in range(records)]
    values[partition] = b"{broken"
    offsets = np.arange(begin, begin + records)
    return RawSlice("traces", partition, begin, begin + records, offsets, values, offsets + 1.8e9)


class _Counted(Store):
    """Counts transactions."""

    transactions = 0

    def write_slices(self, slices, kept_at):
        self.transactions += 1
        return super().write_slices(slices, kept_at)


@contextmanager
def opened(path: Path, store_class: type[Store] = Store, thinning: ThinningOptions | None = None):
    """Open a store with its pipeline."""
    with store_class.open(path, create=True) as store:
        regime = make_regime([parse_portfolio(portfolio(), "portfolio.yaml")])
        thread = StoreThread(store)
        pipeline = Pipeline(SliceWriter(thread), regime, thinning or ThinningOptions())
        try:
            pipeline.register(regime)
            yield store, pipeline
        finally:
            pipeline.close()
            thread.close()


def run(path: Path, rounds, together):
    async def take(pipeline):
        for several in rounds:
            if together:
                await asyncio.gather(*(pipeline.take(raw) for raw in several))
            else:
                for raw in several:
                    await pipeline.take(raw)

    with opened(path, _Counted, THINNED) as (store, pipeline):
        asyncio.run(take(pipeline))
        varying = "COLUMNS(lambda c: c NOT IN ('seq', 'kept_at', 'recorded_at'))"
        tables = {name: sorted(store.query(f"SELECT {varying} FROM {_place(name)}"), key=repr) for name in _TABLES}
        return tables, store.transactions


def _place(name):
    return f"internal.{name}" if name in ("outbox", "trace_ids") else name


def test_the_store_is_that_of_slices_taken_one_by_one(tmp_path):
    rounds = [[raw_slice(partition, number) for partition in range(PARTITIONS)] for number in range(ROUNDS)]

    together, transactions = run(tmp_path / "together", rounds, together=True)
    alone, transactions_alone = run(tmp_path / "alone", rounds, together=False)

    for name in _TABLES:
        assert together[name] == alone[name], name
    assert transactions < transactions_alone / 2


def test_two_slices_of_one_partition_and_full_slices_are_groups_of_their_own(tmp_path):
    first, second = raw_slice(0, 0), raw_slice(0, 1)
    full = raw_slice(1, 0, MOST_RECORDS)

    _tables, transactions = run(tmp_path / "s", [[first, second, full]], together=True)

    windows = -(-MOST_RECORDS // THINNED.window)
    assert transactions >= 2 + windows


def test_every_caller_learns_that_the_group_was_not_stored(tmp_path):
    class Failing(Store):
        def write_slices(self, slices, kept_at):
            raise JobError("the disk is full")

    async def take(pipeline):
        return await asyncio.gather(
            *(pipeline.take(raw_slice(partition, 0)) for partition in range(PARTITIONS)), return_exceptions=True
        )

    with opened(tmp_path / "s", Failing) as (_store, pipeline):
        errors = asyncio.run(take(pipeline))

    assert [str(error) for error in errors] == ["the disk is full"] * PARTITIONS


@pytest.mark.parametrize("cancelled", [0, 2], ids=["the one that works", "one that waits"])
def test_a_cancelled_caller_leaves_no_other_waiting(tmp_path, cancelled):
    async def take(pipeline):
        tasks = [asyncio.create_task(pipeline.take(raw_slice(partition, 0))) for partition in range(3)]
        await asyncio.sleep(0)
        tasks[cancelled].cancel()
        done, waiting = await asyncio.wait(tasks, timeout=30)
        return len(done), len(waiting)

    with opened(tmp_path / "s") as (_store, pipeline):
        assert asyncio.run(take(pipeline)) == (3, 0)
