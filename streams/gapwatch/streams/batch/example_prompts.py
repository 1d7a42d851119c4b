"""Prompts of judges as they would be sent: filled with a trace of a file, or with an invented one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import orjson

from gapwatch.scorers.judges.chat_model import ChatCall
from gapwatch.scorers.judges.fence import NONCE_DIGITS
from gapwatch.scorers.judges.prompt import judge_prompt, transcript_rule
from gapwatch.scorers.judges.request import JudgeRequest
from gapwatch.scorers.plan.plan import compile_plan
from gapwatch.scorers.portfolio.claim import JudgedClaim
from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.scoring.score import Scorer, score
from gapwatch.scorers.slices.selection import fixed_selection
from gapwatch.streams.sources.file_source import FileSource

_NONCE = "0" * NONCE_DIGITS
#: What a span and a trace of an example hold, as far as a portfolio's fields do not say more.
_CONVERSATION = (
    {"role": "user", "content": "Where is order W7?"},
    {
        "role": "assistant",
        "content": "Let me look.",
        "tool_calls": [{"id": "c1", "function": {"name": "find_order", "arguments": '{"id": "W7"}'}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": '{"status": "sent"}'},
)


@dataclass(frozen=True)
class ExamplePrompt:
    """Prompt of one judged metric.

    Attributes:
        metric: Name of the metric.
        source: Where its inputs are from: a place in a file, or "an invented example".
        call: The call of its first judge.
    """

    metric: str
    source: str
    call: ChatCall


def example_prompts(portfolio: Portfolio, files: Sequence[str]) -> list[ExamplePrompt]:
    """Return the prompt of each judged metric, with the first trace of the files that it would judge.

    Args:
        portfolio: A portfolio.
        files: Files of traces; a metric that judges none of them gets an invented example.
    """
    judged = {m.name: m for m in portfolio.metrics if isinstance(m.claim, JudgedClaim)}
    found: dict[str, ExamplePrompt] = {}
    for file, request in _requests(portfolio, list(judged.values()), files) if judged else ():
        if request.metric not in found:
            place = f"{file}, line {request.source_offset + 1}, trace {request.trace_id}"
            found[request.metric] = _prompt(judged[request.metric], place, dict(request.inputs))
        if len(found) == len(judged):
            break
    return [found.get(name) or _invented(metric) for name, metric in judged.items()]


def _requests(portfolio: Portfolio, metrics: list[Metric], files: Sequence[str]) -> Iterator[tuple[str, JudgeRequest]]:
    # Every trace is judged here, whatever share a run would judge.
    all_of = [m.model_copy(update={"sample": m.sample.model_copy(update={"rate": 1.0, "strata": ()})}) for m in metrics]
    only = portfolio.model_copy(update={"metrics": tuple(all_of)})
    scorer, selection = Scorer(compile_plan([only])), fixed_selection([only])
    for file in files:
        with FileSource(file, "example") as source:
            for records in source.slices(0, None):
                values = score(scorer, selection, records).tables["judge_requests"].column("value").to_pylist()
                yield from ((file, JudgeRequest.from_json(value)) for value in values)


def _prompt(metric: Metric, source: str, inputs: dict[str, str | None]) -> ExamplePrompt:
    claim = metric.claim
    assert isinstance(claim, JudgedClaim)
    judge = claim.judges[0]
    return ExamplePrompt(metric.name, source, judge_prompt(claim).call(judge.model, judge.params, inputs, _NONCE))


def _invented(metric: Metric) -> ExamplePrompt:
    claim = metric.claim
    assert isinstance(claim, JudgedClaim)
    is_conversation = transcript_rule(claim.rubric) is not None
    text = orjson.dumps(_CONVERSATION).decode()
    inputs: dict[str, str | None] = {
        field.text: text if is_conversation and i == 0 else f"(the text of {field.text})"
        for i, field in enumerate(claim.rubric.inputs)
    }
    return _prompt(metric, "an invented example", inputs)
