"""Webhook: alerts of a store are posted in order, at least once, and refused ones are skipped."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from gapwatch.scorers.errors import UsageError
from gapwatch.sinks.store.store import Store
from gapwatch.streams.alerting.delivery import webhook as alert_webhook
from gapwatch.streams.alerting.delivery.webhook import AlertWebhook, check_address
from gapwatch.streams.alerting.evaluation.shift_watch import ShiftWatch
from tests.deploy.alerting_servers import OnCall, free_port
from tests.streams.alerting.breaking_stream import BROKEN, keep, slices_after_calm
from tests.streams.alerting.builders import portfolio


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOOK_SECONDS", "FIRST_RETRY_SECONDS"):
        monkeypatch.setattr(alert_webhook, name, 0.02)


def post(store: Store, url: str, until: Callable[[AlertWebhook], bool]) -> AlertWebhook:
    """Run a webhook until something holds."""

    async def mark(seqs: dict[str, int]) -> None:
        store.mark_relayed(seqs)

    async def work() -> AlertWebhook:
        webhook = AlertWebhook(url, store.cursor, mark)
        running = asyncio.create_task(webhook.run())
        async with asyncio.timeout(60):
            while not until(webhook) and not running.done():
                await asyncio.sleep(0.01)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        return webhook

    return asyncio.run(work())


def broken(store: Store) -> None:
    """Keep a stream that breaks; its page is in the outbox."""
    watch = ShiftWatch.open(store, [portfolio()])
    for scored in slices_after_calm(BROKEN):
        keep(store, watch, scored)


def test_an_alert_is_posted_once_in_words_though_the_address_fails_at_first(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.duckdb", create=True) as store, OnCall(503, 429) as on_call:
        post(store, on_call.url, lambda w: bool(store.query("SELECT * FROM internal.relayed")))
        broken(store)
        for _ in range(2):
            post(
                store,
                f"{on_call.url}/x",
                lambda w: w._done == store.query("SELECT max(seq) FROM internal.outbox")[0][0],
            )

    ((path, body),) = on_call.received
    assert path == "/x"
    assert body["severity"] == "page" and body["metric"] == "parses"
    assert body["text"].startswith("PAGE: SHIFT worse: parses of agent: failing traces ")
    assert body["id"] == f"{body['incident_id']}/opened/open/page/1/{body['at'].removesuffix('Z')}"


def test_alerts_from_before_the_address_was_set_are_not_posted(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.duckdb", create=True) as store, OnCall() as on_call:
        broken(store)
        post(store, on_call.url, lambda w: w._done is not None)
        assert store.query("SELECT topic, seq > 0 FROM internal.relayed") == [("webhook", True)]

    assert on_call.received == []


def test_a_refused_alert_delays_no_other(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.duckdb", create=True) as store, OnCall(400) as on_call:
        post(store, on_call.url, lambda w: bool(store.query("SELECT * FROM internal.relayed")))
        broken(store)
        post(store, on_call.url, lambda w: w.refused == 1)

    assert on_call.received == []


def test_alerts_wait_for_an_address_that_does_not_answer(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.duckdb", create=True) as store:
        url = f"http://127.0.0.1:{free_port()}"
        post(store, url, lambda w: bool(store.query("SELECT * FROM internal.relayed")))
        broken(store)
        webhook = post(store, url, lambda w: bool(w.waiting_for))

    assert "does not answer" in webhook.waiting_for


@pytest.mark.parametrize("url", ["file:///etc/passwd", "https://", "x"])
def test_an_invalid_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="not a valid address"):
        check_address(url)
