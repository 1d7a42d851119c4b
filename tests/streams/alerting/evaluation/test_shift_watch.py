from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.slices.slices import ScoredSlice
from gapwatch.sinks.store.store import Store
from gapwatch.streams.alerting.evaluation.shift_watch import ShiftWatch
from gapwatch.streams.pipeline.watch_protocol import Steps
from tests.streams.alerting.breaking_stream import (
    BEFORE,
    BROKEN,
    CHANGE,
    DAY,
    HOURS,
    STEP,
    forget_snapshots,
    keep,
    slices,
    slices_after_calm,
    stream,
)
from tests.streams.alerting.builders import (
    FALLBACK_IS_BAD,
    FALLBACK_IS_GOOD,
    MONDAY,
    at,
    keep_with_breakdowns,
    kept_at,
    portfolio,
    units_slice,
)

_ALERTS = "SELECT * EXCLUDE (seq) FROM alerts ORDER BY rowid"
_SHIFTS = "SELECT * EXCLUDE (seq) FROM shifts ORDER BY rowid"
_INCIDENTS = "SELECT * EXCLUDE (seq) FROM incidents ORDER BY rowid"


def kept(path: Path, made: list[ScoredSlice], said: Portfolio, lane: str = "live") -> dict[str, Any]:
    with Store.open(path, create=True) as store:
        watch = ShiftWatch.open(store, [said], lane)
        for scored in made:
            keep(store, watch, scored)
        rows = {"alerts": _ALERTS, "shifts": _SHIFTS, "incidents": _INCIDENTS}
        return {**{name: store.query(sql) for name, sql in rows.items()}, "state": watch.packed()}


def test_a_metric_that_breaks_pages_in_the_commit_that_shows_it(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.duckdb", create=True) as store:
        watch = ShiftWatch.open(store, [portfolio()])
        for scored in slices_after_calm(BROKEN):
            keep(store, watch, scored)
        sql = "SELECT state, severity, \"at\", seq, attribution->>'verdict' FROM alerts WHERE severity = 'page'"
        (alert,) = store.query(sql)
        (shift,) = store.query("SELECT kind, change_at, change_from, change_to, moved, rate_before FROM shifts")
        messages = store.query("SELECT topic, max(seq) FROM internal.outbox GROUP BY ALL")

    change = at(CHANGE)
    assert alert[:2] == ("open", "page")
    assert alert[4] == "worse"
    assert change < alert[2] <= at(CHANGE + 2 * STEP)
    assert shift[:1] == ("shift",)
    assert shift[2] <= change <= shift[3]
    assert shift[4:] == ("up", pytest.approx(0.02, abs=0.01))
    assert messages == [("alerts", alert[3])]


def test_a_metric_that_gets_better_is_a_note_and_never_more(tmp_path: Path) -> None:
    found = kept(tmp_path / "s.duckdb", slices_after_calm(stream([(BEFORE, 0.3), (36, 0.05)])), portfolio())

    assert {(row[10], row[11]) for row in found["alerts"]} == {("noted", "note")}


@pytest.mark.slow
def test_a_lasting_improvement_is_noted_once(tmp_path: Path) -> None:
    found = kept(tmp_path / "s.duckdb", slices(stream([(BEFORE, 0.3), (2 * DAY, 0.02)]), size=HOURS), portfolio())

    assert [(row[10], row[11]) for row in found["alerts"]] == [("noted", "note")]


def test_a_calm_stream_is_silent(tmp_path: Path) -> None:
    found = kept(tmp_path / "s.duckdb", slices(stream([(3 * DAY, 0.05)]), size=72), portfolio())

    assert found["alerts"] == []


def test_an_unconfirmed_direction_is_a_ticket_that_names_its_question(tmp_path: Path) -> None:
    for name, rates in (("up", (0.1, 0.5)), ("down", (0.5, 0.1))):
        made = slices_after_calm(stream([(BEFORE, rates[0]), (HOURS, rates[1])]), metric="fallback_rate")
        with Store.open(tmp_path / f"{name}.duckdb", create=True) as store:
            watch = ShiftWatch.open(store, [portfolio()])
            for scored in made:
                keep(store, watch, scored)
            rows = store.query("SELECT moved, verdict, question, kind FROM shifts")
            severities = store.query("SELECT DISTINCT severity FROM alerts")

        assert rows == [(name, "unknown", "q-fallback", "cascade")]
        assert severities == [("ticket",)]


def test_the_same_shift_is_worse_or_better_by_what_a_person_confirmed(tmp_path: Path) -> None:
    made = slices_after_calm(stream([(BEFORE, 0.1), (HOURS, 0.5)]), metric="fallback_rate")
    bad = kept(tmp_path / "bad.duckdb", made, portfolio(FALLBACK_IS_BAD))
    good = kept(tmp_path / "good.duckdb", made, portfolio(FALLBACK_IS_GOOD))

    assert [(row[10], row[11]) for row in bad["alerts"]] == [("open", "ticket")]
    assert {(row[10], row[11]) for row in good["alerts"]} == {("noted", "note")}


def test_an_answer_keeps_a_bad_shift_open_and_closes_a_good_one(tmp_path: Path) -> None:
    made = slices_after_calm(stream([(BEFORE, 0.1), (HOURS, 0.5)]), metric="fallback_rate")
    kept(tmp_path / "bad.duckdb", made, portfolio())
    (tmp_path / "good.duckdb").write_bytes((tmp_path / "bad.duckdb").read_bytes())
    found = {}
    for name, answer in (("bad", FALLBACK_IS_BAD), ("good", FALLBACK_IS_GOOD)):
        with Store.open(tmp_path / f"{name}.duckdb") as store:
            ShiftWatch.open(store, [portfolio()]).save(store)
            watch = ShiftWatch.open(store, [portfolio(answer)])
            states = store.query("SELECT state FROM alerts ORDER BY rowid")
            incidents = store.query("SELECT state, why, told->>'what' FROM incidents ORDER BY rowid")
            again = ShiftWatch.open(store, [portfolio(answer)])
            found[name] = ([state for (state,) in states], incidents)

            assert again.packed() == watch.packed()

    opened = ("open", "opened", "CASCADE polarity unknown")
    assert found["bad"] == (["open"], [opened, ("open", "renamed", "CASCADE worse")])
    assert found["good"] == (["open", "resolved"], [opened, ("resolved", "resolved", "CASCADE better")])


def test_a_shift_that_an_answer_calls_worse_is_over_when_its_rate_is_back(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    made = slices_after_calm(stream([(BEFORE, 0.1), (HOURS, 0.5), (150, 0.1)]), metric="fallback_rate")
    begin = next(
        i for i, one in enumerate(made) if one.tables["ticks"]["bucket"][0].as_py() >= at(CHANGE + STEP * HOURS)
    )
    kept(path, made[:begin], portfolio())
    with Store.open(path) as store:
        ShiftWatch.open(store, [portfolio()]).save(store)
        watch = ShiftWatch.open(store, [portfolio(FALLBACK_IS_BAD)])
        for scored in made[begin:]:
            keep(store, watch, scored)
        states = store.query("SELECT state FROM incidents ORDER BY rowid")

    assert states == [("open",), ("open",), ("resolved",)]


def test_a_bound_is_checked_from_the_first_hour_on_by_its_interval(tmp_path: Path) -> None:
    bound = "threshold: {operator: '<=', value: 0.05, window: 1h, min_units: 50}"
    above = stream([(6, 0.5), (30, 0.0)], units=10)
    just_above = stream([(36, 0.07)], units=10)
    found = kept(tmp_path / "a.duckdb", slices(above), portfolio(threshold=bound))
    silent = kept(tmp_path / "b.duckdb", slices(just_above), portfolio(threshold=bound))

    steps = [(row[10], row[11]) for row in found["alerts"] if row[11] != "note"]
    assert steps == [("open", "page"), ("resolved", "page")]
    assert silent["alerts"] == []


def test_more_undecided_traces_are_an_alert(tmp_path: Path) -> None:
    known = [(MONDAY + STEP * i, 40, 0, 0) for i in range(BEFORE)]
    blind = [(CHANGE + STEP * i, 20, 0, 20) for i in range(HOURS)]
    with Store.open(tmp_path / "s.duckdb", create=True) as store:
        watch = ShiftWatch.open(store, [portfolio()])
        for scored in slices_after_calm(known + blind):
            keep(store, watch, scored)

        assert store.query("SELECT kind, moved, verdict FROM shifts") == [("unknown", "up", "worse")]
        assert store.query("SELECT DISTINCT severity FROM alerts") == [("ticket",)]


def test_failures_of_one_session_are_one_observation(tmp_path: Path) -> None:
    """Every tenth session of 20 units fails as a whole; counted as units that is a shift nearly each time."""
    rng = np.random.default_rng(5)
    bad = [20 if rng.random() < 0.1 else 0 for _ in range(300)]
    units = [(MONDAY + 12 * i, 20 - k, k, 0) for i, k in enumerate(bad)]
    sessions = [(MONDAY + 12 * i, f"s{i}", 20, k) for i, k in enumerate(bad)]
    made = [units_slice(n, units[10 * n :][:10], sessions=sessions[10 * n :][:10]) for n in range(30)]
    found = kept(tmp_path / "s.duckdb", made, portfolio())

    assert found["alerts"] == []


def test_metrics_without_an_alert_raise_none(tmp_path: Path) -> None:
    made = slices_after_calm(stream([(BEFORE, 0.02), (HOURS, 0.6)]), metric="watched_by_eye")

    assert kept(tmp_path / "s.duckdb", made, portfolio())["alerts"] == []


def mixed(seed: int) -> list[ScoredSlice]:
    """Two partitions, one of them behind, slices of odd sizes, late units, an incident that ends."""
    rng = np.random.default_rng(seed)
    units = stream([(BEFORE, 0.2), (HOURS, 0.7), (150, 0.2)], seed=seed)
    made, number, start = [], [0, 0], 0
    while start < len(units):
        size = int(rng.integers(2, 20))
        chunk = units[start : start + size]
        late = [(tick - int(rng.integers(5, 300)), 1, 0, 1) for tick, *_ in chunk[:3]]
        for partition, mine in enumerate((chunk[::2] + late, chunk[1::2])):
            made.append(units_slice(number[partition], mine, partition=partition))
            number[partition] += 1
        start += size
    return made


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_refolded_ticks_give_the_same_alerts_bit_for_bit(tmp_path: Path, seed: int) -> None:
    made = mixed(seed)
    whole = kept(tmp_path / "whole.duckdb", made, portfolio())
    with Store.open(tmp_path / "whole.duckdb") as store:
        store.record("forgetting", forget_snapshots)
        refolded = ShiftWatch.open(store, [portfolio()])
        rows = store.query(_ALERTS)

    assert {row[10] for row in whole["alerts"]} == {"open", "resolved"}
    assert refolded.packed() == whole["state"]
    assert rows == whole["alerts"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [4])
def test_a_commit_that_fails_and_a_restart_change_nothing(tmp_path: Path, seed: int) -> None:
    made = mixed(seed)
    whole = kept(tmp_path / "whole.duckdb", made, portfolio())
    rng = np.random.default_rng(seed)
    failing = set(rng.choice(len(made), 12, replace=False).tolist()) | {len(made) - 1}

    def keep_one(store: Store, watch: ShiftWatch, number: int, also: Steps) -> None:
        keep(store, watch, made[number], also)

    path = tmp_path / "broken.duckdb"
    keep_with_breakdowns(path, len(made), failing, keep_one)
    with Store.open(path) as store:
        watch = ShiftWatch.open(store, [portfolio()])

        assert store.query(_ALERTS) == whole["alerts"]
        assert store.query(_SHIFTS) == whole["shifts"]
        assert watch.packed() == whole["state"]


_CHILD = """
import os, signal, sys
from pathlib import Path
from gapwatch.sinks.store.store import Store
from gapwatch.streams.alerting.evaluation.shift_watch import ShiftWatch
from tests.streams.alerting.builders import portfolio
from tests.streams.alerting.breaking_stream import BROKEN, keep, slices_after_calm

with Store.open(Path(sys.argv[1]), create=True) as store:
    watch = ShiftWatch.open(store, [portfolio()])
    made = slices_after_calm(BROKEN)
    done = store.position("live", "traces", 0)
    for scored in made[done.to_offset if done else 0 :]:
        if scored.from_offset == int(sys.argv[2]):
            keep(store, watch, scored, also=[("end", lambda _: os.kill(os.getpid(), signal.SIGKILL))])
        keep(store, watch, scored)
"""


def test_a_kill_within_the_commit_that_holds_the_alert_loses_nothing(tmp_path: Path) -> None:
    whole = kept(tmp_path / "whole.duckdb", slices_after_calm(BROKEN), portfolio())
    with Store.open(tmp_path / "whole.duckdb") as store:
        ((alerting,),) = store.query("SELECT from_offset FROM offsets WHERE seq = (SELECT min(seq) FROM alerts)")
    path = tmp_path / "killed.duckdb"
    statuses = [
        subprocess.run(
            [sys.executable, "-c", _CHILD, str(path), str(kill_at)], cwd=Path.cwd(), env=os.environ, check=False
        ).returncode
        for kill_at in (alerting, -1)
    ]

    assert statuses == [-signal.SIGKILL, 0]
    with Store.open(path) as store:
        assert store.query(_ALERTS) == whole["alerts"]
        assert store.query(_INCIDENTS) == whole["incidents"]
        assert ShiftWatch.open(store, [portfolio()]).packed() == whole["state"]


def test_stored_ticks_hold_their_fold_tick(tmp_path: Path) -> None:
    made = [
        units_slice(0, [(MONDAY, 1, 0, 0), (MONDAY + 50, 1, 0, 0)]),
        units_slice(1, [(MONDAY + 3, 1, 0, 0), (MONDAY + 49, 1, 0, 0)]),
    ]
    with Store.open(tmp_path / "s.duckdb", create=True) as store:
        watch = ShiftWatch.open(store, [portfolio()])
        for scored in made:
            keep(store, watch, scored)
        rows = store.query("SELECT bucket, fold_bucket FROM ticks WHERE seq = (SELECT max(seq) FROM ticks) ORDER BY 1")

    assert rows == [(at(MONDAY + 3), at(MONDAY + 46)), (at(MONDAY + 49), at(MONDAY + 49))]
    assert watch.detectors[0].rates.late_units == 1


def test_an_accepted_level_is_the_new_baseline(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    first = kept(path, slices_after_calm(BROKEN), portfolio())
    with Store.open(path) as store:
        watch = ShiftWatch.open(store, [portfolio()])
        alert = first["alerts"][0][0]
        store.apply([("accept", lambda transaction: watch.accept(transaction, [alert], "maria", "a new parser"))])
        later = stream([(60, 0.3)], seed=9, first=BROKEN[-1][0] + STEP)
        for scored in slices(later, first=len(slices_after_calm(BROKEN))):
            keep(store, watch, scored)
        states = store.query('SELECT state, "by" FROM alerts ORDER BY rowid')

    assert states[-1] == ("accepted", "maria")
    assert set(states[:-1]) == {("open", "gapwatch")}


def test_a_broken_bound_that_was_accepted_alerts_again_only_after_it_has_held(tmp_path: Path) -> None:
    said = portfolio(threshold="threshold: {operator: '<=', value: 0.05, window: 1h, min_units: 50}")
    path, told = tmp_path / "s.duckdb", "SELECT state FROM alerts WHERE severity <> 'note' ORDER BY rowid"
    hours = [stream([(24, rate)], units=10, first=MONDAY + STEP * 24 * i) for i, rate in enumerate((0.5, 0.5, 0, 0.5))]
    found = []
    with Store.open(path, create=True) as store:
        watch = ShiftWatch.open(store, [said])
        for i, units in enumerate(hours):
            for scored in slices(units, first=4 * i):
                keep(store, watch, scored)
            if i == 0:
                ((alert,),) = store.query("SELECT alert_id FROM alerts")
                store.apply([("accept", lambda transaction, a=alert: watch.accept(transaction, [a], "maria", ""))])
            found.append([state for (state,) in store.query(told)])
        again = ShiftWatch.open(store, [said])

    assert found == [["open", "accepted"]] * 3 + [["open", "accepted", "open"]]
    assert again.packed() == watch.packed()


def test_a_slice_of_another_lane_is_refused(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.duckdb", create=True) as store:
        watch = ShiftWatch.open(store, [portfolio()])
        with pytest.raises(ValueError, match="lane file:x"):
            watch.take(units_slice(0, [(MONDAY, 1, 0, 0)], lane="file:x"), kept_at(0))


def test_environments_without_end_share_one_series(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.duckdb", create=True) as store:
        watch = ShiftWatch.open(store, [portfolio()])
        for i in range(40):
            units = units_slice(i, [(MONDAY + 40 * i, 3, 0, 0)])
            ticks = units.tables["ticks"]
            names = pa.array([f"e{i}" * (1 if i % 2 else 80)] * ticks.num_rows)
            place = ticks.schema.get_field_index("environment")
            tables = {**units.tables, "ticks": ticks.set_column(place, ticks.schema.field(place), names)}
            keep(store, watch, dataclasses.replace(units, tables=tables))
        named = {key.environment for key in watch.detectors[0].rows.series}
        again = ShiftWatch.open(store, [portfolio()])

        assert len(named) == 17 and "other" in named
        assert max(map(len, named)) < 10
        assert again.packed() == watch.packed()
