"""Which calls litellm would send on unchanged: for those only the address and the key are taken from it.

litellm takes 3 to 5 ms of CPU to send a call, for it copies, checks, prices and logs every one of them. What it would
put on the wire for most providers is what the judge's request says already, and `HttpModel` sends that for a tenth. A
call that litellm would change in any way, or a provider that is not listed, goes another way (`litellm_model`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gapwatch.scorers.judges.chat_model import ChatCall

#: Providers of litellm with a bearer token and `/chat/completions`. A test holds each against what litellm sends.
PLAIN_PROVIDERS = frozenset(
    (
        "openai", "deepseek", "together_ai", "xai", "cerebras", "hosted_vllm", "deepinfra",
        "nvidia_nim", "sambanova", "moonshot", "mistral", "groq", "lm_studio", "nebius", "hyperbolic",
    )
)  # fmt: skip
_OPENAI_URL = "https://api.openai.com/v1"
#: What litellm adds to the parameters of every call and takes off again before it is sent.
_ADDED = frozenset(("stream", "extra_body", "max_retries"))
_NO_KEY = "fake-api-key"


@dataclass(frozen=True)
class PlainWay:
    """How a provider is asked without litellm.

    Attributes:
        base_url: Of the endpoint.
        key: Of the environment; None where there is none, or another one was given.
    """

    base_url: str
    key: str | None

    def __repr__(self) -> str:
        return f"PlainWay({self.base_url})"


def plain_way(litellm: Any, call: ChatCall, base_url: str | None, has_key: bool) -> PlainWay | None:
    """Return how to ask a call's provider without litellm, or None where litellm has to.

    Args:
        litellm: The module.
        call: To be sent; its messages do not matter.
        base_url: Of the settings.
        has_key: Whether the settings name a key; else the provider's own variable of the environment is looked at.
    """
    try:
        name, provider, key, base = litellm.get_llm_provider(model=call.model, api_base=base_url)
        if provider not in PLAIN_PROVIDERS or name != call.name or not is_chat(litellm, call.model, name):
            return None
        if not _sends_as_written(litellm, call, name, provider):
            return None
    except Exception:  # what litellm does not know or refuses, it says itself when it is asked
        return None
    if provider == "openai":
        if has_own_headers():
            return None
        key = key or os.environ.get("OPENAI_API_KEY")
        base = base or os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_BASE") or _OPENAI_URL
    if key == _NO_KEY or has_key:
        key = None
    elif not key and base_url is None:
        return None  # litellm says which variable it misses
    return None if base is None else PlainWay(base, key)


def has_own_headers() -> bool:
    """Whether OpenAI's client says in headers of its own who pays."""
    return any(os.environ.get(name) for name in ("OPENAI_ORGANIZATION", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"))


def is_chat(litellm: Any, model: str, name: str) -> bool:
    """Whether a model is asked by chat completions; some are by another interface, behind litellm's back."""
    known = litellm.model_cost.get(model) or litellm.model_cost.get(name) or {}
    return bool(known.get("mode", "chat") == "chat") and not name.startswith("responses/")


def _sends_as_written(litellm: Any, call: ChatCall, name: str, provider: str) -> bool:
    written: dict[str, Any] = dict(call.params)
    if call.response_format is not None:
        written["response_format"] = dict(call.response_format)
    mapped: Mapping[str, Any] = litellm.utils.get_optional_params(
        model=name, custom_llm_provider=provider, drop_params=False, **written
    )
    sent = {key: value for key, value in mapped.items() if key not in _ADDED}
    return {**sent, **(mapped.get("extra_body") or {})} == written
