"""EvaluationRun: the result of an evaluation, as JSON and as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from gapwatch.sinks.evaluation.comparison_report import pairs_json, pairs_markdown
from gapwatch.sinks.evaluation.run_pairs import RunPairs
from gapwatch.streams.evaluation.datasets.example import Example
from gapwatch.streams.evaluation.metrics.use_case import MetricMetadata, MetricResult, UseCase

#: Most failing examples that a report shows.
_SHOWN = 20


@dataclass
class EvaluationRun:
    """Result of one evaluation.

    Attributes:
        id: Id of the run; its traces are on the lane `eval:<id>`.
        use_case: Use case of the function.
        metrics: Metrics that were computed.
        metric_results: Result of each metric.
        examples: Examples with their outputs.
        baseline_name: Name of the run to compare with, for people.
        candidate_name: Name of the evaluated function.
        left_out: Reason by id of each metric that was not computed.
        outcomes: Outcome, score and reason by example and metric, of metrics that each example has.
        comparison: Comparison with the baseline, where it is a run.
    """

    id: str
    use_case: UseCase
    metrics: list[MetricMetadata]
    metric_results: list[MetricResult]
    examples: list[Example]
    baseline_name: str | None = None
    candidate_name: str | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
    outcomes: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    comparison: RunPairs | None = None

    @property
    def lane(self) -> str:
        """Lane of its traces in the store."""
        return f"eval:{self.id}"

    @property
    def errors(self) -> list[Example]:
        """Examples whose call gave no output."""
        return [example for example in self.examples if example.error_type is not None]

    def result(self, metric_id: str) -> MetricResult | None:
        """Return the result of a metric, or None where it was not computed."""
        return next((one for one in self.metric_results if one.metric_id == metric_id), None)

    def to_json(self) -> dict[str, Any]:
        """Return the run as JSON has it."""
        return {
            "id": self.id,
            "lane": self.lane,
            "use_case": asdict(self.use_case),
            "baseline_name": self.baseline_name,
            "candidate_name": self.candidate_name,
            "metrics": [asdict(metric) for metric in self.metrics],
            "metric_results": [asdict(result) for result in self.metric_results],
            "left_out": dict(self.left_out),
            "errors": len(self.errors),
            "comparison": None if self.comparison is None else pairs_json(self.comparison),
            "examples": [{**asdict(one), "outcomes": self.outcomes.get(one.id, {})} for one in self.examples],
        }

    def to_markdown(self) -> str:
        """Return the report in Markdown."""
        name = self.candidate_name or "the function"
        lines = [f"# Evaluation of {name}", ""]
        told = f"{len(self.examples):,} examples, task {self.use_case.task_type}, run `{self.id}`"
        lines += [f"{told}, baseline {self.baseline_name}." if self.baseline_name else f"{told}.", ""]
        lines += _table(
            ("metric", "score", "95 % interval", "examples", "undecided"),
            [_result_cells(result) for result in self.metric_results],
        )
        for result in self.metric_results:
            lines += _class_table(result)
        if self.left_out:
            lines += ["", "Left out:", ""]
            lines += [f"- `{metric}`: {why}" for metric, why in self.left_out.items()]
        if self.comparison is not None:
            lines += ["", pairs_markdown(self.comparison, 2).rstrip()]
        lines += self._error_lines() + self._failing_lines()
        return "\n".join(lines) + "\n"

    def _error_lines(self) -> list[str]:
        if not self.errors:
            return []
        counts = Counter(example.error_type for example in self.errors)
        told = ", ".join(f"{n} {name}" for name, n in counts.most_common())
        lines = ["", f"## {len(self.errors)} of {len(self.examples)} calls gave no output ({told})", ""]
        rows = [(one.id, one.error_type or "", _short(one.error or "")) for one in self.errors[:_SHOWN]]
        return lines + _table(("example", "error", "text"), rows) + _rest(len(self.errors))

    def _failing_lines(self) -> list[str]:
        failing = [
            (example, metric, told)
            for example in self.examples
            for metric, told in self.outcomes.get(example.id, {}).items()
            if told["outcome"] in ("fail", "error")
        ]
        if not failing:
            return []
        rows = [
            (example.id, metric, _verdict(told), _short(str(example.output)), _short(str(told.get("why") or "")))
            for example, metric, told in failing[:_SHOWN]
        ]
        title = f"## {len(failing)} failing result{'' if len(failing) == 1 else 's'}"
        return ["", title, "", *_table(("example", "metric", "result", "output", "why"), rows), *_rest(len(failing))]


def _verdict(told: Mapping[str, Any]) -> str:
    return f"{told['outcome']} ({told['band']})" if told.get("band") else str(told["outcome"])


def _result_cells(result: MetricResult) -> tuple[str, ...]:
    details = result.details
    interval = "-"
    if details.get("lower") is not None:
        interval = f"{score_text(details['lower'])} - {score_text(details['upper'])}"
    undecided = details.get("undecided")
    return (
        result.metric_id, score_text(result.score), interval, str(details.get("n", "-")),
        "-" if undecided is None else str(undecided),
    )  # fmt: skip


def score_text(score: float | None) -> str:
    """Return a score with four digits; `-` for none."""
    return "-" if score is None else f"{score:.4g}"


def _class_table(result: MetricResult) -> list[str]:
    """Return the values by class of a metric, and the confusion matrix."""
    by_class, classes = result.details.get("by_class"), result.details.get("classes")
    if by_class:
        rows = [(name, score_text(value)) for name, value in by_class.items()]
        return ["", f"`{result.metric_id}` by class:", "", *_table(("class", result.metric_id), rows)]
    if classes:
        counted = zip(classes, result.details["rows_true_columns_predicted"], strict=True)
        rows = [(true, *(str(n) for n in row)) for true, row in counted]
        return ["", "Confusion, true class by row, predicted class by column:", "", *_table(("", *classes), rows)]
    return []


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table of Markdown with aligned columns."""
    cells = [[_escaped(cell) for cell in row] for row in (titles, *rows)]
    widths = [max(3, *(len(row[i]) for row in cells)) for i in range(len(titles))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in cells
    ]
    return [lines[0], "| " + " | ".join("-" * width for width in widths) + " |", *lines[1:]]


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("\r", " ")


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."


def _rest(n: int) -> list[str]:
    return ["", f"{n - _SHOWN} more are in the JSON."] if n > _SHOWN else []
