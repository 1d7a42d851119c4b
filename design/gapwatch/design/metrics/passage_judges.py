"""Drafts the judge of a pipeline that asks whether the passages that a search found bear on what it was asked."""

from __future__ import annotations

from gapwatch.design.architecture.claimed_code import ClaimedCode
from gapwatch.design.architecture.model import Architecture, ComponentDraft
from gapwatch.design.metrics.catalog import metric_name
from gapwatch.design.metrics.judge_drafts import rubric_of
from gapwatch.design.metrics.metric_design import OF_PASSAGES, MetricDesign
from gapwatch.design.metrics.searches.passage_readers import MOST_READERS, PassageReader, PassageReaders
from gapwatch.design.metrics.spans import IntegrationPoint
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.patterns.library_uses import CodePlace
from gapwatch.scorers.portfolio.polarity import BY_THE_CLAIM

#: Texts of results without a passage.
_NOTHING = r"^\s*(\[\s*\]|\{\s*\}|null|None|\[\[\s*\]\])?\s*$"

_SCALE = {
    "several passages say what was asked for": 5,
    "one passage says a good part of it": 4,
    "at least one passage says something about it": 3,
    "the passages are of the same field, and none says anything about it": 2,
    "the passages are about something else": 1,
}
_STEPS = [
    "Read in the input what is searched for; names of stores, filters, limits, ids and vectors are no part of it. Of a "
    "conversation it is the last message, as those before it mean it.",
    "Read the passages in the output: their texts and titles; ids, scores and further data are none, nor is an answer.",
    "A passage bears on what was asked where it says something about it that an answer could use; common words "
    "alone are not enough. One such passage is enough, whatever the others are "
    "and whichever of several queries found it.",
    "Where the data says that characters or members are left out, do not hold against the search what may stand there.",
    "Where the input asks for nothing, as a greeting does, or the output has no passage at all, this judge has nothing "
    "to find: choose the band “at least one passage says something about it”.",
    "Explain step by step, quoting the words that decide. Then give the score.",
]


def passage_judge(architecture: Architecture, points: list[IntegrationPoint], code: ClaimedCode) -> MetricDesign | None:
    """Return the judge of what a pipeline's search finds; None where no span has the question and the passages.

    Args:
        architecture: The components.
        points: Spans that can be emitted; one is added for a function that has none.
        code: The analysed code.
    """
    chosen = PassageReaders(architecture, points, code).chosen()
    if chosen is None:
        return None
    component, readers = chosen
    subjects, read = [r.subject for r in readers], [_point(component, r, points) for r in readers]
    named = "`, `".join(s.symbol for s in subjects)
    criterion = (
        f"Does at least one of the passages that `{named}` found (its output) bear on what it was asked to "
        "search for (its input), so that an answer could use it?"
    )
    rubric, claim = rubric_of(criterion, ["input", "output"], [], scale=_SCALE, steps=_STEPS)
    when = [
        {"field": "name", "one_of": sorted({p.name for p in read})},
        {"field": "input", "present": True},
        {"field": "output", "not_matches": _NOTHING},
    ]
    count = "attributes.retrieved_count"
    if all(count in p.fields for p in read):
        when.append({"any_of": [{"field": count, "absent": True}, {"field": count, "range": {"min": 1}}]})
    return MetricDesign(
        name=metric_name(f"{component.id}_{OF_PASSAGES}"),
        component=component.id,
        source="judge",
        family=OF_PASSAGES,
        purpose="finds searches of whose passages none bears on what was asked",
        concern="groundedness",
        claim=claim,
        evidence=[
            *(f"{_place(s)} {s.symbol}" for s in subjects),
            *dict.fromkeys(f"{u.place} {u.capability} in {u.symbol}" for r in readers for u in r.searches),
        ][: 2 * MOST_READERS],
        symbols=[s.symbol for s in subjects],
        places=[_place(s) for s in subjects],
        spans=sorted({p.name for p in read}),
        fields=["input", "output"],
        when={"all_of": when},
        valid_when="the input of the span has what is asked in words, and the output the texts of what was found",
        better="lower",
        direction_evidence=BY_THE_CLAIM,
        severity="ticket",
        action="read the passages beside the question: the index, the embedding model, the query that is made of it",
        targets=["in_process", "dashboard", "alert"],
        rubric=rubric,
        questions=["q-pipeline-judge-model"],
        is_exported=False,
    )


def _point(component: ComponentDraft, reader: PassageReader, points: list[IntegrationPoint]) -> IntegrationPoint:
    """Return the span of a function, which is asked for where it has none."""
    subject = reader.subject
    point = next((p for p in points if p.symbol == subject.symbol), None)
    if point is None:
        name = ".".join(subject.symbol.split(".")[-2:] if subject.info.owner >= 0 else [subject.ir.name])
        why = [f"it is asked what {reader.searches[0].symbol.rpartition('.')[2]} searches for"]
        fields = ["input", "output"]
        point = IntegrationPoint(component.id, name, "retrieval", subject.symbol, _place(subject), fields, why)
        points.append(point)
    return point


def _place(subject: Subject) -> CodePlace:
    return CodePlace(subject.program.path(subject.info), subject.ir.line, subject.ir.end)
