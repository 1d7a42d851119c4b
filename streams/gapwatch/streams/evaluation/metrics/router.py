"""Choice of the metrics of an evaluation by its task, and by what its data set has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from gapwatch.scorers.errors import UsageError
from gapwatch.streams.evaluation.metrics.metric import EvaluationMetric
from gapwatch.streams.evaluation.metrics.registry import MetricRegistry
from gapwatch.streams.evaluation.metrics.use_case import TASKS, UseCase

#: Metrics of each task where nobody chooses.
DEFAULT_METRICS: dict[str, tuple[str, ...]] = {
    "classification": ("accuracy", "f1_macro"),
    "chat": ("helpfulness_llm_judge", "latency_ms"),
    "rag_qa": ("answer_quality_llm_judge", "rag_faithfulness_llm_judge", "latency_ms"),
    "tool_calling": ("tool_success_rate", "invalid_tool_call_rate", "latency_ms"),
}
#: `lightweight`: every metric of the task that costs no money. `deep_dive`: every metric of the task.
PRESETS = ("lightweight", "deep_dive")


@dataclass(frozen=True)
class Selected:
    """Metrics of an evaluation.

    Attributes:
        metrics: Metrics that are computed.
        left_out: Reason by id of each metric that is not.
    """

    metrics: tuple[EvaluationMetric, ...]
    left_out: dict[str, str]


class MetricRouter:
    """Selects metrics by rules.

    Args:
        registry: Metrics to select from.
    """

    def __init__(self, registry: MetricRegistry) -> None:
        self.registry = registry

    def select_metrics(
        self, use_case: UseCase, explicit_metrics: Sequence[str] | None = None, preset: str | None = None
    ) -> list[EvaluationMetric]:
        """Return the metrics of a use case, whatever its data set has.

        Args:
            use_case: Its task decides where neither metrics nor a preset are given.
            explicit_metrics: Ids of exactly the metrics to use.
            preset: One of `PRESETS`.

        Raises:
            UsageError: A metric, the preset or the task is unknown.
        """
        if explicit_metrics is not None:
            return [self.registry.get_metric(one) for one in dict.fromkeys(explicit_metrics)]
        task = use_case.task_type
        found = self.registry.get_metrics_for_task(task)
        if not found:
            raise UsageError(f"there is no metric for the task {task!r}; tasks are {', '.join(TASKS)}")
        if preset == "lightweight":
            return [metric for metric in found if metric.metadata.cost_estimate == "low"]
        if preset == "deep_dive":
            return found
        if preset is not None:
            raise UsageError(f"there is no preset {preset!r}; presets are {', '.join(PRESETS)}")
        defaults = DEFAULT_METRICS.get(task)
        return found if defaults is None else [self.registry.get_metric(one) for one in defaults]


def met_needs(chosen: Sequence[EvaluationMetric], has: frozenset[str], has_model: bool) -> Selected:
    """Leave out the metrics whose needs are not met.

    Args:
        chosen: Metrics that were selected.
        has: Parts that an example of the data set has: reference, context, tool_trace; and baseline.
        has_model: Whether a model can be asked.
    """
    metrics: list[EvaluationMetric] = []
    left_out: dict[str, str] = {}
    for metric in chosen:
        missing = [need for need in metric.metadata.needs if need not in has]
        if missing:
            left_out[metric.metadata.id] = _missing_words(missing)
        elif (library := getattr(metric, "library", None)) is not None and find_spec(library) is None:
            left_out[metric.metadata.id] = f"{library} is not installed: pip install 'gapwatch[text]'"
        elif metric.metadata.metric_type == "llm_judge" and not has_model:
            left_out[metric.metadata.id] = "no model is set; call gapwatch.eval.set_llm_client, or give llm in the file"
        else:
            metrics.append(metric)
    return Selected(tuple(metrics), left_out)


def _missing_words(missing: Sequence[str]) -> str:
    if "baseline" in missing:
        return "there is no run to compare with; give baseline, a run or the JSON of one"
    return f"no example has a {' and a '.join(missing)}".replace("_", " ")
