"""Adapter of the models of every provider that litellm supports.

A call that litellm would not change is sent without it (`openai_dialect`). A call that it would translate is filled
into a form that litellm wrote once (`translated_way`). All others go through litellm, with a log that stores nothing:
litellm's own log would keep the request and compute its price again.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from functools import cache
from typing import Any

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.judges.canonical import canonical_value
from gapwatch.scorers.judges.chat_model import ChatCall, ChatReply, ModelFailure
from gapwatch.streams.judges.models.chat_completions import read_completion
from gapwatch.streams.judges.models.http_model import HttpModel, check_base_url
from gapwatch.streams.judges.models.litellm_failure import litellm_failure
from gapwatch.streams.judges.models.openai_dialect import PlainWay, plain_way
from gapwatch.streams.judges.models.quiet_litellm import WrittenRequest, load_litellm, silent_log
from gapwatch.streams.judges.models.translated_way import TranslatedWay, translated_way
from gapwatch.streams.judges.secret import Secret, environment_secrets


class LitellmModel:
    """Asks the provider that the first part of a model's name names.

    Args:
        key: Key of the provider; None: litellm reads the provider's own environment variable.
        base_url: Address to use instead of the provider's.
        past_litellm: True if calls may be sent without litellm when the request is the same.

    Raises:
        UsageError: The address is invalid, or a key would be sent unencrypted.
    """

    def __init__(self, key: Secret | None = None, base_url: str | None = None, past_litellm: bool = True) -> None:
        self._key = key
        self._base_url = base_url
        if base_url is not None:
            check_base_url(base_url, key)
        self._past_litellm = past_litellm
        self._ways: dict[tuple[object, ...], HttpModel | TranslatedWay | None] = {}
        self._endpoints: dict[str, HttpModel] = {}
        self._learning = asyncio.Lock()

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
            way = await self._way(litellm, call)
            if way is not None:
                return await way.ask(call)
            return read_completion(await self._ask_litellm(litellm, call, silent_log(call.model)))
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

    async def _way(self, litellm: Any, call: ChatCall) -> HttpModel | TranslatedWay | None:
        """Return the way around litellm for all calls that differ from this one only in their texts, or None."""
        if not self._past_litellm or any(not text or text.isspace() for _, text in call.messages):
            return None  # litellm treats empty texts specially
        roles = tuple(role for role, _ in call.messages)
        asked = (call.model, canonical_value(call.params), canonical_value(call.response_format), roles)
        if asked not in self._ways:
            async with self._learning:
                if asked not in self._ways:
                    self._ways[asked] = await self._learn(litellm, call)
        return self._ways[asked]

    async def _learn(self, litellm: Any, call: ChatCall) -> HttpModel | TranslatedWay | None:
        plain = plain_way(litellm, call, self._base_url, self._key is not None)
        if plain is not None:
            return self._endpoint(plain)

        async def write(probe: ChatCall) -> WrittenRequest | None:
            log = silent_log(call.model, catches=True)
            with contextlib.suppress(Exception):  # what is wrong with a call, litellm says when it is asked
                await self._ask_litellm(litellm, probe, log)
            found: WrittenRequest | None = log.written
            return found

        return await translated_way(litellm, call, write)

    def _endpoint(self, way: PlainWay) -> HttpModel:
        found = self._endpoints.get(way.base_url)
        if found is None:
            key = self._key if way.key is None else Secret(way.key)
            found = self._endpoints[way.base_url] = HttpModel(way.base_url, key)
        return found

    async def _ask_litellm(self, litellm: Any, call: ChatCall, log: Any) -> object:
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
                litellm_logging_obj=log,
            )  # fmt: skip
        return answered.model_dump(warnings=False)  # a provider's number where litellm expects a text

    def _scrubbed(self, failure: ModelFailure) -> ModelFailure:
        detail = failure.detail
        for secret in environment_secrets() if self._key is None else (self._key,):
            detail = secret.scrub(detail)
        return ModelFailure(failure.kind, detail, failure.retry_after_seconds)

    async def close(self) -> None:
        """Close the connections; litellm's own clients close with the process."""
        for way in {*self._endpoints.values(), *self._ways.values()}:
            if way is not None:
                await way.close()


@cache
def _takes_schemas(model: str) -> bool:
    """Return True if litellm supports structured output for a model; it refuses the call otherwise."""
    try:
        known = load_litellm().get_supported_openai_params(model=model)
    except Exception:  # litellm says itself what is wrong with the name
        return True
    return known is None or "response_format" in known
