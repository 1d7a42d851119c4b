"""Rules of the critic that read the code behind a metric: why its claim is not true or cannot fail."""

from __future__ import annotations

import re

from gapwatch.design.architecture.claimed_code import EVIDENCE, MAX_HOPS
from gapwatch.design.architecture.evidence_flow import fetching_lines, searches_by_provider
from gapwatch.design.architecture.prompt_texts import MIN_TASK
from gapwatch.design.architecture.reply_flow import Output, output_of
from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.metrics.rules.code_view import CodeView, MetricRule, claim_key, is_around, keep_places, placed
from gapwatch.design.metrics.rules.error_paths import in_body
from gapwatch.design.metrics.rules.handed_answers import handed_call
from gapwatch.design.metrics.rules.place_rules import PLACE_RULES, UNSERVED, unserved_judge
from gapwatch.design.metrics.spans import OF_EXCHANGE
from gapwatch.design.patterns.code_walk import (
    calls_in,
    constants_in,
    names_in,
    own_expressions,
    target_names,
    unwrapped,
    walk,
)
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.patterns.library_uses import CodePlace
from gapwatch.design.source.ir import (
    Stmt,
    body_of,
    constant_of,
    handler_body,
    handlers_of,
    is_call,
    is_name,
    line_of,
    targets_of,
    value_of,
)
from gapwatch.design.source.program import last_name, statements
from gapwatch.scorers.portfolio.polarity import BY_THE_CLAIM

#: Words of a text that say which side is bad.
_SAYS_DIRECTION = re.compile(
    r"\b(must|never|always|only|useless|avoid|do not|don't|should|at most|at least|no more than|required|wanted|worse"
    r"|better|bad|error|fail\w*|gave up|giving up|too (long|many|few|short|slow|large)|not enough|exceed\w*|invalid"
    r"|timed? ?out|prefer\w*|without an?)\b",
    re.I,
)
#: Fields of a stream, which are the same where one generator hands on the pieces of another.
_OF_STREAMS = frozenset({"attributes.stream_outcome", "attributes.first_chunk_seconds"})
_LOGS_TROUBLE = frozenset({"error", "warning", "warn", "exception", "critical"})


def bad_places(metric: MetricDesign, view: CodeView) -> dict[CodePlace, tuple[str, str]]:
    """Return the places that do not support a metric, each with (rule, reason)."""
    out: dict[CodePlace, tuple[str, str]] = {}
    if metric.source in ("composite", "cost"):
        return out
    for place, symbol in placed(metric, view):
        key = (
            place,
            metric.source,
            metric.pattern,
            metric.family,
            metric.claim.get("field"),
            metric.claim.get("present"),
            metric.name in view.added,
        )
        if key not in view.refusals:
            view.refusals[key] = _refusal(metric, place, symbol, view)
        if (refusal := view.refusals[key]) is not None:
            out[place] = refusal
    return out


def _refusal(metric: MetricDesign, place: CodePlace, symbol: str, view: CodeView) -> tuple[str, str] | None:
    """Return the first rule that a place breaks, with the reason."""
    for name, rule in PLACE_RULES.items():
        # An agent that is made when the program starts answers requests.
        is_served = (metric.is_of_trace and name == "set_up") or (metric.name in view.added and name in UNSERVED)
        why = None if is_served else rule(metric, place, symbol, view)
        if why is not None:
            return name, f"{place}: {why}"
    return None


def without_bad_places(metric: MetricDesign, view: CodeView) -> MetricDesign | None:
    """Leave out the places that do not support a metric, with their spans; None where nothing is left."""
    bad = bad_places(metric, view)
    good = [p for p in metric.places if p not in bad]
    if not bad or not good:
        return metric if not bad else None
    return keep_places(metric, good, view.code, view.points.get(metric.component, []))


# -- the metric as a whole ------------------------------------------------------------------------------------------


def _place_rule(name: str) -> MetricRule:
    def rule(metric: MetricDesign, view: CodeView) -> str | None:
        found = [why for rule_name, why in bad_places(metric, view).values() if rule_name == name]
        return found[0] if found else None

    return rule


def _of_unused_code(metric: MetricDesign, view: CodeView) -> str | None:
    return _place_rule("unused_code")(metric, view) or unserved_judge(metric, view)


def _borrowed_limit(metric: MetricDesign, view: CodeView) -> str | None:
    limit = metric.claim.get("limit")
    if metric.limit_place is None or not limit:
        return None
    where = metric.limit_place
    symbols = [symbol for _, symbol in placed(metric, view)]
    inside = view.code.function_at(where)
    names: list[str] = []
    if inside is None:
        found = view.code.statement_at(where)
        if found is not None and found[1][0] == "assign":
            names = [str(t[1]) for t in targets_of(found[1]) if is_name(t)]
    for symbol in symbols:
        own = {*view.code.chain(symbol)}
        if inside is not None and inside not in own and not any(inside.startswith(f"{one}.") for one in own):
            return f"the limit at {where} belongs to {inside.rpartition('.')[2]}"
        if names and not any(view.code.mentions(symbol, name) for name in names):
            return f"{symbol.rpartition('.')[2]} does not read the limit at {where}"
        if "max" in limit and _cuts_at(symbol, {*names}, limit["max"], view):
            return "the code itself cuts at the limit, so the check cannot fail"
    return None


def _cuts_at(symbol: str, names: set[str], value: object, view: CodeView) -> bool:
    """Return whether a function returns a slice that ends at a limit."""
    subject = view.code.subject(view.code.worker(symbol))
    for e in view.code.returned(subject) if subject is not None else ():
        inner = unwrapped(e)
        if inner is not None and inner[0] == "s" and inner[2][0] == "sl" and inner[2][2] is not None:
            end = inner[2][2]
            if end == ("k", value) or {n.rpartition(".")[2] for n in names_in(end)} & names:
                return True
    return False


def _denominator(metric: MetricDesign, view: CodeView) -> str | None:
    if metric.source != "catalog" or not metric.spans:
        return None
    symbols = {*metric.symbols}
    points = view.points.get(metric.component, [])
    for span in metric.spans:
        mine = [p for p in points if p.name == span]
        if mine and not any(is_around(p.symbol, symbols) for p in mine):
            return f"it is counted over {span}, which can have none of what it counts"
    return None


def _twin(metric: MetricDesign, view: CodeView) -> str | None:
    if metric.source != "catalog":
        return None
    mine = _functions_of(metric, view)
    for other in view.by_claim.get(claim_key(metric), ()):
        if other is metric:
            break
        if mine and all(any(_same_result(m, o, metric, view) for o in _functions_of(other, view)) for m in mine):
            return f"{other.name} fails on the same traces for the same reason"
    return _counted_above(metric, mine, view) or _handed_on(metric, mine, view)


def _counted_above(metric: MetricDesign, mine: set[str], view: CodeView) -> str | None:
    """Return who counts each error of functions as swallowed: handlers around their calls that protect nothing else."""
    if metric.claim.get("field") != "status" or not mine:
        return None
    callers = view.code.material.sites.callers
    calls = [(edge.src, line, f) for f in mine for edge in callers.get(f, ()) for _, line in edge.sites]
    if {f for _, _, f in calls} != mine:
        return None
    first: set[tuple[str, int]] = set()
    for call in calls:
        found = _handlersis_around(*call, view)
        if not found:
            return None
        first = first or found
    return f"{view.swallowing[min(first)]} counts the same errors, where a handler swallows them"


def _handed_on(metric: MetricDesign, mine: set[str], view: CodeView) -> str | None:
    """Return who says of the same answers whether they are there: functions below those that hand them on unchanged."""
    if metric.claim.get("field") != "output" or metric.claim.get("present") is not True or not mine:
        return None
    below = [reached for symbol in mine for reached in _answers_from(symbol, view)]
    others = [other for other in view.by_claim.get(claim_key(metric), ()) if other is not metric]
    told = [next((o.name for o in others if _functions_of(o, view) & reached), None) for reached in below]
    return f"{told[0]} fails where the answer is missing that it hands on" if told and all(told) else None


def _handlersis_around(symbol: str, line: int, callee: str, view: CodeView) -> set[tuple[str, int]]:
    """Return (file, line) of each `try` with a metric that swallows the errors of a call and protects no other risk."""
    subject = view.code.subject(symbol)
    out: set[tuple[str, int]] = set()
    for s in subject.statements if subject is not None else ():
        if subject is None or s[0] != "try" or (subject.program.path(subject.info), line_of(s)) not in view.swallowing:
            continue
        if not in_body(s, line) or not view.errors.swallows(subject, s):
            continue
        leaving = [c for c in calls_in(body_of(s)) if view.errors.may_leave(subject, c)]
        if all(callee in {edge.dst for edge in subject.inside(c)} for c in leaving):
            out.add((subject.program.path(subject.info), line_of(s)))
    return out


def _answers_from(symbol: str, view: CodeView) -> list[set[str]]:
    """Return, for each function that the one call may run whose answer is handed on unchanged, those below it.

    Empty sets where another function decides by itself whether there is an answer: it tries again or falls back.
    """
    subject = view.code.subject(symbol)
    call = handed_call(view.code, subject) if subject is not None else None
    if subject is None or call is None:
        return [set()]
    told = [(edge.dst, view.code.subject(edge.dst)) for edge in subject.inside(call)]
    targets = sorted({dst for dst, one in told if one is None or not one.info.is_abstract})
    return [_below(target, view) - {symbol} for target in targets] or [set()]


def _below(target: str, view: CodeView) -> set[str]:
    found: set[str] = set()
    frontier = [target]
    for _ in range(MAX_HOPS):
        hits = {f: {h.pattern for h in view.code.material.hits_of(f)} for f in frontier if f not in found}
        frontier = [f for f, patterns in hits.items() if not patterns & {"has_cascade", "has_retry_loop"}]
        found.update(frontier)
        frontier = [edge.dst for f in frontier for edge in view.code.material.sites.callees.get(f, ())]
    return found


def _functions_of(metric: MetricDesign, view: CodeView) -> set[str]:
    return {symbol for _, symbol in placed(metric, view)} or set(metric.symbols)


def _same_result(one: str, other: str, metric: MetricDesign, view: CodeView) -> bool:
    """Return whether one of two functions hands on what the other does; for a duration it may do nothing else."""
    field = metric.claim.get("field")
    chain = view.code.chain
    if field == "attributes.parsed_text":
        chain = view.code.givers
    elif field in _OF_STREAMS:
        chain = view.code.senders
    return other in chain(one) or one in chain(other)


def _judge_prompt(metric: MetricDesign, view: CodeView) -> str | None:
    """Say why a metric is no judge of a model's words, or None."""
    if metric.source != "judge" or metric.reads_search:
        return None
    is_of_exchange = OF_EXCHANGE[1] in metric.fields
    if not metric.prompts and not ((metric.is_of_trace or is_of_exchange) and metric.evidence_from):
        return "it names no prompt that a model is sent"
    known = [p.place for found in view.prompts.values() for p in found]
    for place in metric.prompts:
        if not any(k.path == place.path and k.line - 1 <= place.line <= max(k.end, k.line) for k in known):
            return f"the text at {place} is sent to no model"
    if metric.is_of_trace:
        # Its evidence is made of the calls that fetch it.
        return None
    outputs = set() if is_of_exchange else {output_of(view.code, symbol) for symbol in metric.symbols}
    if outputs == {Output.SELDOM}:
        return "most answers of the function hold no word of the model"
    if outputs == {Output.NOTHING} or (
        outputs == {Output.UNKNOWN} and all(_says_nothing(symbol, view) for symbol in metric.symbols)
    ):
        return "the output holds no word of the model: the function gives back a number, whether it worked, or nothing"
    # What an answer rests on is in what was sent, whichever prompt that was.
    is_of_support = is_of_exchange and metric.concern == "groundedness"
    if not is_of_support and (why := _why_of_another(metric, view)) is not None:
        return why
    if not is_of_exchange and all(_is_told_nothing(symbol, view) for symbol in metric.symbols):
        return "what the model is asked stands in the object: the method is given nothing that a judge could read"
    is_of_finds = is_of_support and bool(metric.evidence_from)
    if metric.prompts and not is_of_finds and (count := _objects_that_give(metric, view)) > 1:
        return f"the prompt is one of {count}: each object gives its own"
    for place in metric.evidence_from if metric.tier else ():
        found = view.code.statement_at(place)
        if found is None or not _is_outside(*found, view):
            return f"the evidence at {place} does not come from a search, a tool or a data source"
    return None


def _is_told_nothing(symbol: str, view: CodeView) -> bool:
    """Return whether a method has no parameter but its object, so that its span has no input."""
    subject = view.code.subject(symbol)
    if subject is None or subject.info.owner < 0 or subject.info.is_static:
        return False
    return not subject.ir.params[1:]


def _objects_that_give(metric: MetricDesign, view: CodeView) -> int:
    """Return of how many classes the methods are that give the prompts of the judged functions; 0 for their own."""
    sent = [p for found in view.prompts.values() for p in found if p.symbol in metric.symbols]
    # A label beside the task is no prompt of another object.
    sent = [p for p in sent if len(p.text) >= MIN_TASK]
    first = view.code.function_at(metric.prompts[0])
    makers = {view.code.function_at(p.place) for p in sent} | {first}
    # Methods of the same name that the same call may run.
    callees = [e.dst for symbol in metric.symbols for e in view.code.material.sites.callees.get(symbol, ())]
    makers |= {c for c in callees if first is not None and c.rpartition(".")[2] == first.rpartition(".")[2]}
    givers = [s for s in map(view.code.subject, filter(None, makers)) if s is not None]
    own = {s.info.owner for s in map(view.code.subject, metric.symbols) if s is not None}
    classes = {s.info.owner for s in givers if s.info.owner >= 0} - own
    return len(classes) if any(s.symbol == first and s.info.owner in classes for s in givers) else 0


def _why_of_another(metric: MetricDesign, view: CodeView) -> str | None:
    """Return why the answers of the judged functions are not those to its prompts: another one is sent for them."""
    sent = [p for found in view.prompts.values() for p in found]
    places = {(p.path, p.line) for p in metric.prompts}
    names = {p.name for p in sent if p.name and (p.place.path, p.place.line) in places}
    for subject in filter(None, map(view.code.subject, metric.symbols)):
        reading = [s for s in subject.statements if names & {n for e in own_expressions(s) for n in names_in(e)}]
        tries = [s for s in subject.statements if s[0] == "try"]
        handled = [x for s in tries for h in handlers_of(s) for x in statements(handler_body(h))]
        if reading and all(any(x is s for x in handled) for s in reading):
            return f"{', '.join(sorted(names))} is sent only where another prompt fails"
        hits = view.code.material.hits_of(subject.symbol)
        path, ir = subject.program.path(subject.info), subject.ir
        is_inside = any(p == path and ir.line <= line <= ir.end for p, line in places)
        if reading or is_inside or any(h.pattern == "calls_llm" and h.kind == "direct" for h in hits):
            continue
        givers = {p.symbol for p in sent} & set(_givers(subject))
        own = {(p.place.path, p.place.line) for p in sent if p.symbol in givers}
        if givers and not own & places:
            return f"the answer is what {min(givers).rpartition('.')[2]} gives, which sends prompts of its own"
    return None


def _givers(subject: Subject) -> list[str]:
    """Return the functions of the repository whose results are part of what a function gives back."""
    names = {n.partition(".")[0] for e in subject.returned for n in names_in(e)}
    values = [
        value
        for s in subject.statements
        if s[0] == "assign" and (value := value_of(s)) is not None
        if names & {name for t in targets_of(s) for name in target_names(t)}
    ]
    calls = [c for e in (*subject.returned, *values) for c in walk(e) if is_call(c)]
    return [edge.dst for c in calls for edge in subject.inside(c)]


def _says_nothing(symbol: str, view: CodeView) -> bool:
    """Return whether a function gives back constants or numbers alone: its output holds no word of a model."""
    subject = view.code.subject(view.code.worker(symbol))
    return subject is not None and (subject.gives_number or all(e[0] == "k" for e in view.code.returned(subject)))


def _is_outside(subject: Subject | None, s: Stmt, view: CodeView) -> bool:
    """Return whether a statement gets material from outside the model."""
    if searches_by_provider(s):
        return True
    return subject is not None and any(fetching_lines(view.code, subject, e, EVIDENCE) for e in own_expressions(s))


def _direction_line(metric: MetricDesign, view: CodeView) -> str | None:
    if metric.direction_verdict != "verified" or metric.fact is not None:
        return None
    if metric.direction_place is None:
        said = metric.direction_evidence
        if said == BY_THE_CLAIM and not metric.says_by_itself:
            return "the claim does not say which side is bad, and no line or fact does"
        return None if said == BY_THE_CLAIM else "no line that says a direction is cited"
    found = view.code.statement_at(metric.direction_place)
    if found is None or not _says_direction(found[1]):
        return f"{metric.direction_place} is the call or the loop; it says no direction"
    return None


def _says_direction(s: Stmt) -> bool:
    if s[0] in ("raise", "assert"):
        return True
    for e in own_expressions(s):
        if any(is_call(c) and last_name(c) in _LOGS_TROUBLE for c in walk(e)):
            return True
    value = value_of(s) if s[0] in ("assign", "return") else None
    if value is None or any(is_call(c) for c in walk(value)):
        return False
    return any(_SAYS_DIRECTION.search(text) for text in constants_in(value)) or (
        value[0] == "k" and isinstance(constant_of(value), str) and bool(_SAYS_DIRECTION.search(constant_of(value)))
    )


#: Rules that reject, with the reason by which a report may say why.
CODE_RULES: dict[str, MetricRule] = {
    **{name: _place_rule(name) for name in PLACE_RULES},
    "unused_code": _of_unused_code,
    "borrowed_limit": _borrowed_limit,
    "wrong_denominator": _denominator,
    "twins": _twin,
    "judge_without_prompt": _judge_prompt,
    "direction_by_the_call": _direction_line,
}
