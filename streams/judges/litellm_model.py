"""Models of every provider that litellm knows; it is imported here, when the first call is made, and nowhere else.

A call that litellm would send on as it stands is sent without it (`openai_dialect`); any other goes through litellm,
whose own log, which would keep what was asked and price it once more, is one that keeps nothing.
"""

from __future__ import annotations

import asyncio
import logging
import os
import warnings
from datetime import datetime
from functools import cache
from typing import Any

from scorers.errors import UsageError
from scorers.judges.canonical import canonical_value
from scorers.judges.chat_model import ChatCall, ChatReply, ModelFailure
from streams.judges.chat_completions import read_completion, retry_after
from streams.judges.http_model import HttpModel, check_base_url
from streams.judges.openai_dialect import PlainWay, plain_way
from streams.judges.secret import Secret

#: Exception of litellm by name, most particular first, to the kind of failure.
_KINDS = (
    ("ContextWindowExceededError", "bad_request"),
    ("ContentPolicyViolationError", "bad_request"),
    ("RateLimitError", "rate_limited"),
    ("AuthenticationError", "refused_key"),
    ("PermissionDeniedError", "refused_key"),
    ("NotFoundError", "no_such_model"),
    ("Timeout", "timeout"),
    ("JSONSchemaValidationError", "bad_reply"),
    ("APIResponseValidationError", "bad_reply"),
    ("ServiceUnavailableError", "unavailable"),
    ("InternalServerError", "unavailable"),
    ("BadGatewayError", "unavailable"),
    ("APIConnectionError", "unavailable"),
    ("UnprocessableEntityError", "bad_request"),
    ("BadRequestError", "bad_request"),
    ("APIError", "unavailable"),
)
#: How litellm says that it could not read an answer, by an error that else means an outage.
_STRANGE_REPLY = ("Empty or invalid response", "Invalid response object", "Unable to get json response")


class LitellmModel:
    """Asks whichever provider the first part of a model's name says.

    Args:
        key: Of the provider; None: litellm takes the one that the provider's own variable of the environment holds.
        base_url: Instead of the provider's own address.
        plain: Whether calls that litellm would not change may be sent without it.

    Raises:
        UsageError: The address is none, or a key would travel in the clear.
    """

    def __init__(self, key: Secret | None = None, base_url: str | None = None, plain: bool = True) -> None:
        self._key = key
        self._base_url = base_url
        if base_url is not None:
            check_base_url(base_url, key)
        self._may_be_plain = plain
        self._plain: dict[tuple[str, bytes, bytes], HttpModel | None] = {}
        self._endpoints: dict[str, HttpModel] = {}

    async def ask(self, call: ChatCall) -> ChatReply:
        """Return the model's reply.

        Raises:
            ModelFailure: There is none.
            UsageError: litellm is not installed.
        """
        litellm = load_litellm()
        plain = self._plain_model(litellm, call)
        if plain is not None:
            return await plain.ask(call)
        arguments: dict[str, Any] = {
            **call.params,
            "model": call.model,
            "messages": [{"role": role, "content": text} for role, text in call.messages],
            "timeout": call.timeout_seconds,
            "num_retries": 0,
            "max_retries": 0,
            "stream": False,
        }
        if call.response_format is not None:
            arguments["response_format"] = dict(call.response_format)
        if self._base_url is not None:
            arguments["api_base"] = self._base_url
        failure: ModelFailure
        try:
            async with asyncio.timeout(call.timeout_seconds):
                return read_completion(await self._complete(litellm, arguments))
        except TimeoutError:
            failure = ModelFailure("timeout", f"no reply within {call.timeout_seconds:g} s")
        except ModelFailure as error:
            failure = error
        except Exception as error:  # whatever litellm or the client of a provider raises
            failure = _failure(error)
        # Outside the handler, so that what was raised, with its request and its headers, hangs on nothing.
        failure = self._scrubbed(failure)
        raise failure

    async def _complete(self, litellm: Any, arguments: dict[str, Any]) -> object:
        """Ask; the key is in no frame but this one, and this one is in no traceback that leaves the adapter."""
        key = {} if self._key is None else {"api_key": self._key.reveal()}
        log = _silent_log(arguments["model"])
        answered = await litellm.acompletion(**arguments, **key, litellm_logging_obj=log)
        return answered.model_dump(warnings=False)  # a provider's number where litellm expects a text

    def _plain_model(self, litellm: Any, call: ChatCall) -> HttpModel | None:
        """Return the endpoint that a call can be sent to as it stands; None: litellm sends it."""
        if not self._may_be_plain:
            return None
        asked = (call.model, canonical_value(call.params), canonical_value(call.response_format))
        if asked not in self._plain:
            way = plain_way(litellm, call, self._base_url, self._key is not None)
            self._plain[asked] = None if way is None else self._endpoint(way)
        return self._plain[asked]

    def _endpoint(self, way: PlainWay) -> HttpModel:
        found = self._endpoints.get(way.base_url)
        if found is None:
            key = self._key if way.key is None else Secret(way.key)
            found = self._endpoints[way.base_url] = HttpModel(way.base_url, key)
        return found

    def _scrubbed(self, failure: ModelFailure) -> ModelFailure:
        detail = failure.detail if self._key is None else self._key.scrub(failure.detail)
        return ModelFailure(failure.kind, detail, failure.retry_after_seconds)

    async def close(self) -> None:
        """Close the connections; litellm's own clients go with the process."""
        for endpoint in self._endpoints.values():
            await endpoint.close()


@cache
def load_litellm() -> Any:
    """Import litellm with its own price list, and without its voice.

    Raises:
        UsageError: It is not installed.
    """
    # Else the import asks the network for prices, three times with pauses.
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    try:
        import litellm
    except ImportError:
        raise UsageError("judges by litellm need it installed: pip install 'gapwatch[judge]'") from None
    litellm.telemetry = False
    litellm.suppress_debug_info = True
    litellm.turn_off_message_logging = True
    litellm.drop_params = False
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pydantic, about litellm's types, when the first answer is read
        litellm.ModelResponse().model_dump()
    return litellm


@cache
def _silent_log_class() -> type[Any]:
    from litellm.litellm_core_utils.litellm_logging import Logging

    def nothing(*_: Any, **__: Any) -> None:
        return None

    async def nothing_later(*_: Any, **__: Any) -> None:
        return None

    silent = dict.fromkeys(
        (
            "pre_call", "post_call", "success_handler", "failure_handler", "response_cost_calculator",
            "handle_sync_success_callbacks_for_async_calls",
        ),
        nothing,
    )  # fmt: skip
    later = dict.fromkeys(("async_success_handler", "async_failure_handler"), nothing_later)
    # `False`: another has this success already, so that none is queued.
    return type("SilentLog", (Logging,), {**silent, **later, "claim_async_success_log": lambda self: False})


def _silent_log(model: str) -> Any:
    """Return a log of one call that keeps nothing; litellm's own takes half of the call's time, and its texts."""
    return _silent_log_class()(
        model=model, messages=None, stream=False, call_type="acompletion", start_time=datetime.now(),
        litellm_call_id="", function_id="", litellm_trace_id="-",
    )  # fmt: skip


def price_of(model: str) -> tuple[float, float] | None:
    """Return US dollars a token, in and out, by litellm's own list; None where it does not know the model."""
    litellm = load_litellm()
    for name in (model, model.partition("/")[2]):
        known = litellm.model_cost.get(name)
        if known and known.get("input_cost_per_token") is not None:
            return float(known["input_cost_per_token"]), float(known.get("output_cost_per_token") or 0.0)
    return None


def _failure(error: Exception) -> ModelFailure:
    names = {kind.__name__ for kind in type(error).__mro__}
    kind = next((kind for name, kind in _KINDS if name in names), "bad_reply")
    if "Missing credentials" in str(error):  # of the clients of OpenAI and Azure; waiting would not bring them
        kind = "refused_key"
    elif kind == "unavailable" and any(words in str(error) for words in _STRANGE_REPLY):
        kind = "bad_reply"  # it answered; taken for an outage it would close the provider for all
    wait = None
    if kind == "rate_limited":
        response = getattr(error, "response", None)
        headers = getattr(response, "headers", None) or getattr(error, "litellm_response_headers", None) or {}
        wait = retry_after({str(k).lower(): str(v) for k, v in dict(headers).items()})
    words = getattr(error, "message", None)
    # The provider's words may hold what was sent; the kind and their beginning are enough to act on.
    detail = " ".join(str(words).split())[:200] if isinstance(words, str) else ""
    return ModelFailure(kind, f"{type(error).__name__}: {detail}", wait)
