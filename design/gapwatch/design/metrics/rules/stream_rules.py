"""Rules of the critic about streams: why one cannot break off, or why its first piece waits for nothing."""

from __future__ import annotations

from collections.abc import Iterator

from gapwatch.design.architecture.claimed_code import MAX_HOPS
from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.metrics.rules.code_view import CodeView
from gapwatch.design.patterns.code_walk import (
    arguments_of,
    calls_in,
    constants_in,
    kinds_of,
    names_in,
    own_expressions,
    tags_in,
    target_names,
    text_of,
    unwrapped,
    walk,
)
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.patterns.library_uses import CodePlace
from gapwatch.design.patterns.model_calls import asks_later, hands_on_stream
from gapwatch.design.source.ir import (
    Body,
    Expr,
    Stmt,
    body_of,
    branches_of,
    call_line,
    constant_of,
    handlers_of,
    is_call,
    is_text,
    iterable_of,
    operands_of,
    targets_of,
    value_of,
)
from gapwatch.design.source.program import last_name, statements

_FIELDS = frozenset({"attributes.stream_outcome", "attributes.first_chunk_seconds"})
#: Fields that a function has at its end from the model that it asked.
_OF_ANSWERS = frozenset({"attributes.finish_reason", "latency", "usage.total_tokens", "usage.cost_usd"})
#: Functions that make one text of a value.
_ONE_TEXT = frozenset({"dumps", "encode", "decode", "format", "str", "bytes"})


def ends_in_order(metric: MetricDesign, place: CodePlace, symbol: str, view: CodeView) -> str | None:
    """Return why a stream at a place cannot break off but by a reader who leaves; None where it can."""
    subject = view.code.subject(symbol)
    if metric.claim.get("field") not in _FIELDS or subject is None:
        return None
    at = [c for c in subject.calls if call_line(c) == place.line]
    if any(_sends_one_text(c) for c in at):
        return "it sends one text, which is there at once"
    streams = [subject] if subject.ir.is_generator else _streams_of(at, subject, view)
    if streams and not subject.ir.is_generator and all(_is_made_here(one, view) for one in streams):
        return "its pieces are those of a text that is there already"
    if metric.claim.get("field") != "attributes.stream_outcome":
        return None
    if streams and all(map(_has_no_end, streams)):
        return "it sends as long as its reader stays, who alone ends it"
    if streams and all(_takes_each_error(f, view) for f in streams):
        return "a handler inside takes each error and ends the stream in order: only a reader who leaves breaks it off"
    if subject.ir.is_generator and (taker := _taken_by(subject, view)) is not None:
        return f"{taker} takes each of its errors and tells it in the stream"
    return None


def _has_no_end(subject: Subject) -> bool:
    """Return whether a generator sends in a loop that nothing in it ends."""
    loops = [s for s in subject.statements if s[0] == "while" and s[2] == ("k", True)]
    return any(
        any(_sends(x) for x in statements(body_of(s))) and not tags_in(body_of(s), "return", "raise", "break")
        for s in loops
    )


def _streams_of(at: list[Expr], subject: Subject, view: CodeView) -> list[Subject]:
    """Return the generators that some calls run or are given; one that is handed to another ends in its hands."""
    calls = [*at, *(i for c in at for a in arguments_of(c) for i in walk(a) if i is not c and is_call(i))]
    made = [(c, f) for c in calls for e in subject.inside(c) if (f := view.code.subject(e.dst)) is not None]
    handed = {id(i) for c, f in made if f.ir.is_generator for a in arguments_of(c) for i in walk(a)}
    return [f for c, f in made if id(c) not in handed and f.ir.is_generator]


def asked_later(metric: MetricDesign, place: CodePlace, symbol: str, view: CodeView) -> str | None:
    """Return why the end of a function tells nothing of its model: the server asks it when it sends the response."""
    field = metric.claim.get("field")
    is_of_answer = field in _OF_ANSWERS or metric.claim.get("present") is True
    is_of_reply = is_of_answer or field == "attributes.model_reply"
    subject = view.code.subject(symbol) if metric.pattern == "calls_llm" and is_of_reply else None
    asking = [c for c in subject.calls if call_line(c) == place.line] if subject is not None else []
    if subject is not None and is_of_answer and any(asks_later(subject, c) for c in asking):
        return f"{symbol.rpartition('.')[2]} gives a response that asks the model after the function has ended"
    if subject is not None and any(hands_on_stream(subject, c) for c in asking):
        return f"{symbol.rpartition('.')[2]} gives the stream of the model unread: who reads it has the reply"
    return None


def sent_before(metric: MetricDesign, place: CodePlace, symbol: str, view: CodeView) -> str | None:
    """Return why the first piece of a stream waits for nothing; None where it waits for a model."""
    subject = view.code.subject(symbol)
    if metric.claim.get("field") != "attributes.first_chunk_seconds" or subject is None:
        return None
    at = [c for c in subject.calls if call_line(c) == place.line]
    sending = [subject] if subject.ir.is_generator else _streams_of(at, subject, view)
    made = [
        f for c in at for a in arguments_of(c) for i in walk(a) if is_call(i) for f in _generators(i, subject, view)
    ]
    handed = [f for f in made if f not in sending]
    if sending and (
        all(_begins_by_itself(f, view) for f in sending) or any(_begins_by_itself(f, view) for f in handed)
    ):
        return "it sends a piece of its own before it asks for the first one of the model"
    if subject.ir.is_generator and _is_collected(subject, view):
        return "who takes its pieces sends none of them on before the last"
    return None


def _generators(call: Expr, subject: Subject, view: CodeView) -> list[Subject]:
    """Return the generators that a call makes."""
    found = [view.code.subject(edge.dst) for edge in subject.inside(call)]
    return [f for f in found if f is not None and f.ir.is_generator]


def _is_collected(subject: Subject, view: CodeView) -> bool:
    """Return whether each function that calls a generator takes all its pieces in a loop, and gives one value then."""
    tests = {s.id for s in view.code.material.graph.symbols if s.tags}
    callers = {e.src for e in view.code.material.sites.callers.get(subject.symbol, ())} - tests - {subject.symbol}
    takers = [view.code.subject(caller) for caller in callers]
    return bool(takers) and all(f is not None and _collects(f, subject.symbol) for f in takers)


def _collects(taker: Subject, symbol: str) -> bool:
    if taker.ir.is_generator:
        return False
    made = {id(c) for c in taker.calls if any(e.dst == symbol for e in taker.inside(c))}
    loops = [s for s in taker.statements if s[0] == "for"]
    taken = {id(i) for s in loops for i in walk(iterable_of(s))}
    sent = any(tags_in(body_of(s), "return") for s in loops)
    return bool(made) and made <= taken and not sent


def _begins_by_itself(subject: Subject, view: CodeView, depth: int = 0) -> bool:
    """Return whether the first piece of a generator is sent before anything outside is asked."""
    for s in _unfolded(subject.ir.body):
        if s[0] in ("expr", "assign") and _sends(s):
            return True
        if s[0] == "for" and any(_sends(x) for x in statements(body_of(s))):
            if sends_starts(s):
                return True
            within = [c for c in subject.calls if any(c is i for i in walk(iterable_of(s)))]
            inner = _streams_of(within, subject, view)
            return depth <= MAX_HOPS and bool(inner) and all(_begins_by_itself(one, view, depth + 1) for one in inner)
        if any(_waits(subject, call, view) for call in calls_in((s,))):
            return False
    return False


#: Events of a run that come before any model is asked.
_STARTS = frozenset({"on_chain_start", "on_chat_model_start", "on_llm_start"})


def sends_starts(loop: Stmt) -> bool:
    """Return whether a loop over the events of a run sends something at that of its start."""
    for s in statements(body_of(loop)):
        for test, block in branches_of(s) if s[0] == "if" else ():
            if not _STARTS.isdisjoint(constants_in(test)) and any(_sends(x) for x in statements(block)):
                return True
    return False


def _unfolded(body: Body) -> Iterator[Stmt]:
    """Yield the statements of a block, those of a `try` or `with` in its place."""
    for s in body:
        if s[0] in ("try", "with"):
            yield from _unfolded(body_of(s))
        else:
            yield s


def _is_made_here(subject: Subject, view: CodeView) -> bool:
    """Return whether a generator asks nothing outside, and is given nothing that it could wait for."""
    texts = {
        p.name for p in subject.ir.params if p.annotation is not None and text_of(p.annotation) in ("str", "bytes")
    }
    read = {n.partition(".")[0] for s in subject.statements if s[0] == "for" for n in names_in(iterable_of(s))}
    bound = {n for s in subject.statements if s[0] == "assign" for t in targets_of(s) for n in target_names(t)}
    is_known = bool(texts) and read <= texts | (bound - {p.name for p in subject.ir.params})
    return is_known and not any(view.errors.may_leave(subject, c) or subject.inside(c) for c in subject.calls)


def _waits(subject: Subject, call: Expr, view: CodeView) -> bool:
    """Return whether a call waits for something outside: one that only makes a stream does not."""
    if "stream" in last_name(call):
        return False
    return view.code.brings(subject, call, None)


def _sends_one_text(call: Expr) -> bool:
    """Return whether what a response is made of is one text that a function made."""
    if not last_name(call)[:1].isupper():
        return False
    content = next((a for a in arguments_of(call)), None)
    return content is not None and _is_one_text(content)


def _is_one_text(e: Expr) -> bool:
    inner = unwrapped(e) or e
    if inner[0] == "f" or (is_text(inner) and bool(constant_of(inner))):
        return True
    if inner[0] == "o":
        return any(_is_one_text(one) for one in operands_of(inner))
    return is_call(inner) and last_name(inner) in _ONE_TEXT


def _takes_each_error(subject: Subject, view: CodeView) -> bool:
    """Return whether each loop of a generator that sends lies in a `try` that takes every error and goes on."""
    tries = [s for s in subject.statements if s[0] == "try" and view.errors.swallows(subject, s)]
    wide = [s for s in tries if any({last_name(k) for k in kinds_of(h)} <= {"Exception"} for h in handlers_of(s))]
    loops = [s for s in subject.statements if s[0] == "for" and any(_sends(x) for x in statements(body_of(s)))]
    return bool(loops) and all(any(x is s for t in wide for x in statements(body_of(t))) for s in loops)


def _taken_by(subject: Subject, view: CodeView) -> str | None:
    """Return the name of the generator that takes each error of another one, wherever that is called."""
    callers = {e.src for e in view.code.material.sites.callers.get(subject.symbol, ()) if e.src != subject.symbol}
    takers = [_taker(caller, subject, view) for caller in sorted(callers)]
    return takers[0] if takers and all(takers) else None


def _taker(caller: str, subject: Subject, view: CodeView) -> str | None:
    user = view.code.subject(caller)
    if user is None:
        return None
    if user.ir.is_generator and _takes_each_error(user, view):
        return caller.rpartition(".")[2]
    made = [c for c in user.calls if any(e.dst == subject.symbol for e in user.inside(c))]
    names = {
        name
        for s in user.statements
        if s[0] == "assign" and (value := value_of(s)) is not None and any(i is c for c in made for i in walk(value))
        for target in targets_of(s)
        for name in target_names(target)
    }
    for call in user.calls:
        given = [unwrapped(a) or a for a in arguments_of(call)]
        if not any(text_of(a) in names or any(a is c for c in made) for a in given):
            continue
        for edge in user.inside(call):
            other = view.code.subject(edge.dst)
            if other is not None and other.ir.is_generator and _takes_each_error(other, view):
                return edge.dst.rpartition(".")[2]
    return None


def _sends(s: Stmt) -> bool:
    return any(i[0] == "y" for e in own_expressions(s) for i in walk(e))
