"""Kappa and F1 match published examples, and their intervals cover the truth as often as promised."""

from __future__ import annotations

import math
import random

import pytest

from gapwatch.scorers.judges.agreement import cohens_kappa, f1, kappa, share

#: Two readers on 50 grants: 20 yes/yes, 5 yes/no, 10 no/yes, 15 no/no; kappa is 0.4.
GRANTS = [("yes", "yes")] * 20 + [("yes", "no")] * 5 + [("no", "yes")] * 10 + [("no", "no")] * 15


def test_kappa_of_a_textbook() -> None:
    assert cohens_kappa(GRANTS) == pytest.approx(0.4)
    assert cohens_kappa([("a", "a"), ("b", "b")]) == 1
    assert cohens_kappa([("a", "b"), ("b", "a")]) == -1
    assert math.isnan(cohens_kappa([("a", "a")] * 9))
    assert math.isnan(cohens_kappa([]))


def test_f1_counts_what_is_to_be_found() -> None:
    pairs = [("fail", "fail")] * 6 + [("fail", "pass")] * 2 + [("pass", "fail")] * 2 + [("pass", "pass")] * 90

    assert f1(pairs, "fail").value == pytest.approx(0.75)
    assert math.isnan(f1([("pass", "pass")], "fail").value)


def test_an_interval_holds_its_value_and_is_the_same_each_time() -> None:
    for found in (kappa(GRANTS), f1(GRANTS, "no"), share(30, 50)):
        assert found.lower < found.value < found.upper
        assert found.n == 50
    assert kappa(GRANTS) == kappa(list(GRANTS))


def test_the_interval_of_kappa_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = random.Random(5)
    kinds = [("a", "a"), ("a", "b"), ("b", "a"), ("b", "b")]
    truth = cohens_kappa([k for k, n in zip(kinds, (40, 10, 20, 30), strict=True) for _ in range(n)])
    hits = 0
    for _ in range(40):
        found = kappa(rng.choices(kinds, (40, 10, 20, 30), k=80))
        hits += found.lower <= truth <= found.upper

    assert hits >= 33


def test_nothing_gives_no_interval() -> None:
    assert math.isnan(share(0, 0).value)
    assert math.isnan(kappa([]).lower)
    assert str(kappa([])) == "not defined (n = 0)"


@pytest.mark.parametrize(
    ("pairs", "value"),
    [([("a", "a"), ("a", "b"), ("a", "a")], 0.0), ([("a", "a"), ("b", "b")] * 2, 1.0)],
    ids=["one never varies", "all agree"],
)
def test_a_few_items_that_leave_nothing_to_chance_give_no_interval_of_no_width(
    pairs: list[tuple[str, str]], value: float
) -> None:
    found = kappa(pairs)

    assert found.value == value
    assert math.isnan(found.lower) and math.isnan(found.upper)
    assert str(found) == f"{value:.2f} (no interval, n = {len(pairs)})"
