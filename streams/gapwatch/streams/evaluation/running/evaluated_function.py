"""Decorator that gives a function the method `eval`; the function itself stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from os import PathLike
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar, cast

from gapwatch.scorers.errors import UsageError
from gapwatch.streams.evaluation.datasets.data_set import load_data_set
from gapwatch.streams.evaluation.metrics.use_case import UseCase
from gapwatch.streams.evaluation.reports.run_result import EvaluationRun
from gapwatch.streams.evaluation.running.baseline import find_baseline
from gapwatch.streams.evaluation.running.evaluation import EvaluationPlan, run_evaluation
from gapwatch.streams.evaluation.running.example_calls import CallLimits
from gapwatch.streams.evaluation.running.llm_client import current_llm_client

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned", covariant=True)


class EvaluatedFunction(Protocol[Arguments, Returned]):
    """Function with the method `eval`."""

    def __call__(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Returned:
        """Call the function."""
        ...

    def eval(
        self,
        dataset: Any,
        baseline: EvaluationRun | PathLike[str] | str | None = None,
        metrics: Sequence[str] | None = None,
        metrics_preset: str | None = None,
        use_case_overrides: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> EvaluationRun:
        """Evaluate the function over a data set; see `evaluated`."""
        ...


def evaluated(
    task: str, metrics: Sequence[str] | None = None, metrics_preset: str | None = None
) -> Callable[[Callable[Arguments, Returned]], EvaluatedFunction[Arguments, Returned]]:
    """Return a decorator that adds the method `eval` to a function.

    The function is returned itself, so that signature, coroutines, generators, exceptions and pickling are as before.
    `eval(dataset, baseline=None, metrics=None, metrics_preset=None, use_case_overrides=None)` returns an
    `EvaluationRun`. `baseline` is an earlier run, its JSON file, or its id in the store: the report compares with it,
    and where a model is set, it is asked which answer is better, in both orders. Further settings by name are `store`,
    `traces`, `portfolio` (paths), `component`, and `concurrency`, `timeout_seconds`, `memory_mb`, `printed_bytes` of
    the calls.

    Args:
        task: classification, chat, rag_qa or tool_calling, or the task of a metric of another package.
        metrics: Ids of exactly the metrics to use.
        metrics_preset: lightweight or deep_dive.
    """

    def decorate(function: Callable[Arguments, Returned]) -> EvaluatedFunction[Arguments, Returned]:
        def run(
            dataset: Any,
            baseline: EvaluationRun | PathLike[str] | str | None = None,
            metrics: Sequence[str] | None = metrics,
            metrics_preset: str | None = metrics_preset,
            use_case_overrides: Mapping[str, Any] | None = None,
            **settings: Any,
        ) -> EvaluationRun:
            use_case, found = _use_case(task, use_case_overrides or {}), _settings(settings)
            name, compared = find_baseline(baseline, found.get("store"))
            plan = EvaluationPlan(
                use_case, metrics, metrics_preset, current_llm_client(), baseline=name, compared=compared, **found
            )
            return run_evaluation(function, load_data_set(dataset), plan)

        function.eval = run  # type: ignore[attr-defined]
        return cast("EvaluatedFunction[Arguments, Returned]", function)

    return decorate


def _use_case(task: str, overrides: Mapping[str, Any]) -> UseCase:
    known = [field.name for field in fields(UseCase)]
    for name in overrides:
        if name not in known:
            raise UsageError(f"use_case_overrides has no key {name!r}; it takes {', '.join(known)}")
    return replace(UseCase(task), **overrides)


def _settings(given: Mapping[str, Any]) -> dict[str, Any]:
    paths, limits = ("store", "traces", "portfolio"), [field.name for field in fields(CallLimits)]
    for name in given:
        if name not in (*paths, *limits, "component"):
            raise UsageError(f"eval has no argument {name!r}; it takes {', '.join((*paths, 'component', *limits))}")
    found: dict[str, Any] = {name: Path(given[name]) for name in paths if given.get(name) is not None}
    if given.get("component") is not None:
        found["component"] = given["component"]
    return {**found, "limits": CallLimits(**{name: given[name] for name in limits if name in given})}
