"""Counts of alerts by severity."""

from __future__ import annotations

from typing import cast

import duckdb

from gapwatch.sinks.reading.alert_query import alert_counts
from gapwatch.sinks.store.store_reader import StoreReader


def test_a_ticket_that_becomes_a_page_counts_as_both_and_a_note_as_none() -> None:
    with duckdb.connect() as con:
        con.execute("CREATE TABLE alerts (alert_id TEXT, lane TEXT, pipeline TEXT, environment TEXT, attribution JSON, "
                    "severity TEXT)")  # fmt: skip
        steps = [("a", "ticket"), ("a", "page"), ("a", "page"), ("b", "ticket"), ("c", "note")]
        for i, (alert, severity) in enumerate(steps):
            kind = None if i == 2 else '{"kind": "shift"}'
            con.execute("INSERT INTO alerts VALUES (?, 'live', 'shop', 'production', ?, ?)", [alert, kind, severity])
        found = alert_counts(cast("StoreReader", con), "live")

    assert sorted(found) == [
        ("shop", "production", "shift", "page", 1.0),
        ("shop", "production", "shift", "ticket", 2.0),
    ]
