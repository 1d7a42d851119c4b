"""Joins metrics over components, with a breakdown by component.

Joined are those of model calls, and those of several ways to do one step. A rise in one of several functions moves the
rate less than in a metric of its own; so what is not alike is never joined.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import permutations
from pathlib import PurePosixPath

from gapwatch.design.architecture.component_names import snake, title_of, unique
from gapwatch.design.architecture.model import Architecture
from gapwatch.design.callgraph.graph import CallGraph
from gapwatch.design.metrics.metric_design import MetricDesign, MetricReview, without_number

#: Id of the component that stands for all that call a model.
MODEL_CALLS = "model_calls"
#: Families that are one metric of all components, with the id of the component that stands for them.
_OF_ALL = {
    "failed_requests": "endpoints",
    "failed_runs": "application",
    "tool_errors": "agents",
    "agent_exits": "agents",
    "agent_steps": "agents",
    "context_cuts": "prompts",
    "code_failures": "code_runs",
    "passages_found": "searches",
    "service_errors": "outside",
    "write_errors": "stores",
    "retries_exhausted": "all",
}
#: Families of which a component may have several, told apart by words before them.
_OF_PLACES = ("service_errors", "write_errors", "retries_exhausted")
#: Families that are one with another: what a search finds is counted, or it says in words that it found nothing.
_LIKE = {"results_found": "passages_found"}
#: Lines of evidence of each component, where one does not say what counts: the run, and how it ends.
_LINES = {"agent_exits": 4}
#: Families that are joined.
SHARED = ("answer_present", "unanswered", "finish_reason", "model_latency", "tokens_per_call", "model_cost")
_PURPOSES = {
    "answer_present": "models say something where they reply, in words or by calling a tool",
    "unanswered": "calls of models that get no reply, whatever the program makes of it",
    "finish_reason": "answers of models are not cut off or filtered",
    "model_latency": "duration of the model calls",
    "tokens_per_call": "number of tokens of prompts and answers of a run, summed over its trace",
    "model_cost": "cost of the model calls of a run, summed over its trace",
    "tool_errors": "calls of tools that fail: an exception leaves them, or the model is told",
    "agent_steps": "number of rounds of agents, in each of which a model is asked, of a run",
    "agent_exits": "runs of agents end before their limit",
    "passages_found": "of the searches of a run at least one finds something",
    "service_errors": "calls of other services succeed",
    "write_errors": "what is to be stored is stored",
    "retries_exhausted": "what is tried again succeeds in the end",
}
#: Families whose value a caller hands on as it is.
_HANDED_ON = frozenset({"first_chunk_seconds", "stream_completed"})
#: Leaves out of metrics the places whose errors others count.
Untold = Callable[[list[MetricDesign], list[MetricDesign]], list[MetricDesign]]
#: Families of errors of requests, of which the first ones that nothing else tells have a place of their own.
_OF_REQUESTS = ("service_errors", "write_errors")
#: Most of these; of those read one in ten was wrong.
MAX_REQUESTS = 2


@dataclass
class _Group:
    """Component that stands for others.

    Attributes:
        id: Its id.
        members: Ids of those that it stands for in any metric.
        families: Families that it has a metric of.
    """

    id: str
    members: set[str] = field(default_factory=set)
    families: set[str] = field(default_factory=set)


def shared_components(metrics: Iterable[MetricDesign]) -> dict[str, tuple[str, list[str]]]:
    """Return kind and members of each component that stands for several, by its id."""
    members: dict[str, set[str]] = {}
    for metric in metrics:
        if metric.group:
            members.setdefault(metric.group, set()).update(metric.members)
    kinds = {group: "llm" if group.startswith(MODEL_CALLS) else "other" for group in members}
    return {group: (kinds[group], sorted(members[group])) for group in sorted(members)}


def shared_metrics(metrics: list[MetricDesign], architecture: Architecture) -> list[tuple[MetricDesign, set[str]]]:
    """Return metrics of several components together, each with the names of those that it joins.

    There is one of each family of model calls, one of requests and one of tools that failed, and one wherever functions
    of one name make the same claim: the ways of several vendors, readers or formats to do one step; so do three classes
    whose names end alike (`ChromaMemoryStore`, `FaissMemoryStore`) and that share methods. Evidence and action
    are those of the component that comes first by priority; a limit stays only where all have the same one.
    """
    rank = {"primary": 0, "secondary": 1, "tertiary": 2}
    order = {c.id: (rank[c.priority], c.id) for c in architecture.components}
    used = {c.id for c in architecture.components}
    calls = {(call.src, call.dst) for e in architecture.edges for call in e.calls}
    titles = {c.id: c.name.lower() for c in architecture.components}
    groups: dict[str, list[_Group]] = {}
    joins: dict[tuple[str, str, str], list[MetricDesign]] = {}
    for metric in sorted(metrics, key=lambda m: (*order[m.component], m.name)):
        family = metric.family if metric.family in SHARED else ""
        plain = _family_of_all(metric)
        if plain in _OF_ALL:
            # Of a run that has no end in most of its spans there is a metric beside.
            joins.setdefault((_OF_ALL[plain], plain, str(metric.claim.get("optional", ""))), []).append(metric)
        elif family:
            joins.setdefault((MODEL_CALLS, family, ""), []).append(metric)
        elif (step := _step(metric)) is not None:
            claim = json.dumps(metric.claim, sort_keys=True)
            beside = [k for k in joins if k[:2] == (step, metric.family) and k[2].startswith(claim)]
            near = next((k for k in beside if any(_is_beside(metric, other) for other in joins[k])), None)
            joins.setdefault(near or (step, metric.family, f"{claim} {len(beside)}"), []).append(metric)
    out: list[tuple[MetricDesign, set[str]]] = []
    for (step, family, _), every in joins.items():
        # Who calls another of them is no way beside it, but a step before it.
        before = {a.name for a, b in permutations(every, 2) if _calls(a, b, calls)}
        mine = [m for m in every if family in (*SHARED, *_OF_ALL) or m.name not in before]
        members = sorted({m.component for m in mine})
        # Two classes of a kind may be two steps; three are ways to do one.
        is_kind = family not in (*SHARED, *_OF_ALL) and any(len(_methods(m)) > 1 for m in mine)
        if len(members) < (3 if is_kind else 2):
            if len(mine) > 1 and family in (*SHARED, "passages_found"):  # several clients of one component
                whole = _joined(family, mine, members, members[0], _PURPOSES[family])
                whole = replace(whole, purpose=_PURPOSES[family], group="", members=[])
                out.append((whole, {m.name for m in mine}))
            continue
        # Steps of one name in other places have groups of their own.
        known = groups.setdefault(step, [])
        group = next((g for g in known if family not in g.families and not g.members.isdisjoint(members)), None)
        if group is None:
            name = _step_name(step, mine)
            group = _Group(unique(f"every_{name}" if name in used else name, used))
            known.append(group)
        group.members |= set(members)
        group.families.add(family)
        purpose = _PURPOSES.get(family) or mine[0].purpose.replace(titles[mine[0].component], title_of(step).lower())
        joined = every if family in _HANDED_ON else mine
        out.append((_joined(family, mine, members, group.id, purpose), {m.name for m in joined}))
    return out


def _family_of_all(metric: MetricDesign) -> str:
    """Return the family of a metric that is one of all components; empty for others."""
    plain = without_number(metric.family)
    plain = next((f for f in _OF_PLACES if plain.endswith(f)), _LIKE.get(plain, plain))
    return plain if plain in _OF_ALL else ""


_WORST = ("reject", "flag", "pass")


def shared_reviews(metrics: Iterable[MetricDesign], reviews: list[MetricReview]) -> list[MetricReview]:
    """Return a review of each metric over several components: what the critic says of those that it joins.

    Args:
        metrics: Metrics of a portfolio.
        reviews: Reviews of the metrics by component.
    """
    out: list[MetricReview] = []
    for metric in metrics:
        ends = f"_{metric.family}"
        mine = [
            r for r in reviews if metric.members and r.component in metric.members and f"_{r.metric}".endswith(ends)
        ]
        if not mine:
            continue
        worst = min(mine, key=lambda r: _WORST.index(r.status))
        told = [r for r in mine if r.status != "pass"]
        out.append(
            replace(
                worst,
                metric=metric.name,
                component=metric.group,
                rules=sorted({rule for r in told for rule in r.rules}),
                reasoning="; ".join(f"{r.component}: {r.reasoning}" for r in told) or worst.reasoning,
            )
        )
    return out


def _is_beside(metric: MetricDesign, other: MetricDesign) -> bool:
    """Return whether functions of one name are ways of one step: in one folder, or in files of one name.

    A name such as `run` is no step by itself.
    """
    mine, theirs = ({p.path.rpartition("/")[::2] for p in m.places} for m in (metric, other))
    is_near = any(a == c or b == d for a, b in mine for c, d in theirs)
    return is_near and not _methods(metric).isdisjoint(_methods(other))


def _calls(one: MetricDesign, other: MetricDesign, calls: set[tuple[str, str]]) -> bool:
    return any((a, b) in calls for a in one.symbols for b in other.symbols)


def _step(metric: MetricDesign) -> str | None:
    """Return the name of the method that a metric is about, or of several the end of the name of their class."""
    if metric.source != "catalog" or metric.is_cascade or metric.claim["form"] == "ratio":
        return None
    names = _methods(metric)
    if len(names) == 1:
        return snake(next(iter(names))) or None
    # `ChromaAgentMemory` and `FaissAgentMemory` are two of a kind.
    owners = {owner for symbol in metric.symbols if (owner := symbol.split(".")[-2:][0])[:1].isupper()}
    words = snake(next(iter(owners))).split("_") if len(owners) == 1 else []
    return "_".join(words[-2:]) if len(words) > 2 else None


def _methods(metric: MetricDesign) -> set[str]:
    return {symbol.rpartition(".")[2].strip("_") for symbol in metric.symbols}


#: Names of functions that say nothing without what they belong to.
_SAYS_NOTHING = frozenset(
    [
        "run", "request", "invoke", "call", "execute", "process", "handle", "get", "post", "send", "forward", "main",
        "wrapper", "inner", "start", "do", "perform", "work",
    ]
)  # fmt: skip


def _step_name(step: str, metrics: list[MetricDesign]) -> str:
    """Return the name of a step, with what its functions have in common where it says nothing by itself.

    That is the end of the names of their classes, or else the name of their file or folder.
    """
    if step not in _SAYS_NOTHING:
        return step
    owners = [[part for part in s.split(".")[:-1] if part[:1].isupper()] for m in metrics for s in m.symbols]
    words = [snake(parts[-1]).split("_") for parts in owners if parts]
    paths = [PurePosixPath(p.path) for m in metrics for p in m.places]
    of_all = [w[0] for w in itertools.takewhile(lambda w: len(set(w)) == 1, zip(*map(reversed, words), strict=False))]
    if len(words) == len(owners) and of_all:
        return "_".join([*reversed(of_all), step])
    if len({p.stem for p in paths}) == 1 and paths[0].stem not in ("__init__", "utils", "base"):
        return f"{snake(paths[0].stem)}_{step}"
    folder = PurePosixPath(os.path.commonpath([p.parent for p in paths])).name if paths else ""
    return f"{snake(folder)}_{step}" if folder else step


def _joined(family: str, metrics: list[MetricDesign], members: list[str], group: str, purpose: str) -> MetricDesign:
    spans = sorted({name for m in metrics for name in m.spans})
    limits = [m.claim.get("limit") for m in metrics]
    lead = metrics[0]
    joined = replace(
        lead,
        name=f"{group}_{family}",
        family=family,
        purpose=f"{purpose}, by component",
        claim=dict(lead.claim),
        evidence=list(dict.fromkeys(e for m in metrics for e in m.evidence[: _LINES.get(family, 1)])),
        symbols=sorted({symbol for m in metrics for symbol in m.symbols}),
        places=[place for m in metrics for place in m.places],
        tier="",
        spans=spans,
        when={"field": "name", "one_of": spans},
        goal_words=sorted({word for m in metrics for word in m.goal_words}),
        monitors=sorted({name for m in metrics for name in m.monitors}),
        questions=sorted({question for m in metrics for question in m.questions}),
        members=members,
        group=group,
    )
    bad = {word for m in metrics for word in m.claim.get("bad", ())}
    if bad - set(lead.claim.get("bad", ())):
        joined.claim["bad"] = sorted(bad, key=lambda word: (word == "error", word))
    if any(limit != limits[0] for limit in limits):
        joined.claim.pop("limit", None)
        joined.threshold, joined.threshold_source, joined.limit_place = None, "none", None
        joined.of, joined.severity = "mean", ""
        joined.direction_verdict, joined.direction_evidence = "unverified", ""
    return joined


def run_seconds(metrics: Iterable[MetricDesign], graph: CallGraph) -> list[MetricDesign]:
    """Return one metric of how long runs last, from the first span of a trace to the last; none without a model call.

    A connection that stays open for many messages is one trace: there it would measure how long users stay.

    Args:
        metrics: Metrics of the components whose spans mostly ask a model.
        graph: The call graph.
    """
    calls = [m for m in metrics if m.family == "model_latency"]
    stays = any(d.endswith(".websocket") for s in graph.symbols if not s.tags for d in s.decorators)
    if not calls or stays:
        return []
    made = [{"field": f"trace.count({m.component})", "range": {"min": 1}} for m in calls]
    lead = replace(
        calls[0],
        name="run_seconds",
        family="run_seconds",
        purpose="seconds of a whole run that asks a model, from its first span to the end of its last",
        claim={"form": "measure", "field": "trace.duration", "unit": "s"},
        when=made[0] if len(made) == 1 else {"any_of": made},
        valid_when="a run is one trace",
        per_trace="any",
        of="mean",
        is_of_trace=True,
        action="compare by release; the durations of model calls and steps of slow traces say where the time went",
    )
    return [replace(lead, threshold=None, threshold_source="none", limit_place=None, severity="")]


def first_of_requests(
    left: list[MetricDesign],
    architecture: Architecture,
    kind: Callable[[MetricDesign], str],
    untold: Untold,
    others: list[MetricDesign],
) -> list[MetricDesign]:
    """Return the first errors of requests that nothing else tells, at most `MAX_REQUESTS`.

    They are of functions that a run of the pipeline reaches: of a component from which a model is reached, or that such
    a component calls in turn.

    Args:
        left: Metrics that were not selected.
        architecture: Their components.
        kind: Gives the family of a metric, without the words and numbers that tell two of a component apart.
        untold: Leaves out what other metrics count.
        others: Metrics that were selected.
    """
    reached = architecture.reached()
    rank = {"primary": 0, "secondary": 1, "tertiary": 2}
    order = {c.id: (rank[c.priority], c.id) for c in architecture.components}
    mine = [m for m in left if m.source == "catalog" and m.component in reached and m.severity != "note"]
    found = sorted((m for m in mine if kind(m) in _OF_REQUESTS), key=lambda m: (*order[m.component], m.name))
    return untold(found, others)[:MAX_REQUESTS]
