"""How judges are reached: providers, their limits, prices and caps, from one YAML file without a secret in it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from gapwatch.scorers.errors import UsageError

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]


class _Written(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ProviderSettings(_Written):
    """One provider, by the first part of its models' names.

    Attributes:
        adapter: `http` for an OpenAI-compatible endpoint, `litellm` for all that litellm knows.
        base_url: Of the endpoint; needed for `http`.
        key_env: Variable of the environment that holds the key.
        key_file: File that holds the key.
        concurrency: Calls under way at once.
        requests_per_minute: For each model; none: unlimited.
        tokens_per_minute: For each model, in and out; none: unlimited.
        timeout_seconds: For one reply.
        attempts: For one call, the first included; waiting out an outage is no attempt.
        first_delay_seconds: Before the second attempt, at most; doubled for each further one, with full jitter.
        longest_delay_seconds: Before any attempt, at most.
        breaker_failures: Failures in a row after which nothing is sent for a while.
        breaker_seconds: How long, the first time; doubled up to a minute while trials fail.
    """

    adapter: Literal["http", "litellm"] = "litellm"
    base_url: str | None = None
    key_env: str | None = None
    key_file: Path | None = None
    concurrency: Count = 32
    requests_per_minute: Positive | None = None
    tokens_per_minute: Positive | None = None
    timeout_seconds: Positive = 60.0
    attempts: Count = 5
    first_delay_seconds: Positive = 1.0
    longest_delay_seconds: Positive = 30.0
    breaker_failures: Count = 8
    breaker_seconds: Positive = 5.0

    @model_validator(mode="after")
    def _check(self) -> ProviderSettings:
        if self.adapter == "http" and self.base_url is None:
            raise ValueError("adapter http needs a base_url, such as https://api.openai.com/v1")
        if self.key_env is not None and self.key_file is not None:
            raise ValueError("key_env and key_file exclude each other")
        return self


class Price(_Written):
    """What a model costs, in US dollars a million tokens.

    Attributes:
        input: Tokens in.
        output: Tokens out.
    """

    input: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    output: Annotated[float, Field(ge=0, allow_inf_nan=False)]


class JudgeSettings(_Written):
    """All that the judge role is started with.

    Attributes:
        providers: By vendor, the part of a model's name before the slash; `*` for all others.
        prices: By model; those of litellm's list need not be named where its adapter is used.
        usd_per_week: Cap by metric, beside `budget.judge_usd_per_week` of a portfolio.
        max_output_tokens: Sent where a judge's params name no limit; bounds the price of an answer.
        cache_entries: Verdicts remembered for equal requests; 0: none.
    """

    providers: Annotated[dict[str, ProviderSettings], Field(min_length=1)]
    prices: dict[str, Price] = Field(default_factory=dict)
    usd_per_week: dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]] = Field(default_factory=dict)
    max_output_tokens: Count = 1_000
    cache_entries: Annotated[int, Field(ge=0)] = 10_000

    def lane(self, vendor: str) -> str:
        """Return under which name of `providers` a vendor's models are asked; each has workers of its own."""
        return vendor if vendor in self.providers else "*"

    def provider(self, vendor: str) -> ProviderSettings:
        """Return the provider of a vendor's models.

        Raises:
            UsageError: None is named.
        """
        found = self.providers.get(vendor) or self.providers.get("*")
        if found is None:
            raise UsageError(f"the settings of the judges name no provider {vendor!r} and no '*'; add one of them")
        return found


def load_judge_settings(path: Path) -> JudgeSettings:
    """Read the settings.

    Raises:
        UsageError: The file is missing, no YAML, or says something wrong; the value itself is not repeated, for it
            may be a key that was written in the wrong place.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the settings of the judges, {path}, cannot be read ({type(error).__name__})") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise UsageError(f"{path}{where}: no YAML") from None
    try:
        return JudgeSettings.model_validate(document)
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_input=False)]
        raise UsageError(f"{path}: " + "; ".join(problems)) from None
