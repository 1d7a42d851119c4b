"""Configuration of `gapwatch eval`: the function, the data set, the metrics, the model and the gate, in YAML."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from gapwatch.scorers.errors import UsageError
from gapwatch.streams.evaluation.metrics.use_case import UseCase
from gapwatch.streams.evaluation.running.llm_client import OpenAICompatibleLLMClient

_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=1)]


class WrittenSettings(BaseModel):
    """Part of a configuration; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


Configuration = TypeVar("Configuration", bound=WrittenSettings)


class Entrypoint(WrittenSettings):
    """The evaluated function.

    Attributes:
        module: Importable name; the folder of the configuration comes first, then the current one.
        function: Name in the module.
    """

    module: str
    function: str


class StoreQuery(WrittenSettings):
    """A data set from a store.

    Attributes:
        store: File or address of the store.
        query: SELECT of the examples.
    """

    store: str
    query: str


class ModelEndpoint(WrittenSettings):
    """The model that judges.

    Attributes:
        type: Only openai_compatible.
        base_url: Address such as `http://localhost:11434/v1`.
        api_key: Key of an endpoint that checks none, such as `dummy`; a real one belongs in `api_key_env`.
        api_key_env: Variable of the environment that holds the key.
        model: Name of the model at the endpoint.
        vendor: First part of the judge's name in portfolios, `vendor/model`.
    """

    type: Literal["openai_compatible"] = "openai_compatible"
    base_url: str
    api_key: str | None = Field(default=None, repr=False)
    api_key_env: str | None = None
    model: str
    vendor: str = "llm"

    def client(self) -> OpenAICompatibleLLMClient:
        """Return the client.

        Raises:
            UsageError: The variable of the key is not set.
        """
        key = self.api_key
        if self.api_key_env is not None:
            key = os.environ.get(self.api_key_env)
            if not key:
                raise UsageError(f"llm.api_key_env: the environment has no variable {self.api_key_env}")
        return OpenAICompatibleLLMClient(self.base_url, key, self.model, self.vendor)


class EvaluationConfig(WrittenSettings):
    """Configuration of an evaluation; paths are relative to its file, else to the current folder.

    Attributes:
        entrypoint: The function.
        task: classification, chat, rag_qa, tool_calling, or the task of a metric of another package.
        dataset: Path of the data set.
        from_store: Store and query, instead of a path.
        use_case: Further keys of the use case.
        llm: The model that judges.
        metrics: Ids of exactly the metrics to use.
        preset: lightweight or deep_dive.
        portfolio: Portfolio of the pipeline, whose metrics are scored as well.
        component: Component of the function in that portfolio.
        gate: Bound by metric, such as `">= 0.9"` or `"lower bound >= 0.8"`; `error_rate` for calls without an output.
        baseline: Name of the run or version to compare with.
        concurrency: Number of processes that call the function.
        timeout_seconds: Time of one call.
        memory_mb: Memory of a process beyond what it begins with, megabytes.
        printed_bytes: Most bytes that one call may print.
    """

    entrypoint: Entrypoint
    task: str
    dataset: str | None = None
    from_store: StoreQuery | None = None
    use_case: dict[str, Any] = Field(default_factory=dict)
    llm: ModelEndpoint | None = None
    metrics: list[str] | None = None
    preset: str | None = None
    portfolio: str | None = None
    component: str | None = None
    gate: dict[str, str] = Field(default_factory=dict)
    baseline: str | None = None
    concurrency: _Count = 4
    timeout_seconds: _Positive = 60.0
    memory_mb: _Count = 2_000
    printed_bytes: _Count = 1_000_000

    @model_validator(mode="after")
    def _check(self) -> EvaluationConfig:
        UseCase(self.task, **{key: value for key, value in self.use_case.items() if key != "task_type"})
        return self


def load_evaluation_config(path: Path) -> EvaluationConfig:
    """Read a configuration.

    Raises:
        UsageError: The file is missing, is not YAML, or has a wrong key or value.
    """
    try:
        return read_configuration(path, EvaluationConfig)
    except TypeError as error:
        raise UsageError(f"{path}: use_case: {error}") from None


def read_configuration(path: Path, model: type[Configuration]) -> Configuration:
    """Read a file of YAML as a value of a model.

    Raises:
        UsageError: The file is missing, is not YAML, or has a wrong key or value.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the configuration {path} cannot be read: {error}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise UsageError(f"{path}{where}: not valid YAML") from None
    try:
        return model.model_validate(document)
    except ValidationError as error:
        problems = [
            ": ".join(
                part for part in (".".join(map(str, one["loc"])), one["msg"].removeprefix("Value error, ")) if part
            )
            for one in error.errors(include_input=False)
        ]
        raise UsageError(f"{path}: {'; '.join(problems)}; the keys are {', '.join(model.model_fields)}") from None


def located(path: str, config: Path) -> Path:
    """Return a path of a configuration: beside its file where it is there, else in the current folder."""
    beside = config.parent / path
    return beside if beside.exists() else Path(path)


def load_entrypoint(entrypoint: Entrypoint, config: Path) -> Callable[..., Any]:
    """Import the evaluated function.

    Raises:
        UsageError: The module or the function is missing, or its import fails.
    """
    for folder in (str(Path.cwd()), str(config.parent.resolve())):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    where = f"{entrypoint.module}:{entrypoint.function}"
    try:
        module = importlib.import_module(entrypoint.module)
    except Exception as error:  # code of the user
        raise UsageError(f"entrypoint {where}: cannot be imported: {type(error).__name__}: {error}") from error
    function = getattr(module, entrypoint.function, None)
    if not callable(function):
        known = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
        raise UsageError(f"entrypoint {where}: the module has no such function; it has {', '.join(known) or 'none'}")
    return function  # type: ignore[no-any-return]
