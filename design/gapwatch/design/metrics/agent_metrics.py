"""Metrics of agents: how their runs end, how many steps they take, what the model is told when its call failed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from gapwatch.design.agents.agent_loop import AgentLoop
from gapwatch.design.architecture.model import ComponentDraft
from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.patterns.hit import PatternHit


class MetricMaker(Protocol):
    """Makes a metric of one component from pattern hits."""

    def __call__(self, family: str, hits: list[PatternHit], claim: dict[str, Any], **rest: Any) -> MetricDesign:
        """Return the metric."""


def agent_metrics(component: ComponentDraft, hits: list[PatternHit], make: MetricMaker) -> Iterator[MetricDesign]:
    """Yield the metrics of the agents of a component.

    Args:
        component: The component.
        hits: Its hits of `runs_agent` and `tells_model_error` whose functions can emit a span.
        make: Makes a metric.
    """
    agents = [h for h in hits if h.pattern == "runs_agent"]
    ends: dict[tuple[str, ...], tuple[list[AgentLoop], list[PatternHit]]] = {}
    steps: list[PatternHit] = []
    for loop in component.loops:
        begins = [h for h in agents if (h.symbol, h.line, h.kind) == (loop.symbol, loop.line, loop.kind)]
        leaves = [h for h in agents if h.kind == "exit" and _is_exit(h, loop)] if loop.kind == "graph" else begins
        if leaves and loop.bad and not _is_told_already(loop, component):
            same = ends.setdefault(("graph" if loop.kind == "graph" else "", *loop.bad), ([], []))
            same[0].append(loop)
            same[1].extend(leaves)
        if begins and loop.kind != "library":
            steps += begins
    for position, (loops, leaves) in enumerate(ends.values()):
        yield _exits(loops, f"_{position + 1}" if position else "", leaves, make)
    if steps:
        yield _steps(steps, make)
    for kinds, family, what in _TOLD:
        told = [h for h in hits if h.pattern == "tells_model_error" and h.kind in kinds]
        if told:
            yield make(
                family,
                told,
                {"form": "measure", "field": f"attributes.{family}", "unit": "errors", "limit": {"max": 0}},
                purpose=what,
                concern="reliability",
                per_trace="sum",
                fields=[f"attributes.{family}"],
                severity="ticket",
                action="read what the model asked for; a new model or prompt often changes the form of its calls first",
            )


_TOLD = (
    (("tool error", "tool"), "tool_errors", "calls of tools that fail: an exception leaves them, or the model is told"),
    (("format error",), "format_errors", "number of answers of the model without the form that the agent needs"),
)


def _is_exit(hit: PatternHit, loop: AgentLoop) -> bool:
    return any((e.path, e.line, e.symbol) == (hit.path, hit.line, hit.symbol) for e in loop.exits)


def _is_told_already(loop: AgentLoop, component: ComponentDraft) -> bool:
    """Return whether each bad end is a line that the metrics of failures and of routes count already."""
    lines = {(h.path, h.line) for h in component.hits if h.pattern == "returns_failure"}
    lines |= {(r.path, arm.line) for r in component.routes for arm in r.answers[1:]}
    bad = [e for e in loop.exits if e.how in loop.bad]
    return bool(bad) and not loop.returns_at_limit and all((e.path, e.line) in lines for e in bad)


def _exits(loops: list[AgentLoop], number: str, hits: list[PatternHit], make: MetricMaker) -> MetricDesign:
    bad = loops[0].bad
    good = ", ".join(sorted({how for loop in loops for how in loop.good})) or loops[0].default or "done"
    claim: dict[str, Any] = {"form": "label", "field": "attributes.agent_exit", "bad": list(bad)}
    if loops[0].kind == "graph":
        claim["optional"] = True  # Steps that are not the last have no end.
    made = make(
        f"agent_exits{number}",
        hits,
        claim,
        purpose=f"runs end with {good} before their limit, not with {', '.join(bad)}",
        concern="reliability",
        fields=["attributes.agent_exit"],
        better="lower",
        severity="ticket",
        action="count by agent_exit; read the last steps of the runs that did not end well",
        valid_when="the end is set where the loop is left",
    )
    for loop in loops:
        because = "; ".join(f"{e.how}: {e.why} (line {e.line})" for e in loop.exits if e.how in loop.bad)
        if loop.returns_at_limit:
            texts = [text for text in loop.is_told_by if " " in text]
            because = f"limit: an answer in its place at {loop.limit}{_told_in(texts)}"
        elif loop.default == "limit":
            because = "; ".join(filter(None, (because, f"limit: no other end before {loop.limit}")))
        if because:
            made.evidence = [*made.evidence, f"{loop.path}:{loop.line} ends: {because}"][:8]
    return made


def _told_in(texts: list[str]) -> str:
    return f", which holds {' or '.join(map(repr, texts))}" if texts else ""


def _steps(hits: list[PatternHit], make: MetricMaker) -> MetricDesign:
    return make(
        "agent_steps",
        hits,
        {"form": "measure", "field": "attributes.agent_steps", "unit": "rounds"},
        purpose="number of rounds of an agent, in each of which a model is asked, of a run",
        concern="drift",
        per_trace="sum",
        of="mean",
        fields=["attributes.agent_steps"],
        better="unknown",
        direction_verdict="unverified",
        action="compare by model and release; more rounds cost money and time",
    )
