from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapwatch.streams.detectors.bets import BetTable, category_bets, number_bets, rate_bets
from gapwatch.streams.detectors.evidence import fold_rise, fold_sum, increments, margin_increments, mean_evidence
from gapwatch.streams.detectors.recovery import RECOVERY_DELTAS, STILL_MOVED, recovery_increments
from tests.depth import examples
from tests.streams.detectors.builders import same_margin
from tests.streams.detectors.single_rate import SingleRate

TABLES = [rate_bets(), category_bets(["a", "b"], [0.0, 1.0], ["b"]), category_bets(["a", "b", "c"]), number_bets()]


def g_of(table: BetTable) -> np.ndarray:
    return np.array([table.shapes[shape].g for shape in table.shape_of])


def one_by_one(table: BetTable, alpha: np.ndarray, units: list[int]) -> np.ndarray:
    """The definition: bets at the shares of the bucket's start, against Polya's urn, one unit after the other."""
    g, deltas = g_of(table), table.deltas
    q = alpha / alpha.sum()
    z = (q * np.exp(deltas[:, None] * g)).sum(axis=1)
    urn, total = alpha.copy(), np.zeros(table.count)
    for b in units:
        total += np.log(q[b]) + deltas * g[:, b] - np.log(z) - np.log(urn[b] / urn.sum())
        urn[b] += 1
    return total


@pytest.mark.parametrize("table", TABLES, ids=lambda t: f"{t.kind}-{t.count}")
@settings(max_examples=examples(40))
@given(data=st.data())
def test_bucket_form_is_the_product_over_its_units(table: BetTable, data: st.DataObject) -> None:
    alpha = np.array(data.draw(st.lists(st.floats(0.5, 5000), min_size=table.bins, max_size=table.bins)))
    units = data.draw(st.lists(st.integers(0, table.bins - 1), max_size=60))

    counts = np.bincount(np.array(units, int), minlength=table.bins).astype(float)
    found = increments(table, alpha[:, None], counts[:, None])[:, 0]

    assert found == pytest.approx(one_by_one(table, alpha, units), abs=1e-9)


@pytest.mark.parametrize("table", TABLES, ids=lambda t: f"{t.kind}-{t.count}")
def test_the_mean_factor_of_one_unit_is_one_under_the_predictive_law(table: BetTable) -> None:
    alpha = np.random.default_rng(1).uniform(0.5, 40, table.bins)
    q = alpha / alpha.sum()

    factors = np.exp(increments(table, np.repeat(alpha[:, None], table.bins, 1), np.eye(table.bins)))

    assert factors @ q == pytest.approx(np.ones(table.count))


@pytest.mark.parametrize("table", TABLES, ids=lambda t: f"{t.kind}-{t.count}")
@pytest.mark.parametrize("margin", [0.0, 0.2, 0.7])
def test_with_a_margin_no_tilt_within_it_pays(table: BetTable, margin: float) -> None:
    alpha = np.random.default_rng(2).uniform(0.5, 40, table.bins)
    q = alpha / alpha.sum()
    alphas = np.repeat(alpha[:, None], table.bins, 1)

    factors = np.exp(margin_increments(table, alphas, np.eye(table.bins), same_margin(table, margin, table.bins)))

    for bet, (g, delta) in enumerate(zip(g_of(table), table.deltas, strict=True)):
        for tilt in np.linspace(-1.0, margin, 7):
            law = q * np.exp(
                math.copysign(tilt, delta) * g * (1 if tilt >= 0 else -1) if tilt >= 0 else tilt * np.sign(delta) * g
            )
            assert factors[bet] @ (law / law.sum()) <= 1 + 1e-12
        edge = q * np.exp(math.copysign(margin, delta) * g)
        assert factors[bet] @ (edge / edge.sum()) == pytest.approx(1.0)


def test_margin_zero_is_the_plain_product_of_the_tilted_shares() -> None:
    table = rate_bets()
    alpha, counts = np.array([[900.0], [100.0]]), np.array([[20.0], [5.0]])

    plain = margin_increments(table, alpha, counts, same_margin(table, 0.0))[:, 0]

    z = np.log(0.9 + 0.1 * np.exp(table.deltas))
    assert plain == pytest.approx(5 * table.deltas - 25 * z)


def test_folding_single_units_is_the_plain_python_detector() -> None:
    table, rng = rate_bets(), np.random.default_rng(3)
    up, down = SingleRate(up=True), SingleRate(up=False)
    evidence, alpha = np.zeros((table.count, 1)), np.full((2, 1), 0.5)
    for x in (rng.random(400) < np.where(np.arange(400) < 300, 0.1, 0.5)).tolist():
        m_up, m_down = up.update(x), down.update(x)
        counts = np.array([[1.0 - x], [float(x)]])
        evidence = fold_sum(evidence, increments(table, alpha, counts), np.ones(1))
        alpha += counts

        assert mean_evidence(table, evidence, 1)[0] == pytest.approx(m_up, rel=1e-9)
        assert mean_evidence(table, evidence, -1)[0] == pytest.approx(m_down, rel=1e-9)
    assert up.evidence[2] > 1e6


def test_evidence_stays_finite_and_a_side_without_bets_never_alarms() -> None:
    table = category_bets(["a", "b"])

    grown = fold_sum(np.full((1, 1), 1e290), np.full((1, 1), 900.0), np.ones(1))

    assert np.isfinite(grown).all()
    assert mean_evidence(table, np.full((table.count, 3), 1e9), 1).tolist() == [0.0] * 3


def test_the_companion_falls_to_zero_and_says_so() -> None:
    rise, fell = fold_rise(np.array([[1.0, 3.0]]), np.array([[-2.0, -2.0]]))

    assert rise.tolist() == [[0.0, 1.0]]
    assert fell.tolist() == [[True, False]]


def test_recovery_bets_do_not_pay_while_the_series_is_still_moved() -> None:
    alpha, g = np.array([95.0, 5.0]), np.array([0.0, 1.0])

    factors = np.exp(recovery_increments(g, np.repeat(alpha[:, None], 2, 1), np.eye(2), np.full(2, STILL_MOVED)))

    for tilt in (STILL_MOVED, 0.5, 2.0):
        odds = 5 / 95 * math.exp(tilt)
        p = odds / (1 + odds)
        assert np.all(factors @ np.array([1 - p, p]) <= 1 + 1e-12)
    assert np.any(factors @ np.array([0.95, 0.05]) > 1.0)
    assert factors.shape == (len(RECOVERY_DELTAS), 2)
