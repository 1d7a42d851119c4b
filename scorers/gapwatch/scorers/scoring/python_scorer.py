"""`@scorer`: registers a function of yours that scores selected spans in batches.

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

#: Input of a scorer for one span: text, number or None by field name.
Span = dict[str, Any]
ScorerFunction = Callable[[list[Span]], Sequence[Any]]

OUTCOMES = ("pass", "warn", "fail", "skip", "unknown")


@dataclass(frozen=True)
class Scored:
    """Answer of a scorer about one span.

    Attributes:
        outcome: pass, warn, fail, skip or unknown.
        score: A finite number, or None for no score; None is not 0.
        label: A label, or None.
        reason: Reason for skip or unknown, in a few words.
    """

    outcome: str
    score: float | None = None
    label: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class RegisteredScorer:
    """Registered scorer function.

    Attributes:
        name: Name in portfolios.
        fields: Fields of a span that the function reads.
        function: The function.
    """

    name: str
    fields: tuple[str, ...]
    function: ScorerFunction


#: Registered scorers by name; filled while the user's module is imported.
REGISTRY: dict[str, RegisteredScorer] = {}


def scorer(*, name: str, fields: Sequence[str]) -> Callable[[ScorerFunction], ScorerFunction]:
    """Register a function as the scorer of claims `{form: python, scorer: name}`.

    Args:
        name: Name in portfolios.
        fields: Fields of a span that the function reads; a claim cannot give it other fields.

    Raises:
        ValueError: Another function has this name.
    """

    def register(function: ScorerFunction) -> ScorerFunction:
        if name in REGISTRY:
            raise ValueError(f"two scorers are named {name!r}")
        REGISTRY[name] = RegisteredScorer(name, tuple(fields), function)
        return function

    return register


def as_scored(answer: Any) -> Scored:
    """Convert a scorer's answer for one span to a `Scored`.

    Args:
        answer: A `Scored`; True or False (pass, fail); a finite number (pass, with that score); a text (pass, with that
            label); None (unknown).

    Raises:
        ValueError: The answer is something else.
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
    raise ValueError(f"a scorer must return Scored, bool, number, text or None per span, not {type(answer).__name__}")


def _checked(scored: Scored) -> Scored:
    if scored.outcome not in OUTCOMES:
        raise ValueError(f"{scored.outcome!r} is not an outcome; use one of {', '.join(OUTCOMES)}")
    if scored.score is not None and not math.isfinite(scored.score):
        raise ValueError("a score must be a finite number, or None for no score")
    return scored
