"""Leases of the judges' budget under a weekly cap, stored so that the cap holds over restarts and several workers.

A worker takes a lease before it spends, and settles it before it takes the next one: what it did not spend is returned,
and a bill beyond the lease is added. A killed worker settles nothing: its lease counts as spent. So the sum of all
entries is never less than the money that was really spent.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import duckdb

from gapwatch.sinks.store.row_inserts import insert_row
from gapwatch.sinks.store.store import Store

#: Most of what is left that a lease takes, as a divisor, unless calls under way need more. Smaller: a killed worker
#: loses more. Larger: near the cap, workers ask for each call.
LEASES_OF_THE_REST = 8
#: Seconds after which an open lease is that of a killed worker, and no request waits for its return. A live one settles
#: more often (`Wallet`). Shorter: slow calls end as shed. Longer: at the cap, requests wait longer after a kill.
LEASE_SECONDS = 300.0
#: Stands for what is left without a cap, US dollars: a number that JSON has.
_MUCH = 1e12


@dataclass(frozen=True)
class Lease:
    """Money that a worker may spend.

    Attributes:
        id: Unique id.
        portfolio: Portfolio whose judgements it pays.
        metric: Metric that it pays; empty: all metrics of the portfolio that have no cap of their own.
        week: ISO week in UTC, such as `2026-W47`.
        usd: Amount in US dollars.
    """

    id: str
    portfolio: str
    metric: str
    week: str
    usd: float


#: Leases that a worker gives up, each with its unspent US dollars; below zero: what was billed beyond the lease.
Settlements = Sequence[tuple[Lease, float]]


@dataclass(frozen=True)
class Grant:
    """Answer to a worker that asks for money.

    Attributes:
        lease: The lease; None if the cap does not allow it now.
        may_wait: True if other leases are open, whose return may allow it.
        rest: What the cap has left behind the lease, US dollars; without a cap a large number.
    """

    lease: Lease | None
    may_wait: bool = False
    rest: float = 0.0


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

    def lease(
        self, portfolio: str, metric: str, least: float, wanted: float, at: datetime, settled: Settlements = (),
        id_: str | None = None, keeps: bool = False,
    ) -> Grant:  # fmt: skip
        """Settle leases and grant another, committed before this returns.

        Args:
            portfolio: Name of the portfolio.
            metric: Metric of that portfolio.
            least: Highest cost of one call and of those under way, US dollars.
            wanted: Amount that the worker asks for, US dollars, so that it need not ask before each call.
            at: Current time, with a time zone.
            settled: Leases of the same portfolio, metric and week that end now.
            id_: Id of the new lease. If there is one with this id, it is returned as it was granted: a worker may ask
                again when it has missed the answer.
            keeps: True: the leases end only if another is granted, because calls under way are paid from them.
        """
        week = week_of(at)
        owner = metric if (portfolio, metric) in self.caps.metrics else ""

        def grant(con: duckdb.DuckDBPyConnection) -> Grant:
            if id_ is not None and (granted := _granted(con, id_)) is not None:
                return Grant(granted)
            if not keeps:
                self._settle(con, settled, at)
            left = self._left(con, portfolio, metric, week)
            usd = max(least, wanted)
            if left is not None:
                left += sum(_returned(con, lease.id, unspent) for lease, unspent in settled if keeps)
                usd = min(max(least, min(wanted, left / LEASES_OF_THE_REST)), left)
            if usd < least:
                return Grant(None, self._may_come_back(con, portfolio, metric, week, least, at))
            if keeps:
                self._settle(con, settled, at)
            lease = Lease(id_ or secrets.token_hex(8), portfolio, owner, week, usd)
            self._enter(con, lease, "lease", usd, at)
            return Grant(lease, rest=_MUCH if left is None else left - usd)

        return self._store.change("leasing money to a judge", grant)

    def settle(self, settled: Settlements, at: datetime) -> None:
        """End leases; a lease that has ended already stays as it is."""
        if settled:
            self._store.change("settling a judge's leases", lambda con: self._settle(con, settled, at))

    def _settle(self, con: duckdb.DuckDBPyConnection, settled: Settlements, at: datetime) -> None:
        for lease, unspent in settled:
            known = _granted(con, lease.id)
            if known is not None and _is_open(con, lease.id):
                usd = -min(unspent, known.usd)
                self._enter(con, known, "returned" if usd <= 0 else "beyond", usd, at)

    def abandon(self, at: datetime) -> None:
        """End all open leases as spent; for a process that alone has the store, so that all others are dead."""
        open_ = """SELECT DISTINCT lease FROM internal.judge_money GROUP BY lease HAVING bool_and(entry = 'lease')"""

        def end(con: duckdb.DuckDBPyConnection) -> None:
            for (id_,) in con.execute(open_).fetchall():
                if (lease := _granted(con, id_)) is not None:
                    self._enter(con, lease, "returned", 0.0, at)

        self._store.change("ending the leases of killed judges", end)

    def _enter(self, con: duckdb.DuckDBPyConnection, lease: Lease, entry: str, usd: float, at: datetime) -> None:
        row = {
            "lease": lease.id, "portfolio": lease.portfolio, "metric": lease.metric, "week": lease.week, "entry": entry,
            "usd": usd, "at": at.astimezone(UTC).replace(tzinfo=None),
        }  # fmt: skip
        insert_row(con, "judge_money", row)

    def _may_come_back(
        self, con: duckdb.DuckDBPyConnection, portfolio: str, metric: str, week: str, least: float, at: datetime
    ) -> bool:
        """Return True if enough would be left if open leases came back unspent."""
        if (cap := self.caps.portfolios.get(portfolio)) is not None:
            of_portfolio = "portfolio = ? AND week = ?", [portfolio, week]
            if cap - _set_aside(con, *of_portfolio) + _open_usd(con, *of_portfolio, at) < least:
                return False
        if (cap := self.caps.metrics.get((portfolio, metric))) is not None:
            of_metric = "portfolio = ? AND metric = ? AND week = ?", [portfolio, metric, week]
            return cap - _set_aside(con, *of_metric) + _open_usd(con, *of_metric, at) >= least
        return True

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


def _granted(con: duckdb.DuckDBPyConnection, id_: str) -> Lease | None:
    rows = con.execute(
        "SELECT portfolio, metric, week, usd FROM internal.judge_money WHERE lease = ? AND entry = 'lease'", [id_]
    ).fetchall()
    return Lease(id_, *rows[0]) if rows else None


def _is_open(con: duckdb.DuckDBPyConnection, id_: str) -> bool:
    sql = "SELECT count(*) FROM internal.judge_money WHERE lease = ? AND entry <> 'lease'"
    return bool(con.execute(sql, [id_]).fetchall()[0][0] == 0)


def _returned(con: duckdb.DuckDBPyConnection, id_: str, unspent: float) -> float:
    """Return the US dollars that come back when a lease is settled; 0 if it is settled already."""
    known = _granted(con, id_)
    return min(unspent, known.usd) if known is not None and _is_open(con, id_) else 0.0


def _open_usd(con: duckdb.DuckDBPyConnection, where: str, values: list[str], at: datetime) -> float:
    """Return the US dollars of leases that live workers may still settle."""
    since = at.astimezone(UTC).replace(tzinfo=None) - timedelta(seconds=LEASE_SECONDS)
    sql = f"""SELECT coalesce(sum(l.usd), 0) FROM internal.judge_money AS l WHERE {where} AND l.entry = 'lease'
        AND l."at" >= ? AND NOT EXISTS (
            SELECT 1 FROM internal.judge_money AS r WHERE r.lease = l.lease AND r.entry <> 'lease')"""
    return float(con.execute(sql, [*values, since]).fetchall()[0][0])
