"""Scoring does not depend on the bounds of a slice, on neighbouring records, or on sending it between processes."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.scorers.slices.tables import SCORED_TABLES
from tests.depth import examples
from tests.reference.strategies import DrawnSlice, slices
from tests.scorers.scored_slice import Product, record_slice
from tests.scorers.scored_view import rows_of

_LAW = settings(
    max_examples=examples(8),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
#: Tables whose rows belong to one record each: cut anywhere, they are cut with it.
_ROW_TABLES = ("gaps", "dead_letters", "samples", "judge_requests", "trace_ids")
_COUNTS = {"ticks": ("n",), "session_ticks": ("units", "bad"), "ledger": ("n",)}
_SUMS = ("score_sum", "score_sum_squares")


def added(table: str, *scored: ScoredSlice) -> tuple[Counter[Any], dict[Any, list[float]], Counter[Any]]:
    """Return counts, float sums and histogram cells by all other columns, summed over slices."""
    counts: Counter[Any] = Counter()
    sums: dict[Any, list[float]] = {}
    cells: Counter[Any] = Counter()
    for one in scored:
        for row in one.tables[table].to_pylist():
            numbers = {name: row.pop(name) for name in (*_COUNTS[table], *_SUMS, "histogram") if name in row}
            key = tuple(row.values())
            for name in _COUNTS[table]:
                counts[key, name] += numbers[name]
            for name in _SUMS:
                if numbers.get(name) is not None:
                    sums.setdefault((key, name), []).append(numbers[name])
            for cell, n in numbers.get("histogram") or ():
                cells[key, cell] += n
    return counts, sums, cells


def check_equal_counts(whole: ScoredSlice, *parts: ScoredSlice) -> None:
    for table in _COUNTS:
        (counts, sums, cells), (other_counts, other_sums, other_cells) = added(table, whole), added(table, *parts)
        assert +counts == +other_counts
        assert cells == other_cells
        assert set(sums) == set(other_sums)
        for key, numbers in sums.items():
            size = sum(map(abs, (*numbers, *other_sums[key])))
            assert math.isclose(sum(numbers), sum(other_sums[key]), rel_tol=1e-9, abs_tol=1e-9 * size)


@_LAW
@given(slices(), st.integers(0, 40))
def test_adjacent_slices_add_up_to_the_whole(drawn: DrawnSlice, place: int) -> None:
    cut = place % (len(drawn.values) + 1)
    product = Product(drawn.portfolios)
    stamps = drawn.timestamps
    head = record_slice(drawn.values[:cut], None if stamps is None else stamps[:cut])
    tail = record_slice(drawn.values[cut:], None if stamps is None else stamps[cut:], cut)

    whole = product.score(record_slice(drawn.values, stamps))
    parts = [product.score(head), product.score(tail)]

    for table in _ROW_TABLES:
        assert whole.tables[table].to_pylist() == pa.concat_tables([part.tables[table] for part in parts]).to_pylist()
    assert whole.records == sum(part.records for part in parts)
    assert whole.spans == sum(part.spans for part in parts)
    check_equal_counts(whole, *parts)


@_LAW
@given(slices(), st.lists(st.integers(0, 40), min_size=1, max_size=3))
def test_slices_scored_together_give_what_each_gives_alone(drawn: DrawnSlice, places: list[int]) -> None:
    product = Product(drawn.portfolios)
    stamps, n = drawn.timestamps, len(drawn.values)
    cuts = [0, *sorted(place % (n + 1) for place in places), n]
    parts = [
        replace(
            record_slice(drawn.values[first:last], None if stamps is None else stamps[first:last], 7 * first),
            partition=number,
        )
        for number, (first, last) in enumerate(pairwise(cuts))
    ]

    together, alone = product.score_together(parts), [product.score(part) for part in parts]

    for one, other in zip(together, alone, strict=True):
        assert replace(one, tables={}) == replace(other, tables={})
        for table in _ROW_TABLES:
            assert one.tables[table].to_pylist() == other.tables[table].to_pylist()
        for table, schema in SCORED_TABLES.items():
            assert one.tables[table].schema == schema
            assert one.tables[table].num_rows == other.tables[table].num_rows
        check_equal_counts(one, other)


@_LAW
@given(slices(), st.integers(0, 2**32))
def test_the_order_of_neighbours_changes_nothing(drawn: DrawnSlice, seed: int) -> None:
    product = Product(drawn.portfolios)
    order = list(range(len(drawn.values)))
    random.Random(seed).shuffle(order)
    stamps = None if drawn.timestamps is None else [drawn.timestamps[place] for place in order]

    straight = product.score(record_slice(drawn.values, drawn.timestamps))
    shuffled = product.score(record_slice([drawn.values[place] for place in order], stamps))

    moved_back = [row._replace(offset=order[row.offset]) for row in rows_of(shuffled)]
    assert sorted(rows_of(straight), key=repr) == sorted(moved_back, key=repr)
    check_equal_counts(straight, shuffled)


@_LAW
@given(slices())
def test_a_scored_slice_crosses_the_boundary_unchanged(drawn: DrawnSlice) -> None:
    scored = Product(drawn.portfolios).score(record_slice(drawn.values, drawn.timestamps))

    received = ScoredSlice.from_ipc(scored.to_ipc())

    assert received == scored
    for name, schema in SCORED_TABLES.items():
        assert received.tables[name].schema == schema
        assert scored.tables[name].schema == schema


@_LAW
@given(slices())
def test_scoring_twice_gives_the_same(drawn: DrawnSlice) -> None:
    records = record_slice(drawn.values, drawn.timestamps)

    assert Product(drawn.portfolios).score(records) == Product(drawn.portfolios).score(records)
