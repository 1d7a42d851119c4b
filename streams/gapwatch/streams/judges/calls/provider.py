"""Calls one provider with rate limits, retries, a circuit breaker, and a reservation of money for each attempt."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

from gapwatch.scorers.judges.chat_model import MAYBE_BILLED, ChatCall, ChatModel, ChatReply, ModelFailure
from gapwatch.scorers.judges.judgement import PaidCall
from gapwatch.streams.judges.calls.breaker import Breaker
from gapwatch.streams.judges.calls.rate_limit import RateLimit
from gapwatch.streams.judges.calls.wallet import Wallet
from gapwatch.streams.judges.settings import ProviderSettings

#: Failures of the provider rather than of the call; they count for the circuit breaker.
_OUTAGES = frozenset({"unavailable", "timeout", "cut_off"})


class OverBudget(Exception):  # noqa: N818 - an answer that every caller handles
    """The cap does not allow another call."""


@dataclass(frozen=True)
class CallPrice:
    """Price of a call, and the budget that pays.

    Attributes:
        portfolio, metric: Owner of the budget.
        input_usd, output_usd: US dollars per token.
        most_output_tokens: Token limit of the reply.
    """

    portfolio: str
    metric: str
    input_usd: float
    output_usd: float
    most_output_tokens: int

    def worst(self, call: ChatCall) -> float:
        """Return the highest possible cost of one attempt in US dollars; a token has at least one byte."""
        size = sum(len(text.encode()) for _, text in call.messages) + 16 * len(call.messages) + 512
        return size * self.input_usd + self.most_output_tokens * self.output_usd

    def of(self, reply: ChatReply, worst: float) -> float:
        """Return the cost of a reply in US dollars.

        Args:
            reply: The reply.
            worst: Returned if the provider does not report the tokens.
        """
        if reply.input_tokens is None or reply.output_tokens is None:
            return worst
        return reply.input_tokens * self.input_usd + reply.output_tokens * self.output_usd


class Provider:
    """One provider, for one event loop.

    Args:
        settings: Limits of the provider.
        model: Adapter of its models.
        wallet: Reserves the cost of calls; None: there is no cap.
        rng: Returns a random number in [0, 1) for the jitter.

    Attributes:
        breaker: Circuit breaker.
        failures: Number of failed attempts by kind.
        under_way: Number of calls that wait for their reply.
    """

    def __init__(
        self,
        settings: ProviderSettings,
        model: ChatModel,
        wallet: Wallet | None = None,
        rng: Callable[[], float] = random.random,
    ) -> None:
        time = asyncio.get_running_loop().time
        self.settings = settings
        self.model = model
        self.breaker = Breaker(settings.breaker_failures, settings.breaker_seconds, time)
        self.failures: Counter[str] = Counter()
        self._wallet = wallet
        self._rng = rng
        self.under_way = 0
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._requests: dict[str, RateLimit] = {}
        self._tokens: dict[str, RateLimit] = {}
        self._time = time

    async def fetch_reply(self, call: ChatCall, price: CallPrice, paid: list[PaidCall]) -> ChatReply:
        """Return the model's reply, after as many attempts as the settings allow.

        Args:
            call: The call.
            price: Its price.
            paid: Every attempt is appended, including those that cost nothing.

        Raises:
            ModelFailure: The last attempt failed.
            OverBudget: The cap does not allow another attempt.
        """
        attempt = 0
        while True:
            try:
                return await self._attempt(call, price, paid)
            except ModelFailure as failure:
                self.failures[failure.kind] += 1
                # During an outage every call fails; such a failure does not use up an attempt.
                is_outage = self.breaker.state != "closed" and failure.kind in _OUTAGES
                attempt += not is_outage
                if not failure.passes or attempt >= self.settings.attempts:
                    raise
                await self._back_off(call, failure, attempt)

    async def _back_off(self, call: ChatCall, failure: ModelFailure, attempt: int) -> None:
        asked = failure.retry_after_seconds
        if asked is not None:
            # `Retry-After` of one call applies to all calls of the model.
            self._limit(self._requests, call.model, self.settings.requests_per_minute).pause(asked)
        longest = min(self.settings.longest_delay_seconds, self.settings.first_delay_seconds * 2 ** max(attempt - 1, 0))
        jitter = self._rng() * longest
        await asyncio.sleep(jitter if asked is None else asked + 0.1 * jitter)

    def _limit(self, limits: dict[str, RateLimit], model: str, per_minute: float | None) -> RateLimit:
        found = limits.get(model)
        if found is None:
            found = limits[model] = RateLimit(per_minute, self._time)
        return found

    async def _attempt(self, call: ChatCall, price: CallPrice, paid: list[PaidCall]) -> ChatReply:
        async with self._slots:
            is_trial = await self.breaker.wait()
            noted = False
            try:
                await self._wait_turn(call, price)
                reply, failure = await self._paid_call(call, price, paid)
                noted = True
                if failure is not None and failure.kind in _OUTAGES:
                    self.breaker.failed(is_trial)
                else:
                    self.breaker.succeeded()
            finally:
                if is_trial and not noted:
                    self.breaker.abandoned()
        if failure is not None:
            raise failure
        assert reply is not None
        return reply

    async def _wait_turn(self, call: ChatCall, price: CallPrice) -> None:
        settings = self.settings
        await self._limit(self._requests, call.model, settings.requests_per_minute).take()
        if settings.tokens_per_minute is not None:
            # Rate limits count about four characters per token; the cost uses the tokens that the provider reports.
            expected = sum(len(text) for _, text in call.messages) / 4 + price.most_output_tokens / 4
            await self._limit(self._tokens, call.model, settings.tokens_per_minute).take(expected)

    async def _paid_call(
        self, call: ChatCall, price: CallPrice, paid: list[PaidCall]
    ) -> tuple[ChatReply | None, ModelFailure | None]:
        worst = price.worst(call)
        lease = None
        if self._wallet is not None:
            lease = await self._wallet.reserve(price.portfolio, price.metric, worst)
            if lease is None:
                raise OverBudget
        started = perf_counter()
        reply: ChatReply | None = None
        failure: ModelFailure | None = None
        usd = worst  # also if this is cancelled during the call: the provider may still charge for it
        self.under_way += 1
        try:
            reply = await self.model.ask(call)
            usd = price.of(reply, worst)
        except ModelFailure as error:
            failure = error
            usd = worst if error.kind in MAYBE_BILLED else 0.0
        finally:
            self.under_way -= 1
            if lease is not None and self._wallet is not None:
                await asyncio.shield(self._wallet.put_back(lease, worst, usd))
        kind = "reply" if failure is None else failure.kind
        tokens = (reply.input_tokens or 0, reply.output_tokens or 0) if reply is not None else (0, 0)
        paid.append(PaidCall(call.model, kind, *tokens, usd, round(perf_counter() - started, 6)))
        return reply, failure
