"""Selects the few metrics of a portfolio by what they would catch; the others go to a shelf, to be added by name.

Rule: one after the other, the metric with the greatest worth. What somebody added comes in beside those, and takes no
place of theirs. The worth is the family's (`_WORTH`: what a user notices and nothing else tells comes first), plus the
priority of its component, plus one where that fails silently, plus three where the goal speaks of its concern and one
where it names its component. A judge is worth more where its prompt asks for more. Each metric already taken of the
same family takes off 1.5 (each judge 0.5), each of the same component 0.75, of a judge's the judges.
What is then worth less than `LEAST_WORTH` stays on the shelf, even where there is room. Failures of a function that are
worth less than `LEAST_OWN_WORTH` stay there, too. A prompt that has a judge has none of quality beside it.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from gapwatch.design.architecture.model import Architecture, ComponentDraft
from gapwatch.design.metrics.judge_order import comes_later, judges_sql
from gapwatch.design.metrics.metric_design import FAILED_RUNS, MetricDesign, without_number
from gapwatch.design.metrics.shared_metrics import SHARED, Untold, first_of_requests, shared_metrics
from gapwatch.design.patterns.library_uses import CodePlace
from gapwatch.scorers.portfolio.fact import Fact

#: Says whether each failure of a metric is one of other metrics.
Told = Callable[[MetricDesign, list[MetricDesign]], bool]
#: Most metrics of a portfolio. In thirteen that persons read, those after the twelfth covered 6 of 71 promises.
MAX_METRICS = 14
#: Most judges among them; each costs money at every judgement.
MAX_JUDGES = 3
#: Least worth of a metric, after what was taken off; a smaller number fills portfolios with metrics that nobody reads.
LEAST_WORTH = 2.0
#: The same for a metric of failures, which one metric of the failures of many functions or a layer above can count.
LEAST_OWN_WORTH = 4.0
#: Families of failures of single functions.
_OF_FAILURES = frozenset(
    {
        "failure_answers",
        "swallowed_errors",
        "failed_items",
        "retries_exhausted",
        "error_rate",
        "service_errors",
        "write_errors",
        "embedding_errors",
    }
)
#: Families that one pipeline needs once: prices and tokens follow from the model calls as a whole.
ONCE = frozenset({"unanswered", "tokens_per_call", "model_cost", "cost_per_answer", "run_seconds"})
#: Families that follow another one of the same pipeline, by that one.
_FOLLOWS = {"tokens_per_call": "model_cost", "cost_per_answer": "model_cost"}
#: Families of whole runs.
_OF_RUNS = frozenset({*FAILED_RUNS, "agent_exits"})
#: Beginning of the id of the fact that remembers an added metric.
ADDED = "f-add-"

#: Worth of a family by the end of its name, the first that fits.
_WORTH: tuple[tuple[str, float], ...] = (
    ("agent_exits", 6),
    *((family, 9.0) for family in FAILED_RUNS),  # one covers more than any other
    ("tool_errors", 6),
    ("format_errors", 5),
    ("agent_steps", 4.5),
    ("context_cuts", 1.5),
    ("answer_present", 6),
    ("passages_found", 6),
    ("results_found", 6),
    ("output_parses", 6),
    ("failure_answers", 6),
    ("code_failures", 6),
    ("answers_without_failure", 6),
    ("failed_items", 4.5),
    *((family, 5.5) for family in ("unanswered", "swallowed_errors")),
    ("retries_exhausted", 5.5),
    ("fallback_rate", 4),  # of 42 that persons read 12 were right
    ("output_fields", 5),
    ("breaker_open_rate", 4.5),
    ("citations_given", 5),
    ("finish_reason", 5),
    ("stream_completed", 4.5),
    ("guardrail_errors", 4.5),
    ("error_rate", 4),
    ("service_errors", 4),
    ("model_latency", 5),  # of 60 that persons read 58 were right
    ("run_seconds", 8),
    ("write_errors", 3),
    ("embedding_errors", 3),
    ("queue_wait_seconds", 1),
    ("cost_per_answer", 1),
    ("model_cost", 5),
    ("cache_hit_rate", -1),
    ("first_chunk_seconds", 3.5),
    ("service_latency", 0),
    ("retry_count", -5),
    ("retrieval_latency", 0.5),
    ("tokens_per_call", 4.5),
    ("rows_written", -2),
    ("tier_mix", -2),
)
#: Families of which those of another one take off something, too.
_LIKE = {"swallowed_errors": "failed_items"}
_OF_LIKE = 1.25
#: Families whose value a caller hands on: one of two components of which one calls the other is enough.
_HANDED_ON = ("passages_found", "retrieval_latency")
#: Worth of a parse of what no model wrote, and of a fallback between ways of which none asks a model.
_OF_OTHER_PARSES = _OF_OTHER_ROUTES = 1.5
_OF_NO_MODEL = -0.5  # failures of functions that reach no model: less of an answer is lost
_OF_SAME_PROMPT = 0.5  # taken off the second judge of a prompt
_OF_JUDGES = {"groundedness": 6.5, "safety": 5.5, "quality": 4.5}
_OF_PRIORITY = {"primary": 2.0, "secondary": 1.0, "tertiary": 0.0}
#: Worth of the errors of a function of which nothing else is known.
_OF_ENTRIES = 0.5
#: Worth of seconds without a limit in the code; of nine that were read five told nothing.
_OF_UNLIMITED = -0.5
#: Worth of how often a cache has no answer: nobody is woken for it.
_OF_CACHES = -1.0


@dataclass(frozen=True)
class Shelved:
    """A metric that the portfolio does not hold.

    Attributes:
        metric: The metric; it passed the critic.
        why: Reason in words.
    """

    metric: MetricDesign
    why: str


@dataclass(frozen=True)
class PortfolioSelection:
    """A portfolio's metrics and its shelf.

    Attributes:
        metrics: In the order of the design.
        shelf: The others, most worth first.
        came_in: Names that the goal speaks of and brought in.
        went_out: Names that it does not speak of and that had to go.
    """

    metrics: list[MetricDesign]
    shelf: list[Shelved] = field(default_factory=list)
    came_in: list[str] = field(default_factory=list)
    went_out: list[str] = field(default_factory=list)


def added_metrics(facts: Iterable[Fact]) -> set[str]:
    """Return the names of the metrics that somebody took from the shelf."""
    return {f.metric for f in facts if f.id.startswith(ADDED) and f.metric is not None}


def added_fact(name: str, by: str, at: str) -> Fact:
    """Return the fact that remembers a metric taken from the shelf.

    Args:
        name: The metric.
        by: Name of the person who added it.
        at: Date or time, ISO 8601.

    Raises:
        ValueError: The name of the metric or of the person is not allowed.
    """
    said = {"id": f"{ADDED}{name}", "kind": "scope", "metric": name, "value": "add", "by": by, "at": at}
    return Fact.model_validate(said)


def select_metrics(
    metrics: list[MetricDesign],
    architecture: Architecture,
    concerns: set[str],
    facts: tuple[Fact, ...],
    is_told: Told = lambda metric, others: False,
    untold: Untold = lambda metrics, others: metrics,
    kept: Callable[[MetricDesign], MetricDesign | str] = lambda metric: metric,
    why_unlikely: Callable[[MetricDesign], str | None] = lambda metric: None,
) -> PortfolioSelection:
    """Select at most `MAX_METRICS` metrics, and more only where somebody added them.

    Args:
        metrics: Metrics that passed the critic.
        architecture: Their components.
        concerns: Concerns that the goal speaks of.
        facts: Answers of the practitioner; they also hold what was added.
        is_told: Says whether each failure of a metric is one of other metrics.
        untold: Leaves out of metrics the places whose errors others count.
        kept: Gives a metric with the places that show a consequence, or why it comes in by name alone.
        why_unlikely: Gives why a metric, also one of several components, would seldom have a value; None else.
    """
    added = added_metrics(facts)
    whole, shown = {m.name: m for m in metrics}, {m.name: kept(m) for m in metrics}
    apart = [Shelved(m, why) for m in metrics if isinstance(why := shown[m.name], str)]
    metrics = [m for m in shown.values() if not isinstance(m, str)]
    components = {c.id: c for c in architecture.components}
    shared = shared_metrics(metrics, architecture)
    joined = set().union(*(names for _, names in shared))
    metrics = [*(metric for metric, _ in shared), *metrics]
    # What a shared metric joins comes in by name alone.
    free = [m for m in metrics if m.name not in joined]
    apart += [Shelved(m, unlikely) for m in free if (unlikely := why_unlikely(m)) is not None]
    metrics = [m for m in metrics if m.name not in {s.metric.name for s in apart}]
    free = [m for m in free if m in metrics]
    edges = {(e.src, e.dst) for e in architecture.edges}
    names = _chosen(free, components, edges, concerns, is_told, has_goal=True)
    chosen = [m for m in metrics if m.name in names]
    left = [m for m in free if m.name not in names and not _is_counted(m, chosen) and not is_told(m, chosen)]
    left = [m for m in left if not any(_counts_it(m, other) for other in free)]
    further = first_of_requests(left, architecture, _kind, untold, chosen)[: max(0, MAX_METRICS - len(chosen))]
    chosen += further
    names |= {m.name for m in further}
    shelf = [Shelved(m, _why(m, chosen, joined, is_told)) for m in metrics if m.name not in names]
    shelf += apart
    shelf.sort(
        key=lambda s: (-_worth(s.metric, components[s.metric.component], concerns, has_goal=True), s.metric.name)
    )
    came_in, went_out = list[str](), list[str]()
    if concerns or any(c.goal_words for c in architecture.components):
        without = _chosen(free, components, edges, set(), is_told, has_goal=False)
        spoken = {m.name for m in metrics if m.concern in concerns or components[m.component].goal_words}
        came_in, went_out = sorted((names - without) & spoken), sorted(without - names - spoken)
    # What somebody added comes in whole, with what it is made of.
    added |= {part for m in [*metrics, *whole.values()] if m.name in added for part in _parts(m)}
    chosen = [whole.get(m.name, m) if m.name in added else m for m in chosen]
    chosen += [whole.get(s.metric.name, s.metric) for s in shelf if s.metric.name in added]
    shelf = [s for s in shelf if s.metric.name not in added]
    return PortfolioSelection(chosen, shelf, came_in, went_out)


def _chosen(
    metrics: list[MetricDesign],
    components: dict[str, ComponentDraft],
    edges: set[tuple[str, str]],
    concerns: set[str],
    is_told: Told,
    has_goal: bool,
) -> set[str]:
    worth = {m.name: _worth(m, components[m.component], concerns, has_goal) for m in metrics}
    taken: list[MetricDesign] = []
    # Whoever counts the failures that are given back counts the step of a route to them, with or without its question.
    left = [m for m in metrics if not any(_counts_it(m, other) for other in metrics)]
    while left and len(taken) < MAX_METRICS:
        families = Counter(_kind(m) for m in taken)
        of_component = Counter(_owner(m) for m in taken)
        judges = sum(m.source == "judge" for m in taken)
        names = {m.name for m in taken}
        read = {_judged(m) for m in taken if m.source == "judge"}
        prompts = {(m.symbols[0], _judged(m)[1]) for m in taken if m.source == "judge"}
        judged = Counter(m.component for m in taken if m.source == "judge")
        of_kind = {kind: [m.component for m in taken if _kind(m) == kind] for kind in _HANDED_ON}
        fitting = [
            m
            for m in left
            if not (m.source == "judge" and (judges >= MAX_JUDGES or _judged(m) in read))
            and not (judges_sql(m) and any(map(judges_sql, taken)))
            and not _is_read_already(m, prompts)
            and not (m.family in ONCE and families[_kind(m)])
            and _FOLLOWS.get(m.family) not in {other.family for other in taken}
            and _parts(m) <= names
            and not _is_counted(m, taken)
            and not _is_further_step(m, taken)
            and not is_told(m, taken)
            and not (
                _kind(m) in _HANDED_ON
                and any((m.component, o) in edges or (o, m.component) in edges for o in of_kind[_kind(m)])
            )
        ]
        fitting = [m for m in fitting if not comes_later(m, fitting, taken)]
        left_worth = {
            m.name: worth[m.name]
            - _of_same(m) * families[_kind(m)]
            - _OF_LIKE * families[_LIKE.get(_kind(m), "")]
            - 0.75 * (m.family != "passages_found") * (judged if m.source == "judge" else of_component)[_owner(m)]
            - (_OF_SAME_PROMPT if m.source == "judge" and (m.symbols[0], _judged(m)[1]) in prompts else 0)
            for m in fitting
        }
        enough = [m for m in fitting if left_worth[m.name] >= _least(m)]
        if not enough:
            break
        best = max(enough, key=lambda m: left_worth[m.name])
        taken.append(best)
        left.remove(best)
        # What fails only where the others do says nothing more.
        taken = [m for m in taken if m is best or not is_told(m, taken)]
    return {m.name for m in taken}


def _least(metric: MetricDesign) -> float:
    """Return the least worth of a metric that has a place of its own."""
    return LEAST_OWN_WORTH if _kind(metric) in _OF_FAILURES else LEAST_WORTH


def _parts(metric: MetricDesign) -> set[str]:
    """Return the metrics that one is made of."""
    claim = metric.claim
    return {claim["numerator"], claim["denominator"]} if claim["form"] == "ratio" else set(metric.parts)


def _is_counted(metric: MetricDesign, others: list[MetricDesign]) -> bool:
    """Return whether another metric fails on the same calls."""
    return _fails_its_run(metric, others) or any(_counts_it(metric, m) or _counts_it(m, metric) for m in others)


def _counts_it(metric: MetricDesign, other: MetricDesign) -> bool:
    """Return whether another metric counts the answers that stand for a failure which a metric counts."""
    told = metric.told_at
    if told is None:
        return False
    is_of_failures = other.claim.get("field") in ("attributes.answer_outcome", "attributes.request_outcome")
    return is_of_failures and any((p.path, p.line) == (told.path, told.line) for p in other.places)


def _is_further_step(metric: MetricDesign, others: list[MetricDesign]) -> bool:
    """Return whether a metric is of a further step of a function whose fallback another metric counts."""
    is_fallback = _kind(metric) == "fallback_rate"
    return is_fallback and any(_kind(m) == "fallback_rate" and m.symbols == metric.symbols for m in others)


def _fails_its_run(metric: MetricDesign, others: list[MetricDesign]) -> bool:
    """Return whether a metric counts errors of functions that ask a model, and others the calls or runs that fail."""
    families = ("answer_present", "unanswered") if any(m.family in _OF_RUNS for m in others) else ("unanswered",)
    mine = set(metric.spans) if metric.claim.get("field") == "status" else set[str]()
    return bool(mine) and any(mine <= set(m.spans) for m in others if m.family in families)


def _of_same(metric: MetricDesign) -> float:
    """Return what each metric of the same kind takes off; judges of two prompts look for different failures."""
    return 0.5 if metric.source == "judge" else 1.5


def _is_read_already(metric: MetricDesign, prompts: set[tuple[str, CodePlace | str]]) -> bool:
    """Return whether another judge reads the answers to the prompt of one, which is of their quality alone."""
    is_of_quality = metric.source == "judge" and metric.concern == "quality" and not judges_sql(metric)
    return is_of_quality and (metric.symbols[0], _judged(metric)[1]) in prompts


def _owner(metric: MetricDesign) -> str:
    """Return what a metric is about; one of model calls, or of what they are sent, is about each call by itself."""
    return metric.name if metric.members or metric.family in (*SHARED, "context_cuts") else metric.component


def _judged(metric: MetricDesign) -> tuple[tuple[CodePlace, ...], CodePlace | str]:
    """Return what a judge reads: a prompt is judged once beside each evidence and once without, whoever sends it."""
    return tuple(metric.evidence_from), metric.prompts[0] if metric.prompts else metric.name


def _kind(metric: MetricDesign) -> str:
    return f"judge of {metric.concern}" if metric.source == "judge" else _kind_of_family(metric.family)


@functools.cache
def _kind_of_family(family: str) -> str:
    return next((end for end, _ in _WORTH if without_number(family).endswith(end)), family)


def _worth(metric: MetricDesign, component: ComponentDraft, concerns: set[str], has_goal: bool) -> float:
    if metric.source == "judge":
        worth = 7.5 if metric.reads_search else _OF_JUDGES.get(metric.concern, 4.0) + metric.demand
    elif metric.pattern == "parses_json" and not metric.is_of_model:
        # Texts of files, settings and stores change with releases, not with traffic.
        worth = _OF_OTHER_PARSES
    elif _kind_of_family(metric.family) == "fallback_rate" and not metric.is_of_model and not metric.is_of_cache:
        worth = _OF_OTHER_ROUTES
    elif metric.source == "catalog" and metric.family == "error_rate" and not metric.pattern:
        worth = _OF_ENTRIES
    elif metric.family == "service_latency" and "limit" not in metric.claim:
        # How long requests take follows what they carry.
        worth = _OF_UNLIMITED
    elif metric.is_of_cache:
        worth = _OF_CACHES
    else:
        worth = next((value for end, value in _WORTH if without_number(metric.family).endswith(end)), 3.0)
    if _kind_of_family(metric.family) in ("failure_answers", "swallowed_errors") and not metric.is_of_model:
        worth += _OF_NO_MODEL
    worth += _OF_PRIORITY.get(component.priority, 0.0) + (component.silent_failure == "high") + bool(metric.members)
    return worth + (3 * (metric.concern in concerns) + bool(component.goal_words) if has_goal else 0)


def _why(metric: MetricDesign, chosen: list[MetricDesign], joined: set[str], is_told: Told) -> str:
    same = [m.name for m in chosen if _kind(m) == _kind(metric)]
    counted = next((m.name for m in chosen if _is_counted(metric, [m])), None)
    if counted is not None:
        return f"{counted} fails on the same calls"
    if _fails_its_run(metric, chosen):
        return "a call of a model that raises fails its run, which is told there"
    followed = next((m.name for m in chosen if m.family == _FOLLOWS.get(metric.family)), None)
    if followed is not None:
        return f"it follows {followed}"
    if metric.name not in joined and is_told(metric, chosen):
        return "each of its failures is one of other metrics"
    if (metric.name in joined or metric.family in ONCE) and same:
        return f"one of a pipeline is enough: {same[0]}"
    if same:
        return f"{len(same)} of its kind are in the portfolio, such as {same[0]}"
    return "others would catch more"
