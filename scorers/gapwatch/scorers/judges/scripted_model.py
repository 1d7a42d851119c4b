"""Chat model for tests: answers by a script and records its calls."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import orjson

from gapwatch.scorers.judges.chat_model import ChatCall, ChatReply, ModelFailure

Script = Callable[[ChatCall], ChatReply | ModelFailure]


@dataclass
class ScriptedModel:
    """Answers by a function of the call; a failure that the function returns is raised.

    Attributes:
        script: Function from a call to its answer.
        seconds: Duration of each answer.
        calls: Calls so far, in order.
    """

    script: Script
    seconds: float = 0.0
    calls: list[ChatCall] = field(default_factory=list)

    async def ask(self, call: ChatCall) -> ChatReply:
        """Return the script's answer.

        Raises:
            ModelFailure: The script returned it.
        """
        self.calls.append(call)
        if self.seconds:
            await asyncio.sleep(self.seconds)
        answer = self.script(call)
        if isinstance(answer, ModelFailure):
            raise answer
        return answer

    async def close(self) -> None:
        """Do nothing."""


_CALL = re.compile(r"<<<(?:DATA|END) ([0-9a-f]{16}) ")


def nonce_of(call: ChatCall) -> str:
    """Return the nonce in a call's fences."""
    for _, text in call.messages:
        if found := _CALL.search(text):
            return found[1]
    return ""


def verdict_reply(
    call: ChatCall,
    score: object,
    justification: str = "The data shows it.",
    model: str | None = "scripted-2026-01-01",
    usage: tuple[int, int] | None = (100, 20),
) -> ChatReply:
    """Return a well-formed verdict on a call.

    Args:
        call: The call.
        score: Band of the scale.
        justification: Text of the justification.
        model: Name of the model in the provider's reply.
        usage: Input and output tokens.
    """
    document = {"call": nonce_of(call), "justification": justification, "score": score}
    tokens = usage or (None, None)
    return ChatReply(orjson.dumps(document).decode(), model, tokens[0], tokens[1], "stop")
