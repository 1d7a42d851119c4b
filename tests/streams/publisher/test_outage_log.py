"""An outage of the publisher is one line at its begin and one at its end, which says how long nothing worked."""

from __future__ import annotations

import pytest

from gapwatch.publisher import outage_log
from gapwatch.publisher.outage_log import OutageLog


def test_an_outage_counts_from_when_nothing_worked(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    moment = [100.0]
    monkeypatch.setattr(outage_log.time, "monotonic", lambda: moment[0])
    log = OutageLog()
    log.failed("no answer", since=62.0)  # the broker hung from then on, and the request has a timeout
    moment[0] = 103.0
    log.failed("no answer", since=100.0)
    log.worked("takes traces again")

    assert [record.message for record in caplog.records] == ["no answer", "takes traces again, after 41 s"]
