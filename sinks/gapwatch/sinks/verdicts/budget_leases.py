"""Leases of the judges' budget under a weekly cap, stored so that the cap holds over restarts and several workers.

A worker takes a lease before it spends and returns the rest. A killed worker returns nothing: its lease counts as
spent. So leases minus returns are never less than the money that was really spent.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import duckdb

from gapwatch.sinks.store.row_inserts import insert_row
from gapwatch.sinks.store.store import Store

#: Smallest number of leases of a cap. Smaller: a killed worker loses more, and the last leases go to fewer workers.
LEASES_A_CAP = 20


@dataclass(frozen=True)
class Lease:
    """Money that a worker may spend.

    Attributes:
        id: Unique id.
        portfolio, metric: Metric whose judgements it pays.
        week: ISO week in UTC, such as `2026-W47`.
        usd: Amount in US dollars.
    """

    id: str
    portfolio: str
    metric: str
    week: str
    usd: float


@dataclass(frozen=True)
class Caps:
    """Weekly caps on spending.

    Attributes:
        portfolios: Cap in US dollars by portfolio; a missing one has no cap.
        metrics: Cap in US dollars by (portfolio, metric); a missing one has no cap.
    """

    portfolios: Mapping[str, float]
    metrics: Mapping[tuple[str, str], float]


def week_of(at: datetime) -> str:
    """Return the ISO week of a time with a time zone, in UTC."""
    year, week, _ = at.astimezone(UTC).isocalendar()
    return f"{year}-W{week:02d}"


class JudgeMoney:
    """Grants leases, in the writer thread.

    Attributes:
        caps: Weekly caps; may be replaced.
    """

    def __init__(self, store: Store, caps: Caps) -> None:
        self._store = store
        self.caps = caps

    def left(self, portfolio: str, metric: str, week: str) -> float | None:
        """Return the money in US dollars left under a week's caps, the smaller of both; None if there is no cap."""
        cursor = self._store.cursor()
        try:
            return self._left(cursor, portfolio, metric, week)
        finally:
            cursor.close()

    def share(self, portfolio: str, metric: str, week: str) -> float:
        """Return the leased share of a week's caps, the larger of both; 0 if there is no cap."""
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
        """Grant a lease, committed before this returns; None if less than `least` is left.

        Args:
            portfolio: Name of the portfolio.
            metric: Metric of that portfolio.
            least: Highest cost of one call, US dollars.
            wanted: Amount that the worker asks for, US dollars, so that it need not ask before each call.
            at: Current time, with a time zone.
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
        """Record the money that a worker returns from a lease; at most the whole lease is returned."""
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
    # fsum, because DuckDB's sum depends on the order of its threads and the result is compared with a cap.
    total = con.execute(f"SELECT coalesce(fsum(usd), 0) FROM internal.judge_money WHERE {where}", values).fetchall()[0][
        0
    ]
    return float(total)
