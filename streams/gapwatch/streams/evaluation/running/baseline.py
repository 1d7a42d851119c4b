"""Baseline of an evaluation: an earlier run by itself, by its JSON, or by its id in the store."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from gapwatch.scorers.errors import UsageError
from gapwatch.sinks.evaluation.scored_run import ScoredRun, has_lane, read_lane_run, read_run_file, scored_run
from gapwatch.streams.evaluation.reports.run_result import EvaluationRun


def find_baseline(baseline: Any, store: Path | None) -> tuple[str | None, ScoredRun | None]:
    """Return the name of a baseline, and its run where there is one; a text that names no run is a mere name.

    Args:
        baseline: An `EvaluationRun`, the path of the JSON of one, its id in the store, a name, or None.
        store: Store of the evaluation.

    Raises:
        UsageError: The file is missing or is no run.
    """
    if baseline is None:
        return None, None
    if isinstance(baseline, EvaluationRun):
        return baseline.candidate_name or baseline.id, scored_run(baseline.to_json())
    if not isinstance(baseline, str | PathLike):
        raise UsageError(
            f"a baseline of type {type(baseline).__name__} is no run; give a run, its JSON file, or its id"
        )
    name = str(baseline)
    if name.endswith(".json") or isinstance(baseline, PathLike) or Path(name).is_file():
        return name, read_run_file(Path(name))
    if store is not None and store.exists():
        from gapwatch.sinks.commands.options import reading

        with reading(store) as con:
            if has_lane(con, name):
                return name, read_lane_run(con, name)
    return name, None
