"""Findings of the hand-written checks of one slice, and the numbers of outcomes and metrics."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from tests.benchmarks.hand_shape import Span, Trace

#: Outcome codes of a check; from 10 on an unknown, by its reason.
PASS, WARN, FAIL, ABSENT, WRONG_TYPE, NOT_JSON, NOT_IN_LABELS = 1, 2, 3, 10, 11, 12, 14
LABEL, LATENCY = 5, 6
WARN_LATENCY, MAX_LATENCY = 2.0, 10.0
CHECKS = 20
#: Number of the metric * 16 + code, of what did not pass.
Fails = tuple[int, ...]
KEEP_PASS = 0.02


def below(p: float) -> bytes:
    """Return the bytes before which the digest of a trace lies that is selected with probability p below 1."""
    return (ceil(p * (1 << 52)) << 4).to_bytes(7, "big")


SELECTED = below(KEEP_PASS)


@dataclass
class Found:
    """Findings of the checks of one slice.

    Attributes:
        passing: (environment, release, bucket, p, the three models) of the traces that pass in all, to the latencies
            of their three spans.
        others: By component: (environment, release, bucket, p, model, tier, fails) and latency of the other spans; the
            latency is not among the fails.
        spans: Number in the slice, trace, span and position of each span with rows.
        rows: Of each row: number of its span in `spans`, number of its metric from 0 to 59, code, and what was seen.
        selected: Number in the slice of each selected trace, its digest, and whether it failed.
    """

    passing: dict[tuple[Any, ...], tuple[list[float], list[float], list[float]]] = field(
        default_factory=lambda: defaultdict(lambda: ([], [], []))
    )
    others: tuple[tuple[list[tuple[Any, ...]], list[float]], ...] = field(
        default_factory=lambda: (([], []), ([], []), ([], []))
    )
    spans: list[tuple[int, Trace, Span, int]] = field(default_factory=list)
    rows: list[tuple[int, int, int, str | float | None]] = field(default_factory=list)
    selected: list[tuple[int, bytes, bool]] = field(default_factory=list)
