"""Answers to questions of a portfolio become facts; an answer without an author or a direction is refused."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gapwatch.scorers.errors import UsageError
from gapwatch.streams.alerting.triage.answer_reader import facts_of
from tests.streams.alerting.builders import portfolio

AT = datetime(2026, 3, 1, tzinfo=UTC)


def test_an_answer_becomes_a_fact_of_its_author() -> None:
    _, (fact,) = facts_of([portfolio()], "q-fallback", "lower", "maria", AT)

    assert (fact.metric, fact.better, fact.by) == ("fallback_rate", "lower", "maria")


@pytest.mark.parametrize("by", ["", "  ", "WHO SAYS SO", " who says so ", "YOU", "TODO", "?"])
def test_an_answer_without_an_author_is_refused(by: str) -> None:
    with pytest.raises(UsageError, match="the answer has no author; give your name with --by"):
        facts_of([portfolio()], "q-fallback", "lower", by, AT)
