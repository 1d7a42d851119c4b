"""Errors of services that pass as answers: nobody looks at the status, or the library puts them into words."""

from __future__ import annotations

from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.metrics.rules.code_view import CodeView
from gapwatch.design.patterns.code_walk import arguments_of, names_in, own_expressions, target_names, unwrapped
from gapwatch.design.patterns.library_uses import CodePlace
from gapwatch.design.source.ir import call_line, is_name, name_of, targets_of, value_of

#: Libraries whose replies do not raise where their status is an error.
_CLIENTS = frozenset({"requests", "httpx"})
#: What a function reads of a reply whose status it leaves alone.
_TEXTS = frozenset({"text", "content"})


def unchecked_status(metric: MetricDesign, place: CodePlace, symbol: str, view: CodeView) -> str | None:
    """Return why the errors of a service do not show in the status of the span of a request, or None."""
    subject = view.code.subject(symbol)
    if metric.claim.get("field") != "status" or metric.pattern != "calls_external_api" or subject is None:
        return None
    asking = [c for c in subject.calls if call_line(c) == place.line and subject.reach(c).capability is not None]
    reached = [subject.reach(c).dotted for c in asking]
    if reached and all(map(subject.sites.catalog.gives_errors_as_texts, reached)):
        return f"{reached[0]} takes the errors of its service itself, and gives them back in words"
    calls = [c for c in asking if subject.reach(c).capability == "http"]
    if not calls or any(subject.reach(c).dotted.partition(".")[0] not in _CLIENTS for c in calls):
        return None
    replies = {
        name
        for s in subject.statements
        if s[0] == "assign" and (value := unwrapped(value_of(s))) is not None and any(c == value for c in calls)
        for target in targets_of(s)
        for name in target_names(target)
    }
    read = {n for s in subject.statements for e in own_expressions(s) for n in names_in(e)}
    mine = {n for n in read if n.partition(".")[0] in replies and "." in n}
    given = [*subject.returned, *(a for c in subject.calls for a in arguments_of(c))]
    handed = any(is_name(e) and name_of(e) in replies for e in given)
    if mine and not handed and {n.partition(".")[2].partition(".")[0] for n in mine} <= _TEXTS:
        return "nobody looks at the status of the reply: only a connection that fails raises"
    return None
