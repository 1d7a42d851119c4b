"""The wiring of a run: ground first, nothing handed in later, and what the small shared values promise."""

import ast
import asyncio
import threading
from types import SimpleNamespace

import pytest

from gapwatch.publisher.kafka_settings import KafkaSettings
from gapwatch.sinks.metrics.source_state import SourceState
from gapwatch.streams.live.outbox_relay import OutboxRelay
from gapwatch.streams.pipeline.judge_throttle import JudgeThrottle
from gapwatch.streams.pipeline.observer import ObserverGroup
from gapwatch.streams.sources.source_progress import SourceProgress
from tests.paths import ROOT

STREAMS = ROOT / "streams" / "gapwatch" / "streams"


@pytest.mark.parametrize("name", ["live/run", "live/run_parts", "pipeline/pipeline", "pipeline/slice_writer"])
def test_no_part_is_changed_from_outside_once_it_is_made(name):
    tree = ast.parse((STREAMS / f"{name}.py").read_text(encoding="utf-8"))
    # What is each file's own to change: values that it makes itself, and its timer.
    own = {"self", "partition", "known", "thinning", "recalled", "result", "self._deadline"}
    written = {
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) not in own
    }

    assert written == set()


def test_no_part_is_named_before_it_is_made():
    tree = ast.parse((STREAMS / "live" / "run_parts.py").read_text(encoding="utf-8"))

    assert not any(isinstance(node, ast.Lambda) for node in ast.walk(tree))


def test_a_group_tells_each_of_its_observers_in_turn():
    told = []

    def observer(name):
        def tell(method):
            return lambda *given: told.append((name, method, *given))

        return SimpleNamespace(**{one: tell(one) for one in ("slice_stored", "source_state", "portfolios_changed")})

    group, state = ObserverGroup(observer("a"), observer("b")), SourceState("running")
    group.source_state(state)
    group.slice_stored("slice", {"keep": 1.0})
    group.portfolios_changed(["p"])

    assert told == [
        (name, *rest)
        for rest in (("source_state", state), ("slice_stored", "slice", {"keep": 1.0}), ("portfolios_changed", ["p"]))
        for name in "ab"
    ]


def test_a_throttle_says_what_has_changed(caplog):
    throttle = JudgeThrottle()

    assert [throttle.set_shedding(on) for on in (False, True, True, False)] == [False, True, False, True]
    with caplog.at_level("INFO"):
        for rates in ({}, {("shop", "kind"): 0.5}, {("shop", "kind"): 0.5}, {}):
            throttle.set_rates(rates)
    assert [record.getMessage() for record in caplog.records] == [
        "judge sampling rates: lowered near the weekly cap: shop kind x 0.5",
        "judge sampling rates: as in the portfolio again",
    ]


def test_a_relay_is_woken_from_any_thread_and_is_not_idle_from_then_on():
    async def wake():
        relay = OutboxRelay(KafkaSettings("b:1"), cursor=None, mark=None)
        relay.wake()  # before it runs: its first round looks
        rounds = []

        async def look():
            rounds.append(threading.get_ident())
            return False

        relay._round = look
        running = asyncio.create_task(relay.run())
        while not relay.is_idle:
            await asyncio.sleep(0)
        await asyncio.to_thread(relay.wake)
        assert not relay.is_idle or len(rounds) > 1
        while len(rounds) < 2:
            await asyncio.sleep(0)
        running.cancel()
        return rounds

    assert len(asyncio.run(wake())) == 2


def test_a_relay_that_is_woken_during_a_check_is_not_idle_after_it():
    async def wake():
        relay = OutboxRelay(KafkaSettings("b:1"), cursor=None, mark=None)
        begun, ended = asyncio.Event(), asyncio.Event()

        async def look():
            begun.set()
            await ended.wait()
            return False

        relay._round = look
        running = asyncio.create_task(relay.run())
        await begun.wait()
        relay._loop = None  # the word to the loop is still on its way
        relay.wake()
        ended.set()
        for _ in range(10):
            await asyncio.sleep(0)
        running.cancel()
        return relay.is_idle

    assert asyncio.run(wake()) is False


def test_a_relay_whose_loop_has_ended_may_still_be_woken():
    relay = OutboxRelay(KafkaSettings("b:1"), cursor=None, mark=None)

    async def run():
        relay._round = asyncio.Event().wait
        task = asyncio.create_task(relay.run())
        await asyncio.sleep(0)
        task.cancel()

    asyncio.run(run())
    relay.wake()
    assert not relay.is_idle


def test_what_is_read_is_known_from_the_assignment_on():
    progress = SourceProgress("traces")
    assert progress.known_ends() == {} == progress.positions()

    progress.assign({0: (5, 90), 3: (0, 0)})

    assert progress.known_ends() == {("traces", 0): (5, 90), ("traces", 3): (0, 0)}
    assert progress.positions() == {}
