"""Who agrees with whom in a store: judges with each other, and judges with people, by metric."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import duckdb

from scorers.judges.agreement import Estimate, f1, kappa, share
from scorers.judges.ensemble import ENSEMBLE


@dataclass(frozen=True)
class Agreement:
    """Two who spoke on the same spans.

    Attributes:
        metric: Of which.
        first: A judge.
        second: Another judge, or `human`.
        same: Share of spans with the same outcome.
        kappa: Beyond chance.
        f1: Of the judge's fails against the person's; None between judges.
    """

    metric: str
    first: str
    second: str
    same: Estimate
    kappa: Estimate
    f1: Estimate | None


def agreements(con: duckdb.DuckDBPyConnection) -> Iterator[Agreement]:
    """Yield the agreement of each pair of judges, then of each judge with people, in the order of names."""
    said: dict[str, dict[str, dict[tuple[object, ...], str]]] = {}
    rows = con.execute(
        """SELECT metric, judge, scored_outcome, CASE WHEN overridden THEN outcome END,
            lane, source_topic, source_partition, source_offset, span_index, metric_version FROM verdicts
            WHERE judge IS NOT NULL AND scored_outcome IN ('pass', 'warn', 'fail')"""
    ).fetchall()
    people: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for metric, judge, outcome, human, *place in rows:
        said.setdefault(metric, {}).setdefault(judge, {})[tuple(place)] = outcome
        if human in ("pass", "warn", "fail"):
            people.setdefault((metric, judge), []).append((outcome, human))
    for metric in sorted(said):
        members = sorted(judge for judge in said[metric] if judge != ENSEMBLE)
        for first, second in combinations(members, 2):
            a, b = said[metric][first], said[metric][second]
            pairs = [(a[place], b[place]) for place in a if place in b]
            if pairs:
                yield Agreement(metric, first, second, _same(pairs), kappa(pairs), None)
    for (metric, judge), pairs in sorted(people.items()):
        yield Agreement(metric, judge, "human", _same(pairs), kappa(pairs), f1(pairs))


def _same(pairs: list[tuple[str, str]]) -> Estimate:
    return share(sum(a == b for a, b in pairs), len(pairs))
