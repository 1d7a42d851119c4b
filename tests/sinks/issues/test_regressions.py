"""Two CUSUM tests tell whether a fault went away and came back."""

from __future__ import annotations

import random

from gapwatch.sinks.issues.regressions import has_returned


def ticks(*parts: tuple[int, float], seed: int = 1) -> list[tuple[int, int]]:
    """Return the bad and good traces of ticks of one trace: numbers of traces with their failure rates."""
    draw = random.Random(seed)
    made = [draw.random() < rate for traces, rate in parts for _ in range(traces)]
    return [(int(bad), int(not bad)) for bad in made]


def share_found(*parts: tuple[int, float]) -> float:
    return sum(has_returned(0.02, 0.3, ticks(*parts, seed=seed)) for seed in range(200)) / 200


def test_a_fault_that_went_and_came_back_has_returned() -> None:
    assert share_found((50, 0.3), (100, 0.02), (60, 0.3)) > 0.95


def test_a_fault_that_stays_has_not_returned() -> None:
    assert share_found((3_000, 0.3)) < 0.05


def test_a_fault_that_is_gone_has_not_returned() -> None:
    assert share_found((50, 0.3), (3_000, 0.02)) < 0.05


def test_traces_of_sessions_are_less_evidence() -> None:
    seen = ticks((100, 0.02), (20, 0.5))
    assert has_returned(0.02, 0.3, seen)
    assert not has_returned(0.02, 0.3, seen, weight=0.1)


def test_a_fault_that_cannot_be_told_from_before_never_returns() -> None:
    assert not has_returned(0.0, 0.0005, [(1, 0)] * 100)
