"""`gapwatch alerts --watched`: bounds with what was seen, detectable changes, phases in the same words everywhere."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapwatch.sinks.catalog.phases import PHASES
from gapwatch.sinks.store.store import Store
from gapwatch.streams.alerting.evaluation.shift_watch import ShiftWatch
from gapwatch.streams.detectors.budgets.budget import smallest_rate_ratio
from tests.gapwatch_command import gapwatch
from tests.paths import FOLDERS
from tests.streams.alerting.breaking_stream import DAY, keep, slices, stream
from tests.streams.alerting.builders import portfolio

BOUND = 'threshold: {of: failure_rate, operator: "<=", value: 0.01, window: 2h}'


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made, said = tmp_path_factory.mktemp("listed") / "s.duckdb", portfolio(threshold=BOUND)
    with Store.open(made, create=True) as store:
        store.register(said, [])
        watch = ShiftWatch.open(store, [said])
        for scored in slices(stream([(DAY, 0.06)]), size=DAY):
            keep(store, watch, scored)
        watch.save(store)
    return made


def test_a_bound_is_listed_with_its_window_its_interval_and_what_was_seen(path: Path) -> None:
    said = gapwatch("alerts", "--watched", "--store", path).out
    words = " ".join(said.split())
    with Store.open(path) as store:
        ((value, lower, upper, units, state, last),) = store.query(
            'SELECT "value", "lower", "upper", units, state, last_unit_at FROM watched_bounds'
        )
        # 40 traces each five minutes; the window moves on by a twelfth of its length.
        ((seen,),) = store.query(
            f"""SELECT sum(n) FILTER (outcome = 'bad') / sum(n) FROM ticks WHERE metric = 'parses'
                AND bucket > TIMESTAMP '{last}' - INTERVAL {5 * units // 40} MINUTES AND bucket <= TIMESTAMP '{last}'"""
        )

    assert 22 <= units / 40 <= 24 and value == pytest.approx(seen)
    assert lower is not None and 0.01 < lower < value < upper and state == "broken"
    assert "failure_rate <= 1.00% 2 hours" in words
    assert f"{value:.2%} {lower:.2%} to " in words and f" {units:,} broken " in words
    assert "broken: the whole interval was beyond the bound" in words


def test_each_phase_has_its_sentence_below_the_list_and_on_the_page(path: Path) -> None:
    said = gapwatch("alerts", "--watched", "--store", path).out
    with Store.open(path) as store:
        phases = {phase for (phase,) in store.query("SELECT phase FROM watched")}
    assert phases
    for phase in PHASES:
        assert (f"\n{phase}: {PHASES[phase]}\n" in said) == (phase in phases)
    (page,) = FOLDERS["sinks"].rglob("overview.js")
    block = re.search(r"const PHASES = \{\n(.*?)\n\};", page.read_text(), re.DOTALL)
    assert block is not None
    assert dict(re.findall(r'^ +(\w+): "(.*)",$', block[1], re.MULTILINE)) == PHASES


@pytest.mark.parametrize("a_day", [20.0, 100.0])
def test_a_sparse_series_sees_in_a_month_what_it_cannot_see_in_a_day(a_day: float) -> None:
    """At 5 %, with four weeks learned and ten tickets a month over 60 series."""
    limit = 30 * a_day / (10 / 60)
    day, month = (
        float(smallest_rate_ratio(*(np.array(x) for x in (0.05, 28 * a_day, days * a_day, limit, 0.0))))
        for days in (1, 30)
    )
    assert 1.0 < month < day
    assert month < 2.5


@given(st.floats(0.001, 0.4), st.floats(50.0, 1e5), st.floats(10.0, 1e6), st.floats(1.0, 1000.0), st.floats(0.0, 1.0))
def test_more_time_never_hides_a_change(rate: float, learned: float, units: float, more: float, margin: float) -> None:
    """A change that a day shows is shown within the month as well, also to a watch of five minutes."""
    day, month = (
        float(smallest_rate_ratio(*(np.array(x) for x in (rate, learned, n, 1e5, margin))))
        for n in (units, units * more)
    )
    assert month - 1.0 <= 1.2 * (day - 1.0) + 1e-4  # the numbers of units that are tried lie a factor apart


def test_more_units_than_the_threshold_do_not_make_every_change_detectable() -> None:
    """The sum over the starts passes any threshold that is small against their number; that detects nothing."""
    found = smallest_rate_ratio(*(np.array(x) for x in (0.02, 2_000.0, 500_000.0, 1e5, 0.0)))
    assert float(found) > 1.05
