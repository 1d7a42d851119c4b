"""Models of every provider that litellm knows; it is imported here, when the first call is made, and nowhere else."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import Any

from scorers.errors import UsageError
from scorers.judges.chat_model import ChatCall, ChatReply, ModelFailure
from streams.judges.chat_completions import read_completion, retry_after
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


class LitellmModel:
    """Asks whichever provider the first part of a model's name says.

    Args:
        key: Of the provider; None: litellm takes the one that the provider's own variable of the environment holds.
        base_url: Instead of the provider's own address.
    """

    def __init__(self, key: Secret | None = None, base_url: str | None = None) -> None:
        self._key = key
        self._base_url = base_url

    async def ask(self, call: ChatCall) -> ChatReply:
        """Return the model's reply.

        Raises:
            ModelFailure: There is none.
            UsageError: litellm is not installed.
        """
        litellm = load_litellm()
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
        return (await litellm.acompletion(**arguments, **key)).model_dump()

    def _scrubbed(self, failure: ModelFailure) -> ModelFailure:
        detail = failure.detail if self._key is None else self._key.scrub(failure.detail)
        return ModelFailure(failure.kind, detail, failure.retry_after_seconds)

    async def close(self) -> None:
        """Let litellm's clients go with the process."""


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
    if not getattr(litellm, "_gapwatch_quiet", False):
        litellm.telemetry = False
        litellm.suppress_debug_info = True
        litellm.turn_off_message_logging = True
        litellm.drop_params = False
        for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        litellm._gapwatch_quiet = True
    return litellm


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
    wait = None
    if kind == "rate_limited":
        response = getattr(error, "response", None)
        headers = getattr(response, "headers", None) or getattr(error, "litellm_response_headers", None) or {}
        wait = retry_after({str(k).lower(): str(v) for k, v in dict(headers).items()})
    words = getattr(error, "message", None)
    # The provider's words may hold what was sent; the kind and their beginning are enough to act on.
    detail = " ".join(str(words).split())[:200] if isinstance(words, str) else ""
    return ModelFailure(kind, f"{type(error).__name__}: {detail}", wait)
