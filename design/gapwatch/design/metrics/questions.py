"""What only the practitioner can say, asked where the code leaves it open; and their answers as facts."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from gapwatch.design.architecture.classify import UNSURE
from gapwatch.design.architecture.model import Architecture, ComponentDraft
from gapwatch.design.architecture.prompts import Prompt
from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.scorers.portfolio.fact import Fact

#: The question for the call that no library and no address gives away.
MODEL_QUESTION = "q-pipeline-model-call"
#: Questions for one component at most.
MAX_QUESTIONS = 3
_ABSTAIN = re.compile(
    r"(cannot answer|can't answer|don't know|do not know|insufficient|not enough (information|context)|unable "
    r"to|no answer|refuse)[^.\n]{0,60}",
    re.I,
)


@dataclass
class QuestionDraft:
    """An open question.

    Attributes:
        id: The same in every run on the same code: the component and the topic, never a line.
        kind: What sort of fact an answer makes: direction, scope, threshold, availability, semantics.
        decides: Metrics whose admission, direction, threshold or scope the answer changes.
        meaning: For a choice: what each option says about which way is better (option to lower, higher, unknown).
    """

    id: str
    component: str | None
    text: str
    why: str
    kind: str
    answer_type: str
    options: list[str] = field(default_factory=list)
    default: str = ""
    decides: list[str] = field(default_factory=list)
    meaning: dict[str, str] = field(default_factory=dict)

    def as_yaml(self) -> dict[str, Any]:
        """Return it as a portfolio holds it."""
        out: dict[str, Any] = {"id": self.id}
        if self.component:
            out["component"] = self.component
        answer: dict[str, Any] = {"type": self.answer_type}
        if self.options:
            answer["options"] = self.options
        return out | {
            "text": self.text,
            "why": self.why,
            "decides": self.decides,
            "answer": answer,
            "default": self.default,
        }


def draft_questions(
    architecture: Architecture, metrics: list[MetricDesign], prompts: dict[str, list[Prompt]], has_model: bool
) -> list[QuestionDraft]:
    """Return all questions, those that decide most first within a component, at most three for each."""
    out: list[QuestionDraft] = []
    if not has_model:
        out.append(
            QuestionDraft(
                MODEL_QUESTION,
                None,
                "Which call of this code reaches your model?",
                "no call to a model was found: neither a known library nor a known address",
                "scope",
                "text",
                default="none: nothing is measured on model answers",
            )
        )
    judges = [m.name for m in metrics if m.source == "judge"]
    if judges:
        out.append(
            QuestionDraft(
                "q-pipeline-judge-model",
                None,
                "Which model may judge answers (vendor/name)?",
                f"{len(judges)} judge metrics are ready and name no model; judging sends answers to that model",
                "availability",
                "text",
                default="none: judges stay in the report",
                decides=sorted(judges),
            )
        )
    for component in architecture.components:
        mine = [m for m in metrics if m.component == component.id]
        asked = [q for q in _of_component(component, mine, prompts.get(component.id, [])) if q is not None]
        # An answer that decides nothing is not worth the practitioner's time.
        asked = [q for q in asked if q.decides]
        asked.sort(key=lambda q: (-len(q.decides), q.id))
        out += asked[:MAX_QUESTIONS]
    return out


def _named(metrics: list[MetricDesign], *families: str) -> list[str]:
    return sorted(m.name for m in metrics if m.family in families)


def _of_component(
    component: ComponentDraft, metrics: list[MetricDesign], prompts: list[Prompt]
) -> list[QuestionDraft | None]:
    hits = {name: [h for h in component.hits if h.pattern == name] for name in component.patterns}
    first = {name: f"{found[0].path}:{found[0].line}" for name, found in hits.items()}
    c, name = component.id, component.name
    out: list[QuestionDraft | None] = []
    if "has_cascade" in hits:
        tiers = [t.id for t in component.tiers if t.is_ordered]
        ways = " then ".join(tiers) if tiers else hits["has_cascade"][0].evidence
        out.append(
            QuestionDraft(
                f"q-{c}-cascade",
                c,
                f"{name}: is falling back ({ways}) expected service or degraded service?",
                f"{first['has_cascade']}: {hits['has_cascade'][0].evidence}; a wrong guess turns the alert upside down",
                "direction",
                "choice",
                ["degraded", "expected", "either"],
                "either: a shift is reported without saying good or bad",
                _named(metrics, "fallback_rate", "fallback_depth", "tier_mix"),
                {"degraded": "lower", "expected": "unknown", "either": "unknown"},
            )
        )
    if "has_retry_loop" in hits:
        out.append(
            QuestionDraft(
                f"q-{c}-retry",
                c,
                f"{name}: is much retrying a sign of trouble, or thoroughness?",
                f"{first['has_retry_loop']}: {hits['has_retry_loop'][0].evidence}",
                "direction",
                "choice",
                ["trouble", "thoroughness", "either"],
                "either: a shift is reported without saying good or bad",
                _named(metrics, "retry_count"),
                {"trouble": "lower", "thoroughness": "higher", "either": "unknown"},
            )
        )
    if "has_cache" in hits:
        out.append(
            QuestionDraft(
                f"q-{c}-cache",
                c,
                f"{name}: should hits of the cache go up, or does a rise mean stale answers?",
                f"{first['has_cache']}: {hits['has_cache'][0].evidence}",
                "direction",
                "choice",
                ["up", "down", "either"],
                "either: a shift is reported without saying good or bad",
                _named(metrics, "cache_hit_rate"),
                {"up": "higher", "down": "lower", "either": "unknown"},
            )
        )
    if "has_circuit_breaker" in hits:
        out.append(
            QuestionDraft(
                f"q-{c}-breaker",
                c,
                f"{name}: is an open breaker always an incident?",
                f"{first['has_circuit_breaker']}: {hits['has_circuit_breaker'][0].evidence}",
                "direction",
                "choice",
                ["incident", "protection", "either"],
                "either",
                _named(metrics, "breaker_open_rate"),
                {"incident": "lower", "protection": "unknown", "either": "unknown"},
            )
        )
    swallowing = [h for h in hits.get("has_try_except", []) if h.kind == "swallows"]
    if swallowing:
        out.append(
            QuestionDraft(
                f"q-{c}-default",
                c,
                f"{name}: is what stands in after a swallowed error acceptable to the user?",
                f"{swallowing[0].path}:{swallowing[0].line}: {swallowing[0].evidence}",
                "semantics",
                "choice",
                ["acceptable", "failure"],
                "failure",
                _named(metrics, "swallowed_errors"),
            )
        )
    abstaining = next(((p, found) for p in prompts if (found := _ABSTAIN.search(p.text))), None)
    if abstaining is not None:
        prompt, found = abstaining
        out.append(
            QuestionDraft(
                f"q-{c}-abstain",
                c,
                f"{name}: does an answer that abstains count as a success or a failure?",
                f"{prompt.place} tells the model: “{' '.join(found.group(0).split())}”",
                "semantics",
                "choice",
                ["success", "failure"],
                "success",
                [m.name for m in metrics if m.source == "judge"],
            )
        )
    if {"retrieval", "vector_write"} & set(component.capabilities):
        use = next(u for u in component.uses if u.capability in ("retrieval", "vector_write"))
        out.append(
            QuestionDraft(
                f"q-{c}-freshness",
                c,
                f"{name}: how old may the index be before answers count as degraded (hours)?",
                f"{use.place}: {use.dotted}",
                "threshold",
                "number",
                [],
                "no limit",
                _named(metrics, "passages_found", "rows_written"),
            )
        )
    if "judge" in component.semantics:
        out.append(
            QuestionDraft(
                f"q-{c}-agreement",
                c,
                f"{name}: is there a set of human verdicts to compare this judge with?",
                "a judge without known agreement measures itself",
                "availability",
                "choice",
                ["yes", "no"],
                "no",
                [m.name for m in metrics if m.source == "judge"],
            )
        )
    if component.classification_confidence < UNSURE and component.role != "operational":
        out.append(
            QuestionDraft(
                f"q-{c}-purpose",
                c,
                f"{name}: what is it for? It looks like {component.pattern} in the stage {component.stage}.",
                component.reasoning,
                "scope",
                "text",
                [],
                f"{component.pattern}, {component.stage}",
                [m.name for m in metrics][:3],
            )
        )
    return out


def fact_of(question: QuestionDraft, value: str, by: str, at: str) -> Fact:
    """Return the fact that an answer makes.

    Args:
        by: Who said it.
        question: The question that is answered.
        value: One of the options, a number or a text.
        at: ISO 8601.

    Raises:
        ValueError: The value is none of what may be answered.
    """
    from pydantic import ValidationError

    answer: str | float = value
    if question.answer_type == "choice" and value not in question.options:
        raise ValueError(f"{value!r} is no answer to {question.id}; expected one of {', '.join(question.options)}")
    if question.answer_type == "number":
        try:
            answer = float(value)
        except ValueError:
            raise ValueError(f"{value!r} is no number, which {question.id} asks for") from None
    data: dict[str, Any] = {
        "id": f"f-{question.id.removeprefix('q-')}",
        "question": question.id,
        "component": question.component,
        "kind": question.kind,
        "value": answer,
        "by": by,
        "at": at,
    }
    if question.kind == "direction":
        metric = next((name for name in question.decides if not name.endswith("_tier_mix")), None)
        if metric is None:
            raise ValueError(f"{question.id} decides no metric any more")
        data |= {"metric": metric, "better": question.meaning.get(value, "unknown")}
    try:
        return Fact.model_validate(data)
    except ValidationError as error:
        raise ValueError(f"{question.id}: {error.errors()[0]['msg']}") from error
