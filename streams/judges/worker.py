"""Judges what waits in a store: many requests at once, verdicts kept in batches, nothing lost by a kill."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from scorers.errors import UsageError
from scorers.judges.chat_model import ChatModel
from scorers.judges.judgement import Judgement
from scorers.portfolio import Portfolio
from sinks.judge_closing import Closed, JudgeClosing
from sinks.judge_money import Caps, JudgeMoney
from sinks.open_requests import OpenRequests
from sinks.store import Store
from streams.judges.judge_pool import JudgePool, run_all
from streams.judges.judging import Judging
from streams.judges.settings import JudgeSettings
from streams.judges.stored_requests import StoredRequests
from streams.judges.wallet import ThreadLender, Wallet

T = TypeVar("T")


@dataclass
class JudgeResult:
    """What judging did.

    Attributes:
        closed: Requests that ended.
        dropped: Judgements of requests that had ended before.
        left: Requests that still wait.
        outcomes: Metric to state to number of spans.
        errors: Number of judgements without a verdict, by the first word of the reason.
        suspicions: Texts that seem to speak to their judge, by pipeline and kind.
        usd: What was paid.
        calls: Calls that were paid for.
        cached: Requests answered from memory.
    """

    closed: int = 0
    dropped: int = 0
    left: int = 0
    outcomes: dict[str, Counter[str]] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)
    suspicions: Counter[tuple[str, str]] = field(default_factory=Counter)
    usd: float = 0.0
    calls: int = 0
    cached: int = 0

    def add(self, closed: Closed, judgements: Sequence[Judgement]) -> None:
        """Add what one batch did."""
        self.closed += closed.closed
        self.dropped += closed.dropped
        self.usd += closed.usd
        for metric, states in closed.outcomes.items():
            self.outcomes.setdefault(metric, Counter()).update(states)
        for judgement in judgements:
            self.calls += len(judgement.calls)
            if judgement.state == "error":
                self.errors[(judgement.reason or "").partition(":")[0]] += 1

    def as_json(self) -> dict[str, object]:
        """Return it as commands print it."""
        return {
            "closed": self.closed,
            "dropped": self.dropped,
            "left": self.left,
            "outcomes": {metric: dict(states) for metric, states in sorted(self.outcomes.items())},
            "errors": dict(sorted(self.errors.items())),
            "suspicions": {f"{pipeline}: {kind}": n for (pipeline, kind), n in sorted(self.suspicions.items())},
            "usd": round(self.usd, 6),
            "calls": self.calls,
            "cached": self.cached,
        }


def caps_of(portfolios: Sequence[Portfolio], settings: JudgeSettings | None) -> Caps:
    """Return the weekly caps that portfolios and settings write down."""
    by_name = settings.usd_per_week if settings is not None else {}
    by_portfolio = {
        p.portfolio: p.budget.judge_usd_per_week
        for p in portfolios
        if p.budget is not None and p.budget.judge_usd_per_week is not None
    }
    by_metric = {(p.portfolio, m.name): by_name[m.name] for p in portfolios for m in p.metrics if m.name in by_name}
    return Caps(by_portfolio, by_metric)


def check_caps(portfolios: Sequence[Portfolio], settings: JudgeSettings) -> None:
    """Hold the settings against the portfolios that they are for.

    Raises:
        UsageError: The settings cap a metric that no portfolio has.
    """
    unknown = set(settings.usd_per_week) - {m.name for p in portfolios for m in p.metrics}
    if unknown:
        raise UsageError(f"usd_per_week names {', '.join(sorted(unknown))}, which no portfolio has")


def judge_store(
    store: Store,
    portfolios: Sequence[Portfolio],
    settings: JudgeSettings,
    make_model: Callable[[str], ChatModel],
    price_of: Callable[[str], tuple[float, float] | None],
    *,
    patience_seconds: float = 300.0,
    on_batch: Callable[[JudgeResult], None] | None = None,
) -> JudgeResult:
    """Judge every request of a store that waits and whose portfolio is given.

    Args:
        store: Open for keeping.
        portfolios: Whose requests are judged.
        settings: How providers are reached.
        make_model: Makes the way to a vendor's models.
        price_of: US dollars a token, in and out, by model; None where it is not known.
        patience_seconds: How long an outage of a provider is waited out; what waits then stays for the next run.
        on_batch: Told after every batch that was kept.

    Raises:
        UsageError: There is a cap, and a model whose price is not known.
        JobError: The store could not be written.
    """
    check_caps(portfolios, settings)
    caps = caps_of(portfolios, settings)
    prices = known_prices(portfolios, caps, price_of)
    with ThreadPoolExecutor(1, "keeper") as keeper:
        money = JudgeMoney(store, caps)
        lender = ThreadLender(
            lambda portfolio, metric, least, most: money.lease(portfolio, metric, least, most, datetime.now(UTC)),
            lambda lease, usd: money.give_back(lease, usd, datetime.now(UTC)),
            keeper,
        )
        wallet = Wallet(lender) if caps.portfolios or caps.metrics else None
        run = _Run(store, keeper, patience_seconds, on_batch)

        async def judged() -> JudgeResult:
            judging = Judging(portfolios, settings, make_model, lambda model: prices[model], wallet)
            return await run.run(judging)

        return asyncio.run(judged())


def known_prices(
    portfolios: Sequence[Portfolio], caps: Caps, price_of: Callable[[str], tuple[float, float] | None]
) -> dict[str, tuple[float, float]]:
    """Return the price of every judge's model, US dollars a token in and out; nothing where it is not known.

    Raises:
        UsageError: It is not known, and a cap depends on it.
    """
    prices = {}
    for portfolio in portfolios:
        for metric in portfolio.metrics:
            for judge in getattr(metric.claim, "judges", ()):
                price = price_of(judge.model)
                capped = portfolio.portfolio in caps.portfolios or (portfolio.portfolio, metric.name) in caps.metrics
                if price is None and capped:
                    raise UsageError(
                        f"the price of {judge.model} is not known, so the cap on {metric.name} cannot be kept; "
                        "write it under `prices` of the settings"
                    )
                prices[judge.model] = price or (0.0, 0.0)
    return prices


class _Run:
    """One run over the open requests of a store."""

    def __init__(
        self, store: Store, keeper: ThreadPoolExecutor, patience: float, on_batch: Callable[[JudgeResult], None] | None
    ) -> None:
        self._store = store
        self._keeper = keeper
        self._patience = patience
        self._on_batch = on_batch
        self._result = JudgeResult()

    async def run(self, judging: Judging) -> JudgeResult:
        closing = await self._in_keeper(lambda: JudgeClosing(self._store))

        async def deliver(batch: Sequence[Judgement]) -> None:
            closed = await self._in_keeper(lambda: closing.close(batch, datetime.now(UTC)))
            self._result.add(closed, batch)
            if self._on_batch is not None:
                self._on_batch(self._result)

        pools = []
        for lane, workers in judging.lanes().items():
            wants = partial(judging.knows, lane=lane)
            requests = StoredRequests(OpenRequests(self._store.cursor), wants, follows=False)
            pools.append(JudgePool(judging, lane, workers, requests.next, deliver, self._patience))
        try:
            await run_all(pools)
        finally:
            await judging.close()
        self._result.left = closing.pending
        self._result.suspicions = judging.suspicions
        self._result.cached = judging.cache_hits
        return self._result

    async def _in_keeper(self, step: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._keeper, step)
