"""Reads text, model and token usage from the replies of LLM client libraries.

Fields are read by attribute or key, so no client library is imported: OpenAI (chat completions and responses),
litellm, Anthropic, Gemini's usage, and mappings of the same form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

_INPUT = ("input_tokens", "prompt_tokens", "prompt_token_count")
_OUTPUT = ("output_tokens", "completion_tokens", "candidates_token_count")
_COST = ("cost_usd", "cost")


class ModelResponse(NamedTuple):
    """Fields of a model's reply; None where the reply does not have one.

    Attributes:
        text: The generated text.
        model: The model that answered, as the provider names it.
        usage: `input_tokens`, `output_tokens` and `cost_usd`, as far as the reply has them.
    """

    text: str | None
    model: str | None
    usage: dict[str, float] | None


def read_model_response(answer: Any) -> ModelResponse | None:
    """Return the fields of a model's reply, or None if the value does not look like one.

    Args:
        answer: The value that a traced function returned.
    """
    usage = _member(answer, "usage") or _member(answer, "usage_metadata")
    if usage is None and _member(answer, "choices") is None:
        return None
    model = _member(answer, "model")
    text = _text(answer)
    return ModelResponse(text, model if isinstance(model, str) else None, read_usage(usage))


def read_usage(usage: Any) -> dict[str, float] | None:
    """Return token counts and cost (US dollars) of a usage object or mapping; None if it has none of them."""
    found: dict[str, float] = {}
    for field, names in (("input_tokens", _INPUT), ("output_tokens", _OUTPUT), ("cost_usd", _COST)):
        for name in names:
            value = _member(usage, name)
            kind = type(value)
            if kind is int or kind is float:
                found[field] = value
                break
    return found or None


def _text(answer: Any) -> str | None:
    choice = _first(_member(answer, "choices"))
    if choice is not None:
        text = _member(_member(choice, "message"), "content")
        text = _member(choice, "text") if text is None else text
    else:
        text = _member(answer, "output_text")  # OpenAI's responses
        if text is None:
            text = _member(_first(_member(answer, "content")), "text")  # Anthropic's messages
        if text is None:
            text = _member(answer, "text")
    return text if isinstance(text, str) else None


def _member(value: Any, name: str) -> Any:
    if value is None:
        return None
    if type(value) is dict or isinstance(value, Mapping):  # the first test is fast and mostly enough
        return value.get(name)
    return getattr(value, name, None)


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, (list, tuple)) and value else None  # `list | tuple` is slower
