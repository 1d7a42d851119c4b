"""Judges of tests: one answer is asked of each model, with the set-up and the guideline of the test."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gapwatch.scorers.judges.chat_model import ModelFailure
from gapwatch.scorers.judges.fence import NONCE_DIGITS
from gapwatch.scorers.judges.judgement import PaidCall
from gapwatch.scorers.judges.prompt import JudgePrompt, judge_prompt
from gapwatch.scorers.judges.verdict import NoAnswer
from gapwatch.scorers.portfolio.claim import Judge, JudgeClaim, Rubric
from gapwatch.scorers.portfolio.field import parse_field
from gapwatch.sinks.issues.issue import TEMPLATES
from gapwatch.streams.evaluation.running.llm_client import OpenAICompatibleLLMClient, client_access, judge_name
from gapwatch.streams.judges.calls.call_price import CallPrice
from gapwatch.streams.judges.calls.provider import Provider

#: Template of the package by the number of the set-up.
_NAMES = {1: "grafite_input_output_reference", 2: "grafite_output_reference", 3: "grafite_input_output"}
#: Guideline of a test that has none.
_NO_GUIDELINE = "The output answers the input correctly and completely."
_PARAMS: Mapping[str, object] = {"temperature": 0, "max_tokens": 1024}


@dataclass(frozen=True)
class TestVerdict:
    """Verdict of one judge on one answer.

    Attributes:
        judge: Name of the judge.
        outcome: pass, fail or error; a failed call is an error and never a 0.
        score: 1 or 0; None for an error.
        justification: The judge's words; None for an error.
        reason: Why the call failed; None if it did not.
    """

    __test__ = False  # no test of pytest

    judge: str
    outcome: str
    score: float | None
    justification: str | None
    reason: str | None


@dataclass(frozen=True)
class JudgedAnswer:
    """Answer that judges rate.

    Attributes:
        template: Number of the set-up.
        guideline: Guideline of the test.
        input: What the model was asked, as text.
        output: Its answer.
        reference: Right answer; None if there is none.
    """

    template: int
    guideline: str
    input: str
    output: str
    reference: str | None

    def prompt(self) -> JudgePrompt:
        """Return the prompt, without the texts."""
        field = parse_field("output", "span")
        assert field is not None
        rubric = Rubric(
            criterion=self.guideline.strip() or _NO_GUIDELINE, scale=(0.0, 1.0), inputs=(field,),
            template=_NAMES[self.template],
        )  # fmt: skip
        return judge_prompt(JudgeClaim(form="judge", rubric=rubric, judges=(Judge(model="llm/any"),)))

    def texts(self) -> dict[str, str | None]:
        """Return the texts by name, in the order of the template."""
        order = {1: ("input", "output", "reference"), 2: TEMPLATES[2], 3: TEMPLATES[3]}[self.template]
        return {name: getattr(self, name) or "" for name in order}


class TestJudges:
    """Judges of one run, for one event loop.

    Args:
        clients: One client for each judge; their names differ.
    """

    __test__ = False

    def __init__(self, clients: Sequence[OpenAICompatibleLLMClient]) -> None:
        self._providers: dict[str, Provider] = {}
        for client in clients:
            access, name = client_access(client), judge_name(client)
            settings = access.settings.provider(client.vendor)
            self._providers[name] = Provider(settings, access.make_model(client.vendor), name=f"judge {name}")

    @property
    def names(self) -> list[str]:
        """Names of the judges."""
        return list(self._providers)

    async def judge(self, answer: JudgedAnswer) -> list[TestVerdict]:
        """Return the verdict of each judge; no failure of one hinders the others."""
        return list(await asyncio.gather(*(self._ask(name, answer) for name in self._providers)))

    async def _ask(self, judge: str, answer: JudgedAnswer) -> TestVerdict:
        prompt, nonce = answer.prompt(), secrets.token_hex(NONCE_DIGITS // 2)
        call = prompt.call(judge, _PARAMS, answer.texts(), nonce)
        price = CallPrice("tests", "tests", 0.0, 0.0, 1024)
        paid: list[PaidCall] = []
        try:
            reply = await self._providers[judge].fetch_reply(call, price, paid)
        except ModelFailure as failure:
            return TestVerdict(judge, "error", None, None, str(failure)[:300])
        said = prompt.answers(reply, nonce)[0]
        if isinstance(said, NoAnswer):
            return TestVerdict(judge, "error", None, None, f"{said.reason}: {said.detail}"[:300])
        return TestVerdict(judge, "pass" if said.band.passes else "fail", said.band.score, said.justification, None)

    async def close(self) -> None:
        """Close the connections."""
        for provider in self._providers.values():
            await provider.model.close()
