"""Likeliest cause: one rule for messages, reports and pages."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.sinks.reading.alert_query import AlertRow
from gapwatch.streams.alerting.incidents.alert_cause import Cause, CountedShare, NewValue, NotedNear
from gapwatch.streams.alerting.incidents.alert_facts import AlertFacts
from gapwatch.streams.alerting.incidents.likely_cause import likeliest_cause
from gapwatch.streams.alerting.incidents.stored_alerts import StoredAlert
from tests.streams.alerting.builders import portfolio

AT = datetime(2026, 3, 2, 10, 0)
PARSES, FALLBACK = portfolio().metrics[:2]


def alert(cause: Cause | None) -> StoredAlert:
    row = AlertRow(**dict.fromkeys(AlertRow.__dataclass_fields__))  # type: ignore[arg-type]
    return StoredAlert(row, replace(AlertFacts.from_json({}), cause=cause))


def part(value: str, share: float, units: int) -> CountedShare:
    return CountedShare(value, share, units, round(share * 10), units, 0)


SMALL = part("small-1", 1.0, 20)
LARGE = part("large-1", 0.0, 80)
NOTHING = "no release, model or tier holds most of it, and none is new"


@pytest.mark.parametrize(
    ("shares", "more", "metric", "said"),
    [
        ({"model": (SMALL, LARGE)}, {}, PARSES, "model small-1: 100% of the excess"),
        # Nearly all units are of the only release there has been: it says nothing, unless it is new.
        ({"release": (part("r1", 1.0, 100),)}, {}, PARSES, NOTHING),
        (
            {"release": (part("r1", 1.0, 100),)},
            {"new": (NewValue("release", "r1", AT),)},
            PARSES,
            "release r1: 100% of the excess, first seen at 2026-03-02T10:00:00Z",
        ),
        ({"release": (part("r1", 0.4, 10), part("r2", 0.35, 90))}, {}, PARSES, NOTHING),
        # A fallback rate that rose in the tier fallback repeats the metric, and is no cause.
        ({"tier": (part("fallback", 1.0, 20), part("primary", 0.0, 80))}, {}, FALLBACK, NOTHING),
        (
            {"tier": (part("fallback", 1.0, 20), part("primary", 0.0, 80))},
            {},
            PARSES,
            "tier fallback: 100% of the excess",
        ),
        ({}, {"notes": (NotedNear(AT, "deployed", "maria"),)}, PARSES, "2026-03-02T10:00:00Z deployed"),
    ],
)
def test_a_part_with_most_of_the_excess_is_named_then_what_is_new_then_a_note(
    shares: dict[str, Any], more: dict[str, Any], metric: Metric, said: str
) -> None:
    assert likeliest_cause(alert(Cause(shares, **more)), metric) == said


def test_without_a_look_for_causes_nothing_is_said() -> None:
    assert likeliest_cause(alert(None), PARSES) == ""
