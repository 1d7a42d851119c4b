"""Estimates the cost of judged metrics from volume, sampling, the size of their prompts, and prices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.judges.request import JudgeRequest
from gapwatch.scorers.plan.plan import compile_plan
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.scoring.score import Scorer, score
from gapwatch.scorers.slices.selection import fixed_selection
from gapwatch.streams.judges.calls.judging import JudgeQuestion, judge_questions
from gapwatch.streams.judges.calls.terms import terms_of
from gapwatch.streams.judges.settings import JudgeSettings
from gapwatch.streams.sources.file_source import FileSource

#: Characters per token of ordinary text, for the expected cost; caps assume one token per byte.
CHARACTERS_A_TOKEN = 4.0
#: Tokens of a verdict with a justification of a few sentences; an assumption, not a measurement.
EXPECTED_OUTPUT_TOKENS = 200
_NONCE = "0" * 16


@dataclass(frozen=True)
class JudgeEstimate:
    """Expected cost of one judge of one metric.

    Attributes:
        metric, judge, model: Names.
        calls_per_trace: Judged spans per trace of the files, after sampling.
        calls_per_week: Calls at the declared volume; None if the portfolio declares none.
        prompt_tokens: Expected tokens of one prompt.
        usd_per_call: Expected US dollars of one call; None if the price is not known.
        usd_per_week: Expected US dollars per week; None if price or volume is not known.
        worst_usd_per_call: US dollars reserved before a call; None if the price is not known.
    """

    metric: str
    judge: str
    model: str
    calls_per_trace: float
    calls_per_week: float | None
    prompt_tokens: float
    usd_per_call: float | None
    usd_per_week: float | None
    worst_usd_per_call: float | None


def estimate_judges(portfolio: Portfolio, files: Sequence[Path], settings: JudgeSettings) -> list[JudgeEstimate]:
    """Return an estimate for each judge, from the prompts of real traces; no model is asked.

    Args:
        portfolio: Portfolio with judged metrics.
        files: Traces of its pipeline.
        settings: Settings with prices.

    Raises:
        UsageError: The files hold no trace of the pipeline, or the portfolio has no judge.
    """
    terms = terms_of(portfolio, settings)
    questions = judge_questions([terms], settings)
    if not questions:
        raise UsageError(f"the portfolio {portfolio.portfolio} has no judged metric")
    traces, sizes = _prompt_sizes(portfolio, files, questions)
    if traces == 0:
        raise UsageError(f"the files hold no trace of pipeline {portfolio.pipeline}")
    per_day = portfolio.volume.traces_per_day if portfolio.volume is not None else None
    estimates = []
    for (_, metric, judge), question in questions.items():
        mine = sizes.get((metric, judge), [])
        known = terms.prices[question.judge.model]
        tokens = sum(characters for characters, _ in mine) / len(mine) / CHARACTERS_A_TOKEN if mine else 0.0
        worst = max((usd for _, usd in mine), default=None) if known is not None else None
        price = question.price  # a batch costs less than the list says
        usd = None if known is None else tokens * price.input_usd + EXPECTED_OUTPUT_TOKENS * price.output_usd
        calls = len(mine) / traces
        weekly = None if per_day is None else 7 * per_day * calls
        cost = None if weekly is None or usd is None else weekly * usd
        estimates.append(JudgeEstimate(metric, judge, question.judge.model, calls, weekly, tokens, usd, cost, worst))
    return estimates


def _prompt_sizes(
    portfolio: Portfolio, files: Sequence[Path], questions: dict[tuple[str, str, str], JudgeQuestion]
) -> tuple[int, dict[tuple[str, str], list[tuple[int, float]]]]:
    """Return the number of traces, and by metric and judge the characters and highest cost of every prompt."""
    judged = tuple(m for m in portfolio.metrics if m.claim.form in ("judge", "compare"))
    only = portfolio.model_copy(update={"metrics": judged})
    scorer, selection = Scorer(compile_plan([only])), fixed_selection([only])
    sizes: dict[tuple[str, str], list[tuple[int, float]]] = {}
    traces = 0
    for path in files:
        with FileSource(str(path), "estimate") as source:
            for records in source.slices(0, None):
                scored = score(scorer, selection, records)
                traces += scored.tables["trace_ids"].num_rows
                for value in scored.tables["judge_requests"].column("value").to_pylist():
                    request = JudgeRequest.from_json(value)
                    question = questions[request.question]
                    call = question.prompt.call(question.judge.model, question.params, request.inputs, _NONCE)
                    characters = sum(len(text) for _, text in call.messages)
                    key = (request.metric, request.judge)
                    sizes.setdefault(key, []).append((characters, question.price.worst(call)))
    return traces, sizes
