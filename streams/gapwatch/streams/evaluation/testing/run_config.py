"""Configuration of a run of tests: what is tested, which judges, which tests, in YAML."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from gapwatch.sinks.issues.issue import Choice
from gapwatch.streams.evaluation.running.configuration import (
    Entrypoint,
    ModelEndpoint,
    WrittenSettings,
    load_entrypoint,
    read_configuration,
)
from gapwatch.streams.evaluation.running.example_calls import CallLimits
from gapwatch.streams.evaluation.running.llm_client import judge_name
from gapwatch.streams.evaluation.testing.tested_model import EndpointModel, FunctionModel, TestedModel


class WrittenChoice(WrittenSettings):
    """Choice of tests; empty parts choose all.

    Attributes:
        issues: Ids of issues.
        tests: Ids of tests.
        tags: Tags, one of which an issue must have.
        domains: Domains of issues.
    """

    issues: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()


class TestRunConfig(WrittenSettings):
    """Configuration of a run of tests.

    Attributes:
        model: Model under test, behind an OpenAI-compatible address.
        models: Several models under test, instead of one: a run each.
        params: Parameters of its calls, such as `temperature`.
        entrypoint: Function under test, instead of a model.
        judges: Models that judge, each with another name.
        choose: Choice of tests.
        gate: Least pass rate, from 0 to 1; below it the status is 1.
        concurrency: Tests that are asked at the same time.
        timeout_seconds: Time of one call of a function.
    """

    __test__ = False

    model: ModelEndpoint | None = None
    models: tuple[ModelEndpoint, ...] = ()
    params: dict[str, Any] = Field(default_factory=dict)
    entrypoint: Entrypoint | None = None
    judges: tuple[ModelEndpoint, ...] = Field(min_length=1)
    choose: WrittenChoice = WrittenChoice()
    gate: float | None = Field(default=None, ge=0, le=1)
    concurrency: int = Field(default=8, ge=1, le=64)
    timeout_seconds: float = Field(default=60.0, gt=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _check(self) -> TestRunConfig:
        if sum((self.model is not None, bool(self.models), self.entrypoint is not None)) != 1:
            raise ValueError("write one of `model`, `models` and `entrypoint`: what is tested")
        tested = [f"{model.vendor}/{model.model}" for model in self.models]
        if len(set(tested)) < len(tested):
            raise ValueError("two models have one name; give one another `vendor`")
        names = [f"{judge.vendor}/{judge.model}" for judge in self.judges]
        if len(set(names)) < len(names):
            raise ValueError("two judges have one name; give one another `vendor`")
        return self

    @property
    def choice(self) -> Choice:
        """Return the choice of tests."""
        written = self.choose
        return Choice(written.issues, written.tests, written.tags, written.domains)

    def each(self) -> list[tuple[str, TestRunConfig]]:
        """Return the configuration of each run, with the end of its id: the name of its model if there are several."""
        if not self.models:
            return [("", self)]
        return [
            (f"-{re.sub('[^A-Za-z0-9.]+', '-', model.model)}", self.model_copy(update={"model": model, "models": ()}))
            for model in self.models
        ]

    def tested(self, config: Path) -> TestedModel:
        """Return what is tested; in the event loop of the run.

        Raises:
            UsageError: The function cannot be imported, or the key of the model is missing.
        """
        if self.model is not None:
            return EndpointModel(self.model.client(), self.params)
        assert self.entrypoint is not None
        name = f"{self.entrypoint.module}:{self.entrypoint.function}"
        limits = CallLimits(min(self.concurrency, 8), self.timeout_seconds)
        return FunctionModel(name, load_entrypoint(self.entrypoint, config), limits)

    def target(self) -> str:
        """Return the name of what is tested."""
        if self.model is not None:
            return judge_name(self.model.client()).removeprefix("llm/")
        assert self.entrypoint is not None
        return f"{self.entrypoint.module}:{self.entrypoint.function}"


def load_test_config(path: Path) -> TestRunConfig:
    """Read a configuration.

    Raises:
        UsageError: The file is missing, is not YAML, or has a wrong key or value.
    """
    return read_configuration(path, TestRunConfig)
