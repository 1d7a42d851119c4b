"""Registry of the metrics of evaluations: the shipped ones, and those of other packages."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.metadata import entry_points

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.loading.problems import nearest
from gapwatch.streams.evaluation.metrics.metric import ClaimMetric, EvaluationMetric, SetMetric
from gapwatch.streams.evaluation.metrics.shipped import SHIPPED

#: Entry points of this group name a metric, or a list of metrics.
METRIC_GROUP = "gapwatch.metrics"


class MetricRegistry:
    """Metrics by id, in the order of their registration.

    Args:
        metrics: Metrics to begin with.
    """

    def __init__(self, metrics: Iterable[EvaluationMetric] = ()) -> None:
        self._metrics: dict[str, EvaluationMetric] = {}
        for metric in metrics:
            self.register_metric(metric)

    def register_metric(self, metric: EvaluationMetric) -> None:
        """Add a metric.

        Raises:
            UsageError: It is no metric, or its id is taken.
        """
        if not isinstance(metric, ClaimMetric | SetMetric):
            raise UsageError(
                f"{metric!r} is no metric; give an object with metadata (MetricMetadata) and compute(examples)"
            )
        if metric.metadata.id in self._metrics:
            raise UsageError(f"two metrics have the id {metric.metadata.id!r}; give one another id")
        self._metrics[metric.metadata.id] = metric

    def get_metric(self, metric_id: str) -> EvaluationMetric:
        """Return a metric.

        Raises:
            UsageError: There is none of this id.
        """
        found = self._metrics.get(metric_id)
        if found is None:
            near = nearest(metric_id, list(self._metrics))
            hint = f"did you mean {near}?" if near else "gapwatch metrics lists all"
            raise UsageError(f"there is no metric {metric_id!r}; {hint}")
        return found

    def get_metrics_for_task(self, task_type: str) -> list[EvaluationMetric]:
        """Return the metrics of a task."""
        return [metric for metric in self._metrics.values() if task_type in metric.metadata.task_types]

    def all_metrics(self) -> list[EvaluationMetric]:
        """Return all metrics."""
        return list(self._metrics.values())


@cache
def installed_metrics() -> MetricRegistry:
    """Return the registry of the shipped metrics and of those that installed packages name.

    Raises:
        UsageError: An entry point cannot be loaded, or names no metric.
    """
    registry = MetricRegistry(SHIPPED)
    for entry in entry_points(group=METRIC_GROUP):
        try:
            loaded = entry.load()
        except Exception as error:
            raise UsageError(
                f"the metric {entry.name!r} ({entry.value}) cannot be loaded: {type(error).__name__}: {error}; mend or "
                "uninstall its package"
            ) from error
        for metric in loaded if isinstance(loaded, list | tuple) else [loaded]:
            registry.register_metric(metric)
    return registry
