"""Rules of the critic about one failure: why it costs no answer, is always one, or is of whoever uses a resource."""

from __future__ import annotations

import re

from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.metrics.rules.code_view import CodeView
from gapwatch.design.patterns.code_walk import calls_in, own_expressions, target_names, unwrapped, walk
from gapwatch.design.patterns.hit import FAILS_WHOLE, PatternHit, Subject
from gapwatch.design.patterns.library_uses import CodePlace
from gapwatch.design.routes.checks import failed_names
from gapwatch.design.routes.normal_ends import NormalEnds
from gapwatch.design.source.ir import (
    body_of,
    branches_of,
    call_line,
    handlers_of,
    is_call,
    is_name,
    line_of,
    name_of,
    positional_of,
    targets_of,
    value_of,
)
from gapwatch.design.source.program import last_name, statements

#: Calls that take addresses and paths apart.
_OF_ADDRESSES = re.compile(
    r"^(urlparse|urlsplit|urljoin|Path|PurePath|splitext|basename|dirname|guess_type|quote|unquote)$"
)


def beside_work(metric: MetricDesign, place: CodePlace, symbol: str, view: CodeView) -> str | None:
    """Return why what a function gives back on failure costs no answer: a look, an amount, an address, a refusal."""
    if metric.claim.get("field") != "attributes.answer_outcome" and metric.family != "results_found":
        return None
    subject = view.code.subject(symbol)
    hits = [h for h in view.code.material.hits_of(symbol) if h.pattern == "returns_failure" and h.line == place.line]
    if subject is None or not hits:
        return None
    if (why := NormalEnds(subject).why_beside(place.line, hits[0].kind)) is not None:
        return why
    return _reads_an_address(subject, place.line, view) or _told_later(subject, hits[0], view)


def _reads_an_address(subject: Subject, line: int, view: CodeView) -> str | None:
    """Return why nothing is lost where a handler holds a line: its block takes an address apart, or writes JSON."""
    for s in subject.statements:
        if s[0] != "try" or not any(first <= line <= last for first, *_, last in handlers_of(s)):
            continue
        tried = list(calls_in(body_of(s)))
        is_plain = all(x[0] in ("assign", "return", "expr") for x in body_of(s))
        if is_plain and tried and all(last_name(c) == "dumps" for c in tried):
            return "its block only writes values of the process as JSON"
        if any(_OF_ADDRESSES.match(last_name(c)) for c in tried) and not any(
            view.errors.may_leave(subject, c) for c in tried
        ):
            return "its block only takes an address or a path apart, which fails for no reason outside"
    return None


#: Fields of a reply that a text alone does not have.
_OF_REPLIES = frozenset({"attributes.finish_reason", "usage.cost_usd", "usage.total_tokens"})


def says_text_alone(metric: MetricDesign, place: CodePlace, symbol: str, view: CodeView) -> str | None:
    """Return why a model call has no tokens and no reason why it ended: its library gives what the model said alone."""
    subject = view.code.subject(symbol) if metric.claim.get("field") in _OF_REPLIES else None
    calls = [c for c in subject.calls if call_line(c) == place.line] if subject is not None else []
    reached = [subject.reach(c) for c in calls] if subject is not None else []
    asking = [r.dotted for r in reached if r.capability == "llm_chat"]
    if asking and all(map(view.code.material.sites.catalog.gives_text_alone, asking)):
        return f"{asking[0]} gives what the model said alone, without tokens or a reason why it ended"
    return None


def only_failures(metric: MetricDesign, place: CodePlace, symbol: str, view: CodeView) -> str | None:
    """Return why each call of a function is a failure: it does nothing but put one into words."""
    del place
    if metric.claim.get("field") != "attributes.answer_outcome" and metric.family != "results_found":
        return None
    subject = view.code.subject(view.code.worker(symbol))
    given = [
        line_of(s)
        for s in (subject.statements if subject is not None else ())
        if (s[0] == "return" and value_of(s) is not None)
        or any(i[0] == "y" for e in own_expressions(s) for i in walk(e))
    ]
    failed = {
        h.line
        for h in (view.code.material.hits_of(subject.symbol) if subject is not None else ())
        if h.pattern == "returns_failure"
    }
    if given and set(given) <= failed:
        return f"{symbol.rpartition('.')[2]} does nothing but put a failure into words: each of its calls is one"
    return None


def thrown_in(metric: MetricDesign, place: CodePlace, symbol: str, view: CodeView) -> str | None:
    """Return why a `try` around a lone `yield` tells no error of its own function: whoever uses it throws them in."""
    if metric.claim.get("field") not in ("status", "attributes.swallowed_errors"):
        return None
    subject = view.code.subject(symbol)
    for s in subject.statements if subject is not None and subject.ir.is_generator else ():
        if subject is not None and s[0] == "try" and line_of(s) == place.line:
            lone = [
                x
                for x in body_of(s)
                if x[0] == "expr" and any(i[0] == "y" for e in own_expressions(x) for i in walk(e))
            ]
            if len(lone) == 1 and not any(view.errors.may_leave(subject, c) for c in calls_in(body_of(s))):
                return "whoever uses the resource throws its own errors in: refused requests and faults of other work"
    return None


def _told_later(subject: Subject, hit: PatternHit, view: CodeView) -> str | None:
    """Return where each caller, or what it hands the result to, takes nothing for the failure that it tells."""
    if hit.kind != "empty" or not subject.callers:
        return None
    found = [_told_by(subject, caller, view) for caller in subject.callers]
    return f"{found[0]} counts it where it is told" if all(found) else None


def _told_by(subject: Subject, caller: Subject, view: CodeView) -> str | None:
    names = {
        name
        for s in caller.statements
        if s[0] == "assign" and (call := unwrapped(value_of(s))) is not None and is_call(call)
        if any(edge.dst == subject.symbol for edge in caller.inside(call))
        for t in targets_of(s)
        for name in target_names(t)
    }
    if not names:
        return None
    if _tells(caller, names, view):
        return caller.symbol.rpartition(".")[2]
    for call in caller.calls:
        for position, argument in enumerate(positional_of(call)):
            for edge in caller.inside(call) if is_name(argument) and name_of(argument) in names else ():
                other = view.code.subject(edge.dst)
                params = [p.name for p in other.ir.params if p.name not in ("self", "cls")] if other is not None else []
                if other is not None and position < len(params) and _tells(other, {params[position]}, view):
                    return other.symbol.rpartition(".")[2]
    return None


def _tells(subject: Subject, names: set[str], view: CodeView) -> bool:
    """Return whether a function gives a failure back in the branch in which a name has nothing."""
    lines = {
        h.line
        for h in view.code.material.hits_of(subject.symbol)
        if h.pattern in ("returns_failure", *FAILS_WHOLE) and not h.evidence.startswith("empty")
    }
    branches = [branches_of(s)[0] for s in subject.statements if s[0] == "if"]
    return any(
        names & failed_names(test) and any(line_of(x) in lines for x in statements(block)) for test, block in branches
    )
