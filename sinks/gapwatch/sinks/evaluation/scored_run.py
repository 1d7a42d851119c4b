"""Run of an evaluation as comparisons need it: outcome and score of each example, from its JSON or from its lane."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.loading.load import parse_stored_portfolio
from gapwatch.sinks.evaluation.lane_results import lane_rows
from gapwatch.sinks.reading.query_answer import ask
from gapwatch.sinks.store.store_reader import StoreReader

#: Beginning of the lanes of evaluations.
LANE = "eval:"
_DECIDED = {"pass": True, "warn": True, "fail": False}


@dataclass(frozen=True)
class ExampleScore:
    """Result of one metric on one example.

    Attributes:
        passes: Whether it passes; None where it is undecided.
        score: Its number; None without one.
    """

    passes: bool | None
    score: float | None = None


@dataclass(frozen=True)
class ScoredExample:
    """One example of a run.

    Attributes:
        id: Id in its data set.
        output: What the function returned; None from a lane, which keeps no outputs.
        inputs, reference: As the data set has them; None from a lane.
        tags: Tags, from its metadata.
        scores: Result by metric.
    """

    id: str
    output: Any = None
    inputs: Any = None
    reference: Any = None
    tags: tuple[str, ...] = ()
    scores: Mapping[str, ExampleScore] = field(default_factory=dict)


@dataclass(frozen=True)
class ScoredMetric:
    """One metric of a run.

    Attributes:
        name: Id of the metric.
        is_number: True if numbers are compared, such as latencies; False for outcomes.
        better: The better direction of the numbers: higher, lower or unknown.
        total: Score over the run; None where only a lane is known.
    """

    name: str
    is_number: bool = False
    better: str = "higher"
    total: float | None = None


@dataclass(frozen=True)
class ScoredRun:
    """A run of an evaluation.

    Attributes:
        run_id: Its id.
        name: Name of the function or model, for people.
        metrics: Metrics in their order.
        examples: Examples by id.
    """

    run_id: str
    name: str
    metrics: tuple[ScoredMetric, ...]
    examples: Mapping[str, ScoredExample]


def read_run_file(path: Path) -> ScoredRun:
    """Read the JSON of a run, as `gapwatch eval --json` writes it.

    Raises:
        UsageError: The file cannot be read, or is no run of an evaluation.
    """
    try:
        return scored_run(orjson.loads(path.read_bytes()))
    except OSError as error:
        raise UsageError(f"the run {path} cannot be read: {error.strerror}") from error
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{path} is no run of an evaluation ({type(error).__name__}: {error}); give a file of gapwatch eval --json"
        ) from error


def scored_run(document: Mapping[str, Any]) -> ScoredRun:
    """Return a run from its JSON."""
    metrics = tuple(
        ScoredMetric(
            one["metric_id"], one["details"].get("reports") == "mean", one["details"].get("better", "higher"),
            one["score"],
        )
        for one in document["metric_results"]
    )  # fmt: skip
    examples = {
        one["id"]: ScoredExample(
            one["id"], one["output"], one["inputs"], one["reference"], tags_of(one.get("metadata") or {}),
            {
                name: ExampleScore(_DECIDED.get(told["outcome"]), told["score"])
                for name, told in one["outcomes"].items()
            },
        )
        for one in document["examples"]
    }  # fmt: skip
    return ScoredRun(document["id"], document["candidate_name"] or document["id"], metrics, examples)


def tags_of(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the tags of an example: the texts in `tags`, and each other text of its metadata as `key: text`."""
    tags = metadata.get("tags", ())
    own = [tags] if isinstance(tags, str) else [one for one in tags if isinstance(one, str)]
    return (*own, *(f"{key}: {value}" for key, value in metadata.items() if key != "tags" and isinstance(value, str)))


def has_lane(con: StoreReader, run_id: str) -> bool:
    """Return whether a store has the lane of a run of an evaluation."""
    found = ask(con, "SELECT 1 AS one FROM gaps WHERE lane = ? LIMIT 1", [f"{LANE}{run_id}"]).objects()
    return bool(found)


def read_lane_run(con: StoreReader, run_id: str) -> ScoredRun:
    """Return a run from its lane; it has no outputs, tags or scores over the set.

    Args:
        con: Reader of the store.
        run_id: Id of the run.
    """
    scores: dict[str, dict[str, ExampleScore]] = {}
    for row in lane_rows(con, f"{LANE}{run_id}"):
        of_example = scores.setdefault(row["trace_id"].removeprefix(f"{run_id}:"), {})
        # Of several spans or judges the worst counts, as in the report of a run.
        if row["metric"] not in of_example or row["outcome"] == "fail":
            of_example[row["metric"]] = ExampleScore(_DECIDED.get(row["outcome"]), row["score"])
    examples = {id_: ScoredExample(id_, scores=of) for id_, of in scores.items()}
    return ScoredRun(run_id, run_id, tuple(_lane_metrics(con, run_id, scores.values())), examples)


def _lane_metrics(
    con: StoreReader, run_id: str, scores: Iterable[Mapping[str, ExampleScore]]
) -> Iterable[ScoredMetric]:
    sql = """SELECT yaml FROM portfolios WHERE portfolio_sha IN (SELECT portfolio_sha FROM gaps WHERE lane = ?)"""
    seen = list(scores)
    for row in ask(con, sql, [f"{LANE}{run_id}"]).objects():
        for metric in parse_stored_portfolio(row["yaml"]).metrics:
            told = [one[metric.name] for one in seen if metric.name in one]
            is_number = metric.claim.form in ("measure", "python") and any(
                one.score not in (None, float(bool(one.passes))) for one in told
            )
            better = metric.direction.better if metric.direction is not None else "higher"
            yield ScoredMetric(metric.name, is_number, better if is_number else "higher")
