"""What was new near a change: not what a lane that has just begun sees for the first time."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from gapwatch.sinks.store.store import Store
from gapwatch.streams.alerting.incidents.attribution import Moved, attribute
from gapwatch.streams.alerting.series.slice_units import SeriesKey
from tests.builders import KEPT_AT, NOON, scored_slice

SERIES = SeriesKey("p", "production", "c", "m", "1", "", "e")


def model(name: str, minutes: float) -> dict[str, object]:
    moment = NOON.replace(tzinfo=None) + timedelta(minutes=minutes)
    names = {"pipeline": "p", "environment": "production", "component": "c", "metric": "m", "epoch": "e"}
    return {**names, "level": "span", "facet": "model", "value": name, "outcome": "pass", "p": 1.0, "n": 5,
            "bucket": moment, "fold_bucket": moment}  # fmt: skip


@pytest.mark.parametrize(("first", "new"), [(0.5, []), (4.5, []), (12.0, ["small-1"])])
def test_a_rare_model_of_a_lane_that_has_just_begun_is_not_new(tmp_path: Path, first: float, new: list[str]) -> None:
    begun = NOON.replace(tzinfo=None)
    moved = Moved(
        "live", SERIES, False, True, begun + timedelta(minutes=8), begun + timedelta(minutes=20), share_before=0.02
    )
    ticks = [*(model("large-1", minute) for minute in range(15)), model("small-1", first)]

    with Store.open(tmp_path / "s", create=True) as store:
        store.write_slice(scored_slice(ticks=ticks), KEPT_AT)
        cursor = store.cursor()
        found = attribute(cursor, moved).new
        cursor.close()

    assert [one.value for one in found] == new
