"""Models and functions under test: each answers the messages of a test."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from gapwatch.scorers.judges.chat_model import ChatCall, ModelFailure
from gapwatch.scorers.judges.judgement import PaidCall
from gapwatch.sinks.issues.issue import IssueTest
from gapwatch.streams.evaluation.datasets.example import Example
from gapwatch.streams.evaluation.running.example_calls import CallLimits, ExampleCalls
from gapwatch.streams.evaluation.running.llm_client import OpenAICompatibleLLMClient, client_access, judge_name
from gapwatch.streams.judges.calls.call_price import CallPrice
from gapwatch.streams.judges.calls.provider import Provider


@dataclass(frozen=True)
class TestedAnswer:
    """Answer to one test.

    Attributes:
        output: The answer; None if there is none.
        error: Why there is none; None if there is one.
        seconds: Time that it took.
    """

    __test__ = False

    output: str | None
    error: str | None
    seconds: float | None


class TestedModel(Protocol):
    """Protocol of what is tested."""

    name: str

    async def answers(self, tests: Sequence[IssueTest]) -> list[TestedAnswer]:
        """Return the answer to each test."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


class EndpointModel:
    """A model behind an OpenAI-compatible address.

    Args:
        client: Client of the endpoint.
        params: Parameters of each call, such as `temperature`.
    """

    def __init__(self, client: OpenAICompatibleLLMClient, params: Mapping[str, object]) -> None:
        access = client_access(client)
        self.name = judge_name(client).removeprefix("llm/")
        self._called, self._params = judge_name(client), dict(params)
        settings = access.settings.provider(client.vendor)
        self._provider = Provider(settings, access.make_model(client.vendor), name=f"model {self.name}")

    async def answers(self, tests: Sequence[IssueTest]) -> list[TestedAnswer]:
        """Return the answer to each test; tests are asked at the same time."""
        return list(await asyncio.gather(*(self._answer(test) for test in tests)))

    async def _answer(self, test: IssueTest) -> TestedAnswer:
        messages = tuple((one["role"], one["content"]) for one in test.messages)
        call, paid = ChatCall(self._called, messages, self._params), list[PaidCall]()
        began = time.monotonic()
        try:
            reply = await self._provider.fetch_reply(call, CallPrice("tests", "tests", 0.0, 0.0, 1024), paid)
        except ModelFailure as failure:
            return TestedAnswer(None, str(failure)[:300], time.monotonic() - began)
        if not reply.text:
            return TestedAnswer(None, f"refusal: {reply.refusal or 'an empty answer'}"[:300], time.monotonic() - began)
        return TestedAnswer(reply.text, None, time.monotonic() - began)

    async def close(self) -> None:
        """Close the connection."""
        await self._provider.model.close()


class FunctionModel:
    """A function, called in processes of its own; it takes `messages`, or the input as its first argument.

    Args:
        name: Name of the run's target, such as `app:answer`.
        function: The function.
        limits: Limits of the calls.
    """

    def __init__(self, name: str, function: Callable[..., Any], limits: CallLimits) -> None:
        self.name, self._function, self._limits = name, function, limits
        parameters = list(inspect.signature(function).parameters)
        self._argument = "messages" if "messages" in parameters else next(iter(parameters), "messages")

    async def answers(self, tests: Sequence[IssueTest]) -> list[TestedAnswer]:
        """Return the answer to each test; a crash or a time-out of one is its error."""
        examples = [Example(test.test_id, {self._argument: self._given(test)}) for test in tests]
        await asyncio.to_thread(ExampleCalls(self._function, self._limits).run, examples)
        return [
            TestedAnswer(None if one.error is not None else _text(one.output), one.error, one.latency_seconds)
            for one in examples
        ]

    def _given(self, test: IssueTest) -> Any:
        return list(test.messages) if self._argument == "messages" else test.input_text()

    async def close(self) -> None:
        """Do nothing: its processes have ended."""


def _text(output: Any) -> str:
    if isinstance(output, dict):
        output = next((output[name] for name in ("answer", "output", "content") if name in output), output)
    return output if isinstance(output, str) else orjson.dumps(output, str).decode()
