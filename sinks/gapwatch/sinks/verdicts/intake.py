"""Stores judgements and leases budget to judges, in the process that writes the store.

judge in this process ──────────────────────▶ close ─┐
judges elsewhere ──topic scored──▶ read ────▶ close ─┼──▶ writer thread ──▶ store
judges elsewhere ──POST──▶ lease, settle ─────────────┘
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.judges.judgement import Judgement
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.store.row_inserts import insert_row
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.store.transaction import StoreTransaction
from gapwatch.sinks.verdicts.budget_leases import Caps, JudgeMoney, Lease, week_of
from gapwatch.sinks.verdicts.call_counts import JudgeSamples
from gapwatch.sinks.verdicts.closing import Closed, JudgeClosing, WriteSlice

log = logging.getLogger("gapwatch.judges")


class VerdictIntake:
    """Stores judgements and leases budget, in the writer thread. Any thread may use `samples`.

    Args:
        store: Store that is open for writing.
        keep: Writes a slice of verdicts and shows it to observers.
        portfolios: Portfolios in force.
        caps: Their weekly caps.

    Attributes:
        samples: Counts of calls and verdicts.
        money: Lends budget under the caps.
    """

    def __init__(self, store: Store, keep: WriteSlice, portfolios: Sequence[Portfolio], caps: Caps) -> None:
        self.samples = JudgeSamples()
        self._store = store
        self._portfolios = list(portfolios)
        self._closing = JudgeClosing(store, keep)
        self.money = JudgeMoney(store, caps)

    def portfolios_changed(self, portfolios: Sequence[Portfolio], caps: Caps) -> None:
        """Use these portfolios and weekly caps from now on."""
        self._portfolios = list(portfolios)
        self.money.caps = caps

    def close(self, judgements: Sequence[Judgement], read: Mapping[tuple[str, int], int] | None = None) -> Closed:
        """Store judgements.

        Args:
            judgements: Judgements of any judge. Those of closed requests are dropped and counted.
            read: Next offset of the topic of judgements after these, by topic and partition.

        Raises:
            JobError: The store could not be written.
        """
        marks = dict(read or {})
        also = [("judge_offsets", lambda transaction: _mark(transaction, marks))] if marks else []
        closed = self._closing.close(judgements, datetime.now(UTC), also)
        self.samples.count(closed, judgements)
        return closed

    def read_up_to(self) -> dict[tuple[str, int], int]:
        """Return the next offset to read of the topic of judgements, by topic and partition."""
        rows = self._store.query("SELECT topic, partition, max(to_offset) FROM internal.judge_offsets GROUP BY ALL")
        return {(topic, partition): to_offset for topic, partition, to_offset in rows}

    def posts(self) -> dict[str, Callable[[dict[str, Any]], dict[str, Any]]]:
        """Return the handlers of POST requests of judges in other processes, by path."""
        return {"/v1/judges/lease": self._post_lease, "/v1/judges/settle": self._post_settle}

    def _post_lease(self, asked: dict[str, Any]) -> dict[str, Any]:
        portfolio, metric = _text(asked, "portfolio"), _text(asked, "metric")
        if not any(p.portfolio == portfolio and any(m.name == metric for m in p.metrics) for p in self._portfolios):
            # A portfolio of the past: its requests may still wait, and its caps are no longer known.
            known = self._store.query("SELECT count(*) FROM portfolios WHERE portfolio = ?", [portfolio])[0][0]
            if not known:
                raise UsageError(f"there is no portfolio {portfolio!r} here")
        least, wanted, id_ = _usd(asked, "least"), _usd(asked, "wanted"), _text(asked, "id")
        keeps = asked.get("keeps") is True
        grant = self.money.lease(portfolio, metric, least, wanted, datetime.now(UTC), _settlements(asked), id_, keeps)
        lease = None if grant.lease is None else vars(grant.lease)
        return {"lease": lease, "may_wait": grant.may_wait, "rest": grant.rest}

    def _post_settle(self, asked: dict[str, Any]) -> dict[str, Any]:
        self.money.settle(_settlements(asked), datetime.now(UTC))
        return {"settled": True}

    def waiting(self) -> int:
        """Return the number of open requests, those of the last slice included."""
        self._closing.refresh()
        return self._closing.pending

    def look(self) -> dict[tuple[str, str], float]:
        """Update the shown values of budgets and waiting requests.

        Returns:
            Factors on the sampling rates of judges near their cap, by (pipeline, metric), 0 to 1. All others have 1.
        """
        self._closing.refresh()
        left: dict[tuple[str, ...], float] = {}
        rates: dict[tuple[str, str], float] = {}
        week = week_of(datetime.now(UTC))
        for portfolio in self._portfolios:
            for metric in portfolio.metrics:
                usd = self.money.left(portfolio.portfolio, metric.name, week) if _is_judged(metric) else None
                if usd is None:
                    continue
                left[portfolio.portfolio, metric.name] = usd
                factor = _factor(self.money.share(portfolio.portfolio, metric.name, week))
                if factor < 1.0:
                    rates[portfolio.pipeline, metric.name] = factor
        oldest = self._closing.oldest_at
        age = 0.0 if oldest is None else max(0.0, time.time() - oldest)
        self.samples.note(self._closing.pending, age, left)
        return rates


#: Leased shares of a cap, with the factor on the sampling rate from that share on. Higher shares: most of a week may go
#: unjudged. Lower: budget stays unused.
_STEPS = ((0.95, 0.125), (0.9, 0.25), (0.8, 0.5))


def _factor(share: float) -> float:
    """Return the factor on a judge's sampling rate when this share of its cap is leased."""
    return next((factor for least, factor in _STEPS if share >= least), 1.0)


def _is_judged(metric: Any) -> bool:
    return bool(getattr(metric.claim, "judges", ()))


def _mark(transaction: StoreTransaction, marks: Mapping[tuple[str, int], int]) -> None:
    for (topic, partition), to_offset in marks.items():
        row = {"seq": transaction.seq, "topic": topic, "partition": partition, "to_offset": to_offset}
        insert_row(transaction.con, "judge_offsets", row)


def _text(asked: Mapping[str, Any], name: str) -> str:
    value = asked.get(name)
    if not isinstance(value, str) or not value or len(value) > 1_000:
        raise UsageError(f"send `{name}`, a text")
    return value


def _usd(asked: Mapping[str, Any], name: str) -> float:
    value = asked.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
        raise UsageError(f"send `{name}`, an amount of US dollars")
    return float(value)


def _settlements(asked: Mapping[str, Any]) -> list[tuple[Lease, float]]:
    """Return the leases that a worker ends. Only their ids are used: the store knows the rest."""
    named = asked.get("settled", [])
    if not isinstance(named, list) or len(named) > 1_000 or not all(isinstance(one, dict) for one in named):
        raise UsageError("send `settled`, a list of objects with `id` and `usd`")
    return [(Lease(_text(one, "id"), "", "", "", abs(_amount(one, "usd"))), _amount(one, "usd")) for one in named]


def _amount(asked: Mapping[str, Any], name: str) -> float:
    value = asked.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1e9 < value < 1e9:
        raise UsageError(f"send `{name}`, an amount of US dollars")
    return float(value)
