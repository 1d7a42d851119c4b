"""Tells texts that a model wrote from texts whose form does not change with a model."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gapwatch.design.architecture.claimed_code import ClaimedCode
from gapwatch.design.architecture.prompt_flow import given_by_callers
from gapwatch.design.patterns.code_walk import (
    arguments_of,
    calls_in,
    names_in,
    own_expressions,
    target_names,
    text_of,
    walk,
)
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.patterns.library_uses import CodePlace
from gapwatch.design.patterns.outside_calls import assigned_to
from gapwatch.design.routes.reaches import reaches
from gapwatch.design.source.ir import (
    Body,
    Expr,
    body_of,
    call_line,
    callee_of,
    constant_of,
    end_of,
    handler_body,
    handlers_of,
    is_call,
    is_text,
    iterable_of,
    line_of,
    positional_of,
    target_of,
    targets_of,
    value_of,
    walrus_value,
)
from gapwatch.design.source.program import last_name

#: Most callers one above the other that are asked where a text comes from.
_MAX_UP = 3
#: Most assignments that are followed within a function.
_MAX_STEPS = 4
_SETTING = re.compile(r"(^|[^a-z])(environ|getenv|get_?settings|settings|config|configuration|cfg)([^a-z]|$)", re.I)
#: Methods of replies that give the lines or pieces of a stream as they come over the wire.
_LINES = frozenset(
    {"iter_lines", "aiter_lines", "iter_content", "iter_chunks", "iter_any", "aiter_bytes", "iter_bytes", "aiter_text"}
)
_WIRE = frozenset({"requests", "httpx", "aiohttp", "urllib", "urllib3", "http"})
#: What a reply holds around the text of a model.
_ANSWER = re.compile(
    r"choices|['\"](replies|message)['\"]|\.message\b|content_block|tool_calls?\b|output_text|\bcontent\b\W*\[|arguments"
    r"|completion"
)
#: What `_why` returns for the text of a model or of a service outside.
_SEEN = ""
#: Services that write texts.
_WRITERS = frozenset({"llm_chat", "http", "saas", "web_search", "tool"})
#: Names of texts that a model wrote, also where the call is not seen.
_NAMED = re.compile(
    r"(^|[._])(llm\w*|completion|repl(y|ies)|responses?|generated\w*|model_output|tool_calls?)(_\w+)?$", re.I
)
_ASKS = frozenset({"invoke", "ainvoke"})
_SERVES = frozenset({"get", "post", "put", "patch", "delete", "route", "websocket", "api_route"})
#: Parameters that hold what a client sends, and names of what a tool of the application gives.
_REQUEST = re.compile(r"(^|_)(request|req|payload)(_(body|json|data))?$", re.I)
_OF_TOOL = re.compile(r"(^|[._])tool_(output|result|response)$")
_HISTORY = re.compile(r"(^|_)(messages|msgs|history|conversation)$", re.I)
_MAKES_TEXT = frozenset({"dumps", "model_dump_json", "to_json", "json"})


def why_foreign(code: ClaimedCode, symbol: str, line: int, is_of_model: bool = True) -> str | None:
    """Return why the text that is parsed at a line is not the answer of a model; None where it may be.

    Args:
        code: The functions.
        symbol: The function that parses.
        line: Line of the call.
        is_of_model: Whether the component asks a model.
    """
    subject = code.subject(code.worker(symbol))
    if subject is None:
        return None
    parses = [c for c in subject.calls if is_call(c) and _is_parse(subject, c) and arguments_of(c)]
    parses = [c for c in parses if call_line(c) == line] or parses
    texts = [positional_of(c)[0] if positional_of(c) else arguments_of(c)[0] for c in parses]
    if texts and all(_is_of_history(subject, e) for e in texts):
        return "it is part of a message that was sent before"
    if not is_of_model and any(_is_handed_on(subject, c, e) for c, e in zip(parses, texts, strict=True)):
        return "it is handed on as it is where it cannot be parsed: a text of another form is the normal course"
    reasons = [_why(code, subject, e, 0) for e in texts]
    if any(last_name(c) in _ASKS for c in parses):
        return None  # The chain asks the model and parses what it says.
    if reasons and all(reasons):
        return reasons[0]
    if not reasons or _SEEN in reasons or _is_of_parser(subject):
        return None
    is_named = any(_NAMED.search(n) for e in texts for n in names_in(e))
    return None if is_named else "no model and no service outside is seen to write it"


#: Functions that read a text in another form than JSON, by the beginning of their module.
_READS = re.compile(
    r"(ruamel_?)?yaml\.(\w+\.)*(safe_|full_)?load$|ast\.literal_eval$|xml\.(\w+\.)+fromstring$|xmltodict\.parse$"
)


def reads_answer(code: ClaimedCode, subject: Subject, body: Body) -> bool:
    """Return whether a block reads what a model or a service wrote in another form than JSON, such as YAML.

    What a handler calls to mend a text that cannot be read does not count.

    Args:
        code: The functions.
        subject: The function of the block.
        body: The block.
    """
    read = [
        arguments_of(c)[0]
        for c in calls_in(body)
        if arguments_of(c) and any(map(_READS.match, subject.sites.named_at(subject.symbol, c)))
    ]
    return any(_why(code, subject, e, 0) == _SEEN for e in read) and not _is_mending(code, subject)


def _is_mending(code: ClaimedCode, subject: Subject) -> bool:
    """Return whether no function but handlers, and tests, calls a function."""
    edges = subject.sites.callers[subject.symbol]
    above = [(caller, edge) for edge in edges if (caller := code.subject(edge.src)) is not None]
    tests = {s.id for s in code.material.graph.symbols if s.tags}
    calls = [(c, line) for c, edge in above if c.symbol not in tests for _, line in edge.sites]
    return bool(calls) and all(
        any(first <= line <= last for s in c.statements if s[0] == "try" for first, *_, last in handlers_of(s))
        for c, line in calls
    )


def _is_handed_on(subject: Subject, parse: Expr, text: Expr) -> bool:
    """Return whether a handler of a parse does nothing but return the text itself."""
    around = [s for s in subject.statements if s[0] == "try" and parse in calls_in(body_of(s))]
    bodies = [handler_body(h) for s in around for h in handlers_of(s)]
    return any(len(b) == 1 and b[0][0] == "return" and value_of(b[0]) == text for b in bodies)


def _is_of_parser(subject: Subject) -> bool:
    """Return whether a function is a method of a parser that a framework hands the answers of a model."""
    owner = subject.program.classes[subject.info.owner] if subject.info.owner >= 0 else None
    return owner is not None and any(last_name(base).endswith("OutputParser") for base in owner.ir.bases)


def _is_of_history(subject: Subject, e: Expr) -> bool:
    """Return whether a text is read of each message that a function is given."""
    names, frontier = set[str](), {n.partition(".")[0] for n in names_in(e)}
    for _ in range(_MAX_STEPS):
        names |= frontier
        frontier = {
            n.partition(".")[0] for name in frontier for v in _bound(subject, name) for n in names_in(v)
        } - names
    params = {p.name for p in subject.ir.params}
    given = {name for name in params if _HISTORY.search(name)}
    for s in subject.statements:
        value = value_of(s) if s[0] == "assign" else None
        if value is not None and {n.partition(".")[0] for n in names_in(value)} <= params and names_in(value):
            # `messages = request.get("messages", [])`
            given |= {n for t in targets_of(s) for n in target_names(t) if _HISTORY.search(n)}
    loops = [s for s in subject.statements if s[0] == "for" and given & names_in(iterable_of(s))]
    return any(not names.isdisjoint(target_names(target_of(s))) for s in loops)


def why_read_again(code: ClaimedCode, symbol: str) -> str | None:
    """Return why a text that cannot be parsed is the normal course: where one way fails, the code tries another one.

    Args:
        code: The functions.
        symbol: The function that parses.
    """
    subject = code.subject(code.worker(symbol))
    if subject is None:
        return None
    parses = [c for c in subject.calls if _is_parse(subject, c) and arguments_of(c)]
    for s in subject.statements:
        if s[0] != "try":
            continue
        passing = [h for h in handlers_of(s) if _goes_on(handler_body(h))]
        inside = list(calls_in(body_of(s)))
        first = [c for c in parses if c in inside]
        again = [c for h in handlers_of(s) for c in calls_in(handler_body(h)) if c in parses]
        again += [c for c in parses if passing and call_line(c) > end_of(s)]
        if any(_roots(subject, a) & _roots(subject, b) for a in first for b in again):
            return (
                "it reads the text in one way after the other; a text that the first cannot read is the normal course"
            )
    return None


#: Calls by which a parser takes a text that is no strict JSON: parts of it, literals of Python, numbered lines.
_LENIENT = re.compile(r"^(literal_eval|search|match|fullmatch|findall|finditer|sub|split|splitlines|repair_json)$")


def why_lenient(code: ClaimedCode, symbol: str, line: int) -> str | None:
    """Return why a text need be no JSON: an own parser that it is handed to takes other forms.

    Args:
        code: The functions.
        symbol: The function that hands the text over.
        line: Line of the call.
    """
    subject = code.subject(symbol)
    if subject is None:
        return None
    for call in (c for c in subject.calls if call_line(c) == line and arguments_of(c)):
        for parser in filter(None, (code.subject(edge.dst) for edge in subject.inside(call))):
            below = [one for c in parser.calls for e in parser.inside(c) if (one := code.subject(e.dst)) is not None]
            if any(_LENIENT.match(last_name(c)) for one in (parser, *below) for c in one.calls):
                return f"{parser.symbol.rpartition('.')[2]} takes texts of other forms, too"
    return None


#: A pattern for any of some characters: what it replaces says nothing.
_CHARACTERS = re.compile(r"\[[^\]]+\][+*]?")


def reads_the_same_text(code: ClaimedCode, symbol: str, place: CodePlace) -> bool:
    """Return whether each parse in a place after the first reads the text of the first without some characters.

    Args:
        code: The functions.
        symbol: The function that parses.
        place: Lines of the route.
    """
    subject = code.subject(symbol)
    calls = subject.calls if subject is not None else []
    parses = [c for c in calls if subject is not None and _is_parse(subject, c) and arguments_of(c)]
    if subject is None:
        return False
    end = max([place.end, *(end_of(s) for s in subject.statements if s[0] == "try" and line_of(s) == place.line)])
    inside = [arguments_of(c)[0] for c in parses if place.line <= call_line(c) <= end]
    if len(inside) < 2:
        return False
    for e in inside[1:]:
        made = [v for name in names_in(e) for v in assigned_to(subject.ir.body, name)] or [e]
        if not all(is_call(v) and _cleans(v) and names_in(inside[0]) <= names_in(v) for v in made):
            return False
    return True


def _cleans(call: Expr) -> bool:
    texts = [constant_of(a) for a in arguments_of(call) if is_text(a)]
    return last_name(call) == "sub" and bool(texts) and _CHARACTERS.fullmatch(texts[0]) is not None


def _goes_on(body: Body) -> bool:
    """Return whether a block goes on with what stands below it."""
    return not body or body[-1][0] not in ("return", "raise", "continue", "break")


def _roots(subject: Subject, parse: Expr) -> set[str]:
    """Return the names that a parsed text is made of."""
    names = {n.partition(".")[0] for n in names_in(arguments_of(parse)[0])}
    return names | {
        n.partition(".")[0] for name in names for v in assigned_to(subject.ir.body, name) for n in names_in(v)
    }


def _is_parse(subject: Subject, call: Expr) -> bool:
    names = subject.sites.named_at(subject.symbol, call)
    return any(subject.sites.catalog.capability(d) == "json" for d in names) or last_name(call) == "loads"


def _why(code: ClaimedCode, subject: Subject, e: Expr, depth: int) -> str | None:
    """Return why a text is foreign, `_SEEN` where it is not, None where nothing tells; each source counts."""
    pending, seen, read = [e], set[str](), ""
    for _ in range(_MAX_STEPS):
        for one in pending:
            if (why := _why_alone(subject, one, read)) is not None:
                return why
        read += " ".join(text_of(one) for one in pending)
        names = sorted({n.partition(".")[0] for one in pending for n in names_in(one)} - seen)
        seen.update(names)
        given = [v for name in names for v in _bound(subject, name)]
        if not given:
            # `text = text.strip()` is still what the caller gave.
            passed = [p.name for p in subject.ir.params if p.name in (names or seen)]
            above = [(c, g) for name in passed for c, _, g in given_by_callers(code, subject, name)]
            reasons = [_why(code, c, g, depth + 1) for c, g in above] if depth < _MAX_UP else []
            if _SEEN in reasons:
                return _SEEN
            if any(map(_REQUEST.search, passed)):
                return "a client sent it"
            return reasons[0] if reasons and all(reasons) else None
        pending = given
    return None


def _why_alone(subject: Subject, e: Expr, read: str) -> str | None:
    """Return why one expression is foreign; `_SEEN` where a model or a service wrote it, None where it does not say.

    Args:
        subject: The function.
        e: The expression.
        read: What the code reads of its value.
    """
    text = text_of(e)
    if _OF_TOOL.search(text):
        return "a tool of the application gave it"
    calls = [c for c in walk(e) if is_call(c)]
    for call in calls:
        reach = subject.reach(call)
        name = last_name(call)
        if name in _LINES:
            return "it is a line of a provider's stream, whose form a protocol fixes"
        if reach.capability == "cache":
            return "the code itself stored it in a cache"
        is_sent = reach.capability in ("llm_chat", "http", "saas") and reach.dotted.partition(".")[0] in _WIRE
        if is_sent and reach.capability == "llm_chat" and not _ANSWER.search(read):
            return "it is the reply of a provider, whose form a protocol fixes"
        if any(_is_endpoint(subject.other(edge.dst)) for edge in subject.inside(call)):
            return "an endpoint of the service itself wrote it"
        given = [one for edge in subject.inside(call) if (one := subject.other(edge.dst)) is not None]
        if given and all(map(_writes_all, given)):
            return "the code itself wrote it"
        if not _WRITERS.isdisjoint(reaches(subject, call)):
            return _SEEN
        if name in _MAKES_TEXT and (callee_of(call)[0] != "a" or reach.capability in (None, "json")):
            return "the code itself wrote it" if name != "json" else None
    if _ANSWER.search(text):
        return _SEEN
    if _SETTING.search(text):
        return "it is a setting, which changes with releases and not with requests"
    return None


def _writes_all(one: Subject) -> bool:
    """Return whether a function gives back texts that it made of its own values alone."""
    written = [e for e in one.returned if is_call(e) and last_name(e) in _MAKES_TEXT - {"json"}]
    return bool(written) and all(e in written or e[0] == "d" for e in one.returned)


def _is_endpoint(one: Subject | None) -> bool:
    """Return whether a function answers requests by its decorator: `@router.post("/ask")`."""
    return one is not None and any(
        is_call(d) and last_name(d) in _SERVES and positional_of(d) for d in one.ir.decorators
    )


def _bound(subject: Subject, name: str) -> Iterator[Expr]:
    yield from assigned_to(subject.ir.body, name)
    for s in subject.statements:
        for e in own_expressions(s):
            for inner in walk(e):
                if inner[0] == ":=" and inner[1] == name:
                    yield walrus_value(inner)
                elif inner[0] in ("lc", "gc", "sc", "dc"):
                    yield from (iterable for target, iterable, _ in inner[3] if name in target_names(target))
        if s[0] == "for" and name in names_in(target_of(s)):
            yield iterable_of(s)
