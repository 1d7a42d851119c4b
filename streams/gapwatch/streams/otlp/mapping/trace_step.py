"""`TraceStep`: a span in the tree of its trace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gapwatch.streams.otlp.mapping.span_facts import SpanFacts

#: Steps around a step that rules look at: without a bound, a trace of 10,000 spans in each other takes minutes.
MOST_ABOVE = 200


class TraceStep:
    """Span in the tree of its trace, to which the rules over whole traces write.

    Attributes:
        facts: What its span says.
        parent: TraceStep around it; None for a root, or where its parent never came.
        has_children: Whether there are steps in it. It does not hold them: steps that hold each other stay in memory
            until the garbage collector looks for them, which costs a fifth of the mapping.
        lost_parent: Whether it has a parent that never came.
        kind: Kind of the step in the envelope.
        component: Component of the pipeline that did it.
        own_name: Name that a person gave to it; None for a span that an instrumentor made.
        depth: Number of steps around it.
        tier: Tier of a model call; None without one.
        is_wrapper: Whether its tokens and cost are those of a call elsewhere in the trace.
        is_dropped: Whether it is left out of the envelope.
    """

    __slots__ = (
        "component", "depth", "facts", "has_children", "is_dropped", "is_wrapper", "kind", "lost_parent", "own_name",
        "parent", "tier",
    )  # fmt: skip

    def __init__(self, facts: SpanFacts) -> None:
        self.facts = facts
        self.parent: TraceStep | None = None
        self.has_children = False
        self.lost_parent = False
        self.kind = facts.kind or "other"
        self.component = ""
        self.depth = 0
        self.own_name: str | None = None
        self.tier: str | None = None
        self.is_wrapper = self.is_dropped = False

    def above(self) -> Iterator[TraceStep]:
        """Yield the steps around it, the nearest first; `MOST_ABOVE` at most."""
        step = self.parent
        for _ in range(MOST_ABOVE):
            if step is None:
                return
            yield step
            step = step.parent


def tree_of(facts: Sequence[SpanFacts]) -> list[TraceStep]:
    """Return the steps of a trace by start, each with its parent; a circle is broken at its earliest.

    Args:
        facts: Spans of the trace, each id once, sorted by start and id.
    """
    steps = [TraceStep(one) for one in facts]
    by_id = {one.record.span_id: step for one, step in zip(facts, steps, strict=True)}
    is_forward = False
    seen: set[str] = set()
    for step in steps:
        record = step.facts.record
        parent_id = record.parent_id
        if parent_id is not None:
            parent = by_id.get(parent_id)
            if parent is None:
                step.lost_parent = True
            elif parent is not step:
                step.parent = parent
                # Where each parent comes before its child there is no circle.
                is_forward = is_forward or parent_id not in seen
        seen.add(record.span_id)
    if is_forward:
        _break_circles(steps)
    for step in steps:
        if step.parent is not None:
            step.parent.has_children = True
    _set_depths(steps)
    return steps


def _set_depths(steps: list[TraceStep]) -> None:
    for step in steps:
        path = []
        here: TraceStep | None = step
        while here is not None and here.depth == 0 and here.parent is not None:
            path.append(here)
            here = here.parent
        depth = 0 if here is None else here.depth
        for one in reversed(path):
            depth += 1
            one.depth = depth


def _break_circles(steps: list[TraceStep]) -> None:
    safe: set[int] = set()
    for step in steps:
        path: list[TraceStep] = []
        on_path: set[int] = set()
        here: TraceStep | None = step
        while here is not None and id(here) not in safe:
            if id(here) in on_path:  # steps are sorted by start: the first of the circle that is met is cut off
                circle = path[path.index(here) :]
                first = min(circle, key=lambda one: (one.facts.record.start, one.facts.record.span_id))
                first.parent = None
                break
            path.append(here)
            on_path.add(id(here))
            here = here.parent
        safe.update(on_path)
