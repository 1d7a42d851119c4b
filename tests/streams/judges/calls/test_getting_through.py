"""Limits, retries, breaker, cache and money: every request ends once, and never over the cap."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import pytest

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.judges.chat_model import ChatCall, ChatReply, ModelFailure
from gapwatch.scorers.judges.judgement import PaidCall
from gapwatch.scorers.judges.scripted_model import ScriptedModel
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.verdicts.budget_leases import (
    LEASE_SECONDS,
    Caps,
    Grant,
    JudgeMoney,
    Lease,
    Settlements,
    week_of,
)
from gapwatch.streams.judges.calls.breaker import Breaker
from gapwatch.streams.judges.calls.call_price import CallPrice
from gapwatch.streams.judges.calls.provider import OverBudget, Provider
from gapwatch.streams.judges.calls.rate_limit import RateLimit
from gapwatch.streams.judges.calls.verdict_cache import VerdictCache
from gapwatch.streams.judges.calls.wallet import Wallet
from gapwatch.streams.judges.settings import ProviderSettings
from tests.scorers.judges.rubrics import judged_metric, portfolio_of
from tests.streams.judges.judged_store import imbalance_of, judge, query, says, scored_store, states, trace

T = TypeVar("T")
CALL = ChatCall("v/m", (("user", "hello"),))
PRICE = CallPrice("p", "m", 1e-6, 2e-6, 100)
OK = ChatReply("fine", "m-1234", 10, 5)


def provider_of(model: ScriptedModel, wallet: Wallet | None = None, **changed: object) -> Provider:
    written = {"first_delay_seconds": 0.001, "longest_delay_seconds": 0.002, "breaker_seconds": 0.01, **changed}
    return Provider(ProviderSettings.model_validate(written), model, wallet, lambda: 0.5)


def run(made: Callable[[], Awaitable[T]]) -> T:
    async def whole() -> T:
        return await made()

    return asyncio.run(whole())


@pytest.mark.parametrize(
    "kind", ["rate_limited", "unavailable", "timeout", "cut_off", "unreachable", "bad_reply", "empty"]
)
def test_a_failure_that_passes_is_tried_again(kind: str) -> None:
    answers = [ModelFailure(kind), ModelFailure(kind), OK]
    model = ScriptedModel(lambda call: answers.pop(0))

    assert run(lambda: provider_of(model).fetch_reply(CALL, PRICE, [])) == OK
    assert len(model.calls) == 3


@pytest.mark.parametrize("kind", ["refused_key", "quota_exhausted", "forbidden", "no_such_model", "bad_request"])
def test_a_failure_that_stays_is_not_tried_again(kind: str) -> None:
    model = ScriptedModel(lambda call: ModelFailure(kind))
    with pytest.raises(ModelFailure):
        run(lambda: provider_of(model).fetch_reply(CALL, PRICE, []))

    assert len(model.calls) == 1


def test_attempts_are_bounded() -> None:
    model = ScriptedModel(lambda call: ModelFailure("rate_limited"))
    with pytest.raises(ModelFailure):
        run(lambda: provider_of(model, attempts=4).fetch_reply(CALL, PRICE, []))

    assert len(model.calls) == 4


def test_a_wait_that_was_asked_for_is_kept_by_all() -> None:
    async def asked() -> tuple[float, float]:
        answers: list[ChatReply | ModelFailure] = [ModelFailure("rate_limited", "", 0.2)]
        provider = provider_of(ScriptedModel(lambda call: answers.pop() if answers else OK), requests_per_minute=1e9)
        loop = asyncio.get_running_loop()
        begin = loop.time()
        first = asyncio.create_task(provider.fetch_reply(CALL, PRICE, []))
        while not provider.failures:
            await asyncio.sleep(0)
        await provider.fetch_reply(CALL, PRICE, [])
        second_done = loop.time() - begin
        await first
        return loop.time() - begin, second_done

    both = run(asked)
    assert min(both) >= 0.19


def test_no_more_calls_are_under_way_than_allowed() -> None:
    async def asked() -> int:
        now, most = 0, 0

        class Counting:
            async def ask(self, call: ChatCall) -> ChatReply:
                nonlocal now, most
                now += 1
                most = max(most, now)
                await asyncio.sleep(0.001)
                now -= 1
                return OK

            async def close(self) -> None: ...

        provider = Provider(ProviderSettings(concurrency=3), Counting())
        await asyncio.gather(*(provider.fetch_reply(CALL, PRICE, []) for _ in range(30)))
        return most

    assert run(asked) == 3


def test_an_outage_costs_no_attempt_and_is_over_when_the_provider_is_back() -> None:
    down = True

    async def asked() -> tuple[list[ChatReply], int]:
        nonlocal down
        model = ScriptedModel(lambda call: ModelFailure("unavailable") if down else OK)
        provider = provider_of(model, attempts=3, breaker_failures=4, concurrency=5)
        tasks = [asyncio.create_task(provider.fetch_reply(CALL, PRICE, [])) for _ in range(10)]
        while provider.breaker.state == "closed" or len(model.calls) < 9:
            await asyncio.sleep(0.001)
        sent = len(model.calls)
        down = False
        return await asyncio.wait_for(asyncio.gather(*tasks), 20), sent

    replies, sent = run(asked)
    assert replies == [OK] * 10
    assert sent < 30


def test_a_breaker_lets_one_trial_through_at_a_time() -> None:
    async def tried() -> tuple[str, bool, str, bool, str]:
        now = [0.0]
        breaker = Breaker(2, 10.0, lambda: now[0])
        breaker.failed(False, ModelFailure("unavailable"))
        breaker.failed(False, ModelFailure("unavailable"))
        opened = breaker.state
        waiting = asyncio.create_task(breaker.wait())
        await asyncio.sleep(0.01)
        is_waiting = not waiting.done()
        now[0] = 11.0
        waiting.cancel()
        is_trial = await breaker.wait()
        half = breaker.state
        breaker.succeeded()
        return opened, is_waiting, half, is_trial, breaker.state

    assert run(tried) == ("open", True, "half_open", True, "closed")


def test_a_rate_is_kept() -> None:
    async def taken() -> float:
        loop = asyncio.get_running_loop()
        limit = RateLimit(6_000, loop.time)
        begin = loop.time()
        for _ in range(120):  # the allowance of one second, and 20 more
            await limit.take()
        return loop.time() - begin

    assert run(taken) >= 0.15


def test_the_memory_of_verdicts_is_bounded_and_waits_for_one_answer() -> None:
    async def asked() -> tuple[int, int, list[tuple[int, bool]]]:
        cache: VerdictCache[int] = VerdictCache(2)
        times = 0

        async def ask() -> int:
            nonlocal times
            times += 1
            await asyncio.sleep(0.001)
            return times

        equal = await asyncio.gather(*(cache.get("a", ask, lambda _: True) for _ in range(5)))
        for key in "bcd":
            await cache.get(key, ask, lambda _: True)
        await cache.get("e", ask, lambda _: False)
        return len(cache), times, list(equal)

    size, times, equal = run(asked)
    assert size == 2
    assert times == 5
    assert sorted(equal) == [(1, False)] + [(1, True)] * 4


def test_an_attempt_is_booked_at_its_bill_and_without_one_at_the_longest_reply() -> None:
    """Before the first bill, a call without one is booked at the worst; a useless reply by the tokens that it names."""
    paid: list[PaidCall] = []
    answers = [
        ModelFailure("timeout"), ModelFailure("rate_limited"), ModelFailure("empty", usage=(10, 0)), OK,
        ChatReply("x", "m"),
    ]  # fmt: skip
    provider_worst = PRICE.worst(CALL)

    async def asked() -> None:
        provider = provider_of(ScriptedModel(lambda call: answers.pop(0)))
        await provider.fetch_reply(CALL, PRICE, paid)
        await provider.fetch_reply(CALL, PRICE, paid)

    run(asked)
    assert [(call.kind, call.usd) for call in paid] == [
        ("timeout", provider_worst), ("rate_limited", 0.0), ("empty", pytest.approx(10e-6)),
        ("reply", pytest.approx(10e-6 + 10e-6)), ("reply", paid[4].usd),
    ]  # fmt: skip
    longest_reply = PRICE.longest(0)
    assert longest_reply + 10e-6 < paid[4].usd < longest_reply + 20e-6 < provider_worst


AT = datetime(2026, 11, 20, tzinfo=UTC)


def test_leases_never_exceed_a_cap_and_survive_a_restart(tmp_path: Path) -> None:
    caps = Caps({"p": 10.0}, {("p", "m"): 4.0})
    with Store.open(tmp_path / "s.duckdb", create=True) as store:
        money = JudgeMoney(store, caps)
        first = money.lease("p", "m", 3.0, 3.0, AT).lease
        second = money.lease("p", "m", 1.0, 3.0, AT).lease
        assert first is not None and second is not None
        assert (first.usd, second.usd, first.metric) == (3.0, 1.0, "m")
        assert money.lease("p", "m", 0.01, 1.0, AT) == Grant(None, may_wait=True)
        money.settle([(second, 0.75)], AT)
        money.settle([(second, 0.75)], AT)  # an answer was missed, and the worker asks again
    with Store.open(tmp_path / "s.duckdb") as store:
        money = JudgeMoney(store, caps)
        assert money.left("p", "m", week_of(AT)) == pytest.approx(0.75)
        assert money.left("p", "other", week_of(AT)) == pytest.approx(6.75)
        assert money.left("q", "m", week_of(AT)) is None
        assert money.left("p", "m", "2026-W48") == 4.0
        bounded = money.lease("p", "other", 0.01, 9.0, AT, id_="once").lease
        assert bounded is not None and (bounded.usd, bounded.metric) == (6.75 / 8, "")
        assert money.lease("p", "other", 0.01, 9.0, AT, id_="once").lease == bounded
        # A bill beyond the lease counts, and what is under way keeps its lease until another is granted.
        money.settle([(bounded, bounded.usd - 6.1)], AT)
        assert money.left("p", "other", week_of(AT)) == pytest.approx(0.65)
        held = money.lease("p", "other", 0.6, 0.6, AT).lease
        assert held is not None
        assert money.lease("p", "other", 0.7, 0.7, AT, [(held, 0.6)], keeps=True).lease is None
        assert money.left("p", "other", week_of(AT)) == pytest.approx(0.05)
        assert money.lease("p", "other", 0.65, 0.65, AT, [(held, 0.6)], keeps=True).lease is not None
        assert not money.lease("p", "other", 0.1, 0.1, AT + timedelta(seconds=2 * LEASE_SECONDS)).may_wait


def test_a_week_is_that_of_utc() -> None:
    assert week_of(datetime(2026, 11, 22, 23, 59, tzinfo=UTC)) == "2026-W47"
    assert week_of(datetime(2026, 11, 23, 0, 0, tzinfo=UTC)) == "2026-W48"


class FixedLender:
    def __init__(self, usd: float) -> None:
        self.left = usd

    async def lease(
        self, portfolio: str, metric: str, least: float, wanted: float, settled: Settlements, id_: str, keeps: bool
    ) -> Grant:
        left = self.left + sum(unspent for _, unspent in settled)
        usd = min(max(least, wanted), left)
        if usd < least:
            self.left = self.left if keeps else left
            return Grant(None)
        self.left = left - usd
        return Grant(Lease(id_, portfolio, "", week_of(datetime.now(UTC)), usd))

    async def settle(self, settled: Settlements) -> None:
        self.left += sum(unspent for _, unspent in settled)


def test_a_wallet_reserves_the_worst_and_gives_back_the_rest() -> None:
    async def spent() -> tuple[bool, float]:
        lender = FixedLender(100 * PRICE.worst(CALL))
        wallet = Wallet(lender)
        provider = provider_of(ScriptedModel(lambda call: OK), wallet)
        before = lender.left
        await asyncio.gather(*(provider.fetch_reply(CALL, PRICE, []) for _ in range(20)))
        await wallet.close()
        return True, before - lender.left

    assert run(spent)[1] == pytest.approx(20 * (10e-6 + 10e-6))


def test_an_empty_wallet_is_over_budget_and_nothing_is_sent() -> None:
    model = ScriptedModel(lambda call: OK)
    with pytest.raises(OverBudget):
        run(lambda: provider_of(model, Wallet(FixedLender(PRICE.worst(CALL) / 2))).fetch_reply(CALL, PRICE, []))

    assert model.calls == []


def test_at_the_cap_judgements_are_shed_and_counted(tmp_path: Path) -> None:
    portfolio = portfolio_of(judged_metric(), budget={"judge_usd_per_week": 0.2})
    path = scored_store(tmp_path, portfolio, [trace(i) for i in range(200)])
    result = judge(path, portfolio, says("Good"), price=(1e-5, 1e-5))

    found = states(path, "faithful")
    assert found["pass"] + found["shed_budget"] == 200
    assert found["shed_budget"] > 0 and found["pass"] > 0
    assert result.usd <= 0.2
    ((paid,),) = query(path, "SELECT sum(usd) FROM judge_calls")
    ((aside,),) = query(path, "SELECT sum(usd) FROM internal.judge_money")
    assert paid == pytest.approx(result.usd)
    assert paid - 1e-9 <= aside <= 0.2 + 1e-9
    assert imbalance_of(path) == 0


def test_a_cap_without_a_known_price_is_refused(tmp_path: Path) -> None:
    portfolio = portfolio_of(judged_metric(), budget={"judge_usd_per_week": 1.0})
    path = scored_store(tmp_path, portfolio, [trace(0)])
    with pytest.raises(UsageError, match="price of openai"):
        judge(path, portfolio, says("Good"), price=None)  # type: ignore[arg-type]


def test_a_cap_on_an_unknown_metric_is_refused(tmp_path: Path) -> None:
    portfolio = portfolio_of(judged_metric())
    path = scored_store(tmp_path, portfolio, [trace(0)])
    with pytest.raises(UsageError, match="no_such"):
        judge(path, portfolio, says("Good"), usd_per_week={"no_such": 1.0})


def test_a_provider_that_stays_down_leaves_its_requests_for_the_next_run(tmp_path: Path) -> None:
    portfolio = portfolio_of(judged_metric())
    path = scored_store(tmp_path, portfolio, [trace(i) for i in range(40)])
    first = judge(
        path, portfolio, lambda call: ModelFailure("unavailable"), patience=0.05, provider={"concurrency": 10}
    )

    assert first.left > 0
    assert first.closed + first.left == 40
    second = judge(path, portfolio, says("Good"))
    assert second.closed == first.left
    assert imbalance_of(path) == 0


class Killed(BaseException):
    """The process is gone."""
