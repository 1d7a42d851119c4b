"""Outages that people can mend, such as a refused key: requests wait, others go on, and the cause is named."""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gapwatch.scorers.judges.chat_model import ChatCall, ChatReply, ModelFailure
from gapwatch.scorers.judges.scripted_model import ScriptedModel
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.verdicts.intake import VerdictIntake
from gapwatch.streams.judges.calls import patience
from gapwatch.streams.judges.calls.breaker import Breaker
from gapwatch.streams.judges.calls.call_price import CallPrice
from gapwatch.streams.judges.calls.patience import LeftPending, Patience, WorkPlaces
from gapwatch.streams.judges.calls.provider import Provider
from gapwatch.streams.judges.calls.terms import caps_of
from gapwatch.streams.judges.models.model_maker import model_access
from gapwatch.streams.judges.settings import JudgeSettings, ProviderSettings
from gapwatch.streams.judges.workers.judge_start import LiveJudges, judge_store
from gapwatch.streams.pipeline.judge_result import JudgeResult
from tests.scorers.judges.rubrics import judged_metric, portfolio_of
from tests.streams.judges.judged_store import imbalance_of, query, scored_store, states, trace
from tests.streams.judges.model_server import HttpAnswer, free_port, served, verdict

KEY = "sk-outage-0123456789abcdef"
CALL = ChatCall("v/m", (("user", "hello"),))
PRICE = CallPrice("p", "m", 1e-6, 2e-6, 100)
OK = ChatReply("fine", "m-1234", 10, 5)
REFUSED = {
    "401": HttpAnswer(401, b'{"error": {"message": "Incorrect API key provided"}}'),
    "403": HttpAnswer(403, b'{"error": {"message": "no access to this model"}}'),
    "404": HttpAnswer(404, b'{"error": {"code": "model_not_found", "message": "no such model"}}'),
    "402": HttpAnswer(402, b'{"error": {"message": "Insufficient Balance"}}'),
    "quota": HttpAnswer(429, b'{"error": {"code": "insufficient_quota", "message": "check your plan"}}'),
    "credit": HttpAnswer(
        400, b'{"error": {"type": "invalid_request_error", "message": "Your credit balance is too low to access"}}'
    ),
}
KINDS = {"401": "refused_key", "403": "forbidden", "404": "no_such_model"}


def judged(path: Path, portfolio: Portfolio, base_url: str, wait: float = 30.0, **provider: Any) -> JudgeResult:
    written = {
        "adapter": "http", "base_url": base_url, "key_env": "OUTAGE_KEY", "concurrency": 4, "attempts": 2,
        "first_delay_seconds": 0.001, "longest_delay_seconds": 0.002, "breaker_seconds": 0.02, **provider,
    }  # fmt: skip
    settings = JudgeSettings.model_validate({"providers": {"*": written}})
    with Store.open(path) as store:
        return judge_store(store, [portfolio], model_access(settings), patience_seconds=wait)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTAGE_KEY", KEY)


@pytest.mark.parametrize("refusal", REFUSED)
def test_requests_wait_for_what_people_can_mend(tmp_path: Path, refusal: str, caplog: pytest.LogCaptureFixture) -> None:
    """Four requests at once and two attempts each, and a provider that refuses all for a while."""
    portfolio = portfolio_of(judged_metric())
    path = scored_store(tmp_path, portfolio, [trace(i) for i in range(60)])
    began: list[float] = []
    refused = 0

    def answer(body: dict[str, Any], headers: dict[str, str]) -> HttpAnswer:
        nonlocal refused
        began.append(time.monotonic())
        if len(began) > 5 and began[-1] - began[5] < 0.3:
            refused += 1
            return REFUSED[refusal]
        return verdict(body, "Good")

    with served(answer) as server, caplog.at_level(logging.INFO):
        result = judged(path, portfolio, server.base_url)

    assert (result.closed, result.left, result.errors) == (60, 0, {})
    assert states(path, "faithful") == {"pass": 60}
    assert refused <= 4 + 6  # those under way, then one at a time: after 20, 60, 140, 300 ms
    assert imbalance_of(path) == 0
    kind = KINDS.get(refusal, "quota_exhausted")
    assert (
        f"provider openai, key OUTAGE_KEY{', model openai/gpt-4.1-mini' * (refusal in ('403', '404'))}" in caplog.text
    )
    assert kind in caplog.text and "answers again, after 0 s" in caplog.text
    assert KEY not in caplog.text


def test_a_refused_connection_uses_up_no_attempt_with_one_call_at_once(tmp_path: Path) -> None:
    portfolio = portfolio_of(judged_metric())
    path = scored_store(tmp_path, portfolio, [trace(i) for i in range(5)])
    nothing = f"http://127.0.0.1:{free_port()}/v1"

    first = judged(path, portfolio, nothing, wait=0.2, concurrency=1)

    assert (first.closed, first.left) == (0, 5)
    with served(lambda body, headers: verdict(body, "Good")) as server:
        assert judged(path, portfolio, server.base_url).closed == 5
    assert imbalance_of(path) == 0


@pytest.mark.parametrize("ill", ["ill/small", "well/gone"], ids=["another provider", "another model"])
def test_an_outage_stalls_no_other_provider_or_model_of_its_lane(tmp_path: Path, ill: str) -> None:
    """The ill one's requests come first, and are more than the lane has places."""
    first, second = judged_metric(name="a_first"), judged_metric(name="b_second")
    first["claim"]["judges"], second["claim"]["judges"] = [{"model": ill}], [{"model": "well/small"}]
    portfolio = portfolio_of(first, second)
    path = scored_store(tmp_path, portfolio, [trace(i) for i in range(50)])

    def answer(body: dict[str, Any], headers: dict[str, str]) -> HttpAnswer:
        if body["model"] == "gone":
            return REFUSED["404"]
        return REFUSED["401"] if headers["authorization"] != f"Bearer {KEY}" else verdict(body, "Good")

    with served(answer) as server:
        written = {"adapter": "http", "base_url": server.base_url, "concurrency": 2, "breaker_seconds": 0.05}
        providers: dict[str, Any] = {"*": {**written, "key_env": "OUTAGE_KEY"}}
        access = model_access(JudgeSettings.model_validate({"providers": providers}))
        make = access.make_model

        def make_ill(vendor: str) -> Any:
            return ScriptedModel(lambda call: ModelFailure("refused_key")) if vendor == "ill" else make(vendor)

        with Store.open(path) as store:
            access = type(access)(access.settings, make_ill)
            result = judge_store(store, [portfolio], access, patience_seconds=0.4)

    assert states(path, "b_second") == {"pass": 50}
    assert states(path, "a_first") == {"pending": 50}
    assert (result.closed, result.left) == (50, 50)
    assert imbalance_of(path) == 0


def test_a_request_gives_up_when_it_is_old_and_the_outage_is_not_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "GRACE_SECONDS", 0.2)

    async def asked(old: float, give_up: float, stays: bool) -> tuple[str, int]:
        model = ScriptedModel(lambda call: ModelFailure("refused_key", "status 401: no"))
        settings = ProviderSettings(breaker_seconds=0.02, attempts=1)
        provider = Provider(settings, model, rng=lambda: 0.0, name="provider v, key V_KEY")
        waits = Patience(give_up, time.time() - old, stays_pending=stays)
        try:
            async with asyncio.timeout(0.3 if old == 0.0 else 10.0):
                await provider.fetch_reply(CALL, PRICE, [], waits)
        except ModelFailure as failure:
            return str(failure), len(model.calls)
        except LeftPending:
            return "pending", len(model.calls)
        except TimeoutError:
            return "waits", len(model.calls)
        raise AssertionError

    told, calls = asyncio.run(asked(old=100.0, give_up=60.0, stays=False))
    assert told.startswith("refused_key: status 401: no (provider v, key V_KEY; waited")
    assert 1 < calls < 6  # not at once: the outage could be over in a minute
    assert asyncio.run(asked(old=100.0, give_up=60.0, stays=True))[0] == "pending"
    assert asyncio.run(asked(old=0.0, give_up=60.0, stays=False))[0] == "waits"


def test_without_patience_a_refusal_ends_a_call_at_once() -> None:
    async def asked() -> int:
        model = ScriptedModel(lambda call: ModelFailure("no_such_model"))
        with pytest.raises(ModelFailure):
            await Provider(ProviderSettings(), model).fetch_reply(CALL, PRICE, [])
        return len(model.calls)

    assert asyncio.run(asked()) == 1


def test_requests_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "ASIDE_REQUESTS", 3)

    async def taken() -> int:
        places, end = WorkPlaces(1), asyncio.Event()

        async def wait() -> None:
            async with places.aside(10):
                await end.wait()
            places.leave()

        tasks = []
        try:
            async with asyncio.timeout(0.1):
                while True:
                    await places.take()
                    tasks.append(asyncio.create_task(wait()))
        except TimeoutError:
            pass
        end.set()
        await asyncio.wait_for(asyncio.gather(*tasks), 5)
        await asyncio.wait_for(places.take(), 5)
        return len(tasks)

    assert asyncio.run(taken()) == 3 + 1  # those aside, and the one that came to the last place


def test_money_of_attempts_before_an_outage_is_booked(tmp_path: Path) -> None:
    portfolio = portfolio_of(judged_metric())
    path = scored_store(tmp_path, portfolio, [trace(0)])
    answers = [HttpAnswer(200, b"not json"), REFUSED["401"]]

    with served(lambda body, headers: answers.pop(0) if answers else verdict(body, "Good")) as server:
        judged(path, portfolio, server.base_url, attempts=3)

    kinds = [kind for (kind,) in query(path, "SELECT kind FROM judge_calls")]
    assert kinds == ["bad_reply", "refused_key", "reply"]


def test_a_run_says_which_key_and_provider_in_its_health(tmp_path: Path) -> None:
    """Judges beside a store, on their own thread, as `gapwatch run` has them; old requests end as errors."""
    portfolio = portfolio_of(judged_metric())
    path = scored_store(tmp_path, portfolio, [trace(0)])
    with served(lambda body, headers: REFUSED["401"]) as server, ThreadPoolExecutor(1, "writer") as writer:
        written = {"adapter": "http", "base_url": server.base_url, "key_env": "OUTAGE_KEY"}
        access = model_access(JudgeSettings.model_validate({"providers": {"*": written}}))
        with Store.open(path) as store:
            store.cursor().execute("""UPDATE internal.judge_requests SET "value" =
                regexp_replace(decode("value"), '"lane":"[^"]*"', '"lane":"live"')::BLOB""")
            intake = VerdictIntake(store, store.write_slice, [portfolio], caps_of([portfolio], access.settings))
            failures: list[BaseException] = []
            judges = LiveJudges(store, intake, writer, [portfolio], access, failures.append)
            judges.start()
            until = time.monotonic() + 20
            while not intake.samples.outages() and time.monotonic() < until and not failures:
                time.sleep(0.02)
            assert judges.stop(20.0)
            assert failures == []
            (told,) = intake.samples.outages()
            assert told.startswith("provider openai, key OUTAGE_KEY: down since 20")
            assert told.endswith("UTC: refused_key: status 401: Incorrect API key provided")
            assert intake.waiting() == 1


def test_a_trial_of_the_key_does_not_wait_for_a_trial_of_the_model_that_waits_for_it() -> None:
    """A key and a model fail at once; each waiting call would try one of them, and wait for the other for ever."""

    async def asked() -> list[str]:
        settings = ProviderSettings(breaker_seconds=0.03, attempts=1)
        provider = Provider(settings, ScriptedModel(lambda call: OK), rng=lambda: 0.0)
        time_of_loop = asyncio.get_running_loop().time
        of_the_model = provider._model_breakers[CALL.model] = Breaker(1, 0.03, time_of_loop)
        waits = Patience(60.0, time.time(), stays_pending=False)
        provider.breaker.failed(False, ModelFailure("refused_key"), at_once=True)
        first = asyncio.ensure_future(provider.fetch_reply(CALL, PRICE, [], waits))
        await asyncio.sleep(0.01)  # it waits for the key
        of_the_model.failed(False, ModelFailure("forbidden"), at_once=True)
        second = asyncio.ensure_future(provider.fetch_reply(CALL, PRICE, [], waits))
        async with asyncio.timeout(5.0):
            return [reply.text for reply in await asyncio.gather(first, second)]

    assert asyncio.run(asked()) == ["fine", "fine"]
