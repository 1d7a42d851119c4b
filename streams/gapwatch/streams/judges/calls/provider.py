"""Calls one provider with rate limits, retries, circuit breakers, and a reservation of money for each attempt."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from time import perf_counter

from gapwatch.scorers.judges.chat_model import (
    MAYBE_BILLED,
    OF_THE_KEY,
    OF_THE_MODEL,
    ChatCall,
    ChatModel,
    ChatReply,
    ModelFailure,
)
from gapwatch.scorers.judges.judgement import PaidCall
from gapwatch.streams.judges.calls.breaker import Breaker
from gapwatch.streams.judges.calls.call_price import CallPrice, LearnedPrice, most_input_tokens
from gapwatch.streams.judges.calls.patience import LeftPending, Patience
from gapwatch.streams.judges.calls.rate_limit import RateLimit
from gapwatch.streams.judges.calls.wallet import Wallet
from gapwatch.streams.judges.settings import ProviderSettings

log = logging.getLogger("gapwatch.judges")

#: Failures of the provider rather than of the call, which may also be chance: several in a row open its breaker.
_OUTAGES = frozenset({"unavailable", "timeout", "cut_off", "unreachable"})
#: Failures that open a breaker at once.
_CERTAIN = (OF_THE_KEY | OF_THE_MODEL) - _OUTAGES


class OverBudget(Exception):  # noqa: N818 - an answer that every caller handles
    """The cap does not allow another call."""


class _GaveUp(ModelFailure):
    """An outage has lasted longer than the call may wait."""


def _abandon(trials: list[Breaker]) -> None:
    while trials:
        trials.pop().abandoned()


class Provider:
    """One provider with one key, for one event loop.

    Args:
        settings: Limits of the provider.
        model: Adapter of its models.
        wallet: Reserves the cost of calls; None: there is no cap.
        rng: Returns a random number in [0, 1) for the jitter.
        name: Name of the provider, with its key, in log lines.

    Attributes:
        breaker: Circuit breaker of the provider and its key.
        failures: Number of failed attempts by kind.
        under_way: Number of calls that wait for their reply.
    """

    def __init__(
        self,
        settings: ProviderSettings,
        model: ChatModel,
        wallet: Wallet | None = None,
        rng: Callable[[], float] = random.random,
        name: str = "provider",
    ) -> None:
        time = asyncio.get_running_loop().time
        self.settings = settings
        self.model = model
        self.breaker = Breaker(settings.breaker_failures, settings.breaker_seconds, time)
        self._model_breakers: dict[str, Breaker] = {}
        self.failures: Counter[str] = Counter()
        self._name = name
        self._wallet = wallet
        self._rng = rng
        self.under_way = 0
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._requests: dict[str, RateLimit] = {}
        self._tokens: dict[str, RateLimit] = {}
        self._time = time
        self._prices: dict[str, LearnedPrice] = {}

    def outages(self) -> list[str]:
        """Return the present outages, each in words: provider and key, model, since when, and the last failure."""
        places = [(self._name, self.breaker)]
        places += [(f"{self._name}, model {model}", breaker) for model, breaker in self._model_breakers.items()]
        return [_outage_words(where, breaker) for where, breaker in places if breaker.failure is not None]

    @property
    def outage_seconds(self) -> float:
        """Seconds since its oldest present outage began; 0 if there is none."""
        return max(breaker.open_seconds for breaker in (self.breaker, *self._model_breakers.values()))

    async def fetch_reply(
        self, call: ChatCall, price: CallPrice, paid: list[PaidCall], patience: Patience | None = None
    ) -> ChatReply:
        """Return the model's reply, after as many attempts as the settings allow.

        Args:
            call: The call.
            price: Its price.
            paid: Every attempt is appended, including those that cost nothing.
            patience: How long the call waits for outages that people can mend; None: it does not wait for these.

        Raises:
            ModelFailure: The last attempt failed, or an outage has lasted too long.
            LeftPending: An outage has lasted too long, and the request stays pending.
            OverBudget: The cap does not allow another attempt.
        """
        attempt = 0
        while True:
            try:
                return await self._attempt(call, price, paid, patience)
            except _GaveUp:
                raise
            except ModelFailure as failure:
                self.failures[failure.kind] += 1
                # During an outage every call fails; such a failure does not use up an attempt.
                is_outage = self.breaker.state != "closed" and failure.kind in _OUTAGES
                is_mendable = failure.kind in OF_THE_KEY | OF_THE_MODEL and patience is not None
                attempt += not (is_outage or is_mendable)
                if not (failure.passes or is_mendable) or attempt >= self.settings.attempts:
                    raise
                if failure.kind not in _CERTAIN:
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

    async def _attempt(
        self, call: ChatCall, price: CallPrice, paid: list[PaidCall], patience: Patience | None
    ) -> ChatReply:
        trials: list[Breaker] = []
        noted = False
        try:
            await self._enter(call.model, patience, trials)
            try:
                await self._wait_turn(call, price)
                reply, failure = await self._paid_call(call, price, paid)
                noted = True
                self._note(call.model, failure, trials)
            finally:
                self._slots.release()
        finally:
            if not noted:
                _abandon(trials)
        if failure is not None:
            raise failure
        assert reply is not None
        return reply

    async def _enter(self, model: str, patience: Patience | None, trials: list[Breaker]) -> None:
        """Wait for outages to end and take a slot; breakers of which the call is a trial are added to `trials`."""
        while True:
            # The model's first: a trial of the key must not wait for a model.
            closed = (self._model_breakers.get(model), self.breaker)
            if any(breaker is not None and breaker.state != "closed" and breaker not in trials for breaker in closed):
                # Whoever waits for the model tries no key meanwhile: a trial of the model may wait for that of the key.
                _abandon(trials)
            for breaker in closed:
                if breaker is not None and breaker.state != "closed" and breaker not in trials:
                    await self._wait_for(breaker, patience, trials)
            await self._slots.acquire()
            # An outage may have begun while this call waited for the slot.
            if all(breaker is None or breaker.state == "closed" or breaker in trials for breaker in closed):
                return
            self._slots.release()

    async def _wait_for(self, breaker: Breaker, patience: Patience | None, trials: list[Breaker]) -> None:
        if patience is None:
            if await breaker.wait():
                trials.append(breaker)
            return
        try:
            async with patience.aside():
                if await breaker.wait(lambda: patience.left(breaker.open_seconds)):
                    trials.append(breaker)
        except ModelFailure as failure:
            if patience.stays_pending:
                raise LeftPending from None
            detail = f"{failure.detail} ({self._name}; waited as long as give_up_after allows)"
            raise _GaveUp(failure.kind, detail) from None

    def _note(self, model: str, failure: ModelFailure | None, trials: list[Breaker]) -> None:
        """Report the outcome of a call to the breakers, and log the begin and the end of outages."""
        kind = failure.kind if failure is not None else ""
        mine = self._model_breakers.get(model)
        if failure is not None and (kind in OF_THE_KEY or kind in _OUTAGES):
            if self.breaker.failed(self.breaker in trials, failure, kind in _CERTAIN):
                log.warning("%s; requests wait, and one at a time is tried", _outage_words(self._name, self.breaker))
            if mine is not None and mine in trials:
                mine.abandoned()
            return
        _end_outage(self._name, self.breaker)
        if failure is not None and kind in OF_THE_MODEL:
            if mine is None:
                mine = Breaker(1, self.settings.breaker_seconds, self._time)
                self._model_breakers[model] = mine
            if mine.failed(mine in trials, failure, at_once=True):
                words = _outage_words(f"{self._name}, model {model}", mine)
                log.warning("%s; requests wait, and one at a time is tried", words)
        elif mine is not None:
            _end_outage(f"{self._name}, model {model}", mine)

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
        learned = self._prices.get(call.model)
        if learned is None:
            learned = self._prices[call.model] = LearnedPrice()
        most_tokens = most_input_tokens(call)
        worst = price.longest(most_tokens)
        if self._wallet is None or worst == 0 or learned.is_known:
            return await self._call(call, price, paid, learned, most_tokens, worst)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(learned.first)
            if learned.is_known:
                await stack.aclose()
            return await self._call(call, price, paid, learned, most_tokens, worst)

    async def _call(
        self,
        call: ChatCall,
        price: CallPrice,
        paid: list[PaidCall],
        learned: LearnedPrice,
        most_tokens: int,
        worst: float,
    ) -> tuple[ChatReply | None, ModelFailure | None]:
        most = worst * learned.ratio
        reservation = None
        if self._wallet is not None:
            reservation = await self._wallet.reserve(price.portfolio, price.metric, worst, most)
            if reservation is None:
                raise OverBudget
        started = perf_counter()
        reply: ChatReply | None = None
        failure: ModelFailure | None = None
        # Booked if the bill is not known, and if this is cancelled: the provider may still charge for the call.
        usd = learned.unknown_bill(price, most_tokens, worst)
        usage: tuple[int | None, int | None] = (None, None)
        self.under_way += 1
        try:
            reply = await self.model.ask(call)
            usage = reply.input_tokens, reply.output_tokens
        except ModelFailure as error:
            failure = error
            usage = error.usage or ((None, None) if error.kind in MAYBE_BILLED else (0, 0))
        finally:
            tokens_in, tokens_out = usage
            if tokens_in is not None and tokens_out is not None:
                usd = price.of(tokens_in, tokens_out)
            self.under_way -= 1
            if reservation is not None and self._wallet is not None:
                self._wallet.put_back(reservation, usd)
        learned.is_known = learned.is_known or reply is not None
        is_bill = bool(tokens_in) and tokens_out is not None
        if is_bill and learned.learn(usd, worst, tokens_in or 0, most_tokens):
            log.warning(
                "%s, model %s billed %.6f US dollars for a call, more than the %.6f that were reserved; "
                "later calls reserve %.3g times the price list", self._name, call.model, usd, most, learned.ratio,
            )  # fmt: skip
        kind = "reply" if failure is None else failure.kind
        seconds = round(perf_counter() - started, 6)
        paid.append(PaidCall(call.model, kind, tokens_in or 0, tokens_out or 0, usd, seconds))
        return reply, failure


def _end_outage(where: str, breaker: Breaker) -> None:
    """Tell the breaker that an answer came; if that ends an outage, log it with its length."""
    seconds = breaker.open_seconds
    if breaker.succeeded():
        log.info("%s answers again, after %.0f s", where, seconds)


def _outage_words(where: str, breaker: Breaker) -> str:
    """Return an outage in words: provider and key, model, since when, and the last failure."""
    since = datetime.now(UTC) - timedelta(seconds=breaker.open_seconds)
    return f"{where}: down since {since:%Y-%m-%d %H:%M:%S} UTC: {breaker.failure}"
