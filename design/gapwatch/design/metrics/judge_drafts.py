"""Drafts judges from code: the prompt of a tier, the keys of its answer and the passages that it must rest on.

No model is called here and none is named. A judge is exported once the practitioner names the model that may judge.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from gapwatch.design.architecture.claimed_code import ClaimedCode
from gapwatch.design.architecture.model import ComponentDraft, TierDraft
from gapwatch.design.architecture.prompt_texts import MIN_TASK
from gapwatch.design.architecture.prompts import Prompt
from gapwatch.design.architecture.reply_flow import Output, has_member, output_of, said_at
from gapwatch.design.metrics.catalog import metric_name
from gapwatch.design.metrics.metric_design import MetricDesign, RubricDraft
from gapwatch.design.metrics.prompt_demands import asks_nothing, is_for_statements, sets_task, worth_of
from gapwatch.design.metrics.spans import IntegrationPoint
from gapwatch.design.patterns.library_uses import CodePlace
from gapwatch.scorers.portfolio.polarity import BY_THE_CLAIM

#: Form of the steps of an agent, which sets no task.
STEPS_OF_AGENT = re.compile(r"Thought:.*(Action|Observation|Final Answer)|^\s*Begin!", re.S)
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
        mine = _answered(tier.symbol, prompts, code)
        # A judge that does not know what the model was told can only guess.
        if sets_task(mine):
            out += _for_tier(component, tier, mine, by_symbol, len(llm_tiers), code)
    # One judge for each tier comes first; second criteria take the places that are left.
    firsts = [next(m for m in out if m.tier == t.id) for t in llm_tiers if any(m.tier == t.id for m in out)]
    rest = [m for m in out if m not in firsts]
    return (firsts + rest)[:MAX_DESIGNED]


def _answered(symbol: str, prompts: list[Prompt], code: ClaimedCode) -> list[Prompt]:
    """Return the prompts of a function, and of those inside it, whose replies are its output."""
    out = []
    for prompt in prompts:
        if (prompt.symbol == symbol or prompt.symbol.startswith(f"{symbol}.")) and not STEPS_OF_AGENT.search(
            prompt.text
        ):
            said = said_at(code, prompt.symbol)
            if not prompt.sent_at or prompt.sent_at & said or output_of(code, prompt.symbol) is Output.UNKNOWN:
                out.append(prompt)
    return out


@dataclass(frozen=True)
class _Judged:
    """The tier whose answers are judged.

    Attributes:
        prefix: What the names of its judges begin with.
        prompts: Its own: the one with the task first.
        span: The span of its function; None where it is asked for none.
        is_kept: Whether its function gives no text, so that the span's output is the model's reply.
        code: The functions.
    """

    component: ComponentDraft
    tier: TierDraft
    prefix: str
    prompts: list[Prompt]
    span: IntegrationPoint | None
    is_kept: bool
    code: ClaimedCode

    def has_member(self, key: str) -> bool:
        """Return whether the output is an object with a key: it is written so, or it is what the reply is parsed to."""
        return not self.is_kept and has_member(self.code, self.tier.symbol, key)

    @property
    def answer(self) -> str:
        """Name of the judged text, for a criterion."""
        return f"{'reply of the model in' if self.is_kept else 'answer of'} `{self.tier.symbol}`"

    @property
    def place(self) -> CodePlace:
        """Place of its prompt, or of its code."""
        return self.prompts[0].place if self.prompts else self.tier.place


@dataclass(frozen=True)
class _Criterion:
    """Criterion of a judge.

    Attributes:
        family: The judge's name without the component's and the tier's.
        inputs: What it is shown of the span.
        failure: What it finds.
    """

    family: str
    text: str
    inputs: list[str]
    concern: str
    failure: str


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
    judged = _Judged(component, tier, prefix, prompts, points.get(tier.symbol), is_kept, code)
    return [_judge(judged, criterion) for criterion in _criteria(judged)]


#: Keys of a provider's reply around the answer; no model chose their values.
_ENVELOPE = frozenset(
    "choices delta done error event finish_reason id index model object role stop_reason type usage".split()  # noqa: SIM905
)


#: Keys in which a model thinks aloud before it answers.
_THOUGHTS = re.compile(r"logic|reason|rationale|thought|thinking|explanation|justification|analysis$", re.I)


def _criteria(judged: _Judged) -> list[_Criterion]:
    tier, prompts, place = judged.tier, judged.prompts, judged.place
    evidence = sorted({f for p in prompts for f in p.evidence_fields})
    said = "\n".join(p.text for p in prompts)
    read = {k for p in prompts for k in p.output_fields} - _ENVELOPE
    keys = sorted(k for k in read if not _THOUGHTS.search(k) and k in said and judged.has_member(k))
    asked = _asked(prompts)
    out: list[_Criterion] = []
    if evidence and is_for_statements(tier.symbol, asked):
        out.append(
            _Criterion(
                family="rests_on_" + (metric_name(evidence[0]) if len(evidence) == 1 else "its_sources"),
                text=f"Is every statement of the {judged.answer} supported by {_listed(prompts, evidence)}, which "
                f"{_given(prompts, evidence)} {place}, or by what was asked, and by nothing else?",
                inputs=["input", "output", "attributes.context"],
                concern="groundedness",
                failure=f"statements without support in {', '.join(evidence)}",
            )
        )
    for key in keys[:2]:
        out.append(
            _Criterion(
                family=f"{metric_name(key)}_is_right",
                text=f"Is the member `{key}` of the {judged.answer} right for what was asked, given what the "
                f"prompt at {place} says about it?",
                inputs=["input", f"output#/{key}"],
                concern="quality",
                failure=f"wrong {key}",
            )
        )
    if (asked or not out) and not asks_nothing(prompts):
        what = f"“{asked}”" if asked else f"the prompt built in {tier.place}"
        out.append(
            _Criterion(
                family="follows_its_prompt",
                text=f"Does the {judged.answer} do what it is told by {what} ({place}), all of it and nothing else?",
                inputs=["input", "output", *(["attributes.context"] if evidence else [])],
                concern="quality",
                failure=f"an answer that does not do what {place} asks",
            )
        )
    return out


def _listed(prompts: list[Prompt], evidence: list[str]) -> str:
    """Return the names of all that fills the prompts, what was fetched first."""
    fields = [*evidence, *(f for p in prompts for f in p.fields if f not in evidence)]
    names = [f"`{f}`" for f in dict.fromkeys(fields)]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _given(prompts: list[Prompt], evidence: list[str]) -> str:
    is_filled = any(evidence[0] in p.fields for p in prompts)
    return "it is given by the prompt at" if is_filled else "it is sent beside the prompt at"


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


def _asked(prompts: list[Prompt]) -> str:
    text = next(filter(None, (" ".join(p.text.split()) for p in prompts)), "")
    return text[:160] + ("…" if len(text) > 160 else "")


def rubric_of(criterion: str, inputs: list[str], prompts: list[Prompt]) -> tuple[RubricDraft, dict[str, Any]]:
    """Return the rubric of a judge, and the claim with it.

    Args:
        criterion: The question.
        inputs: Fields that the judge reads.
        prompts: What the model was told; the judge reads the first.
    """
    schema = {
        "type": "object",
        "required": ["justification", "score"],
        "properties": {"justification": {"type": "string"}, "score": {"type": "integer", "minimum": 1, "maximum": 5}},
    }
    steps = [*_told(prompts), *_STEPS]
    rubric = {
        "criterion": criterion,
        "scale": dict(_SCALE),
        "steps": list(steps),
        "inputs": inputs,
        "pass_at": 3,
        "output_schema": schema,
    }
    return RubricDraft(criterion, steps, inputs, dict(_SCALE), 3, schema), {"form": "judge", "rubric": rubric}


def _judge(judged: _Judged, criterion: _Criterion) -> MetricDesign:
    tier, prompts, inputs = judged.tier, judged.prompts, criterion.inputs
    rubric, claim = rubric_of(criterion.text, inputs, prompts)
    evidence = [f"{p.place} prompt{' ' + p.name if p.name else ''} of {p.symbol}" for p in prompts[:4]] or [
        f"{tier.place} {tier.symbol}"
    ]
    name = judged.span.name if judged.span is not None else tier.symbol.rpartition(".")[2]
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
        when={"all_of": [{"field": "name", "one_of": [name]}, {"field": "output", "present": True}]},
        valid_when="the output of the span is what the model said: the function itself gives no text"
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
        demand=worth_of(tier.symbol, [p.text for p in prompts]),
    )


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
