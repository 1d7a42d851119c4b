"""Turns the answer to a question of the portfolio into facts: the better direction of each metric it decides."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Literal, cast

from gapwatch.scorers.errors import PortfolioError, UsageError
from gapwatch.scorers.portfolio.author import check_author
from gapwatch.scorers.portfolio.fact import Fact, Question
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.printable import shown
from gapwatch.sinks.store.answered_facts import answered

Better = Literal["lower", "higher", "unknown"]

_PLAIN: dict[str, Better] = {"lower": "lower", "higher": "higher", "neither": "unknown", "unknown": "unknown"}
_IN_WORDS = re.compile(r"\b(lower|higher) is better\b")


def facts_of(
    portfolios: Iterable[Portfolio], question: str, value: str, by: str, at: datetime
) -> tuple[Portfolio, list[Fact]]:
    """Return the portfolio that asks a question, and the facts that an answer to it states.

    Args:
        portfolios: Portfolios in force.
        question: Id of the question.
        value: `lower`, `higher`, `neither`, one of the question's options, or the first characters of only one option.
        by: Name of the person who answers.
        at: Time of the answer, with a time zone.

    Raises:
        UsageError: No portfolio asks the question, the answer gives no direction, or the portfolio contradicts it.
    """
    check_author(by, "answer")
    portfolio, asked = _asked(portfolios, question)
    chosen, better = _meaning(asked, value)
    metrics = [metric for metric in portfolio.metrics if metric.name in asked.decides]
    if not metrics:
        raise UsageError(f"the question {shown(question)} decides no metric of portfolio {shown(portfolio.portfolio)}")
    moment = at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    facts = [
        Fact(
            id=f"f-{question.removeprefix('q-')}" + (f"-{metric.name}" if len(metrics) > 1 else ""),
            question=question,
            component=metric.component,
            kind="direction",
            metric=metric.name,
            better=better,
            value=chosen,
            by=by,
            at=moment,
        )
        for metric in metrics
    ]
    try:
        answered(portfolio, facts)
    except PortfolioError as error:
        raise UsageError(f"the portfolio contradicts this answer; change the portfolio first: {error}") from error
    return portfolio, facts


def _asked(portfolios: Iterable[Portfolio], wanted: str) -> tuple[Portfolio, Question]:
    known: list[str] = []
    for portfolio in portfolios:
        for question in portfolio.questions:
            if question.id == wanted:
                return portfolio, question
            known.append(question.id)
    there = ", ".join(shown(one) for one in known) or "none"
    raise UsageError(f"no portfolio of this store asks the question {shown(wanted)}; the questions are: {there}")


def _meaning(question: Question, value: str) -> tuple[str, Better]:
    """Return the answer in full, and the direction that it calls better."""
    options = [str(option) for option in (question.answer.options if question.answer is not None else ())]
    exact = [option for option in options if option == value]
    likely = exact or [option for option in options if value and option.startswith(value)]
    if value in _PLAIN:
        alike = [o for o in options if o == value or _way(o) == _PLAIN[value] != "unknown"]
        return (alike[0] if len(alike) == 1 else value), _PLAIN[value]
    if len(likely) == 1 and (way := _way(likely[0])) is not None:
        return likely[0], way
    expected = ["lower", "higher", "neither", *(shown(o) for o in options if _way(o) and o not in _PLAIN)]
    raise UsageError(f"{shown(value)} does not say which direction is better; answer one of: {', '.join(expected)}")


def _way(option: str) -> Better | None:
    if option in _PLAIN:
        return _PLAIN[option]
    found = set(_IN_WORDS.findall(option))
    return cast(Better, found.pop()) if len(found) == 1 else None
