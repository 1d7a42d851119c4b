"""The pipeline over a real store: where it ended and went on shows nowhere in what it recorded."""

import asyncio
import weakref

import numpy as np
import pytest

from gapwatch.scorers.loading.load import parse_portfolio
from gapwatch.sinks.store.store import Store
from gapwatch.streams.pipeline.judge_throttle import JudgeThrottle
from gapwatch.streams.pipeline.pipeline import Pipeline
from gapwatch.streams.pipeline.regime import make_regime
from gapwatch.streams.pipeline.slice_writer import SliceWriter
from gapwatch.streams.pipeline.store_thread import StoreThread
from gapwatch.streams.pipeline.thinning_options import ThinningOptions
from gapwatch.streams.sources.raw_slice import RawSlice
from tests.streams.run_process import portfolio, trace

THINNED = ThinningOptions(window=200, rows=10)
SLICE = 50


def slices(count):
    values = [trace(n) for n in range(count)]
    for begin in range(0, count, SLICE):
        offsets = np.arange(begin, begin + SLICE)
        part = values[begin : begin + SLICE]
        yield RawSlice("traces", 0, begin, begin + SLICE, offsets, part, offsets + 1.8e9)


def run(path, slices, ends=(), is_shedding=False):
    """Keep slices, with a new start after each offset of `ends`."""
    slices, throttle = list(slices), JudgeThrottle()
    throttle.set_shedding(is_shedding)
    for end in (*ends, slices[-1].to_offset):
        with Store.open(path, create=not path.exists()) as store:
            regime = make_regime([parse_portfolio(portfolio(), "portfolio.yaml")])
            thread = StoreThread(store)
            pipeline = Pipeline(SliceWriter(thread), regime, THINNED, throttle)
            try:
                pipeline.register(regime)

                async def keep(pipeline=pipeline, end=end):
                    while slices and slices[0].to_offset <= end:
                        await pipeline.take(slices.pop(0))

                asyncio.run(keep())
            finally:
                pipeline.close()
                thread.close()


def recorded(path):
    with Store.open(path) as store:
        return store.query(
            """SELECT DISTINCT from_offset, policy, portfolio_sha, metric, stratum, p_evaluated, p_kept, cause
                 FROM policies ORDER BY ALL"""
        )


@pytest.mark.parametrize(
    "ends",
    [
        (400, 600),
        pytest.param((200,), marks=pytest.mark.slow),
        pytest.param((150,), marks=pytest.mark.slow),
        pytest.param((250, 350), marks=pytest.mark.slow),
        pytest.param(tuple(range(50, 1000, 50)), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_wherever_it_ended_its_policies_are_those_of_one_run(tmp_path, ends):
    run(tmp_path / "whole", slices(1000))
    run(tmp_path / "parts", slices(1000), ends)

    assert recorded(tmp_path / "parts") == recorded(tmp_path / "whole")
    assert {row[-1] for row in recorded(tmp_path / "whole")} == {"portfolio", "thinning"}


def test_what_was_shed_when_it_ended_is_asked_again_for_load_and_for_no_other_cause(tmp_path):
    run(tmp_path / "store", list(slices(100)), is_shedding=True)
    run(tmp_path / "store", list(slices(200))[2:])

    assert {(row[0], row[-1]) for row in recorded(tmp_path / "store")} == {(0, "portfolio"), (100, "load")}


class _Holds:
    """Notes, as each piece is stored, how many of the pieces before are still held by anybody."""

    def __init__(self):
        self.pieces, self.held = [], []

    def slice_stored(self, scored, _seconds):
        self.held.append(sum(piece() is not None for piece in self.pieces))
        self.pieces.append(weakref.ref(scored))

    def portfolios_changed(self, portfolios):
        pass


def test_a_piece_is_let_go_of_as_soon_as_it_is_stored(tmp_path):
    holds, values, offsets = _Holds(), [trace(n) for n in range(1000)], np.arange(1000)
    with Store.open(tmp_path / "store", create=True) as store:
        regime = make_regime([parse_portfolio(portfolio(), "portfolio.yaml")])
        thread = StoreThread(store)
        pipeline = Pipeline(SliceWriter(thread, holds), regime, THINNED)
        try:
            pipeline.register(regime)
            asyncio.run(pipeline.take(RawSlice("traces", 0, 0, 1000, offsets, values, offsets + 1.8e9)))
        finally:
            pipeline.close()
            thread.close()

    assert holds.held == [0] * 5
