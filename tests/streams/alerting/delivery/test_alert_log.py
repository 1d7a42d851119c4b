"""Lines of the log on incidents: one for each step of its life, none twice."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from gapwatch.sinks.store.store import Store
from gapwatch.sinks.store.transaction import StoreTransaction
from gapwatch.streams.alerting.delivery.alert_log import AlertLog, incident_line
from gapwatch.streams.alerting.evaluation.shift_watch import ShiftWatch
from tests.streams.alerting.breaking_stream import BROKEN, keep, slices_after_calm
from tests.streams.alerting.builders import portfolio

Look = Callable[[], list[str]]


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Look:
    def taken() -> list[str]:
        made = [record.getMessage() for record in caplog.records if record.name == "gapwatch.alerts"]
        caplog.clear()
        return made

    caplog.set_level("INFO")
    return taken


def test_an_incident_is_logged_when_it_opens_and_when_it_ends_and_a_restart_repeats_nothing(
    tmp_path: Path, lines: Look
) -> None:
    path = tmp_path / "s.duckdb"
    with Store.open(path, create=True) as store:
        first = AlertLog()
        first.begin(store)
        watch = ShiftWatch.open(store, [portfolio()])
        for scored in slices_after_calm(BROKEN):
            keep(store, watch, scored)
        first.look(store)
        first.look(store)
        (opened,) = lines()

        # The next process.
        again = AlertLog()
        again.begin(store)
        again.look(store)
        assert lines() == []

        ((incident_id, alert_id),) = store.query("SELECT DISTINCT incident_id, alert_id FROM alerts")

        def accept(transaction: StoreTransaction) -> None:
            watch.accept(transaction, [alert_id], "maria", "new format")

        store.apply([("accept", accept)])
        again.look(store)
        (ended,) = lines()

    assert re.fullmatch(
        rf"incident {incident_id} opens, PAGE: parses of agent \(shop, production\): failing traces .*% -> .*% \[.*\], "
        r"since 2026-03-03T0\d:\d\d:\d\dZ, first in agent \(95 %: [\d:TZ-]+ to [\d:TZ-]+\); found in the data of "
        rf"[\dT:-]+Z, told now(, .* later)?; gapwatch explain {incident_id} --store {re.escape(str(path))}",
        opened,
    ), opened
    assert ended == f"incident {incident_id} ends, accepted by maria: parses of agent (shop, production)"


TOLD = {
    "name": "slow of the trace and 1 more", "what": "BOUND broken", "share": "failing traces",
    "before": "promised <= 2%", "after": "30%", "interval": "25% to 35%", "first": "the trace",
}  # fmt: skip
MESSAGE = {
    "incident_id": "i-1", "alert_id": "a-1", "news": "opened", "state": "open", "severity": "ticket",
    "at": "2026-03-02T10:00:00Z", "pipeline": "shop\n", "environment": "production", "component": None,
    "metric": "slow", "kind": "bound", "told": TOLD,
}  # fmt: skip


def test_a_line_tells_the_time_of_the_data_from_the_time_of_telling_it() -> None:
    assert incident_line(MESSAGE, datetime(2026, 3, 2, 13)) == (
        "incident i-1 opens, ticket: slow of the trace and 1 more (shop\\n, production): failing traces "
        "promised <= 2% -> 30% [25% to 35%], first in the trace; found in the data of 2026-03-02T10:00:00Z, told now, "
        "3 h later"
    )


def test_what_is_new_of_an_incident_is_one_line_and_only_what_calls_somebody_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    with Store.open(tmp_path / "s.duckdb", create=True) as store:
        log = AlertLog()
        for news in ("opened", "joined", "reminded"):
            log._log({**MESSAGE, "news": news}, store)
        log._log({**MESSAGE, "news": "grew", "severity": "page"}, store)
        log._log({**MESSAGE, "news": "resolved", "state": "resolved"}, store)

    heads = [(one.levelname, one.getMessage().partition(":")[0]) for one in caplog.records]
    assert heads == [
        ("WARNING", "incident i-1 opens, ticket"),
        ("INFO", "incident i-1 has more alerts"),
        ("WARNING", "incident i-1 is still open, ticket"),
        ("WARNING", "incident i-1 grew to PAGE"),
        ("INFO", "incident i-1 ends"),
    ]
