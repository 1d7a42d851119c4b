"""Warnings of `gapwatch check` about portfolios that load and may not do what their author thinks."""

from __future__ import annotations

from typing import Any

import pytest

from gapwatch.scorers.checking.warnings import portfolio_warnings
from tests.scorers.judges.rubrics import judged_metric, portfolio_of


def of_scale(scale: Any, **more: Any) -> list[str]:
    found = portfolio_warnings(portfolio_of({**judged_metric(scale=scale), **more}))
    return [f"{one.about}: {one.text}" for one in found if "scale" in one.text]


def test_numbers_that_go_up_are_said_to_be_read_with_the_highest_as_the_best() -> None:
    (said,) = of_scale([1, 2, 3])

    assert said.startswith("faithful: claim.rubric.scale [1, 2, 3]: the highest number counts as the best, here 3;")
    assert 'if 1 is the best, write the worth of each: {"1": 3, "2": 2, "3": 1}' in said
    assert of_scale({"1": 3, "2": 2, "3": 1}) == []  # what is proposed is understood


@pytest.mark.parametrize("scale", [["bad", "good"], ["Very Poor", "Fair", "Excellent"], ["1", "2", "3"]])
def test_words_that_go_up_are_said_to_be_read_best_first(scale: list[str]) -> None:
    (said,) = of_scale(scale)

    assert f"the first word counts as the best, here {scale[0]};" in said
    assert f"did you mean [{', '.join(reversed(scale))}]?" in said


@pytest.mark.parametrize("scale", [[5, 4, 3], [1, 0], ["good", "bad"], ["3", "2", "1"], ["yes", "partly", "no"]])
def test_a_scale_that_goes_down_is_nothing_to_warn_of(scale: list[Any]) -> None:
    assert of_scale(scale) == []


def test_a_judge_fails_below_the_middle_without_being_told_so() -> None:
    metric = {**judged_metric(), "alert": {"severity": "note"}}

    assert not any("never fail" in one.text for one in portfolio_warnings(portfolio_of(metric)))
