"""Clients of models that judge: the protocol, one for OpenAI-compatible endpoints, and the one that is set."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from gapwatch.scorers.judges.chat_model import ChatCall, ChatModel, ChatReply, ModelFailure
from gapwatch.streams.judges.models.model_maker import ModelAccess
from gapwatch.streams.judges.secret import Secret
from gapwatch.streams.judges.settings import JudgeSettings, Price, ProviderSettings

if TYPE_CHECKING:
    from gapwatch.scorers.portfolio.portfolio import Portfolio
    from gapwatch.sinks.store.store import Store
    from gapwatch.streams.pipeline.judge_result import JudgeResult


class LLMClient(Protocol):
    """Protocol of a client of a chat model."""

    def chat(self, messages: list[dict[str, str]]) -> str:
        """Return the answer to messages, each with `role` (system, user, assistant) and `content`."""
        ...


class OpenAICompatibleLLMClient:
    """Client of a model behind an OpenAI-compatible endpoint, such as vLLM, Ollama or LM Studio.

    Args:
        base_url: Address such as `http://localhost:11434/v1`.
        api_key: Key, sent as a bearer token; None or an empty text sends none.
        model: Name of the model at the endpoint.
        vendor: First part of the judge's name in portfolios and rows, `vendor/model`.
    """

    def __init__(self, base_url: str, api_key: str | None = None, model: str = "", vendor: str = "llm") -> None:
        self.base_url = base_url
        self.model = model
        self.vendor = vendor
        self._key = Secret(api_key) if api_key else None

    def __repr__(self) -> str:
        return f"OpenAICompatibleLLMClient({self.base_url!r}, model={self.model!r})"

    def chat(self, messages: list[dict[str, str]]) -> str:
        """Return the model's answer.

        Raises:
            ModelFailure: The endpoint gave no answer.
        """
        pairs = tuple((message["role"], message["content"]) for message in messages)
        return asyncio.run(self._asked(ChatCall(f"{self.vendor}/{self.model}", pairs)))

    async def _asked(self, call: ChatCall) -> str:
        model = self.chat_model()
        try:
            return (await model.ask(call)).text
        finally:
            await model.close()

    def chat_model(self) -> ChatModel:
        """Return the adapter by which judges ask the endpoint."""
        from gapwatch.streams.judges.models.http_model import HttpModel
        from gapwatch.streams.judges.models.keyless_model import KeylessModel

        model = HttpModel(self.base_url, self._key)
        return model if self._key is None else KeylessModel(model, (self._key,))


class ClientModel:
    """Adapter by which judges ask an `LLMClient`.

    Args:
        client: The client; it is called in a thread.
    """

    def __init__(self, client: LLMClient) -> None:
        self._client = client

    async def ask(self, call: ChatCall) -> ChatReply:
        """Return the client's answer.

        Raises:
            ModelFailure: The client raised; its text is not repeated, because it may hold a key.
        """
        messages = [{"role": role, "content": text} for role, text in call.messages]
        try:
            text = await asyncio.to_thread(self._client.chat, messages)
        except ModelFailure:
            raise
        except Exception as error:
            raise ModelFailure("bad_reply", f"the client raised {type(error).__name__}") from None
        if not isinstance(text, str):
            raise ModelFailure("bad_reply", f"the client returned a {type(text).__name__}, not a text")
        return ChatReply(text, judge_name(self._client))

    async def close(self) -> None:
        """Do nothing: the client is the user's."""


def judge_name(client: LLMClient) -> str:
    """Return the name of a client's model in portfolios, `vendor/model`."""
    vendor = getattr(client, "vendor", "llm")
    model = getattr(client, "model", None) or type(client).__name__
    return f"{vendor}/{model}"


def client_access(client: LLMClient) -> ModelAccess:
    """Return what judges need to ask a client: limits and adapters; its calls have no price."""
    settings = JudgeSettings(
        providers={
            "*": ProviderSettings(concurrency=8, attempts=3, first_delay_seconds=0.2, longest_delay_seconds=5.0)
        },
        prices={"*": Price(input=0, output=0)},
    )

    def make(_vendor: str) -> ChatModel:
        if isinstance(client, OpenAICompatibleLLMClient):
            return client.chat_model()
        return ClientModel(client)

    return ModelAccess(settings, make)


def store_judge(client: LLMClient) -> Callable[[Store, Sequence[Portfolio]], JudgeResult]:
    """Return what answers the pending judge requests of a store by a client."""
    # Imported here: an evaluation without judges needs no HTTP client.
    from gapwatch.streams.judges.workers.judge_start import judge_store

    access = client_access(client)
    return lambda store, portfolios: judge_store(store, portfolios, access, patience_seconds=30.0)


_set: list[LLMClient] = []


def set_llm_client(client: LLMClient | None) -> None:
    """Set the client that judges of all later evaluations ask; None unsets it."""
    _set[:] = [] if client is None else [client]


def current_llm_client() -> LLMClient | None:
    """Return the client that is set, or None."""
    return _set[0] if _set else None
