"""The ensemble's verdict: the average position of its members, held against the metric's own pass mark."""

from __future__ import annotations

from typing import Any

import pytest

from gapwatch.scorers.judges.ensemble import Vote, decide
from gapwatch.scorers.judges.scale import passing_average, scale_of
from tests.scorers.judges.rubrics import claim_of

_GRADED = ["yes_fully", "partly", "no_answer"]
_NUMBERS = [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("scale", "pass_at", "said", "outcome"),
    [
        (_GRADED, "yes_fully", ["yes_fully", "partly"], "fail"),
        (_GRADED, "yes_fully", ["yes_fully", "yes_fully"], "pass"),
        (_GRADED, "partly", ["yes_fully", "no_answer"], "pass"),
        (_GRADED, "partly", ["partly", "no_answer"], "fail"),
        (_GRADED, "no_answer", ["no_answer", "no_answer"], "pass"),
        (_GRADED, None, ["yes_fully", "partly"], "pass"),
        (_GRADED, None, ["yes_fully", "no_answer"], "fail"),
        (_NUMBERS, 4, ["4", "3"], "fail"),
        (_NUMBERS, 4, ["5", "3"], "pass"),
        ({"good": 3, "bad": 1, "ugly": 0}, 2, ["good", "bad"], "pass"),
        ({"good": 3, "bad": 1, "ugly": 0}, 2, ["good", "ugly"], "fail"),
        (["yes", "no"], "yes", ["yes", "yes", "no"], "pass"),
        (["yes", "no"], "yes", ["yes", "no"], "fail"),
        (["yes", "no"], "no", ["no", "no"], "pass"),
        ([1, 0], 1, ["1", "1", "0"], "pass"),
    ],
)
def test_an_average_passes_at_the_pass_mark(scale: Any, pass_at: Any, said: list[str], outcome: str) -> None:
    rubric = claim_of(scale=scale, **({} if pass_at is None else {"pass_at": pass_at})).rubric
    bands = {band.word: band for band in scale_of(rubric).bands}
    votes = [
        Vote(f"j{i}", "pass" if bands[word].passes else "fail", bands[word].position) for i, word in enumerate(said)
    ]

    assert decide(votes, 2, passing_average(rubric)).state == outcome


@pytest.mark.parametrize("pass_at", ["a", "b", "c", "d"])
def test_judges_that_agree_decide_as_one_judge_does(pass_at: str) -> None:
    rubric = claim_of(scale=["a", "b", "c", "d"], pass_at=pass_at).rubric
    for band in scale_of(rubric).bands:
        votes = [Vote(name, "", band.position) for name in ("one", "two", "three")]

        assert decide(votes, 2, passing_average(rubric)).state == ("pass" if band.passes else "fail")
