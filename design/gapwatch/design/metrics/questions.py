"""Questions that only the practitioner can answer, and their answers as facts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from gapwatch.design.architecture.classify import UNSURE
from gapwatch.design.architecture.edges import find_symbol
from gapwatch.design.architecture.model import Architecture, ComponentDraft
from gapwatch.design.architecture.prompts import Prompt
from gapwatch.design.architecture.tiers import named_routes
from gapwatch.design.callgraph.graph import CallGraph
from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.patterns.hit import PatternHit
from gapwatch.scorers.portfolio.fact import Fact

#: Id of the question for the model call, asked when no library and no address shows it.
MODEL_QUESTION = "q-pipeline-model-call"
#: Id of the question for the model that may judge.
JUDGE_QUESTION = "q-pipeline-judge-model"
#: Most questions for one component.
MAX_QUESTIONS = 3
#: Most questions of a design; the defaults of the others are safe.
MAX_ASKED = 8
_EITHER = "either; Gapwatch reports a shift without calling it good or bad"
_MATERIAL = r"(context|information|evidence|passages?|documents?|sources?|results?|data)"
#: A prompt that says what to do where there is no answer.
_ABSTAIN = re.compile(
    r"((cannot|can't|could not|couldn't|unable to) (be )?(answer|find|determine|help)|don't know|do not know|no answer"
    rf"|{_MATERIAL} (is|are) (empty|insufficient|not (enough|sufficient))"
    rf"|{_MATERIAL} do(es)? not (contain|have|provide|include))[^.\n]{{0,60}}",
    re.I,
)


@dataclass
class QuestionDraft:
    """An open question.

    Attributes:
        id: The same in every run on the same code: made of component and topic, never of a line.
        component: Id of the component; None for the pipeline.
        text: The question.
        why: Its reason, with the line of code.
        kind: Kind of the fact that an answer makes: direction, scope, threshold, availability, semantics.
        answer_type: choice, number or text.
        options: Answers of a choice.
        default: Assumption until there is an answer.
        decides: Metrics whose admission, direction, threshold or scope the answer changes.
        meaning: Better direction (lower, higher, unknown) by option of a choice.
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

    @property
    def has_effect(self) -> bool:
        """False if it asks for the direction of a metric and decides none that has one."""
        return self.kind != "direction" or any(not name.endswith("_tier_mix") for name in self.decides)

    def as_yaml(self) -> dict[str, Any]:
        """Return the question as in the portfolio."""
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


def with_named_calls(hits: tuple[PatternHit, ...], graph: CallGraph, facts: tuple[Fact, ...]) -> tuple[PatternHit, ...]:
    """Return pattern hits with the functions that the practitioner named as model calls."""
    symbols = {s.id: s for s in graph.symbols}
    named: list[PatternHit] = []
    for fact in facts:
        symbol = find_symbol(graph, str(fact.value)) if fact.question == MODEL_QUESTION else None
        if symbol is not None and symbols[symbol].kind == "function":
            s = symbols[symbol]
            evidence = f"{symbol} reaches the model, says {fact.by}"
            named.append(PatternHit(s.path, s.line, "calls_llm", s.id, s.line, "direct", evidence, 1.0))
    return tuple(sorted({*hits, *named}))


def draft_questions(
    architecture: Architecture, metrics: list[MetricDesign], prompts: dict[str, list[Prompt]], has_model: bool
) -> list[QuestionDraft]:
    """Return all questions: at most three for each component, those that affect most metrics first.

    Args:
        architecture: Components and edges.
        metrics: Metrics that passed the critic.
        prompts: Prompts by component.
        has_model: Whether any call reaches a model.
    """
    out: list[QuestionDraft] = []
    if not has_model:
        out.append(
            QuestionDraft(
                MODEL_QUESTION,
                None,
                "Which call of this code reaches your model?",
                "Gapwatch found no call to a model: no known library and no known address",
                "scope",
                "text",
                default="none; no metric of model answers is designed",
            )
        )
    judges = [m.name for m in metrics if m.source == "judge"]
    if judges:
        out.append(
            QuestionDraft(
                JUDGE_QUESTION,
                None,
                "Which model may judge answers (vendor/name)?",
                f"{'1 judge needs' if len(judges) == 1 else f'{len(judges)} judges need'} a model;"
                " judging sends answers to it",
                "availability",
                "text",
                default="none; judges stay in the report and are not exported",
                decides=sorted(judges),
            )
        )
    for component in architecture.components:
        mine = [m for m in metrics if m.component == component.id]
        asked = [q for q in _of_component(component, mine, prompts.get(component.id, [])) if q is not None]
        # A question that affects no metric is not asked.
        asked = [q for q in asked if q.decides]
        asked.sort(key=lambda q: (-len(q.decides), q.id))
        out += asked[:MAX_QUESTIONS]
    return out


def open_ones(questions: list[QuestionDraft], facts: Iterable[Fact], has_judge: bool) -> list[QuestionDraft]:
    """Return the questions that nobody has answered: no fact does, and of the judges no model is named."""
    answered = {f.question for f in facts} | ({JUDGE_QUESTION} if has_judge else set())
    return [q for q in questions if q.id not in answered]


def most_telling(questions: list[QuestionDraft], metrics: list[MetricDesign]) -> list[QuestionDraft]:
    """Return the questions whose answers change most: at most `MAX_ASKED`, in the order in which they were drafted.

    Questions of the pipeline come first, then those of a direction, which decide what alerts; then those that affect
    most metrics.
    """
    alerting = {m.name for m in metrics if m.severity in ("page", "ticket")}
    order = sorted(
        questions,
        key=lambda q: (
            q.component is not None,
            q.kind != "direction",
            -len(alerting & set(q.decides)),
            -len(q.decides),
            q.id,
        ),
    )
    kept = {q.id for q in order[:MAX_ASKED]}
    return [q for q in questions if q.id in kept]


def _named(metrics: list[MetricDesign], *families: str) -> list[str]:
    return sorted(m.name for m in metrics if m.family in families)


def _quoted(metrics: list[MetricDesign], *families: str) -> str:
    """Return the first line of code that the metrics of some families rest on, with what stands there."""
    lines = [m.evidence[0] for m in metrics if m.family in families and m.evidence]
    place, _, said = lines[0].partition(" ") if lines else ("", "", "")
    return f"{place}: {said.partition(': ')[2] or said}"


def _of_component(
    component: ComponentDraft, metrics: list[MetricDesign], prompts: list[Prompt]
) -> list[QuestionDraft | None]:
    patterns = set(component.patterns)
    c, name = component.id, component.name
    out: list[QuestionDraft | None] = []
    for route, _, question in named_routes(component):
        ways = " then ".join(arm.tier for arm in route.answers)
        second = route.answers[1] if len(route.answers) > 1 else route.arms[1]
        out.append(
            QuestionDraft(
                question,
                c,
                f"{name}: {ways}: is an answer of {second.tier} worse than one of {route.arms[0].tier}?",
                f"{route.path}:{route.line}: {route.text[:160]}; a wrong guess would invert the alert",
                "direction",
                "choice",
                ["degraded", "expected", "either"],
                _EITHER,
                sorted(m.name for m in metrics if question in m.questions),
                {"degraded": "lower", "expected": "unknown", "either": "unknown"},
            )
        )
    if "has_retry_loop" in patterns:
        out.append(
            QuestionDraft(
                f"q-{c}-retry",
                c,
                f"{name}: are many retries a sign of trouble or of thoroughness?",
                _quoted(metrics, "retry_count"),
                "direction",
                "choice",
                ["trouble", "thoroughness", "either"],
                _EITHER,
                _named(metrics, "retry_count"),
                {"trouble": "lower", "thoroughness": "higher", "either": "unknown"},
            )
        )
    if "has_cache" in patterns:
        out.append(
            QuestionDraft(
                f"q-{c}-cache",
                c,
                f"{name}: should the cache hit rate rise, or does a rise mean stale answers?",
                _quoted(metrics, "cache_hit_rate"),
                "direction",
                "choice",
                ["up", "down", "either"],
                _EITHER,
                _named(metrics, "cache_hit_rate"),
                {"up": "higher", "down": "lower", "either": "unknown"},
            )
        )
    if "has_circuit_breaker" in patterns:
        out.append(
            QuestionDraft(
                f"q-{c}-breaker",
                c,
                f"{name}: is an open circuit breaker always an incident?",
                _quoted(metrics, "breaker_open_rate"),
                "direction",
                "choice",
                ["incident", "protection", "either"],
                _EITHER,
                _named(metrics, "breaker_open_rate"),
                {"incident": "lower", "protection": "unknown", "either": "unknown"},
            )
        )
    if "has_try_except" in patterns:
        out.append(
            QuestionDraft(
                f"q-{c}-default",
                c,
                f"{name}: is the default after a swallowed error acceptable to the user?",
                _quoted(metrics, "swallowed_errors"),
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
        out.append(
            QuestionDraft(
                f"q-{c}-freshness",
                c,
                f"{name}: how old may the index be before answers count as degraded (hours)?",
                _quoted(metrics, "passages_found", "rows_written"),
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
                f"{name}: are there human ratings to compare this judge with?",
                "without human ratings the accuracy of this judge is unknown",
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
        question: The question that is answered.
        value: One of the options, a number or a text.
        by: Name of the person who answers.
        at: Date or time, ISO 8601.

    Raises:
        ValueError: The value is not a valid answer.
    """
    from pydantic import ValidationError

    answer: str | float = value
    if question.answer_type == "choice" and value not in question.options:
        raise ValueError(f"{value!r} is not an answer to {question.id}; expected one of {', '.join(question.options)}")
    if question.answer_type == "number":
        try:
            answer = float(value)
        except ValueError:
            raise ValueError(f"{value!r} is not a number; {question.id} asks for a number") from None
    data: dict[str, Any] = {
        "id": f"f-{question.id.removeprefix('q-')}",
        "question": question.id,
        "component": question.component,
        "kind": question.kind,
        "value": answer,
        "by": by,
        "at": at,
    }
    if question.id == JUDGE_QUESTION and not re.fullmatch(r"[\w.-]+/[\w.:/-]+", value):
        raise ValueError(f"{value!r} is not a model; {question.id} asks for VENDOR/NAME")
    if question.kind == "direction":
        metric = next((name for name in question.decides if not name.endswith("_tier_mix")), None)
        if metric is None:
            raise ValueError(f"{question.id} no longer affects a metric")
        data |= {"metric": metric, "better": question.meaning.get(value, "unknown")}
    try:
        return Fact.model_validate(data)
    except ValidationError as error:
        raise ValueError(f"{question.id}: {error.errors()[0]['msg']}") from error
