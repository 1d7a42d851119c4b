"""Detects calls that litellm would send unchanged; for these, only address and key are taken from litellm.

litellm takes 3 to 5 ms of CPU to send a call, because it copies, checks, prices and logs each one. For most providers
it sends the judge's request as it is, and `HttpModel` does that for a tenth of the CPU. A call that litellm would
change, or a provider that is not listed, takes another way (`litellm_model`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gapwatch.scorers.judges.chat_model import ChatCall

#: Providers of litellm with a bearer token and `/chat/completions`. A test compares each with litellm's requests.
PLAIN_PROVIDERS = frozenset(
    (
        "openai", "deepseek", "together_ai", "xai", "cerebras", "hosted_vllm", "deepinfra",
        "nvidia_nim", "sambanova", "moonshot", "mistral", "groq", "lm_studio", "nebius", "hyperbolic",
    )
)  # fmt: skip
_OPENAI_URL = "https://api.openai.com/v1"
#: Parameters that litellm adds to every call and removes before it is sent.
_ADDED = frozenset(("stream", "extra_body", "max_retries"))
_NO_KEY = "fake-api-key"


@dataclass(frozen=True)
class PlainWay:
    """Address and key of a provider that is asked without litellm.

    Attributes:
        base_url: Address of the endpoint.
        key: Key from the environment; None if there is none or the settings give one.
    """

    base_url: str
    key: str | None

    def __repr__(self) -> str:
        return f"PlainWay({self.base_url})"


def plain_way(litellm: Any, call: ChatCall, base_url: str | None, has_key: bool) -> PlainWay | None:
    """Return address and key to ask a call's provider without litellm; None if litellm has to send the call.

    Args:
        litellm: The module.
        call: The call; its messages do not matter.
        base_url: Address from the settings.
        has_key: True if the settings name a key; otherwise the provider's own environment variable is read.
    """
    try:
        name, provider, key, base = litellm.get_llm_provider(model=call.model, api_base=base_url)
        if provider not in PLAIN_PROVIDERS or name != call.name or not is_chat(litellm, call.model, name):
            return None
        if not _sends_as_written(litellm, call, name, provider):
            return None
    except Exception:  # litellm reports the error itself when it is asked
        return None
    if provider == "openai":
        if has_own_headers():
            return None
        key = key or os.environ.get("OPENAI_API_KEY")
        base = base or os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_BASE") or _OPENAI_URL
    if key == _NO_KEY or has_key:
        key = None
    elif not key and base_url is None:
        return None  # litellm names the missing variable
    return None if base is None else PlainWay(base, key)


def has_own_headers() -> bool:
    """Return True if OpenAI's client would add headers for an organisation or project."""
    return any(os.environ.get(name) for name in ("OPENAI_ORGANIZATION", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"))


def is_chat(litellm: Any, model: str, name: str) -> bool:
    """Return True if a model has the chat completions interface; litellm asks some models by another one."""
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
