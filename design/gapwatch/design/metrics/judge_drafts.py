"""Drafts judges from code: the prompt of a tier, the keys of its answer and the passages that it must rest on.

No model is called here and none is named. A judge is exported once the practitioner names the model that may judge.
"""

from __future__ import annotations

import re
from typing import Any

from gapwatch.design.architecture.claimed_code import ClaimedCode
from gapwatch.design.architecture.model import ComponentDraft, TierDraft
from gapwatch.design.architecture.prompt_texts import MIN_TASK
from gapwatch.design.architecture.prompts import Prompt
from gapwatch.design.architecture.reply_flow import Output, is_exchange_seen, output_of, said_at
from gapwatch.design.metrics.catalog import metric_name
from gapwatch.design.metrics.judge_criteria import FIRST, Criterion, JudgedTier, criteria_of
from gapwatch.design.metrics.metric_design import MetricDesign, RubricDraft
from gapwatch.design.metrics.prompt_demands import (
    is_one_of_many,
    is_sure_task,
    sets_task,
    worth_of,
)
from gapwatch.design.metrics.spans import OF_EXCHANGE, IntegrationPoint
from gapwatch.design.patterns.model_calls import CALLS
from gapwatch.design.source.ir import call_line
from gapwatch.scorers.portfolio.polarity import BY_THE_CLAIM

#: Form of the steps of an agent, which sets no task.
STEPS_OF_AGENT = re.compile(r"Thought:.*(Action|Observation|Final Answer)|^\s*Begin!", re.S)
#: Functions that judge answers themselves.
_OF_EVALUATION = re.compile(r"(^|[._-])(eval|evals|evaluat\w*)([._-]|$)", re.I)
_MODELS = frozenset({"llm_chat"})
#: Most designed metrics of one component (the five-metric rule of the paper).
MAX_DESIGNED = 5

_SCALE = {
    "excellent: fully meets the criterion": 5,
    "good: minor issues only": 4,
    "acceptable: partly meets it": 3,
    "poor: largely fails": 2,
    "very poor: fails entirely": 1,
}
_STEPS = [
    "Read what was asked and what was given before reading the answer.",
    "Explain step by step, with the strengths and the weaknesses, quoting the words that decide.",
    "Do not favour long answers; judge by the criterion alone, not by style or format.",
    "Then give the score.",
]
#: Further steps of a judge that holds a reply to what the model was sent.
OF_SUPPORT = [
    "Where the data says that characters or members are left out, take nothing for invented that may stand there.",
    "That something is not known, a question back and a refusal state nothing that needs support.",
]


def design_judges(
    component: ComponentDraft, points: list[IntegrationPoint], prompts: list[Prompt], code: ClaimedCode
) -> list[MetricDesign]:
    """Return the judges of one component, at most five; each looks for one failure of one tier.

    Args:
        component: The component.
        points: Spans that it can emit.
        prompts: Its prompts.
        code: The analysed code.
    """
    out: list[MetricDesign] = []
    by_symbol = {p.symbol: p for p in points}
    llm_tiers = list({t.symbol: t for t in reversed(component.tiers) if t.by == "llm"}.values())[::-1]
    for tier in llm_tiers:
        if _OF_EVALUATION.search(tier.symbol):
            continue
        mine = _answered(tier.symbol, prompts, code)
        if is_exchange_seen(code, tier.symbol) and (held_at := _held_at(tier.symbol, mine, code)):
            if tier.symbol not in by_symbol:
                continue
            by_symbol[tier.symbol].held_at = held_at
        # A judge that does not know what the model was told can only guess.
        if sets_task(mine) and not is_one_of_many(tier.symbol, mine, code):
            made = _for_tier(component, tier, mine, by_symbol, len(llm_tiers), code)
            if tier.symbol in by_symbol and made and all(m.family.endswith("follows_its_prompt") for m in made):
                # Support is held to whatever was sent; another prompt's reply need not do what this one asks.
                by_symbol[tier.symbol].held_at |= _held_before(tier.symbol, mine, code)
            out += made
    # One judge for each tier comes first; second criteria take the places that are left.
    firsts = [next(m for m in out if m.tier == t.id) for t in llm_tiers if any(m.tier == t.id for m in out)]
    rest = [m for m in out if m not in firsts]
    return (firsts + rest)[:MAX_DESIGNED]


def _held_at(symbol: str, prompts: list[Prompt], code: ClaimedCode) -> dict[int, int]:
    """Return the lines at which a function asks a model, where it asks again after its prompts were sent.

    1 stands for a line after which the exchange that is read stays as it is, 0 for those of the prompts.
    """
    sent = {line for p in prompts if p.symbol == symbol for line in p.sent_at}
    asked = {h.line for h in code.material.hits_of(symbol) if h.pattern == "calls_llm"}
    if not sent or max(asked, default=0) <= max(sent):
        return {}
    return dict.fromkeys(sent, 0) | {line: 1 for line in asked if line > max(sent)}


def _held_before(symbol: str, prompts: list[Prompt], code: ClaimedCode) -> dict[int, int]:
    """Return the lines at which a function asks a model for something else before its prompts are sent.

    Its run may end with that reply. They are those of `_held_at`, and empty where it asks for nothing else before.
    """
    subject = code.subject(symbol)
    sent = {line for p in prompts if p.symbol == symbol for line in p.sent_at}
    is_own = all(p.symbol == symbol and p.sent_at for p in prompts)
    if subject is None or not sent or not is_own or not is_exchange_seen(code, symbol):
        return {}
    asking, models = (h.line for h in code.material.hits_of(symbol) if h.pattern == "calls_llm"), code.reaching(_MODELS)
    through = (
        call_line(c) for c in subject.calls if any(e.dst in models for e in subject.inside(c) if e.kind in CALLS)
    )
    before = {line: 1 for line in {*asking, *through} - sent if line < min(sent)}
    return dict.fromkeys(sent, 0) | before if before else {}


def _answered(symbol: str, prompts: list[Prompt], code: ClaimedCode) -> list[Prompt]:
    """Return the prompts of a function, and of those inside it, whose replies are its output.

    Where its span has what a model was last sent and said, that is the exchange of its last call.
    """
    own = [p for p in prompts if p.symbol == symbol or p.symbol.startswith(f"{symbol}.")]
    own = [p for p in own if not STEPS_OF_AGENT.search(p.text) and not _is_no_prompt(p)]
    out = []
    for prompt in own:
        said = said_at(code, prompt.symbol)
        if not prompt.sent_at or prompt.sent_at & said or output_of(code, prompt.symbol) is Output.UNKNOWN:
            out.append(prompt)
    if out or not is_exchange_seen(code, symbol):
        return out
    last = max((line for p in own for line in p.sent_at), default=0)
    return [p for p in own if last in p.sent_at]


#: Names of texts about errors, and paths of tests and examples, whose texts no user's request sends.
_OF_ERRORS = re.compile(r"(?i)(^|_)(err|errors?|exceptions?|failed|failure)(_|$|msg|text)")
_OF_TESTS = re.compile(r"(^|/)(tests?|testing|examples?)/|(^|/)(test_[^/]*|[^/]*_test|conftest)\.py$")


def _is_no_prompt(prompt: Prompt) -> bool:
    return bool(_OF_ERRORS.search(prompt.name) or _OF_TESTS.search(prompt.place.path))


def _for_tier(
    component: ComponentDraft,
    tier: TierDraft,
    prompts: list[Prompt],
    points: dict[str, IntegrationPoint],
    tiers: int,
    code: ClaimedCode,
) -> list[MetricDesign]:
    prefix = f"{component.id}_{tier.id}" if tiers > 1 or not component.id.endswith(tier.id) else component.id
    is_kept = output_of(code, tier.symbol) is Output.KEPT
    judged = JudgedTier(component, tier, prefix, prompts, points.get(tier.symbol), is_kept, code)
    return [_judge(judged, criterion) for criterion in criteria_of(judged)]


#: Most characters of the prompts that a judge reads, and most prompts; the middle of longer ones is left out.
_MAX_TOLD, _MOST_TOLD = 6_000, 3


def _told(prompts: list[Prompt]) -> list[str]:
    """Return the first step of a judge: what the model was told, in the words of the code."""
    texts = [p for p in prompts if p.text.strip()]
    texts = [p for p in texts if len(p.text) >= MIN_TASK][:_MOST_TOLD] or texts[:1]
    if not texts:
        return []
    which = "; of several texts, those that fit the input were sent" if len(texts) > 1 else ""
    parts = [f"{p.place}:\n{_cut(p.text.strip(), _MAX_TOLD // len(texts))}" for p in texts]
    return ["\n\n".join([f"Read what the model was told ({{name}} stands for what varies{which}).", *parts])]


def _cut(text: str, most: int) -> str:
    half = most // 2
    return text if len(text) <= most else f"{text[:half]}\n[... {len(text) - 2 * half} characters ...]\n{text[-half:]}"


def rubric_of(
    criterion: str,
    inputs: list[str],
    prompts: list[Prompt],
    further: list[str] | None = None,
    scale: dict[str, int] | None = None,
    steps: list[str] | None = None,
) -> tuple[RubricDraft, dict[str, Any]]:
    """Return the rubric of a judge, and the claim with it.

    Args:
        criterion: The question.
        inputs: Fields that the judge reads.
        prompts: What the model was told; the judge reads the first.
        further: Steps before the last one; None for none.
        scale: Score from 5 to 1 by its description; None for that of answers.
        steps: All steps; None for those of answers.
    """
    scale = dict(scale or _SCALE)
    schema = {
        "type": "object",
        "required": ["justification", "score"],
        "properties": {"justification": {"type": "string"}, "score": {"type": "integer", "minimum": 1, "maximum": 5}},
    }
    steps = list(steps or [*_told(prompts), *_STEPS[:-1], *(further or ()), _STEPS[-1]])
    rubric = {
        "criterion": criterion,
        "scale": scale,
        "steps": list(steps),
        "inputs": inputs,
        "pass_at": 3,
        "output_schema": schema,
    }
    return RubricDraft(criterion, steps, inputs, dict(scale), 3, schema), {"form": "judge", "rubric": rubric}


def _judge(judged: JudgedTier, criterion: Criterion) -> MetricDesign:
    tier, prompts, inputs = judged.tier, judged.prompts, criterion.inputs
    # What the model was sent holds its instructions.
    further = OF_SUPPORT if criterion.concern == "groundedness" else None
    rubric, claim = rubric_of(criterion.text, inputs, [] if judged.is_seen else prompts, further)
    evidence = [f"{p.place} prompt{' ' + p.name if p.name else ''} of {p.symbol}" for p in prompts[:4]] or [
        f"{tier.place} {tier.symbol}"
    ]
    name = judged.span.name if judged.span is not None else tier.symbol.rpartition(".")[2]
    is_sure = criterion.family != "follows_its_prompt" or is_sure_task(tier.symbol, prompts, judged.code)
    return MetricDesign(
        name=metric_name(f"{judged.prefix}_{criterion.family}"),
        component=judged.component.id,
        source="judge",
        family=f"{tier.id}_{criterion.family}",
        purpose=f"finds {criterion.failure}",
        concern=criterion.concern,
        claim=claim,
        evidence=evidence,
        symbols=[tier.symbol],
        places=[p.place for p in prompts[:4]] or [tier.place],
        pattern="calls_llm",
        tier=tier.id,
        spans=[name],
        fields=[*(f.partition("#")[0] for f in inputs), "tier"],
        when=exchange_of(name)
        if judged.is_seen
        else {
            "all_of": [{"field": "name", "one_of": [name]}, {"field": inputs[-1].partition("#")[0], "present": True}]
        },
        valid_when="what the model is asked later in the function, for something else, is not recorded in its place"
        if judged.is_seen and judged.asked_at
        else "the last model call below the function is the one that writes the answer"
        if judged.is_seen
        else "the output of the span is what the model said: the function itself gives no text"
        if judged.is_kept
        else "the answer came from this tier and is not empty; cached answers were judged before",
        better="lower",
        direction_evidence=BY_THE_CLAIM,
        severity="ticket",
        action="read the judge's justifications; compare by model and release before changing the prompt",
        targets=["in_process", "dashboard", "alert"],
        rubric=rubric,
        prompts=[p.place for p in prompts[:4]],
        evidence_from=[place for p in prompts[:4] for place in p.evidence_from][:4]
        if criterion.concern == "groundedness"
        else [],
        questions=["q-pipeline-judge-model"],
        is_exported=False,
        doubt="" if is_sure else "its text may be data, a hint or an example beside what the model is told",
        demand=worth_of(tier.symbol, [p.text for p in prompts])
        + (criterion.family in FIRST)
        - (_OF_UNNAMED if criterion.is_unnamed else 0.0),
    )


#: Most judges of a pipeline that hold answers to what was found, normally one; most nodes and calls between two.
MOST_GROUNDED, _MAX_BETWEEN = 2, 8
_OF_GRAPHS = frozenset({"framework"})
#: How much less the answers of another run may be worth.
_LEAST_SHARE = 1.0
#: Least that a prompt asks for whose judge is worth its cost, and what is taken off where no find has a name.
_LEAST_DEMAND, _OF_UNNAMED = 0.5, 1.0


def set_doubts(metrics: list[MetricDesign], code: ClaimedCode) -> None:
    """Set why judges come in by name alone: nothing is recorded, little is asked for, or another judges the answer."""
    judges = [m for m in metrics if m.source == "judge" and not m.reads_search]
    for metric in judges:
        if not metric.is_of_trace and OF_EXCHANGE[1] not in metric.fields:
            metric.doubt = "what the model is sent and says there is not recorded"
        elif metric.concern == "quality" and metric.demand < _LEAST_DEMAND:
            metric.doubt = "its prompt asks for little that a user would miss"
    grounded = [m for m in judges if m.concern == "groundedness" and not m.doubt]
    kept: list[MetricDesign] = []
    for metric in sorted(grounded, key=lambda m: (-_worth_of_support(m), not _is_node(m, code))):
        after = next((m for m in grounded if _is_before(metric, m, code) and not _is_before(m, metric, code)), None)
        same = next((m for m in kept if _is_of_run(metric, m, code)), None)
        if after is not None:
            metric.doubt = f"{after.name} judges what is made of it"
        elif same is not None:
            metric.doubt = f"{same.name} judges the answer of the same run"
        elif kept and (
            len(kept) >= MOST_GROUNDED or _worth_of_support(metric) < _worth_of_support(kept[0]) - _LEAST_SHARE
        ):
            metric.doubt = f"{kept[0].name} judges answers already"
        else:
            kept.append(metric)
    waiting = {m.symbols[0]: m.doubt for m in grounded if m.doubt}
    for metric in judges:
        # A function whose support waits is a step, or answers as another does.
        if metric.concern == "quality" and not metric.is_of_trace and not metric.doubt:
            metric.doubt = waiting.get(metric.symbols[0], "")


def _worth_of_support(metric: MetricDesign) -> float:
    """Return how much an owner wants a judge of support: that of an answer, from finds whose lines are known."""
    return metric.demand + bool(metric.evidence_from)


def _is_node(metric: MetricDesign, code: ClaimedCode) -> bool:
    return any(e.kind in _OF_GRAPHS for e in code.material.sites.callers[metric.symbols[0]])


def _above(symbol: str, code: ClaimedCode, kinds: frozenset[str] | None = None) -> set[str]:
    """Return a function and those that lead to it, by edges of some kinds."""
    seen, frontier = {symbol}, {symbol}
    for _ in range(_MAX_BETWEEN):
        callers = {e.src for one in frontier for e in code.material.sites.callers[one] if not kinds or e.kind in kinds}
        frontier = callers - seen
        seen |= frontier
    return seen


def _is_before(metric: MetricDesign, other: MetricDesign, code: ClaimedCode) -> bool:
    """Return whether a graph goes on from a function, or from one that calls it, to another that is shown finds."""
    mine = _above(metric.symbols[0], code, CALLS)
    its = _above(other.symbols[0], code, _OF_GRAPHS) - {other.symbols[0]}
    return not mine.isdisjoint(its) and bool(metric.evidence_from) <= bool(other.evidence_from)


def _is_of_run(metric: MetricDesign, other: MetricDesign, code: ClaimedCode) -> bool:
    """Return whether one of two functions is below the other, or a graph runs both."""
    one, two = _above(metric.symbols[0], code), _above(other.symbols[0], code)
    if metric.symbols[0] in two or other.symbols[0] in one:
        return True
    in_graphs = [_above(m.symbols[0], code, _OF_GRAPHS) - {m.symbols[0]} for m in (metric, other)]
    return not one.isdisjoint(in_graphs[1]) or not two.isdisjoint(in_graphs[0])


def exchange_of(*spans: str) -> dict[str, Any]:
    """Return the condition that a span has what a model was sent and what it said; a judge of less would guess."""
    return {"all_of": [{"field": "name", "one_of": list(spans)}, *({"field": f, "present": True} for f in OF_EXCHANGE)]}


def cost_per_quality(component: ComponentDraft, metrics: list[MetricDesign]) -> MetricDesign | None:
    """Return the metric cost per passing unit of a quality check of the same component, or None without one."""
    cost = next((m for m in metrics if m.family == "model_cost"), None)
    paired = next(
        (m for m in metrics if m.concern in ("quality", "groundedness", "safety") and m.claim["form"] == "check"), None
    )
    if cost is None or paired is None:
        return None
    return MetricDesign(
        name=f"{component.id}_cost_per_answer",
        component=component.id,
        source="cost",
        family="cost_per_answer",
        purpose=f"cost of one unit that passes {paired.name}",
        concern="cost_per_quality",
        claim={"form": "ratio", "numerator": cost.name, "denominator": paired.name, "per": "unit"},
        evidence=[*cost.evidence[:2], *paired.evidence[:2]],
        symbols=sorted({*cost.symbols, *paired.symbols}),
        places=[*cost.places[:2], *paired.places[:2]],
        pattern="calls_llm",
        spans=cost.spans,
        fields=[*cost.fields, *paired.fields],
        better="lower",
        of="mean",
        direction_verdict=cost.direction_verdict,
        direction_evidence=cost.direction_evidence,
        valid_when="the code that writes usage.cost_usd knows the price of the model",
        cost_bundle={
            "costScorer": {"name": cost.name, "source": "usage.cost_usd", "aggregation": "sum"},
            "qualityScorer": {
                "name": f"{paired.name}_pass",
                "pairedMetricName": paired.name,
                "passCondition": "outcome = pass",
            },
            "derivedMetric": {
                "name": f"{component.id}_cost_per_answer",
                "formula": f"{cost.name} / max({paired.name}_pass, 1)",
            },
        },
        monitors=[paired.name],
    )
