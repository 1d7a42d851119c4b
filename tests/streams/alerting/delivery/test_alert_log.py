"""Lines of the log on alerts: one when an alert opens, one when it ends, none twice."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from gapwatch.sinks.store.store import Store
from gapwatch.sinks.store.transaction import StoreTransaction
from gapwatch.streams.alerting.delivery.alert_log import AlertLog, alert_line
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


def test_an_alert_is_logged_when_it_opens_and_when_it_ends_and_a_restart_repeats_nothing(
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

        alert_id = store.query("SELECT alert_id FROM alerts")[0][0]

        def accept(transaction: StoreTransaction) -> None:
            watch.accept(transaction, alert_id, "maria", "new format")

        store.apply([("accept", accept)])
        again.look(store)
        (ended,) = lines()

    assert re.fullmatch(
        rf"alert {alert_id} opens, PAGE: parses of agent \(shop, production\): failing traces .*% -> .*% \[.*\], "
        r"since 2026-03-03T0\d:\d\d:\d\dZ \(95 %: [\d:]+ to [\d:]+\); found in the data of [\dT:-]+Z, told now"
        rf"(, .* later)?; gapwatch explain {alert_id} --store {re.escape(str(path))}",
        opened,
    ), opened
    assert ended == f"alert {alert_id} ends, accepted by maria: parses of agent (shop, production)"


def test_a_line_tells_the_time_of_the_data_from_the_time_of_telling_it() -> None:
    message = {
        "alert_id": "a-1", "state": "open", "severity": "ticket", "at": "2026-03-02T10:00:00Z", "pipeline": "shop\n",
        "environment": "production", "component": None, "metric": "slow", "kind": "bound", "verdict": "worse",
        "after": [0.3, 0.25, 0.35], "bound": ["<=", 0.02], "window_seconds": 3600, "units": 400, "moved": 120,
    }  # fmt: skip

    assert alert_line(json.loads(json.dumps(message)), datetime(2026, 3, 2, 13)) == (
        "alert a-1 opens, ticket: slow of the trace (shop\\n, production): failing traces 30.0% [25.0%, 35.0%], "
        "bound <= 2.00%; found in the data of 2026-03-02T10:00:00Z, told now, 3 h later"
    )


def test_a_ticket_that_becomes_a_page_keeps_the_time_at_which_it_was_found() -> None:
    message = {
        "alert_id": "a-1", "state": "open", "severity": "page", "at": "2026-03-02T10:15:00Z", "pipeline": "shop",
        "environment": "production", "component": None, "metric": "slow", "kind": "bound", "verdict": "worse",
        "after": [0.3, 0.25, 0.35], "bound": ["<=", 0.02], "window_seconds": 3600, "units": 400, "moved": 120,
    }  # fmt: skip

    line = alert_line(message, datetime(2026, 3, 2, 10, 15), datetime(2026, 3, 2, 10))
    assert line.startswith("alert a-1 opens, PAGE: ")
    assert line.endswith("found in the data of 2026-03-02T10:00:00Z, told now")


def test_a_reminder_of_an_open_alert_is_not_logged(tmp_path: Path, lines: Look) -> None:
    with Store.open(tmp_path / "s.duckdb", create=True) as store:
        log = AlertLog()
        message = {
            "alert_id": "a-1", "state": "open", "severity": "ticket", "at": "2026-03-02T10:00:00Z", "pipeline": "shop",
            "environment": "production", "component": "agent", "metric": "slow",
        }  # fmt: skip
        for severity in ("ticket", "ticket", "page", "page"):
            log._log({**message, "severity": severity}, store)
        log._log({**message, "state": "resolved"}, store)

    heads = [line.partition(":")[0] for line in lines()]
    assert heads == ["alert a-1 opens, ticket", "alert a-1 opens, PAGE", "alert a-1 ends"]
