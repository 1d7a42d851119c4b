"""The ticks and the ledger of one slice, from what the checks have found: numpy adds up, once a slice."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.slices.tables import LEDGER, TICKS
from tests.benchmarks.hand_found import (
    CHECKS,
    FAIL,
    LABEL,
    LATENCY,
    MAX_LATENCY,
    WARN_LATENCY,
    Found,
)
from tests.benchmarks.traffic import COMPONENTS, PIPELINE

#: Outcome names by a small number; those of a unit begin at UNIT.
OUTCOMES = ("pass", "warn", "fail", "unknown", "good", "bad", "unknown")
PASSES, WARNS, FAILS, UNKNOWNS, GOODS, BADS, UNKNOWN_UNITS = range(7)
_UNIT_OF = (GOODS, GOODS, BADS, UNKNOWN_UNITS)

#: A group of spans: environment, release, bucket, p, model, tier, fails. Which of them a facet shows.
_FACETS = {"all": None, "tier": 5, "release": 1, "model": 4}

Cell = tuple[Any, ...]
Group = tuple[str, float, float, str | None]  # environment, bucket, p, value of the facet


@dataclass
class Ticks:
    """Rows of ticks under way, as parallel lists."""

    portfolio: Portfolio
    lane: str
    metric: list[int]
    environment: list[str]
    bucket: list[float]
    p: list[float]
    level: list[str]
    facet: list[str]
    value: list[str | None]
    outcome: list[int]
    n: list[int]
    scores: list[tuple[int, float, float, tuple[list[int], list[int]] | None]]

    def add(self, metric: int, level: str, facet: str, group: Group, outcome: int, n: int) -> None:
        environment, bucket, p, value = group
        self.metric.append(metric)
        self.environment.append(environment)
        self.bucket.append(bucket)
        self.p.append(p)
        self.level.append(level)
        self.facet.append(facet)
        self.value.append(value)
        self.outcome.append(outcome)
        self.n.append(n)

    def table(self) -> pa.Table:
        """Return the rows."""
        n = len(self.metric)
        if not n:
            return TICKS.empty_table()
        metrics = np.array(self.metric)
        starts = pa.array((np.array(self.bucket) * 30e6).astype(np.int64)).cast(pa.timestamp("us"))
        sums, squares = np.zeros(n), np.zeros(n)
        without = np.ones(n, bool)
        sizes, keys, counts = np.zeros(n, np.int32), [], []
        for row, total, square, histogram in self.scores:
            without[row], sums[row], squares[row] = False, total, square
            if histogram is not None:
                sizes[row] = len(histogram[0])
                keys += histogram[0]
                counts += histogram[1]
        ends = np.concatenate(([0], np.cumsum(sizes)))
        offsets = pa.array(ends.astype(np.int32), mask=np.append(sizes == 0, False))
        histograms = pa.MapArray.from_arrays(offsets, pa.array(keys, pa.int32()), pa.array(counts, pa.int64()))
        columns = {
            "lane": text(self.lane, n),
            "pipeline": text(PIPELINE, n),
            "environment": pa.array(self.environment, pa.string()),
            "component": pa.array(COMPONENTS, pa.string()).take(pa.array(metrics // CHECKS)),
            "metric": pa.array([m.name for m in self.portfolio.metrics], pa.string()).take(pa.array(metrics)),
            "metric_version": pa.array([m.version for m in self.portfolio.metrics], pa.string()).take(
                pa.array(metrics)
            ),
            "judge": pa.nulls(n, pa.string()),
            "epoch": text("1", n),
            "bucket": starts,
            "fold_bucket": starts,
            "level": pa.array(self.level, pa.string()),
            "facet": pa.array(self.facet, pa.string()),
            "value": pa.array(self.value, pa.string()),
            "outcome": pa.array(OUTCOMES, pa.string()).take(pa.array(self.outcome)),
            "p": pa.array(self.p, pa.float64()),
            "n": pa.array(self.n, pa.int64()),
            "score_sum": pa.array(sums, mask=without),
            "score_sum_squares": pa.array(squares, mask=without),
            "histogram": histograms,
        }
        return pa.table(columns, schema=TICKS)


def text(value: str, n: int) -> pa.Array:
    """Return a column that says the same n times."""
    return pa.repeat(pa.scalar(value, pa.string()), n)


def ticks_and_ledger(found: Found, portfolio: Portfolio, lane: str) -> tuple[pa.Table, dict[tuple[int, int], int]]:
    """Return the ticks, and the number of spans by metric and outcome."""
    ticks = Ticks(portfolio, lane, [], [], [], [], [], [], [], [], [], [])
    totals: dict[tuple[int, int], int] = defaultdict(int)
    for c in range(3):
        cells, cell_of, seconds = _cells(found, c)
        if cells:
            sizes = np.bincount(cell_of, minlength=len(cells)).tolist()
            for facet, position in _FACETS.items():
                groups, group_of_cell = _groups(cells, position)
                _count(ticks, totals, c, facet, cells, sizes, groups, group_of_cell)
                _measure(ticks, totals, c, facet, groups, np.array(group_of_cell)[cell_of], seconds)
    return ticks.table(), totals


def _cells(found: Found, c: int) -> tuple[list[Cell], npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return the distinct groups of spans of one component, and the group and the latency of each span."""
    keys, others = found.others[c]
    number: dict[Cell, int] = {}
    codes = [number.setdefault(key, len(number)) for key in keys]
    cell_of, seconds = [np.array(codes, np.int64)], [np.array(others)]
    for key, latencies in found.passing.items():
        environment, release, bucket, p, *models = key
        cell = (environment, release, bucket, p, models[c], "primary", ())
        at = number.setdefault(cell, len(number))
        cell_of.append(np.full(len(latencies[c]), at))
        seconds.append(np.array(latencies[c]))
    return list(number), np.concatenate(cell_of), np.concatenate(seconds)


def _groups(cells: list[Cell], position: int | None) -> tuple[list[Group], list[int]]:
    """Return the distinct groups by one facet, and the group of each cell; -1 where the facet has no value."""
    number: dict[Group, int] = {}
    group_of_cell = []
    for cell in cells:
        value = None if position is None else cell[position]
        if value is None and position is not None:
            group_of_cell.append(-1)
            continue
        p = cell[3] if 0.0 < cell[3] <= 1.0 else 1.0
        group_of_cell.append(number.setdefault((cell[0], cell[2], p, value), len(number)))
    return list(number), group_of_cell


def _count(
    ticks: Ticks,
    totals: dict[tuple[int, int], int],
    c: int,
    facet: str,
    cells: list[Cell],
    sizes: list[int],
    groups: list[Group],
    group_of_cell: list[int],
) -> None:
    """Count the spans of all metrics but the latency: those that did not pass, and so those that did."""
    spans = [0] * len(groups)
    others: dict[tuple[int, int, int], int] = defaultdict(int)
    not_passed: dict[tuple[int, int], int] = defaultdict(int)
    for cell, size, group in zip(cells, sizes, group_of_cell, strict=True):
        if group < 0:
            continue
        spans[group] += size
        for fail in cell[6]:
            m, outcome = fail >> 4, FAILS if fail & 15 == FAIL else UNKNOWNS
            others[group, m, outcome] += size
            not_passed[group, m] += size
    for g, size in enumerate(spans):
        for m in range(CHECKS):
            passed = size - not_passed.get((g, m), 0)
            if m != LATENCY and passed:
                others[g, m, PASSES] = passed
    base = c * CHECKS
    for (g, m, outcome), n in others.items():
        ticks.add(base + m, "span", facet, groups[g], outcome, n)
        if facet in ("all", "release"):
            ticks.add(base + m, "unit", facet, groups[g], _UNIT_OF[outcome], n)
        if facet == "tier" and m == LABEL:
            ticks.add(base + m, "span", "label", groups[g], outcome, n)
        if facet == "all":
            totals[base + m, outcome] += n


def _measure(
    ticks: Ticks,
    totals: dict[tuple[int, int], int],
    c: int,
    facet: str,
    groups: list[Group],
    group_of: npt.NDArray[np.int64],
    seconds: npt.NDArray[np.float64],
) -> None:
    """Count the latencies, and add them up."""
    metric = c * CHECKS + LATENCY
    outcome = (seconds > WARN_LATENCY).astype(np.int64) + (seconds > MAX_LATENCY)
    levels = {"span": outcome}
    if facet in ("all", "release"):
        levels["unit"] = np.where(outcome == FAILS, BADS, GOODS)
    if (group_of < 0).any():
        inside = group_of >= 0
        group_of, seconds = group_of[inside], seconds[inside]
        levels = {level: outcomes[inside] for level, outcomes in levels.items()}
    for level, outcomes in levels.items():
        key = group_of * 8 + outcomes
        counts = np.bincount(key)
        sums, squares = np.bincount(key, weights=seconds), np.bincount(key, weights=seconds * seconds)
        maps = _histograms(key, seconds) if facet == "all" else {}
        for k in np.flatnonzero(counts).tolist():
            g, o = divmod(k, 8)
            ticks.scores.append((len(ticks.n), float(sums[k]), float(squares[k]), maps.get(k)))
            ticks.add(metric, level, facet, groups[g], o, int(counts[k]))
            if level == "span" and facet == "all":
                totals[metric, o] += int(counts[k])


def _histograms(key: npt.NDArray[np.int64], seconds: npt.NDArray[np.float64]) -> dict[int, tuple[list[int], list[int]]]:
    """Return the cells and their counts by key; ascending, so that those of a key lie together."""
    size = np.abs(seconds)
    near = size < 1e-12
    cell = np.sign(seconds) * (np.floor(np.log(np.where(near, 1.0, size)) / np.log(1.01)) + 2778)
    distinct, n = np.unique(
        key * (1 << 32) + (np.where(near, 0, cell).astype(np.int64) + (1 << 31)), return_counts=True
    )
    keys = distinct >> 32
    maps = {}
    for k in np.unique(keys).tolist():
        start, end = np.searchsorted(keys, [k, k + 1])
        cells = (distinct[start:end] & ((1 << 32) - 1)) - (1 << 31)
        maps[k] = (cells.tolist(), n[start:end].tolist())
    return maps


def ledger_table(
    totals: dict[tuple[int, int], int], portfolio: Portfolio, lane: str, topic: str, records: dict[str, int]
) -> pa.Table:
    """Return the ledger of a slice.

    Args:
        totals: Number of spans by metric and outcome.
        portfolio: Names the metrics.
        lane: Of the source.
        topic: Of the source.
        records: Number of records by state.
    """
    source = {"lane": lane, "source_topic": topic, "source_partition": 0}
    rows = [
        {**source, "pipeline": PIPELINE if state == "read" else None, "metric": None, "state": state, "n": n}
        for state, n in records.items()
        if n
    ]
    rows += [
        {**source, "pipeline": PIPELINE, "metric": portfolio.metrics[m].name, "state": OUTCOMES[outcome], "n": n}
        for (m, outcome), n in sorted(totals.items())
    ]
    return pa.Table.from_pylist(rows, schema=LEDGER)
