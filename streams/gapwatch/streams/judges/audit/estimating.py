"""Estimates the cost of judged metrics from volume, sampling, the size of their prompts, and prices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.judges.request import JudgeRequest
from gapwatch.scorers.plan.plan import compile_plan
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.scoring.score import Scorer, score
from gapwatch.scorers.slices.selection import fixed_selection
from gapwatch.streams.judges.calls.item_groups import GATHER_SECONDS
from gapwatch.streams.judges.calls.judging import JudgeQuestion, judge_questions
from gapwatch.streams.judges.calls.terms import terms_of
from gapwatch.streams.judges.settings import JudgeSettings, vendor_of
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
        calls_per_trace: Calls per trace of the files, after sampling.
        items_per_call: Judged spans that a call asks about on average.
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
    items_per_call: float
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
    traces, inputs = _judged_inputs(portfolio, files)
    if traces == 0:
        raise UsageError(f"the files hold no trace of pipeline {portfolio.pipeline}")
    per_day = portfolio.volume.traces_per_day if portfolio.volume is not None else None
    estimates = []
    for key, question in questions.items():
        mine = inputs.get(key, [])
        known = terms.prices[question.judge.model]
        most = _most_items(question, settings)
        spans = len(mine) / traces
        items = _mean_items(most, None if per_day is None else per_day * spans / 86_400)
        sizes, full = _sizes(question, mine, 1), _sizes(question, mine, most)
        share = (items - 1) / (most - 1) if most > 1 else 0.0
        tokens = (sizes.characters + share * (full.characters - sizes.characters)) / CHARACTERS_A_TOKEN
        worst = full.worst_usd if known is not None else None
        price = question.price  # a batch costs less than the list says
        output = items * EXPECTED_OUTPUT_TOKENS
        usd = None if known is None else tokens * price.input_usd + output * price.output_usd
        calls = spans / items
        weekly = None if per_day is None else 7 * per_day * calls
        cost = None if weekly is None or usd is None else weekly * usd
        _, metric, judge = key
        estimates.append(
            JudgeEstimate(metric, judge, question.judge.model, calls, items, weekly, tokens, usd, cost, worst)
        )
    return estimates


def _most_items(question: JudgeQuestion, settings: JudgeSettings) -> int:
    """Return the most items of a call; a batch asks about one item a request."""
    return 1 if settings.provider(vendor_of(question.judge.model)).mode == "batch" else question.prompt.items_per_call


def _mean_items(most: int, per_second: float | None) -> float:
    """Return the mean number of items of a call of a worker that has all traffic.

    Args:
        most: Most items of a call.
        per_second: Judged spans a second, arriving at random; None: a backlog, which fills every call.

    Source:
        A call goes with its first item and those that come in the next `GATHER_SECONDS`, whose number N is Poisson:
        E[min(most, 1 + N)] = 1 + sum of P(N >= j) for j from 1 to most - 1.
    """
    if per_second is None:
        return float(most)
    mean = per_second * GATHER_SECONDS
    term, below, items = math.exp(-mean), 0.0, 1.0
    for j in range(1, most):
        below += term  # P(N < j)
        term *= mean / j
        items += max(0.0, 1.0 - below)
    return items


class _Sizes(NamedTuple):
    """Mean number of characters of a question's prompts, and the highest cost of one; None without a prompt."""

    characters: float
    worst_usd: float | None


def _sizes(question: JudgeQuestion, inputs: Sequence[Mapping[str, str | None]], items: int) -> _Sizes:
    """Return the sizes of calls of so many items, each with one input and those after it in the files."""
    if not inputs:
        return _Sizes(0.0, None)
    limit = replace(question.price, most_output_tokens=items * question.price.most_output_tokens)
    characters, worst = 0, 0.0
    starts = range(0, len(inputs), items)
    for start in starts:
        together = [inputs[(start + n) % len(inputs)] for n in range(items)]
        call = question.prompt.call_of_items(question.judge.model, question.params, together, _NONCE)
        characters += sum(len(text) for _, text in call.messages)
        worst = max(worst, limit.worst(call))
    return _Sizes(characters / len(starts), worst)


def _judged_inputs(
    portfolio: Portfolio, files: Sequence[Path]
) -> tuple[int, dict[tuple[str, str, str], list[Mapping[str, str | None]]]]:
    """Return the number of traces, and by question the inputs of every judged span."""
    judged = tuple(m for m in portfolio.metrics if m.claim.form in ("judge", "compare"))
    only = portfolio.model_copy(update={"metrics": judged})
    scorer, selection = Scorer(compile_plan([only])), fixed_selection([only])
    inputs: dict[tuple[str, str, str], list[Mapping[str, str | None]]] = {}
    traces = 0
    for path in files:
        with FileSource(str(path), "estimate") as source:
            for records in source.slices(0, None):
                scored = score(scorer, selection, records)
                traces += scored.tables["trace_ids"].num_rows
                for value in scored.tables["judge_requests"].column("value").to_pylist():
                    request = JudgeRequest.from_json(value)
                    inputs.setdefault(request.question, []).append(request.inputs)
    return traces, inputs
