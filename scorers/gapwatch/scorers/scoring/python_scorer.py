"""`@scorer`: a function of the user's that scores selected spans in batches; and what it may answer.

from gapwatch.scorers.scoring.python_scorer import Scored, scorer

@scorer(name="polite", fields=["output"])
def polite(spans):
    return [("please" in (span["output"] or "")) for span in spans]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

#: What a scorer sees of a span: field name to text, number or None.
Span = dict[str, Any]
ScorerFunction = Callable[[list[Span]], Sequence[Any]]

OUTCOMES = ("pass", "warn", "fail", "skip", "unknown")


@dataclass(frozen=True)
class Scored:
    """What a scorer found out about one span.

    Attributes:
        outcome: pass, warn, fail, skip or unknown.
        score: A finite number, or None for no score; None is not 0.
        label: A label, or None.
        reason: Why skip or unknown, in a few words.
    """

    outcome: str
    score: float | None = None
    label: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class RegisteredScorer:
    """A scorer with its name and the fields that it reads."""

    name: str
    fields: tuple[str, ...]
    function: ScorerFunction


#: By name; filled while the user's module is imported.
REGISTRY: dict[str, RegisteredScorer] = {}


def scorer(*, name: str, fields: Sequence[str]) -> Callable[[ScorerFunction], ScorerFunction]:
    """Register a function as the scorer of claims `{form: python, scorer: name}`.

    Args:
        name: As the portfolio names it.
        fields: Fields of a span that the function reads; a claim may give it no others.

    Raises:
        ValueError: The name is taken.
    """

    def register(function: ScorerFunction) -> ScorerFunction:
        if name in REGISTRY:
            raise ValueError(f"two scorers are named {name!r}")
        REGISTRY[name] = RegisteredScorer(name, tuple(fields), function)
        return function

    return register


def as_scored(answer: Any) -> Scored:
    """Read what a scorer answered for one span.

    Args:
        answer: A `Scored`; True or False (pass, fail); a finite number (pass, with that score); a text (pass, with that
            label); None (unknown).

    Raises:
        ValueError: It is none of these.
    """
    if isinstance(answer, Scored):
        return _checked(answer)
    if answer is None:
        return Scored("unknown", reason="unscored")
    if isinstance(answer, bool):
        return Scored("pass" if answer else "fail")
    if isinstance(answer, int | float):
        return _checked(Scored("pass", score=float(answer)))
    if isinstance(answer, str):
        return Scored("pass", label=answer)
    raise ValueError(f"a scorer answers Scored, bool, number, text or None for each span, not {type(answer).__name__}")


def _checked(scored: Scored) -> Scored:
    if scored.outcome not in OUTCOMES:
        raise ValueError(f"{scored.outcome!r} is no outcome; one of {', '.join(OUTCOMES)}")
    if scored.score is not None and not math.isfinite(scored.score):
        raise ValueError("a score is a finite number, or None for no score")
    return scored
