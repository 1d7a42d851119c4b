"""Reads which selection applied to which offsets, as the live run recorded it, for a restart or a backfill."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import duckdb

from gapwatch.sinks.store.store_reader import StoreReader


@dataclass(frozen=True)
class SelectionStep:
    """One selection that applies from an offset of a partition on.

    Attributes:
        from_offset: First offset to which it applies.
        policy: Id of the selection.
        rows: Rows of the table `policies`, as `gapwatch.scorers.slices.selection.Selection.rows` returns them.
    """

    from_offset: int
    policy: str
    rows: tuple[dict[str, Any], ...]

    @property
    def portfolio_shas(self) -> tuple[str, ...]:
        """Shas of the portfolios in force, in the order in which they were recorded."""
        return tuple(dict.fromkeys(row["portfolio_sha"] for row in self.rows))


_STEPS = """
    SELECT from_offset, policy, portfolio_sha, metric, stratum, p_evaluated, p_kept, recorded_at
    FROM policies WHERE lane = ? AND source_topic = ? AND source_partition = ?
    ORDER BY from_offset, recorded_at, rowid"""


def selection_steps(con: StoreReader, lane: str, topic: str, partition: int) -> list[SelectionStep]:
    """Return the steps of one partition, ordered by offset. Of two at one offset, the one recorded last counts."""
    found: dict[int, tuple[str, list[dict[str, Any]]]] = {}
    for from_offset, policy, sha, metric, stratum, p_evaluated, p_kept, _ in con.execute(
        _STEPS, [lane, topic, partition]
    ).fetchall():
        row = {
            "policy": policy, "portfolio_sha": sha, "metric": metric, "stratum": stratum,
            "p_evaluated": p_evaluated, "p_kept": json.loads(p_kept),
        }  # fmt: skip
        last = found.get(from_offset)
        if last is None or last[0] != policy:
            found[from_offset] = (policy, [row])
        else:
            last[1].append(row)
    return [SelectionStep(offset, policy, tuple(rows)) for offset, (policy, rows) in found.items()]


def counted_since(
    con: duckdb.DuckDBPyConnection, lane: str, topic: str, partition: int, offset: int
) -> dict[tuple[str, str, str], int]:
    """Return the number of spans by (pipeline, metric, state) in the slices from an offset on."""
    rows = con.execute(
        """SELECT l.pipeline, l.metric, l.state, sum(l.n)::BIGINT FROM ledger l JOIN offsets o ON o.seq = l.seq
            WHERE o.lane = ? AND o.source_topic = ? AND o.source_partition = ? AND o.from_offset >= ?
                AND l.metric IS NOT NULL
            GROUP BY ALL""",
        [lane, topic, partition, offset],
    ).fetchall()
    return {(pipeline, metric, state): n for pipeline, metric, state, n in rows}
