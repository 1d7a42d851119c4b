"""Python scorers for tests, with every kind of answer; the scorers' process imports them."""

from __future__ import annotations

from typing import Any

from gapwatch.scorers.scoring.python_scorer import Scored, scorer

FIELDS = ["output", "tier", "latency", "attributes.label"]


def answer(span: dict[str, Any]) -> Any:
    """Return the answer of `moody` for one span, which depends on the length of the output and on other fields."""
    if span["output"] is None:
        return None
    ways: list[Any] = [
        True,
        False,
        None,
        span["attributes.label"],
        span["latency"],
        Scored("warn", score=0.25, label=span["tier"], reason="so so"),
        Scored("fail", score=-2.5),
        Scored("unknown", reason="cannot tell"),
        Scored("skip", reason="not meant for me"),
    ]
    return ways[len(span["output"]) % len(ways)]


@scorer(name="moody", fields=FIELDS)
def moody(spans: list[dict[str, Any]]) -> list[Any]:
    """Answer for each span by itself."""
    return [answer(span) for span in spans]


@scorer(name="broken", fields=["output"])
def broken(spans: list[dict[str, Any]]) -> list[Any]:
    """Raise for every batch."""
    raise RuntimeError(f"{len(spans)} spans were too many")


@scorer(name="babbling", fields=["output"])
def babbling(spans: list[dict[str, Any]]) -> list[Any]:
    """Return an invalid answer."""
    return [{"score": float("nan")} for _ in spans]
