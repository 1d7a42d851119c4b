"""The bill of the judges: leases under a weekly cap, kept in the store, so that the cap holds over kills and workers.

A worker takes a lease before it spends, and gives back what it did not need. A worker that is killed gives nothing
back: its lease counts as spent. So the sum of leases less returns is never below what was really spent.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import duckdb

from gapwatch.sinks.store.row_inserts import insert_row
from gapwatch.sinks.store.store import Store

#: Into how many leases a cap is divided at least: what a killed worker held is lost, and the last ones are shared.
LEASES_A_CAP = 20


@dataclass(frozen=True)
class Lease:
    """Money that a worker may spend.

    Attributes:
        id: Unique.
        portfolio, metric: For whose judgements.
        week: ISO week of UTC, such as `2026-W47`.
        usd: How much.
    """

    id: str
    portfolio: str
    metric: str
    week: str
    usd: float


@dataclass(frozen=True)
class Caps:
    """How much may be spent a week.

    Attributes:
        portfolios: US dollars by portfolio; one that is missing has no cap.
        metrics: US dollars by (portfolio, metric).
    """

    portfolios: Mapping[str, float]
    metrics: Mapping[tuple[str, str], float]


def week_of(at: datetime) -> str:
    """Return the ISO week of a time with a time zone, in UTC."""
    year, week, _ = at.astimezone(UTC).isocalendar()
    return f"{year}-W{week:02d}"


class JudgeMoney:
    """Gives leases; for the keeper's thread.

    Attributes:
        caps: By which leases are given; may be set anew.
    """

    def __init__(self, store: Store, caps: Caps) -> None:
        self._store = store
        self.caps = caps

    def left(self, portfolio: str, metric: str, week: str) -> float | None:
        """Return how much of a week's caps is not leased yet, the smaller of both; None where there is no cap."""
        cursor = self._store.cursor()
        try:
            return self._left(cursor, portfolio, metric, week)
        finally:
            cursor.close()

    def share(self, portfolio: str, metric: str, week: str) -> float:
        """Return which share of a week's caps is set aside, the greater of both; 0 where there is no cap."""
        cursor = self._store.cursor()
        try:
            shares = [0.0]
            if (cap := self.caps.portfolios.get(portfolio)) is not None:
                used = _set_aside(cursor, "portfolio = ? AND week = ?", [portfolio, week])
                shares.append(used / cap if cap > 0 else 1.0)
            if (cap := self.caps.metrics.get((portfolio, metric))) is not None:
                used = _set_aside(cursor, "portfolio = ? AND metric = ? AND week = ?", [portfolio, metric, week])
                shares.append(used / cap if cap > 0 else 1.0)
            return max(shares)
        finally:
            cursor.close()

    def lease(self, portfolio: str, metric: str, least: float, wanted: float, at: datetime) -> Lease | None:
        """Set money aside, committed before it returns; None where less than `least` is left.

        Args:
            portfolio: For whose judgements.
            metric: Of that portfolio.
            least: What one call can cost at most, US dollars.
            wanted: What the worker would like, not to ask for each call.
            at: Now, with a time zone.
        """
        week = week_of(at)

        def grant(con: duckdb.DuckDBPyConnection) -> Lease | None:
            left = self._left(con, portfolio, metric, week)
            usd = max(least, wanted)
            if left is not None:
                usd = min(max(least, min(wanted, self._smallest_cap(portfolio, metric) / LEASES_A_CAP)), left)
            if usd < least:
                return None
            lease = Lease(secrets.token_hex(8), portfolio, metric, week, usd)
            self._enter(con, lease, "lease", usd, at)
            return lease

        return self._store.change("leasing money to a judge", grant)

    def _smallest_cap(self, portfolio: str, metric: str) -> float:
        caps = (self.caps.portfolios.get(portfolio), self.caps.metrics.get((portfolio, metric)))
        return min(cap for cap in caps if cap is not None)

    def give_back(self, lease: Lease, usd: float, at: datetime) -> None:
        """Return what a worker did not spend of a lease; what is more than it was counts as all of it."""
        returned = min(max(usd, 0.0), lease.usd)
        if returned > 0:
            self._store.change(
                "returning a judge's money", lambda con: self._enter(con, lease, "returned", -returned, at)
            )

    def _enter(self, con: duckdb.DuckDBPyConnection, lease: Lease, entry: str, usd: float, at: datetime) -> None:
        row = {
            "lease": lease.id, "portfolio": lease.portfolio, "metric": lease.metric, "week": lease.week, "entry": entry,
            "usd": usd, "at": at.astimezone(UTC).replace(tzinfo=None),
        }  # fmt: skip
        insert_row(con, "judge_money", row)

    def _left(self, con: duckdb.DuckDBPyConnection, portfolio: str, metric: str, week: str) -> float | None:
        lefts = []
        if (cap := self.caps.portfolios.get(portfolio)) is not None:
            lefts.append(cap - _set_aside(con, "portfolio = ? AND week = ?", [portfolio, week]))
        if (cap := self.caps.metrics.get((portfolio, metric))) is not None:
            where = "portfolio = ? AND metric = ? AND week = ?"
            lefts.append(cap - _set_aside(con, where, [portfolio, metric, week]))
        return max(min(lefts), 0.0) if lefts else None


def _set_aside(con: duckdb.DuckDBPyConnection, where: str, values: list[str]) -> float:
    # fsum: a cap is compared with, and the engine's sum depends on the order of its threads.
    total = con.execute(f"SELECT coalesce(fsum(usd), 0) FROM judge_money WHERE {where}", values).fetchall()[0][0]
    return float(total)
