"""The port to models: what a judge sends, what it gets back, and the ways in which it may get nothing.

An adapter has one method. It turns every failure into a `ModelFailure` whose text names no key and no header.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

#: Why there is no reply, and what the caller does about it:
#: `rate_limited`, `unavailable`, `timeout`, `cut_off` pass by themselves and are tried again;
#: `refused_key`, `no_such_model`, `bad_request` are answered alike every time, so the judgement ends as an error;
#: `bad_reply`, `empty` are what one answer was like: tried again as well.
FAILURE_KINDS = (
    "rate_limited",
    "unavailable",
    "timeout",
    "cut_off",
    "refused_key",
    "no_such_model",
    "bad_request",
    "bad_reply",
    "empty",
)
PASSING = frozenset({"rate_limited", "unavailable", "timeout", "cut_off", "bad_reply", "empty"})
#: Failures after which the provider may still have worked, and asks for money.
MAYBE_BILLED = frozenset({"timeout", "cut_off", "bad_reply", "empty"})


@dataclass(frozen=True)
class ChatCall:
    """One question to a model.

    Attributes:
        model: `vendor/name`, as the portfolio writes it.
        messages: Role and text, in order; roles are system, user, assistant.
        params: Sampling parameters as the portfolio writes them.
        response_format: Structured output as OpenAI-compatible endpoints take it; None where not asked for.
        timeout_seconds: For the whole reply.
    """

    model: str
    messages: tuple[tuple[str, str], ...]
    params: Mapping[str, object] = field(default_factory=dict)
    response_format: Mapping[str, object] | None = None
    timeout_seconds: float = 60.0

    @property
    def vendor(self) -> str:
        """The part of the model's name before the first slash; empty where there is none."""
        vendor, slash, _ = self.model.partition("/")
        return vendor if slash else ""

    @property
    def name(self) -> str:
        """The model's name as the vendor knows it."""
        return self.model.partition("/")[2] or self.model

    def body(self) -> dict[str, object]:
        """Return the request as an OpenAI-compatible endpoint takes it; its bytes are what is hashed."""
        body: dict[str, object] = {
            "model": self.name,
            "messages": [{"role": role, "content": text} for role, text in self.messages],
            **self.params,
        }
        if self.response_format is not None:
            body["response_format"] = self.response_format
        return body


@dataclass(frozen=True)
class ChatReply:
    """What a model answered.

    Attributes:
        text: The answer; empty only together with a refusal.
        model: The model's name as the provider answered it; None where it did not.
        input_tokens, output_tokens: As billed; None where the provider does not say.
        finish_reason: stop, length, content_filter, ...; None where not said.
        refusal: The provider's words where it declined to answer.
    """

    text: str
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    finish_reason: str | None = None
    refusal: str | None = None


class ModelFailure(Exception):  # noqa: N818 - a failure is an answer of the port, handled by every caller
    """No reply from a model.

    Attributes:
        kind: One of `FAILURE_KINDS`.
        detail: In words, without anything secret.
        retry_after_seconds: How long the provider asked to wait; None where it did not.
    """

    def __init__(self, kind: str, detail: str = "", retry_after_seconds: float | None = None) -> None:
        assert kind in FAILURE_KINDS
        self.kind = kind
        self.detail = detail
        self.retry_after_seconds = retry_after_seconds
        super().__init__(f"{kind}: {detail}" if detail else kind)

    @property
    def passes(self) -> bool:
        """Whether the same call may well succeed later."""
        return self.kind in PASSING


class ChatModel(Protocol):
    """A way to models."""

    async def ask(self, call: ChatCall) -> ChatReply:
        """Return the model's reply.

        Raises:
            ModelFailure: There is none.
        """
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...
