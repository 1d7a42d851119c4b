"""Facts of an alert: their JSON is the stored and sent form; old alerts that lack keys are readable."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gapwatch.streams.alerting.delivery.message import message_text
from gapwatch.streams.alerting.incidents.alert_facts import AlertFacts
from gapwatch.streams.alerting.incidents.wording import headline, quantile_move, size

_BASE: dict[str, Any] = {
    "unit": "trace", "cascade": False, "units_per_month": 600000.0, "before": [0.01, 0.008, 0.012],
    "after": [0.47, 0.14, None], "ratio": [47.0, 12.0, None], "question": None, "watched": "rate",
}  # fmt: skip
_EVIDENCE: dict[str, Any] = {"evidence_log10": None, "limit_log10": 6.2, "went_up": True}
_CHANGE: dict[str, Any] = {
    "units": 40, "moved": 19, "learned": 12000, "bad_per_hour": 31.5, "change_at": "2026-03-02T10:00:00Z",
    "change_from": "2026-03-02T09:58:30Z", "change_to": "2026-03-02T10:02:00Z", "is_truncated": False,
    "part_grew": True,
}  # fmt: skip
_LABEL: dict[str, Any] = {"verdict": "worse", "kind": "shift"}
_COUNTED = {"value": "v2", "share": 1.25, "units": 30, "moved": 19, "before_units": 0, "before_moved": 0}
_MEAN = {"value": "v2", "share": 0.5, "units": 30, "mean": 4.25, "before_units": 0, "before_mean": None}
_CAUSE: dict[str, Any] = {
    "shares": {"release": [_COUNTED]},
    "labels": [{"value": "billing", "before": 0.1, "after": 0.4}],
    "new": [{"facet": "model", "value": "m2", "at": "2026-03-02T10:00:00Z"}],
    "annotations": [{"at": "2026-03-02T09:59:59.250000Z", "text": "deploy v2", "by": None}],
    "examples": [
        {"trace_id": "t-1", "at": "2026-03-02T10:00:01.500000Z", "observed": None, "release": "v2", "url": None}
    ],
}
_NUMBERS: dict[str, Any] = {
    "part": "above the old p95", "number_unit": "seconds", "statistic": 0.95, "above": 2.5, "below": None,
    "outside": False,
}  # fmt: skip
_SHAPES: dict[str, dict[str, Any]] = {
    "a rate": {**_BASE, **_EVIDENCE, **_CHANGE, **_LABEL, **_CAUSE, "runbook_url": "https://wiki.example/m"},
    "numbers": {
        **_BASE, **_NUMBERS, **_EVIDENCE, **_CHANGE, **_LABEL, **_CAUSE, "shares": {"release": [_MEAN]},
        "values": {"q": 0.5, "before": 2.1, "after": 4.3}, "runbook_url": None,
    },
    "labels": {
        **_BASE, "part": "billing or outage", "moved_labels": ["billing", "outage"], **_EVIDENCE, **_CHANGE, **_LABEL,
        **_CAUSE, "shares": {}, "runbook_url": None,
    },
    "a bound": {
        **_BASE, "watched": "bound", "before": None, "ratio": None, "went_up": True, "units": 900, "moved": 90,
        "bound": ["<", 0.05], "bound_of": "failure_rate", "bound_unit": "share", "window_seconds": 3600,
        "verdict": "worse", "kind": "bound", **_CAUSE, "runbook_url": None,
    },
    "a bound of numbers": {
        **_BASE, **_NUMBERS, "watched": "bound", "before": None, "after": [2.46, 1.9, None], "ratio": None,
        "went_up": True, "units": 900, "moved": None, "bound": ["<=", 0.5], "bound_of": "mean",
        "bound_unit": "seconds", "window_seconds": 300, "verdict": "worse", "kind": "bound", **_CAUSE,
        "runbook_url": None,
    },
    "a recovery": {
        **_BASE, "before": None, "after": None, "ratio": None, **_EVIDENCE, "verdict": None, "kind": "shift",
    },
}  # fmt: skip


@pytest.mark.parametrize("shape", _SHAPES.values(), ids=_SHAPES)
def test_what_is_stored_is_read_and_written_byte_for_byte(shape: dict[str, Any]) -> None:
    assert json.dumps(AlertFacts.from_json(shape).to_json()) == json.dumps(shape)


def test_other_keys_of_a_message_are_ignored() -> None:
    envelope = {"alert_id": "a1", "state": "open", "at": "2026-03-02T10:05:00Z", "by": "maria", "why": "on it"}

    assert AlertFacts.from_json({**envelope, **_SHAPES["numbers"]}) == AlertFacts.from_json(_SHAPES["numbers"])


@pytest.mark.parametrize("shape", _SHAPES.values(), ids=_SHAPES)
def test_an_old_alert_that_lacks_any_one_key_is_still_shown(shape: dict[str, Any]) -> None:
    envelope = {
        "alert_id": "a1", "state": "open", "severity": "page", "pipeline": "shop", "environment": "", "component": None,
        "metric": "m",
    }  # fmt: skip
    for missing in set(shape) - {"change_from", "change_to", "moved"}:
        old = {name: value for name, value in shape.items() if name != missing}

        assert "(a1)" in message_text({**envelope, **old})
        assert headline(AlertFacts.from_json(old)) is not None


def test_an_old_alert_on_numbers_names_the_quantile_of_its_part() -> None:
    old = {**_SHAPES["numbers"], "values": {"before": 2.1, "after": 4.3}}
    facts = AlertFacts.from_json(old)

    assert quantile_move(facts) == size(facts) == "p95 2.1 -> 4.3 seconds"
    assert facts.to_json()["values"] == old["values"]


def test_an_alert_without_facts_is_read() -> None:
    facts = AlertFacts.from_json({})

    assert (facts.kind, facts.polarity, facts.change, facts.cause) == ("", None, None, None)
