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
    for position, loop in enumerate(component.loops):
        number = f"_{position + 1}" if position else ""
        begins = [h for h in agents if h.symbol == loop.symbol and h.line == loop.line and h.kind == loop.kind]
        ends = begins if loop.kind == "loop" else [h for h in agents if h.kind == "exit" and _is_exit(h, loop)]
        if ends and loop.bad and not _is_told_already(loop, component):
            yield _exits(loop, number, ends, make)
        if begins:
            yield _steps(loop, number, begins, make)
    for kind, family, what in _TOLD:
        told = [h for h in hits if h.pattern == "tells_model_error" and h.kind == kind]
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
    ("tool error", "tool_errors", "number of calls of tools that the model is told have failed or were refused"),
    ("format error", "format_errors", "number of answers of the model without the form that the agent needs"),
)


def _is_exit(hit: PatternHit, loop: AgentLoop) -> bool:
    return any((e.path, e.line, e.symbol) == (hit.path, hit.line, hit.symbol) for e in loop.exits)


def _is_told_already(loop: AgentLoop, component: ComponentDraft) -> bool:
    """Return whether each bad end is a line that the metrics of failures and of routes count already."""
    lines = {(h.path, h.line) for h in component.hits if h.pattern == "returns_failure"}
    lines |= {(r.path, arm.line) for r in component.routes for arm in r.answers[1:]}
    bad = [e for e in loop.exits if not e.is_good]
    return bool(bad) and not loop.can_raise and all((e.path, e.line) in lines for e in bad)


def _exits(loop: AgentLoop, number: str, hits: list[PatternHit], make: MetricMaker) -> MetricDesign:
    good = ", ".join(loop.good) or loop.default or "done"
    because = "; ".join(f"{e.how}: {e.why} (line {e.line})" for e in loop.exits if not e.is_good)
    claim: dict[str, Any] = {"form": "label", "field": "attributes.agent_exit", "bad": list(loop.bad)}
    if loop.kind == "graph":
        claim["optional"] = True  # Steps that are not the last have no end.
    made = make(
        f"agent_exits{number}",
        hits,
        claim,
        purpose=f"runs end with {good}, not with {', '.join(loop.bad)}",
        concern="reliability",
        fields=["attributes.agent_exit"],
        better="lower",
        severity="ticket",
        action="count by agent_exit; read the last steps of the runs that did not end well",
        valid_when="the end is set where the loop is left",
    )
    if because:
        made.evidence = [*made.evidence, f"{loop.path}:{loop.line} ends: {because}"][:8]
    return made


def _steps(loop: AgentLoop, number: str, hits: list[PatternHit], make: MetricMaker) -> MetricDesign:
    ends = f", which {loop.limit} bounds" if loop.limit else ""
    return make(
        f"agent_steps{number}",
        hits,
        {"form": "measure", "field": "attributes.agent_steps", "unit": "steps"},
        purpose=f"number of times that the agent asks its model{ends}",
        concern="drift",
        per_trace="sum",
        of="mean",
        fields=["attributes.agent_steps"],
        better="unknown",
        direction_verdict="unverified",
        action="compare by model and release; more steps cost money and end by the limit more often",
    )
