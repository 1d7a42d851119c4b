from __future__ import annotations

import numpy as np
import pytest

from gapwatch.streams.detectors.bets import category_bets, frequent_labels, number_bets, rate_bets


def test_rates_have_four_bets_each_way() -> None:
    table = rate_bets()

    assert table.count == 8
    assert sorted(table.sides.tolist()) == [-1] * 4 + [1] * 4


def test_numbers_have_34_bets_on_26_bins_and_the_tails_point_outwards() -> None:
    table = number_bets()

    assert (table.bins, table.count) == (26, 34)
    high = next(s for s in table.shapes if s.name == "share above the old p95")
    low = next(s for s in table.shapes if s.name == "share below the old p5")
    assert [table.bin_names[b] for b in high.moved_bins] == ["p95-p97.5", "p97.5-p99", "p99-p99.8", "p99.8-p100"]
    assert [table.bin_names[b] for b in low.moved_bins] == ["p0-p0.2", "p0.2-p1", "p1-p2.5", "p2.5-p5"]
    assert (high.side, low.side) == (1, -1)
    assert table.describe(table.shape_of.index(table.shapes.index(high)) + 4) == "share above the old p95 down"


def test_categories_without_a_cost_have_no_direction_and_new_ones_have_a_bin() -> None:
    table = category_bets(["stop", "length"])

    assert table.bin_names == ("stop", "length", "new")
    assert set(table.sides.tolist()) == {0}


def test_costs_give_categories_a_direction() -> None:
    table = category_bets(["primary", "fallback"], [0.0, 1.0], ["fallback"])

    assert table.shapes[0].g == (-1.0, 1.0, 1.0)
    assert [s.name for s in table.shapes] == ["mean cost", "share of fallback", "share of new"]
    assert np.all(table.sides == np.sign(table.deltas))


def test_labels_of_a_burn_in_come_by_frequency_then_name() -> None:
    assert frequent_labels({"c": 3, "a": 1, "b": 3, "new": 9, "z": 0}, 2) == ("b", "c")


@pytest.mark.parametrize(
    ("names", "cost", "bad"),
    [(["a", "a"], None, []), (["new"], None, []), (["a"], [2.0], []), (["a", "b"], [1.0], []), (["a"], [0.0], ["b"])],
)
def test_what_makes_no_sense_is_refused(names: list[str], cost: list[float] | None, bad: list[str]) -> None:
    with pytest.raises(ValueError, match=r"categories|cost"):
        category_bets(names, cost, bad)
