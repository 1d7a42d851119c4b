"""`import gapwatch.eval`, then `@gapwatch.eval(task="rag_qa")`: evaluates functions over data sets of examples."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from gapwatch.streams.evaluation.datasets.example import Example
from gapwatch.streams.evaluation.metrics.use_case import MetricMetadata, MetricResult, UseCase
from gapwatch.streams.evaluation.reports.run_result import EvaluationRun as Run
from gapwatch.streams.evaluation.running.evaluated_function import evaluated
from gapwatch.streams.evaluation.running.llm_client import LLMClient, OpenAICompatibleLLMClient, set_llm_client

eval = evaluated  # noqa: A001 - the name that users write

__all__ = [
    "Example",
    "LLMClient",
    "MetricMetadata",
    "MetricResult",
    "OpenAICompatibleLLMClient",
    "Run",
    "UseCase",
    "eval",
    "set_llm_client",
]


class _CallableModule(ModuleType):
    """Module that is called as the decorator: `gapwatch` has no code of its own that could hold a function."""

    def __call__(
        self, task: str, metrics: Sequence[str] | None = None, metrics_preset: str | None = None
    ) -> Callable[[Callable[..., Any]], Any]:
        """Return the decorator; its arguments are those of `evaluated`."""
        return evaluated(task, metrics, metrics_preset)


sys.modules[__name__].__class__ = _CallableModule
