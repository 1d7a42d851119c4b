"""Removes keys from all that a model's adapter hands on, replies and failures, before anything else reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gapwatch.scorers.judges.chat_model import ChatCall, ChatModel, ChatReply, ModelFailure
from gapwatch.streams.judges.secret import Secret

#: A character that no key has.
_SEPARATOR = "\0"


class KeylessModel:
    """Adapter around another one; a provider may repeat a key in a reply of any status.

    Args:
        model: The adapter that asks.
        keys: Keys that the provider may have been sent.
    """

    def __init__(self, model: ChatModel, keys: Sequence[Secret]) -> None:
        self._model = model
        self._keys = keys

    def __repr__(self) -> str:
        return f"KeylessModel({self._model!r})"

    async def ask(self, call: ChatCall) -> ChatReply:
        """Return the model's reply without the keys.

        Raises:
            ModelFailure: The provider gave no reply; its text is without the keys too.
        """
        try:
            reply = await self._model.ask(call)
        except ModelFailure as error:
            failure = error.with_detail(self._scrubbed(error.detail))
        else:
            # Behind a separator that is no white space, no key goes from one text into the next.
            said = _SEPARATOR.join((reply.text, reply.model or "", reply.finish_reason or "", reply.refusal or ""))
            if self._scrubbed(said) == said:
                return reply
            return replace(
                reply,
                text=self._scrubbed(reply.text),
                model=reply.model and self._scrubbed(reply.model),
                finish_reason=reply.finish_reason and self._scrubbed(reply.finish_reason),
                refusal=reply.refusal and self._scrubbed(reply.refusal),
            )
        # Outside the handler: the failure must not reference the exception that holds the key.
        raise failure

    def _scrubbed(self, words: str) -> str:
        for key in self._keys:
            words = key.scrub(words)
        return words

    async def close(self) -> None:
        """Close the adapter."""
        await self._model.close()
