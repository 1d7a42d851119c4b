"""Classifies components by rule: role, kind, stage, pattern, AI behaviours, risk of silent failure."""

from __future__ import annotations

import re

from gapwatch.design.architecture.material import Material
from gapwatch.design.architecture.model import Architecture, ComponentDraft, EdgeDraft
from gapwatch.design.architecture.prompts import Prompt
from gapwatch.design.source.ir import Function

#: Classification confidence below which the practitioner is asked for the purpose.
UNSURE = 0.6

_JUDGE_WORDS = re.compile(r"\b(score|scores|rate|rating|verdict|grade|rubric|judge|critique|rationale)\b", re.I)
_JUDGED = re.compile(r"answer|response|output|completion|generated|prediction|candidate|summary", re.I)
_GUARD = re.compile(r"guard|moderat|safety|toxic|pii|redact|policy|jailbreak|injection|validate_(input|output)", re.I)
_MEMORY = re.compile(r"(^|_)(memory|history|conversation|chat_history|messages_history|session_state)(_|$|\.)", re.I)
_PROMPT = re.compile(r"prompt|system_message|template|messages", re.I)
_TOOLS = re.compile(r"(^|_)tools?(_|$)|tool_calls?|function_call", re.I)
_FEEDBACK = re.compile(r"feedback|telemetry|(^|_)eval|benchmark|metric|annotation|experiment", re.I)

_KINDS = (
    ("llm_chat", "llm"),
    ("guardrail", "guardrail"),
    ("rerank", "rerank"),
    ("retrieval", "retrieval"),
    ("embedding", "embedding"),
    ("vector_write", "retrieval"),
    ("tool", "tool"),
    ("http", "tool"),
    ("web_search", "tool"),
    ("saas", "tool"),
    ("cache", "cache"),
    ("db_write", "tool"),
)
_FAILURES = {
    "llm": "the user reads a wrong, empty or invented answer",
    "agent": "the user waits for a task that loops or ends wrong",
    "chain": "the user gets no answer, or one assembled from the wrong parts",
    "retrieval": "the answer rests on the wrong passages or on none",
    "rerank": "the best passage does not reach the prompt",
    "embedding": "new or changed documents are not found",
    "guardrail": "an unsafe answer is sent, or a good one is blocked",
    "parse": "a good answer is lost or read only in part",
    "cache": "the user gets an outdated answer",
    "tool": "the answer lacks data of a service or a store",
    "other": "a part of the answer is missing or late",
}


def classify(architecture: Architecture, material: Material, prompts: dict[str, list[Prompt]]) -> None:
    """Classify every component from its own functions, library uses and patterns.

    Args:
        architecture: Its components are changed in place.
        material: The analysed code.
        prompts: Prompts by component.
    """
    callers = _callers(architecture)
    for component in architecture.components:
        functions = _functions(component, material)
        component.semantics = _semantics(component, functions, prompts)
        component.pattern, signals, component.reasoning = _pattern(component, functions, architecture, prompts)
        component.strategies = _strategies(component, functions, architecture, prompts)
        component.kind = _kind(component)
        component.role = _role(component, callers)
        component.stage, stage_signals = _stage(component)
        component.priority = {"ai_core": "primary", "supporting": "secondary"}.get(component.role, "tertiary")
        component.silent_failure, component.silent_because = _silence(component)
        component.classification_confidence = round(min(0.95, 0.45 + 0.15 * (signals + stage_signals)), 2)
        component.alignment = "strong" if stage_signals >= 2 else "partial" if stage_signals else "adjacent"
        _overlay(component)


def _functions(component: ComponentDraft, material: Material) -> list[Function]:
    numbers = material.sites.numbers(material.program)
    return [material.program.functions[numbers[s]].ir for s in component.symbols if s in numbers]


def _callers(architecture: Architecture) -> dict[str, set[str]]:
    callers: dict[str, set[str]] = {c.id: set() for c in architecture.components}
    for edge in architecture.edges:
        callers[edge.dst].add(edge.src)
    return callers


def _names(functions: list[Function]) -> set[str]:
    out: set[str] = set()
    for function in functions:
        out.update(p.name for p in function.params)
        out.update(function.local_names)
    return out


def _semantics(component: ComponentDraft, functions: list[Function], prompts: dict[str, list[Prompt]]) -> list[str]:
    capabilities, patterns = set(component.capabilities), set(component.patterns)
    names = _names(functions)
    found = {
        "prompt_construction": bool(prompts.get(component.id))
        or (any(_PROMPT.search(n) for n in names) and "llm_chat" in capabilities),
        "model_call": "llm_chat" in capabilities,
        "retrieval": "retrieval" in capabilities,
        "reranking": "rerank" in capabilities,
        "tool_use": "tool" in capabilities
        or (any(_TOOLS.search(n) for n in names) and bool({"llm_chat", "framework"} & capabilities)),
        "memory": any(_MEMORY.search(n) for n in names),
        "guardrail": "guardrail" in capabilities or any(_GUARD.search(s.rpartition(".")[2]) for s in component.symbols),
        "judge": False,
        "fallback": "has_cascade" in patterns,
        "post_processing": "parses_json" in patterns,
    }
    found["judge"] = _is_judge(component, prompts)
    return [name for name, holds in found.items() if holds]


def _is_judge(component: ComponentDraft, prompts: dict[str, list[Prompt]]) -> bool:
    """Return whether a prompt asks for a score of text that a model wrote (not of domain objects)."""
    for prompt in prompts.get(component.id, []):
        words = {w.lower() for w in _JUDGE_WORDS.findall(prompt.text)}
        fields = " ".join(prompt.fields)
        keys = " ".join(prompt.output_fields)
        if _JUDGED.search(fields) and (len(words) >= 2 or _JUDGE_WORDS.search(keys)):
            return True
    return False


def _is_sure(edge: EdgeDraft) -> bool:
    """Return whether calls, or the edges that the code gives to a framework's graph, support an edge."""
    return edge.verification == "verified" or any(call.kind == "framework" for call in edge.calls)


def _pattern(
    component: ComponentDraft, functions: list[Function], architecture: Architecture, prompts: dict[str, list[Prompt]]
) -> tuple[str, int, str]:
    """Return (pattern, number of signals for it, reason) of the first rule of the paper that matches."""
    capabilities = set(component.capabilities)
    calls = {e.dst for e in architecture.edges if e.src == component.id and _is_sure(e)}
    called = {e.src for e in architecture.edges if e.dst == component.id and _is_sure(e)}
    has = {c.id: set(c.capabilities) for c in architecture.components}
    if _is_judge(component, prompts):
        return "judge", 3, "a prompt asks for a score of model output"
    agent_library = any(u.capability == "framework" and "gent" in u.dotted for u in component.uses)
    if component.loops or agent_library:
        return (
            "agentic",
            2 + bool(component.loops and agent_library),
            "a loop asks a model and runs what it calls" if component.loops else "uses an agent framework",
        )
    retrieves = bool({"retrieval", "rerank"} & capabilities)
    near_retrieval = any({"retrieval"} & has[other] for other in calls)
    near_model = any("llm_chat" in has[other] for other in calls | called)
    shared_caller = retrieves and any("llm_chat" in has[e.dst] for e in architecture.edges if e.src in called)
    if (retrieves and ("llm_chat" in capabilities or near_model or shared_caller)) or (
        near_retrieval and ("llm_chat" in capabilities or any("llm_chat" in has[o] for o in calls))
    ):
        return "rag", 2 + retrieves, "retrieves context for a model call"
    if "vector_write" in capabilities or ("embedding" in capabilities and "llm_chat" not in capabilities):
        return "rag", 2, "fills the index of a retrieval"
    if any(
        re.search(r"reconcil|match(_|$|es)|compare_evidence|verify_claim|entail", s.rpartition(".")[2])
        for s in component.symbols
    ):
        return "evidence_match", 1, "compares two collections"
    llm_tiers = [t for t in component.tiers if t.by == "llm"]
    other_models = {o for o in calls | called if "llm_chat" in has[o]}
    if "llm_chat" in capabilities and (len(llm_tiers) > 1 or other_models):
        return "prompt_chain", 1 + bool(other_models), "one of several model calls in a row"
    if not capabilities & {"llm_chat"} and len([o for o in calls if "llm_chat" in has[o]]) > 1:
        return "prompt_chain", 1, "coordinates several model calls"
    return "none", 2 if "llm_chat" not in capabilities else 1, "matches no pattern of LLM pipelines"


def _strategies(
    component: ComponentDraft, functions: list[Function], architecture: Architecture, prompts: dict[str, list[Prompt]]
) -> list[str]:
    found = {component.pattern} - {"none"}
    if {"retrieval", "rerank", "vector_write", "embedding"} & set(component.capabilities):
        found.add("rag")
    if _is_judge(component, prompts):
        found.add("judge")
    if component.loops:
        found.add("agentic")
    return sorted(found)


def _kind(component: ComponentDraft) -> str:
    capabilities = set(component.capabilities)
    if component.pattern == "agentic":
        return "agent"
    guarding = sum(1 for s in component.symbols if _GUARD.search(s.rpartition(".")[2]))
    if "llm_chat" not in capabilities and ("guardrail" in capabilities or guarding * 5 >= len(component.symbols)):
        return "guardrail"
    for capability, kind in _KINDS:
        if capability in capabilities:
            return kind
    if "parses_json" in component.patterns and component.distance is None:
        return "parse"
    if "has_cache" in component.patterns and component.distance is None:
        return "cache"
    if component.distance is not None:
        return "chain"
    return "other"


def _role(component: ComponentDraft, callers: dict[str, set[str]]) -> str:
    if component.kind == "agent" or {"llm_chat", "rerank", "retrieval", "guardrail"} & set(component.capabilities):
        return "ai_core"
    if component.distance is not None and component.distance <= 2:
        return "supporting"
    if {"embedding", "vector_write", "ingest", "web_search", "tool"} & set(component.capabilities):
        return "supporting"
    if component.kind in ("parse", "cache") or (
        callers[component.id] and {"http", "saas", "cache"} & set(component.capabilities)
    ):
        return "supporting"
    return "operational"


def _stage(component: ComponentDraft) -> tuple[str | None, int]:
    capabilities = set(component.capabilities)
    names = " ".join(s.rpartition(".")[2] for s in component.symbols) + " " + component.id
    if "judge" in component.semantics or component.kind == "guardrail":
        return "assurance", 2
    if "llm_chat" in capabilities:
        return "ai_core", 2 + ("prompt_construction" in component.semantics)
    if {"retrieval", "vector_write", "embedding", "rerank"} & capabilities:
        return "knowledge_base", 1 + len({"retrieval", "vector_write", "embedding"} & capabilities)
    if {"evaluation", "tracing"} & capabilities and _FEEDBACK.search(names):
        return "continuous_improvement", 1
    if component.kind == "parse" or re.search(r"chunk|split|parse|clean|normali[sz]e|transform", names):
        return "data_transformation", 1
    if {"http", "web_search", "saas", "ingest"} & capabilities:
        return "data_acquisition", 1 + ("ingest" in capabilities)
    if component.kind in ("chain", "agent"):
        return "ai_core", 1
    return None, 0


def _silence(component: ComponentDraft) -> tuple[str, str]:
    """Return (risk, reason): high if a handler swallows errors of a model call, medium for silent substitutes."""
    swallowed = [h for h in component.hits if h.pattern == "has_try_except" and h.kind == "swallows"]
    models = [h for h in component.hits if h.pattern == "calls_llm" or (h.pattern == "parses_json" and h.kind == "llm")]
    for handler in swallowed:
        for model in models:
            if handler.path == model.path and handler.line <= model.line <= handler.end:
                return (
                    "high",
                    f"a handler ({handler.line}-{handler.end}) swallows errors of {model.path}:{model.line}",
                )
    if "judge" in component.semantics or "has_cascade" in component.patterns or "has_cache" in component.patterns:
        hit = next((h for h in component.hits if h.pattern in ("has_cascade", "has_cache")), None)
        return (
            "medium",
            f"{hit.path}:{hit.line} {hit.evidence}" if hit else "a wrong verdict looks like a right one",
        )
    if swallowed:
        return "medium", f"{swallowed[0].path}:{swallowed[0].line} swallows the errors that it catches"
    if {"llm_chat", "retrieval"} & set(component.capabilities):
        return "medium", "a wrong result looks like a right one"
    return "low", "failures raise exceptions"


def _overlay(component: ComponentDraft) -> None:
    capabilities = set(component.capabilities)
    component.is_offline_evaluable = (
        bool({"llm_chat", "retrieval", "rerank", "guardrail"} & capabilities) or component.kind == "parse"
    )
    component.is_runtime_observable = True
    if "llm_chat" in capabilities:
        component.measured = "by judge"
    elif {"retrieval", "rerank"} & capabilities or component.kind in ("parse", "guardrail"):
        component.measured = "directly"
    else:
        component.measured = "by proxy only"
    component.user_facing_failure = _FAILURES.get(component.kind, _FAILURES["other"])


def apply_goal(architecture: Architecture, goal: str) -> None:
    """Raise the priority of components that the goal mentions by one step.

    Args:
        architecture: Its components are changed in place.
        goal: The practitioner's goal, in their words.
    """
    words = {w for w in re.findall(r"[a-z]{4,}", goal.lower()) if w not in _STOP}
    about = {
        c.id: " ".join(
            [c.id, c.description, *c.semantics, *c.capabilities, *(s.rpartition(".")[2] for s in c.symbols)]
        ).lower()
        for c in architecture.components
    }
    # A word that more than half of the components contain (the product's name) selects nothing.
    most = max(1, len(about) // 2)
    telling = sorted(w for w in words if 0 < sum(w.rstrip("s") in text for text in about.values()) <= most)
    for component in architecture.components:
        component.goal_words = [w for w in telling if w.rstrip("s") in about[component.id]]
        if component.goal_words:
            component.priority = {"tertiary": "secondary"}.get(component.priority, "primary")


_STOP = frozenset(
    [
        "with",
        "that",
        "this",
        "from",
        "have",
        "without",
        "their",
        "they",
        "what",
        "when",
        "which",
        "must",
        "should",
        "never",
        "always",
        "every",
        "than",
        "then",
        "into",
        "only",
    ]
)
