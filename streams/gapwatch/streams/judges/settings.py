"""Settings of the judges: providers, limits, prices and weekly caps, from one YAML file without secrets."""

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
    """Settings of one provider.

    Attributes:
        mode: `calls` for a call for each request, `batch` for the provider's batch interface.
        batch_api: Batch interface: OpenAI's (files and batches), or Anthropic's (message batches).
        batch_discount: Share of the price that a batch saves.
        batch_requests: Most requests of one batch.
        batch_seconds: Longest time for which the first request of a batch waits for others.
        poll_seconds: Time between two questions whether a batch has ended; also the wait after a failed one.
        adapter: `http` for an OpenAI-compatible endpoint, `litellm` for every provider that litellm supports.
        base_url: Address of the endpoint; required for `http`.
        key_env: Environment variable that holds the key.
        key_file: File that holds the key.
        concurrency: Most calls at once.
        requests_per_minute: Limit for each model; None: unlimited.
        tokens_per_minute: Limit for each model, input and output; None: unlimited.
        timeout_seconds: Time limit of one reply.
        attempts: Most attempts of one call, including the first; waiting for an outage to end is not an attempt.
        first_delay_seconds: Longest wait before the second attempt; doubles for each further one, with full jitter.
        longest_delay_seconds: Longest wait before any attempt.
        breaker_failures: Failures in a row that open the circuit breaker.
        breaker_seconds: Time until the breaker's first trial; doubles up to 60 s while trials fail.
    """

    mode: Literal["calls", "batch"] = "calls"
    batch_api: Literal["openai", "anthropic"] = "openai"
    batch_discount: Annotated[float, Field(ge=0, lt=1)] = 0.5
    batch_requests: Annotated[int, Field(ge=1, le=50_000)] = 2_000
    batch_seconds: Positive = 600.0
    poll_seconds: Positive = 60.0
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
        if self.mode == "batch" and self.base_url is None:
            raise ValueError(
                "mode batch needs a base_url, such as https://api.openai.com/v1 or https://api.anthropic.com/v1"
            )
        if self.key_env is not None and self.key_file is not None:
            raise ValueError("key_env and key_file are both given; give one of them")
        return self


class Price(_Written):
    """Price of a model in US dollars per million tokens.

    Attributes:
        input: Price of input tokens.
        output: Price of output tokens.
    """

    input: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    output: Annotated[float, Field(ge=0, allow_inf_nan=False)]


class JudgeSettings(_Written):
    """Settings of all judges.

    Attributes:
        providers: Settings by vendor, which is the part of a model's name before the slash; `*` for all others.
        prices: Price by model, `*` for all others; with the adapter `litellm`, models of litellm's price list need
            none.
        usd_per_week: Weekly cap in US dollars by metric, besides `budget.judge_usd_per_week` of a portfolio.
        max_output_tokens: Token limit of a reply, sent if the judge's params have none; bounds its price.
        context_tokens: Context window by model, in tokens of request and reply; longer requests are cut before they are
            sent. With the adapter `litellm`, models of litellm's list need none.
        cache_entries: Number of verdicts that the cache holds for equal requests; 0: no cache.
        give_up_after: How long a request waits for an outage that people can mend before it ends as an error, since it
            was stored: a number with m, h or d, such as `1d`.
    """

    providers: Annotated[dict[str, ProviderSettings], Field(min_length=1)]
    prices: dict[str, Price] = Field(default_factory=dict)
    usd_per_week: dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]] = Field(default_factory=dict)
    max_output_tokens: Count = 1_000
    context_tokens: dict[str, Annotated[int, Field(ge=1_000)]] = Field(default_factory=dict)
    cache_entries: Annotated[int, Field(ge=0)] = 10_000
    give_up_after: Annotated[str, Field(pattern=r"^[1-9][0-9]{0,5}[mhd]$")] = "1d"

    @property
    def give_up_after_seconds(self) -> float:
        """`give_up_after` in seconds."""
        return int(self.give_up_after[:-1]) * {"m": 60.0, "h": 3_600.0, "d": 86_400.0}[self.give_up_after[-1]]

    def lane(self, vendor: str) -> str:
        """Return the entry of `providers` for a vendor; each entry is a lane with workers of its own."""
        return vendor if vendor in self.providers else "*"

    def provider(self, vendor: str) -> ProviderSettings:
        """Return the settings of a vendor's provider.

        Raises:
            UsageError: The settings have neither the vendor nor `*`.
        """
        found = self.providers.get(vendor) or self.providers.get("*")
        if found is None:
            raise UsageError(f"the judge settings have no provider {vendor!r} and no '*'; add one of them")
        return found


def vendor_of(model: str) -> str:
    """Return the vendor of a model, the part of its name before the slash; empty without one."""
    return model.partition("/")[0] if "/" in model else ""


def load_judge_settings(path: Path) -> JudgeSettings:
    """Read the settings.

    Raises:
        UsageError: The file is missing, is not YAML, or has an invalid value. The message does not repeat the value,
            because it may be a key in the wrong place.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise UsageError(f"the judge settings {path} cannot be read: {why}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise UsageError(f"{path}{where}: not valid YAML") from None
    if isinstance(document, dict) and "portfolio" in document and "providers" not in document:
        raise UsageError(f"{path} is a portfolio; the settings of judges are another file, with providers")
    try:
        return JudgeSettings.model_validate(document)
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_input=False)]
        raise UsageError(f"{path}: " + "; ".join(problems)) from None
