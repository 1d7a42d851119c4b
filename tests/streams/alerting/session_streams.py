"""Streams of sessions whose failure rate shifts at a known time, folded by the detectors of a lane."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gapwatch.streams.alerting.evaluation.lane_detectors import LaneDetectors
from gapwatch.streams.alerting.rules.alert_rule import budget_of, rules_of
from gapwatch.streams.alerting.series.slice_units import LAST_TICK, OpenTicks, SeriesKey, SessionUnits, SliceUnits
from gapwatch.streams.detectors.change import Change
from tests.streams.alerting.builders import MONDAY, portfolio

_SERIES = SeriesKey("shop", "production", "agent", "parses", "v1", "", "e1")
_HOUR = 3600.0


@dataclass(frozen=True)
class Shape:
    """Shape of the sessions of a stream. Times are in seconds.

    Attributes:
        gap: Mean time between the begins of two sessions.
        traces: Mean number of traces of a session.
        pause: Mean time between two traces of a session.
        likeness: Intraclass correlation of the failures of a session.
        before: Failure rate before the shift ...
        after: ... and since.
        shift: Time of the shift.
    """

    gap: float
    traces: float
    pause: float
    likeness: float = 0.0
    before: float = 0.02
    after: float = 0.33
    shift: float = 2 * _HOUR

    @property
    def ticks_to_a_failure(self) -> float:
        """Mean time from the shift to the begin of the first session with a failing trace, in ticks."""
        single = 1 / self.traces
        all_pass = single * (1 - self.after) / (1 - (1 - self.after) * (1 - single))
        return self.gap / (1 - all_pass) / 30


#: Single traces in dense traffic, several traces a session, long sessions whose traces fail together, two sparse days.
SHAPES = {
    "dense": Shape(gap=2.0, traces=1.5, pause=20.0, shift=1.5 * _HOUR),
    "busy": Shape(gap=6.0, traces=6.0, pause=30.0, likeness=0.1),
    "long": Shape(gap=15.0, traces=20.0, pause=90.0, likeness=0.2),
    "sparse": Shape(gap=240.0, traces=3.0, pause=60.0, before=0.02, after=0.5, shift=48 * _HOUR),
}


def sessions_of(shape: Shape, seed: int) -> tuple[float, list[SessionUnits]]:
    """Return the time of the shift, seconds since the begin of the stream, and the units of its sessions."""
    rng = np.random.default_rng(seed)
    shift = shape.shift + rng.uniform(0, 300)
    end = shift + max(400 * shape.gap, 2 * _HOUR)
    begins = np.cumsum(rng.exponential(shape.gap, int(1.2 * end / shape.gap) + 50))
    found: dict[tuple[int, str], list[int]] = {}
    for i, begin in enumerate(begins[begins < end].tolist()):
        count = int(rng.geometric(1 / shape.traces))
        times = begin + np.concatenate([[0.0], np.cumsum(rng.exponential(shape.pause, count - 1))])
        luck = rng.uniform(size=count)
        if rng.uniform() < shape.likeness:  # all traces of this session share one draw
            luck[:] = luck[0]
        for at, drawn in zip(times.tolist(), luck.tolist(), strict=True):
            cell = found.setdefault((int(at // 30), f"s{i}"), [0, 0])
            cell[0] += 1
            cell[1] += drawn < (shape.before if at < shift else shape.after)
    units = [SessionUnits(_SERIES, MONDAY + tick, name, *cell) for (tick, name), cell in found.items()]
    return shift, sorted(units, key=lambda one: (one.tick, one.session))


def first_change(units: list[SessionUnits], before: int = LAST_TICK) -> tuple[int, Change] | None:
    """Fold sessions tick by tick; return the tick of the first finding that names a change, and the change.

    Args:
        units: Units in the order of their ticks.
        before: Tick at which to give up.
    """
    said = portfolio()
    lane = LaneDetectors(rules_of([said]), {said.pipeline: budget_of(said)})
    by_tick: dict[int, list[SessionUnits]] = {}
    for one in units:
        by_tick.setdefault(one.tick, []).append(one)
    for tick, there in by_tick.items():
        whole = SliceUnits([_SERIES], np.zeros(1, np.int64), np.array([tick]), np.zeros((4, 1), np.int64), there)
        lane.rates.add(whole, OpenTicks.between(MONDAY - 1, None))
        for finding in lane.close(tick - 1):
            if finding.transition is not None and finding.transition.change is not None:
                return finding.tick, finding.transition.change
        if tick > before:
            break
    return None


@dataclass(frozen=True)
class Dates:
    """How well the shifts of several streams were dated.

    Attributes:
        held: Streams whose 95 % interval holds the shift.
        early: Streams with a finding before the shift: a false alarm.
        missed: Streams without a finding.
        median_error: Median distance of the date from the shift, in ticks; infinite where there is no finding.
    """

    held: int
    early: int
    missed: int
    median_error: float


def dates(shape: Shape, seeds: range) -> Dates:
    """Fold a stream for each seed and compare the first change that is found with the truth."""
    held = early = missed = 0
    errors = []
    for seed in seeds:
        shift, units = sessions_of(shape, seed)
        truth, found = MONDAY + shift / 30, first_change(units)
        if found is None:
            missed += 1
            errors.append(np.inf)
            continue
        tick, change = found
        early += tick < truth
        held += change.from_bucket <= truth <= change.to_bucket + 1
        errors.append(abs(change.change_bucket - truth))
    return Dates(held, early, missed, float(np.median(errors)))
