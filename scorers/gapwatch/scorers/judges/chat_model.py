"""Interface to chat models: a call, its reply, and the kinds of failure.

An adapter turns every failure into a `ModelFailure`, whose text contains no key and no header.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

#: Kinds of failure, and the reaction to each:
#: `rate_limited`, `unavailable`, `timeout`, `cut_off` are temporary: the call is retried;
#: `unreachable` (DNS, TLS, connection refused), `refused_key` (401), `quota_exhausted` concern all calls with a key,
#: and `forbidden` (403), `no_such_model` (404) all calls of a model: people can mend them, so the requests wait;
#: `bad_request` is permanent: the judgement ends as an error;
#: `bad_reply`, `empty` concern one reply: the call is retried.
FAILURE_KINDS = (
    "rate_limited",
    "unavailable",
    "timeout",
    "cut_off",
    "unreachable",
    "refused_key",
    "quota_exhausted",
    "forbidden",
    "no_such_model",
    "bad_request",
    "bad_reply",
    "empty",
)
PASSING = frozenset({"rate_limited", "unavailable", "timeout", "cut_off", "unreachable", "bad_reply", "empty"})
#: Failures that hold for every call with the key, or for every call of the model, until somebody mends the cause.
OF_THE_KEY = frozenset({"unreachable", "refused_key", "quota_exhausted"})
OF_THE_MODEL = frozenset({"forbidden", "no_such_model"})
#: Failures after which the provider may still charge for the call.
MAYBE_BILLED = frozenset({"timeout", "cut_off", "bad_reply", "empty"})


@dataclass(frozen=True)
class ChatCall:
    """Call to a chat model.

    Attributes:
        model: `vendor/name`, as the portfolio writes it.
        messages: Role and text, in order; roles are system, user, assistant.
        params: Sampling parameters as the portfolio writes them.
        response_format: Structured output in the form of OpenAI-compatible endpoints; None for free text.
        timeout_seconds: Time for the whole reply.
    """

    model: str
    messages: tuple[tuple[str, str], ...]
    params: Mapping[str, object] = field(default_factory=dict)
    response_format: Mapping[str, object] | None = None
    timeout_seconds: float = 60.0

    @property
    def vendor(self) -> str:
        """The part of the model's name before the first slash; empty without a slash."""
        vendor, slash, _ = self.model.partition("/")
        return vendor if slash else ""

    @property
    def name(self) -> str:
        """The model's name at the vendor."""
        return self.model.partition("/")[2] or self.model

    def body(self) -> dict[str, object]:
        """Return the request in the form of OpenAI-compatible endpoints; its canonical bytes are hashed."""
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
    """Reply of a chat model.

    Attributes:
        text: The answer; empty only together with a refusal.
        model: The model's name in the provider's reply; None where the reply has none.
        input_tokens, output_tokens: Billed tokens; None where the reply does not name them.
        finish_reason: stop, length, content_filter, ...; None where the reply has none.
        refusal: The provider's words where it declined to answer.
    """

    text: str
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    finish_reason: str | None = None
    refusal: str | None = None


class ModelFailure(Exception):  # noqa: N818 - a failure is a normal outcome that every caller handles
    """A call to a model ended without a usable reply.

    Attributes:
        kind: One of `FAILURE_KINDS`.
        detail: Description without secrets.
        retry_after_seconds: Seconds that the provider asked to wait; None where it did not.
        usage: Billed tokens, input and output, where a useless reply names them; else None.
    """

    def __init__(
        self, kind: str, detail: str = "", retry_after_seconds: float | None = None,
        usage: tuple[int, int] | None = None,
    ) -> None:  # fmt: skip
        assert kind in FAILURE_KINDS
        self.kind = kind
        self.detail = detail
        self.retry_after_seconds = retry_after_seconds
        self.usage = usage
        super().__init__(f"{kind}: {detail}" if detail else kind)

    def with_detail(self, detail: str) -> ModelFailure:
        """Return the same failure with another description."""
        return ModelFailure(self.kind, detail, self.retry_after_seconds, self.usage)

    @property
    def passes(self) -> bool:
        """True if the same call may succeed when it is retried."""
        return self.kind in PASSING


class ChatModel(Protocol):
    """Protocol of adapters to chat models."""

    async def ask(self, call: ChatCall) -> ChatReply:
        """Return the model's reply.

        Raises:
            ModelFailure: The call failed.
        """
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...
