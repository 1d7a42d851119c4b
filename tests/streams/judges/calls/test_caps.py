"""Weekly caps of 30 metrics and four workers: most is spent before any is shed, never more than the cap."""

from __future__ import annotations

import asyncio
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gapwatch.scorers.judges.chat_model import ChatCall, ChatReply, ModelFailure
from gapwatch.scorers.judges.judgement import PaidCall
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.verdicts import budget_leases
from gapwatch.sinks.verdicts.budget_leases import Caps, JudgeMoney, Lease, week_of
from gapwatch.streams.judges.calls import wallet as wallets
from gapwatch.streams.judges.calls.call_price import CallPrice
from gapwatch.streams.judges.calls.provider import OverBudget, Provider
from gapwatch.streams.judges.calls.wallet import ThreadLender, Wallet
from gapwatch.streams.judges.settings import ProviderSettings

WORKERS, METRICS, AT_ONCE = 4, 30, 8
CALL = ChatCall("v/m", (("user", "x" * 1_000),))


@dataclass
class Biller:
    """A provider that bills, and knows what it has billed to all workers.

    Attributes:
        input_tokens, output_tokens: Usual tokens of a call; each bill is within a quarter of them.
        usd: US dollars billed so far.
        largest: Largest bill.
        seconds: Duration of a call.
    """

    input_tokens: int
    output_tokens: int
    seconds: float = 0.001
    usd: float = 0.0
    largest: float = 0.0
    rng: random.Random = field(default_factory=lambda: random.Random(3))

    async def ask(self, call: ChatCall) -> ChatReply:
        await asyncio.sleep(self.seconds * self.rng.random())
        factor = self.rng.uniform(0.75, 1.25)
        tokens = int(self.input_tokens * factor), int(self.output_tokens * factor)
        usd = tokens[0] * 1e-6 + tokens[1] * 4e-6
        self.usd += usd
        self.largest = max(self.largest, usd)
        if self.rng.random() < 0.01:
            raise ModelFailure("cut_off")  # billed, and nobody says how much
        return ChatReply("fine", "m-1234", *tokens)

    async def close(self) -> None: ...


async def spend(store: Store, writer: ThreadPoolExecutor, caps: Caps, biller: Biller, kills: int) -> tuple[float, int]:
    """Let four workers ask until all is shed; return what was booked when the first was shed, and the calls."""
    money = JudgeMoney(store, caps)
    booked_at_first_shed, booked, asked = 0.0, 0.0, 0
    rng = random.Random(5)

    def make_wallet() -> Wallet:
        return Wallet(ThreadLender(money, writer))

    async def work(provider: Provider) -> None:
        nonlocal booked_at_first_shed, booked, asked
        while True:
            price = CallPrice("p", f"m{rng.randrange(METRICS)}", 1e-6, 4e-6, 1_000)
            paid: list[PaidCall] = []
            try:
                asked += 1
                await provider.fetch_reply(CALL, price, paid)
            except OverBudget:
                booked_at_first_shed = booked_at_first_shed or booked
                return
            except ModelFailure:
                continue
            finally:
                booked += sum(call.usd for call in paid)

    async def worker(dies_at: float) -> None:
        """Work until all is shed; a worker that dies leaves its lease and its calls, and another one starts."""
        quick = ProviderSettings(attempts=2, concurrency=AT_ONCE, first_delay_seconds=0.001)
        provider = Provider(quick, biller, make_wallet())
        tasks = [asyncio.create_task(work(provider)) for _ in range(AT_ONCE)]
        while not all(task.done() for task in tasks):
            await asyncio.sleep(0.01)
            if biller.usd >= dies_at:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                return await worker(float("inf"))
        for task in tasks:
            task.result()
        return None

    cap = min([*caps.portfolios.values(), *caps.metrics.values()])
    deaths = [cap * (i + 1) / (kills + 2) if i < kills else float("inf") for i in range(WORKERS)]
    await asyncio.wait_for(asyncio.gather(*(worker(at) for at in deaths)), 60)
    return booked_at_first_shed, asked


@pytest.mark.parametrize(
    ("tokens", "kills", "calls"),
    [
        # 32 calls under way reserve three times what they will cost: a tenth of a cap of 960 calls.
        pytest.param((700, 300), 0, 1_200, id="a third of the reserve"),
        pytest.param((9_000, 4_000), 0, 1_500, id="five times the reserve", marks=pytest.mark.slow),
        pytest.param((700, 300), 3, 2_000, id="a third of the reserve, three kills", marks=pytest.mark.slow),
        pytest.param((9_000, 4_000), 3, 2_000, id="five times the reserve, three kills", marks=pytest.mark.slow),
    ],
)
def test_nine_tenths_are_spent_before_anything_is_shed_and_never_more_than_a_call_each_above_the_cap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tokens: tuple[int, int], kills: int, calls: int
) -> None:
    monkeypatch.setattr(budget_leases, "LEASE_SECONDS", 2.0)
    monkeypatch.setattr(wallets, "_IDLE_SECONDS", 0.05)
    monkeypatch.setattr(wallets, "_ASK_SECONDS", 0.02)
    monkeypatch.setattr(wallets, "_RENEW_SECONDS", 0.4)
    usual = tokens[0] * 1e-6 + tokens[1] * 4e-6
    biller = Biller(*tokens)
    cap = calls * usual
    with ThreadPoolExecutor(1, "writer") as writer, Store.open(tmp_path / "s.duckdb", create=True) as store:
        shed_at, asked = asyncio.run(spend(store, writer, Caps({"p": cap}, {}), biller, kills))
        ((aside,),) = store.query("SELECT sum(usd) FROM internal.judge_money")

    assert shed_at >= 0.9 * cap
    assert biller.usd <= cap + WORKERS * biller.largest
    assert asked > calls / 2
    assert aside >= biller.usd - WORKERS * biller.largest


def test_a_cap_on_one_metric_stops_that_metric_alone(tmp_path: Path) -> None:
    async def asked() -> tuple[list[str], float]:
        with ThreadPoolExecutor(1, "writer") as writer, Store.open(tmp_path / "s.duckdb", create=True) as store:
            money = JudgeMoney(store, Caps({"p": 10.0}, {("p", "a"): 0.015}))
            wallet = Wallet(ThreadLender(money, writer))
            provider = Provider(ProviderSettings(), Biller(250, 40), wallet)
            ended = []
            for metric in ["b", "a", "c"] * 60:
                try:
                    await provider.fetch_reply(CALL, CallPrice("p", metric, 1e-6, 4e-6, 1_000), [])
                except OverBudget:
                    ended.append(metric)
            await wallet.close()
            left = money.left("p", "b", week_of(datetime.now(UTC)))
            assert left is not None
            return ended, left

    ended, left = asyncio.run(asked())
    assert set(ended) == {"a"}
    assert 0 < len(ended) < 60
    assert 9.0 < left < 10.0


def test_a_lease_that_was_lost_with_its_worker_is_waited_for_no_longer_than_it_may_live(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.duckdb", create=True) as store:
        money = JudgeMoney(store, Caps({"p": 1.0}, {}))
        now = datetime.now(UTC)
        lost: Any = money.lease("p", "m", 0.9, 0.9, now).lease
        assert isinstance(lost, Lease)
        assert money.lease("p", "m", 0.5, 0.5, now).may_wait
        money.abandon(now)
        assert not money.lease("p", "m", 0.5, 0.5, now).may_wait
        assert money.left("p", "m", week_of(now)) == pytest.approx(0.1)
