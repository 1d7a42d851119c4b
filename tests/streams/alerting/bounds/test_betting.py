"""Evidence and limits by betting, against exact answers and the laws that they must obey."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gapwatch.streams.alerting.bounds.betting import (
    Units,
    evidence_above,
    lower_limit,
    ratio_evidence,
    total_evidence,
)

LEVEL = math.log(20.0)


def units(values: list[float], weights: list[float] | None = None) -> Units:
    return Units(np.array(values), np.ones(len(values)), np.array(weights or [1.0] * len(values)))


@given(st.sampled_from([0.02, 0.05, 0.3, 0.7]), st.integers(1, 5))
def test_a_bet_on_a_share_is_fair_where_the_share_is_its_bound(share: float, n: int) -> None:
    """The mean of the stake over all outcomes, by their exact probabilities, is 1."""
    expected = sum(
        math.comb(n, k) * share**k * (1 - share) ** (n - k)
        * math.exp(evidence_above(Units(np.array([0.0, 1.0]), np.array([n - k, k], float), np.ones(2)), share))
        for k in range(n + 1)
    )  # fmt: skip

    assert math.isclose(expected, 1.0, rel_tol=1e-9)


@given(st.floats(0.01, 5.0), st.floats(0.05, 0.95))
def test_a_bet_on_a_ratio_never_gains_on_average_where_the_ratio_is_its_bound(large: float, share: float) -> None:
    """One trace has a numerator of 0 or `large`, and is good with `share`, in every way that they may depend."""
    for both in np.linspace(0.0, min(share, 0.5), 5):
        chances = {(1, 1): both, (1, 0): 0.5 - both, (0, 1): share - both, (0, 0): 0.5 - share + both}
        if min(chances.values()) < 0.0:
            continue
        bound = 0.5 * large / share
        stake = sum(
            chance * math.exp(ratio_evidence(units([x * large]), units([float(y)]), bound, exceeds=True))
            for (x, y), chance in chances.items()
        )

        assert stake <= 1.0 + 1e-9


@settings(max_examples=30)
@given(st.lists(st.floats(0.001, 1e4), min_size=1, max_size=60))
def test_a_lower_limit_of_a_mean_is_below_the_mean_and_is_where_the_evidence_reaches_its_level(x: list[float]) -> None:
    some = units(x)
    limit = lower_limit(lambda bound: evidence_above(some, bound), some.mean, LEVEL)

    assert 0.0 <= limit <= some.mean
    if limit > 0.0:
        assert evidence_above(some, limit) >= LEVEL > evidence_above(some, limit * 1.001 + some.mean * 1e-6)


@given(st.floats(0.01, 100.0))
def test_evidence_does_not_depend_on_the_unit_of_numbers_or_weights(scale: float) -> None:
    x = [0.5, 3.0, 8.0, 0.1]
    of_mean = evidence_above(units([scale * one for one in x], [7.0] * 4), 2.0 * scale)
    of_total = total_evidence(units([scale * one for one in x]), 4.0 * scale)

    assert math.isclose(of_mean, evidence_above(units(x), 2.0), abs_tol=1e-9)
    assert math.isclose(of_total, total_evidence(units(x), 4.0), abs_tol=1e-9)


def test_a_share_on_its_bound_reaches_the_level_in_no_more_streams_than_promised() -> None:
    """600 streams of 400 traces, looked at after each trace: at most 5 % and three standard errors."""
    bad = np.random.default_rng(5).random((600, 400)) < 0.1
    reached = 0
    for stream in bad:
        k = np.cumsum(stream)
        n = np.arange(1, 401)
        looks = [(k[i], n[i]) for i in range(9, 400, 10) if k[i] > 0.1 * n[i]]
        reached += any(
            evidence_above(Units(np.array([0.0, 1.0]), np.array([m - j, j], float), np.ones(2)), 0.1) >= LEVEL
            for j, m in looks
        )

    assert 0 < reached <= 600 * 0.05 + 3 * math.sqrt(600 * 0.05 * 0.95)
