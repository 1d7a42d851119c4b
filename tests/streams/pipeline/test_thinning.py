"""Rows of what fails all the time are thinned by steps that depend on the records alone."""

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapwatch.scorers.loading.load import parse_portfolio
from gapwatch.scorers.slices.selection import EVALUATED, fixed_selection, recorded_factors, thinned_selection
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.scorers.slices.tables import LEDGER
from gapwatch.streams.pipeline.slice_pieces import PIECE_BYTES, pieces, window_cuts
from gapwatch.streams.pipeline.thinning import PartitionThinning, written_keeps
from gapwatch.streams.pipeline.thinning_options import ThinningOptions
from gapwatch.streams.sources.raw_slice import RawSlice
from tests.depth import examples
from tests.streams.run_process import portfolio

KEY = ("support", "parses", "fail")
OPTIONS = ThinningOptions(window=100, rows=10)


def slice_with(failing, offset=0):
    row = {"pipeline": "support", "metric": "parses", "state": "fail", "n": failing}
    ledger = pa.Table.from_pylist([row], schema=LEDGER)
    return ScoredSlice("live", "t", 0, offset, offset + 1, 1, 1, None, {"ledger": ledger})


def after_windows(counts):
    """Return the factor after windows with so many failing spans each."""
    thinning = PartitionThinning(OPTIONS, 0)
    for number, count in enumerate(counts):
        thinning.count(slice_with(count))
        thinning.enter(100 * (number + 1), {KEY: 1.0})
    return thinning.factors.get(KEY, 1.0)


@pytest.mark.parametrize(
    ("counts", "factor"),
    [
        ([10], 1.0),
        ([11], 1 / 2),
        ([80], 1 / 8),
        ([81], 1 / 16),
        ([80, 60], 1 / 8),  # 7.5 rows: neither too many nor so few that more are worth a step
        ([80, 19], 1 / 2),  # 2.4 rows would be kept: as many as fit
        ([80, 0], 1.0),
        ([80, 1000], 1 / 128),
    ],
)
def test_the_count_of_a_window_decides_on_the_next(counts, factor):
    assert after_windows(counts) == factor


def test_the_step_holds_from_the_beginning_of_the_window_wherever_the_next_slice_begins():
    thinning = PartitionThinning(OPTIONS, 0)
    thinning.count(slice_with(50))
    assert thinning.enter(130, {KEY: 1.0}) == 100
    assert thinning.enter(150, {KEY: 1.0}) is None
    thinning.count(slice_with(50))
    assert thinning.enter(200, {KEY: 1.0}) is None  # the same again
    assert thinning.enter(1000, {KEY: 1.0}) == 300  # windows without a record: nothing is thinned any more


def test_what_the_portfolio_keeps_rarely_anyway_is_not_thinned_and_0_is_no_bound():
    thinning = PartitionThinning(OPTIONS, 0)
    thinning.count(slice_with(90))
    assert thinning.enter(100, {KEY: 0.1}) is None
    unbound = PartitionThinning(ThinningOptions(100, 0), 0)
    unbound.count(slice_with(10_000))
    assert unbound.enter(100, {KEY: 1.0}) is None


def test_a_recorded_policy_gives_its_factors_back_to_the_bit():
    portfolios = [parse_portfolio(portfolio())]
    keeps = written_keeps({portfolios[0].sha: "support"}, fixed_selection(portfolios))
    assert keeps[KEY] == 1.0
    factors = {KEY: 1 / 64, ("support", "parses", "unknown"): 1 / 2, ("support", "short", "fail"): 1 / 1024}
    factors["support", "helpful", EVALUATED] = 1 / 8
    thinned = thinned_selection(portfolios, factors)

    assert recorded_factors(portfolios, thinned.rows()) == factors
    assert thinned_selection(portfolios, recorded_factors(portfolios, thinned.rows())).id == thinned.id
    assert thinned_selection(portfolios, {}).id == fixed_selection(portfolios).id != thinned.id
    rows = {row["metric"]: row["p_kept"] for row in thinned.rows() if row["stratum"] is None}
    assert (rows["parses"]["fail"], rows["parses"]["pass"], rows["short"]["fail"]) == (1 / 64, 0.05, 1 / 1024)


def raw_slice(begin, sizes, gaps):
    offsets = begin + np.cumsum([0, *(1 + gap for gap in gaps[1:])])[: len(sizes)]
    values = [bytes(size) for size in sizes]
    return RawSlice("t", 0, begin, int(offsets[-1]) + 1 + gaps[0], offsets, values, np.zeros(len(sizes)))


@given(
    st.integers(0, 1000),
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 40)), min_size=1, max_size=60),
    st.integers(1, 50),
)
@settings(max_examples=examples(200))
def test_pieces_tile_the_slice_and_none_crosses_the_end_of_a_window(begin, records, window):
    raw = raw_slice(begin, [size for size, _ in records], [gap for _, gap in records])
    found = list(pieces(raw, "live", window_cuts(raw, window)))

    assert (found[0].from_offset, found[-1].to_offset) == (raw.from_offset, raw.to_offset)
    assert all(a.to_offset == b.from_offset for a, b in itertools.pairwise(found))
    assert all(piece.from_offset // window == (piece.to_offset - 1) // window for piece in found)
    assert [int(o) for piece in found for o in piece.offsets] == raw.offsets.tolist()
    assert [v for piece in found for v in piece.values.to_pylist()] == raw.values
    assert all(((p.from_offset <= p.offsets) & (p.offsets < p.to_offset)).all() for p in found)


def test_large_records_are_scored_in_several_pieces():
    raw = raw_slice(0, [PIECE_BYTES // 2 - 1] * 5 + [2 * PIECE_BYTES, 1], [0] * 7)
    found = [len(piece.offsets) for piece in pieces(raw, "live", [])]

    assert found == [2, 2, 1, 1, 1]
