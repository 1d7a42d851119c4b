"""Watch over one pipeline in a lane: its detectors, and the clock that says which of its ticks are closed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow.compute as pc

from gapwatch.streams.alerting.evaluation.lane_detectors import LaneDetectors
from gapwatch.streams.alerting.evaluation.stored_history import StoredCommit
from gapwatch.streams.alerting.rules.alert_rule import AlarmBudget, AlertRule
from gapwatch.streams.alerting.rules.finding import Finding
from gapwatch.streams.alerting.series.lane_clock import LaneClock
from gapwatch.streams.alerting.series.slice_units import OpenTicks, SliceContent
from gapwatch.streams.detectors.contexts import TICK_SECONDS


class PipelineWatch:
    """Detectors and watermark of one pipeline in one lane.

    Pipelines of one topic or file may be hours apart: each has a watermark of its own, so that none makes the units of
    another one late. The state is a function of the commits of the lane, in order.

    Args:
        pipeline: Name of the pipeline.
        detectors: Its detectors.
        is_live: Event times after the time of the commit come from wrong clocks. Files may hold any time.

    Attributes:
        clock: Watermark of the pipeline.
    """

    def __init__(self, pipeline: str, detectors: LaneDetectors, *, is_live: bool) -> None:
        self.pipeline, self.detectors = pipeline, detectors
        self.clock = LaneClock()
        self._is_live = is_live

    def open_ticks(self, second: float) -> OpenTicks:
        """Return the ticks that are open at a time, seconds since the epoch."""
        return OpenTicks.between(self.clock.watermark, int(second // TICK_SECONDS) if self._is_live else None)

    def fold(self, commit: StoredCommit, *, is_alone: bool) -> list[Finding]:
        """Fold the pipeline's part of a slice, and return the findings of the ticks that it closes.

        Args:
            commit: The slice.
            is_alone: No other pipeline is monitored, so that the slice need not be searched.
        """
        content = commit.content if is_alone else _of_pipeline(commit.content, self.pipeline)
        newest = self.detectors.add(content, self.open_ticks(commit.second))
        closed = self.clock.move(
            commit.partition, newest, commit.second, is_live=self._is_live, unread=commit.waits_for
        )
        self.clock.watermark = max(closed, self.detectors.full_until())
        return self.detectors.close(self.clock.watermark)

    # ---- the state ----

    def as_json(self) -> dict[str, Any]:
        """Return everything but the fleets as JSON values."""
        return {"bank": self.detectors.as_json(), "clock": self.clock.as_json()}

    @classmethod
    def from_json(
        cls, pipeline: str, value: Mapping[str, Any], snapshots: Mapping[str, bytes], *, is_live: bool
    ) -> PipelineWatch:
        """Return the watch from `as_json` and the fleets' snapshots.

        Raises:
            SnapshotError: The fleets cannot be read, or belong to detectors of another version.
        """
        watch = cls(pipeline, LaneDetectors.from_json(value["bank"], snapshots), is_live=is_live)
        watch.clock = LaneClock.from_json(value["clock"])
        return watch


def _of_pipeline(content: SliceContent, pipeline: str) -> SliceContent:
    """Return the rows of one pipeline."""
    return SliceContent(
        *(table.filter(pc.equal(table["pipeline"], pipeline)) for table in (content.ticks, content.sessions))
    )


def rules_by_pipeline(
    rules: Sequence[AlertRule], budgets: Mapping[str, AlarmBudget]
) -> dict[str, tuple[list[AlertRule], dict[str, AlarmBudget]]]:
    """Return the alert rules and the false-alarm budget of each pipeline, by its name, in the order of `budgets`."""
    return {
        pipeline: ([rule for rule in rules if rule.pipeline == pipeline], {pipeline: budget})
        for pipeline, budget in budgets.items()
    }


def snapshots_of(pipelines: Mapping[str, PipelineWatch]) -> dict[str, bytes]:
    """Return each fleet of each pipeline as bytes, by `<pipeline>/<fleet>`."""
    return {
        f"{name}/{fleet}": data for name, one in pipelines.items() for fleet, data in one.detectors.snapshots().items()
    }


def restored(
    values: Mapping[str, Mapping[str, Any]], snapshots: Mapping[str, bytes], *, is_live: bool
) -> dict[str, PipelineWatch]:
    """Return the pipelines from their JSON values and from `snapshots_of`.

    Raises:
        SnapshotError: The fleets cannot be read, or belong to detectors of another version.
    """
    fleets: dict[str, dict[str, bytes]] = {name: {} for name in values}
    for key, data in snapshots.items():
        pipeline, _, fleet = key.rpartition("/")
        fleets[pipeline][fleet] = data
    return {name: PipelineWatch.from_json(name, value, fleets[name], is_live=is_live) for name, value in values.items()}
