"""Gauges of numbers and labels: the last hour beside the baseline."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.sinks.metrics.families import FAMILIES
from gapwatch.sinks.store.store import Store
from gapwatch.streams.alerting.evaluation.gauges import AlertGauges, Samples
from gapwatch.streams.alerting.evaluation.shift_watch import ShiftWatch
from tests.streams.alerting.breaking_stream import HOURS
from tests.streams.alerting.builders import kept_at
from tests.streams.alerting.value_builders import intents, numbered, portfolio, seconds, together

MIX = {"billing": 0.35, "refund": 0.3, "outage": 0.35}


def shown(store: Store, watch: ShiftWatch, gauges: AlertGauges) -> Samples:
    cursor = store.cursor()
    try:
        return gauges.samples(watch, cursor, lambda environment: environment)
    finally:
        cursor.close()


def values(samples: Samples, name: str) -> dict[str, float]:
    return {key[-1]: value for key, value in samples[f"gapwatch_{name}"].items()}


def test_the_last_hour_is_shown_beside_the_baseline(tmp_path: Path) -> None:
    made = [together(*pair) for pair in zip(seconds(3.0, HOURS), intents(MIX, steps=HOURS), strict=True)]
    gauges = AlertGauges()
    with Store.open(tmp_path / "s.duckdb", create=True) as store:
        watch = ShiftWatch.open(store, [portfolio()])
        assert shown(store, watch, gauges)["gapwatch_value_quantile"] == {}
        for number, scored in enumerate(made):
            moment = kept_at(number)
            taken = watch.take(numbered(scored, number), moment)
            store.write_slice(taken.scored, moment, also=taken.steps)
            if number == len(made) - 3:
                calm = shown(store, watch, gauges)
        told = shown(store, watch, gauges)
        again = shown(store, ShiftWatch.open(store, [portfolio()]), AlertGauges())

    for samples in (calm, told):
        assert all(len(key) == len(FAMILIES[name].labels) for name, found in samples.items() for key in found)
    assert {key[-2] for key in told["gapwatch_value_quantile"]} == {"seconds"}
    held = values(told, "baseline_quantile")
    assert held == pytest.approx({"0.05": 0.88, "0.5": 2.0, "0.95": 4.55}, rel=0.05)
    assert values(calm, "value_quantile") == pytest.approx(held, rel=0.2)
    assert values(told, "value_quantile")["0.5"] == pytest.approx(6.0, rel=0.15)
    before = {"billing": 0.6, "refund": 0.3, "outage": 0.1, "other": 0.0}
    assert values(told, "baseline_label_ratio") == pytest.approx(before, abs=0.02)
    assert values(calm, "label_ratio") == pytest.approx(before, abs=0.1)
    assert values(told, "label_ratio") == pytest.approx({**MIX, "other": 0.0}, abs=0.1)
    assert again == told
