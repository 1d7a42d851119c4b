"""Adapter of the models of every provider that litellm supports, in the provider's own dialect.

Endpoints of OpenAI's dialect need no litellm: `HttpModel` asks them with less CPU. litellm's log of a call is replaced
by one that stores nothing: its own would keep the request and compute its price again.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import cache
from typing import Any

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.judges.chat_model import ChatCall, ChatReply, ModelFailure
from gapwatch.streams.judges.models.chat_completions import read_completion
from gapwatch.streams.judges.models.http_model import check_base_url
from gapwatch.streams.judges.models.litellm_failure import litellm_failure
from gapwatch.streams.judges.models.quiet_litellm import load_litellm, silent_log
from gapwatch.streams.judges.secret import Secret, environment_secrets


class LitellmModel:
    """Asks the provider that the first part of a model's name names.

    Args:
        key: Key of the provider; None: litellm reads the provider's own environment variable.
        base_url: Address to use instead of the provider's.

    Raises:
        UsageError: The address is invalid, or a key would be sent unencrypted.
    """

    def __init__(self, key: Secret | None = None, base_url: str | None = None) -> None:
        self._key = key
        self._base_url = base_url
        if base_url is not None:
            check_base_url(base_url, key)

    async def ask(self, call: ChatCall) -> ChatReply:
        """Return the model's reply.

        Raises:
            ModelFailure: The provider gave no reply.
            UsageError: litellm is not installed, or a key would be sent unencrypted.
        """
        litellm = load_litellm()
        if call.response_format is not None and not _takes_schemas(call.model):
            call = replace(call, response_format=None)  # the prompt asks for JSON too
        failure: ModelFailure
        try:
            return read_completion(await self._ask_litellm(litellm, call))
        except TimeoutError:
            failure = ModelFailure("timeout", f"no reply within {call.timeout_seconds:g} s")
        except UsageError:
            raise
        except ModelFailure as error:
            failure = error
        except Exception as error:  # whatever litellm or the client of a provider raises
            failure = litellm_failure(error)
        # Outside the handler: the failure must not reference the exception, whose request holds the key.
        failure = self._scrubbed(failure)
        raise failure

    async def _ask_litellm(self, litellm: Any, call: ChatCall) -> object:
        """Ask litellm; only this frame holds the key, and no traceback with it leaves the adapter."""
        key = {} if self._key is None else {"api_key": self._key.reveal()}
        base = {} if self._base_url is None else {"api_base": self._base_url}
        form = {} if call.response_format is None else {"response_format": dict(call.response_format)}
        async with asyncio.timeout(call.timeout_seconds):
            answered = await litellm.acompletion(
                **call.params, **form, **base, **key,
                model=call.model,
                messages=[{"role": role, "content": text} for role, text in call.messages],
                timeout=call.timeout_seconds,
                num_retries=0,
                max_retries=0,
                stream=False,
                litellm_logging_obj=silent_log(call.model),
            )  # fmt: skip
        return answered.model_dump(warnings=False)  # a provider's number where litellm expects a text

    def _scrubbed(self, failure: ModelFailure) -> ModelFailure:
        detail = failure.detail
        for secret in environment_secrets() if self._key is None else (self._key,):
            detail = secret.scrub(detail)
        return failure.with_detail(detail)

    async def close(self) -> None:
        """Do nothing: litellm's clients close with the process."""


@cache
def _takes_schemas(model: str) -> bool:
    """Return True if litellm supports structured output for a model; it refuses the call otherwise."""
    try:
        known = load_litellm().get_supported_openai_params(model=model)
    except Exception:  # litellm says itself what is wrong with the name
        return True
    return known is None or "response_format" in known
