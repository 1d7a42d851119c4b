"""Follows the evidence of a prompt to where it is fetched: a search, a tool or a data source, and no model's words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial

from gapwatch.design.architecture.claimed_code import EVIDENCE, ClaimedCode
from gapwatch.design.architecture.prompt_flow import bindings_of, flowing_into, given_by_callers, said_to_model
from gapwatch.design.patterns.code_walk import (
    arguments_of,
    calls_of,
    children,
    names_in,
    own_expressions,
    target_names,
    text_of,
    walk,
)
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.patterns.library_uses import CodePlace
from gapwatch.design.source.ir import (
    Expr,
    Stmt,
    call_line,
    is_call,
    is_text,
    keywords_of,
    line_of,
    pairs_in,
    targets_of,
    value_of,
)
from gapwatch.design.source.program import last_name

#: Most calls up that an argument is followed.
_MAX_UP = 3
#: Most nodes up that an entry of a graph's state is followed.
_MAX_NODES = 4
#: Most statements in a row through which what was fetched is followed.
_MAX_STEPS = 5
_MODELS = frozenset({"llm_chat"})
#: Capabilities that find what an answer can rest on, whatever it is called.
SEARCHED = frozenset({"retrieval", "rerank", "web_search"})
#: Name of what the provider of a model finds itself: it is in no prompt that the application sends.
PROVIDED = "citations"
#: Options of a model call by which its provider searches itself, and types of tools that do: Azure OpenAI on your data,
#: file search of OpenAI, search of Google and Anthropic, knowledge bases of Bedrock.
_PROVIDED = frozenset({"data_sources", "dataSources", "google_search", "knowledgeBaseConfiguration"})
_PROVIDED_TOOL = re.compile(r"^(file_search|web_search(_preview)?(_\d+)?)$")


def evidence_of(
    code: ClaimedCode, symbol: str, name: str, wanted: frozenset[str], depth: int = 0, key: str = ""
) -> list[CodePlace]:
    """Return the lines where the value of a prompt's variable part is fetched: a search, a tool, a data source.

    Args:
        code: The functions.
        symbol: Function that has the variable.
        name: Name of the value there.
        wanted: Capabilities that count, as `fetched_for` names them.
        depth: Number of callers followed so far.
        key: Entry of the value that is meant; empty for all of it.
    """
    subject = code.subject(symbol)
    if subject is None or depth > _MAX_UP:
        return []
    path = subject.program.path(subject.info)
    out: list[CodePlace] = []
    stops = partial(_is_answer, code, subject)
    asked_for = {(name, key)}
    pending, lines = [(name, key)], set[int]()
    while pending:
        bound, asked = pending.pop()
        for written, value in _bound_in(code, subject).get(bound, ()):
            if asked and written and asked != written:
                continue
            given = value if written else _entry_of(value, asked)
            following = set(_read(given, stops)) - asked_for
            asked_for |= following
            pending += sorted(following)
            lines.update(fetching_lines(code, subject, given, wanted))
    out += [CodePlace(path, line) for line in sorted(lines)]
    states = {p.name for p in subject.ir.params if p.name not in ("self", "cls")}
    for passed, asked in sorted(asked_for):
        state, _, member = passed.partition(".")
        # Messages and drafts of a state are the model's own words.
        if state in states and not depth and OF_STATE.search((asked or member).lower()):
            out += _from_nodes(code, symbol, asked or member, wanted)
        for caller, _, given in given_by_callers(code, subject, passed):
            if depth < _MAX_UP:
                where = caller.program.path(caller.info)
                given = _entry_of(given, asked)
                out += [CodePlace(where, line) for line in fetching_lines(code, caller, given, wanted)]
                for read, inner in sorted(_read(given, partial(_is_answer, code, caller))):
                    out += evidence_of(
                        code, caller.symbol, read, wanted, depth + 1, inner or (asked if given[0] == "n" else "")
                    )
    return list(dict.fromkeys(out))


def _from_nodes(code: ClaimedCode, symbol: str, key: str, wanted: frozenset[str]) -> list[CodePlace]:
    """Return the lines that fetch an entry of a graph's state: `return {"documents": ...}` of a node before."""
    out: list[CodePlace] = []
    seen, frontier = {symbol}, [symbol]
    for _ in range(_MAX_NODES):
        before = {e.src for one in frontier for e in code.material.sites.callers[one] if e.kind == "framework"}
        frontier = sorted(before - seen)
        seen |= before
        for node in filter(None, map(code.subject, frontier)):
            path = node.program.path(node.info)
            given = [v for e in node.returned for d in walk(e) if d[0] == "d" for k, v in d[1] if k == ("k", key)]
            for value in given:
                out += [CodePlace(path, line) for line in fetching_lines(code, node, value, wanted)]
                for read, inner in sorted(_read(value, partial(_is_answer, code, node))):
                    out += evidence_of(code, node.symbol, read, wanted, 1, inner)
    return out


def _bound_in(code: ClaimedCode, subject: Subject) -> dict[str, list[tuple[str, Expr]]]:
    """Return what a function gives each name, with the key of the entry."""
    if subject.symbol not in code.bound:
        made = code.bound[subject.symbol] = {}
        for s in subject.statements:
            for name, key, value in _entries(s):
                made.setdefault(name, []).append((key, value))
    return code.bound[subject.symbol]


def _entries(s: Stmt) -> Iterator[tuple[str, str, Expr]]:
    """Yield what a statement gives names and their entries: (name, key or an empty text for all of it, value)."""
    if s[0] == "assign" and (value := value_of(s)) is not None:
        for target in targets_of(s):
            if target[0] == "s" and is_text(target[2]):
                yield from ((name, target[2][1], value) for name in target_names(target[1]))
                return
    yield from ((name, "", value) for name, value in bindings_of(s))


def _entry_of(e: Expr, key: str) -> Expr:
    """Return the entry of a dictionary that is written out, or the expression itself."""
    if key and e[0] == "d":
        return next((value for k, value in e[1] if k == ("k", key)), e)
    return e


def _is_answer(code: ClaimedCode, subject: Subject, call: Expr) -> bool:
    """Return whether a call gives the words of a model, which are no evidence."""
    if subject.reach(call).capability in _MODELS:
        return True
    models = code.reaching(_MODELS)
    edges = subject.inside(call)
    return any(edge.dst in models and not is_found_by(code, edge.dst, EVIDENCE) for edge in edges)


def _read(e: Expr, stops: Callable[[Expr], bool] | None = None) -> Iterator[tuple[str, str]]:
    """Yield the names that an expression reads, with the key where it reads one entry of a plain name.

    Args:
        e: The expression.
        stops: Whether a call is left out, with what it is given.
    """
    pending = [e]
    while pending:
        current = pending.pop()
        if stops is not None and is_call(current) and stops(current):
            continue
        if current[0] == "s" and current[1][0] == "n" and is_text(current[2]):
            yield current[1][1], current[2][1]
        elif (
            is_call(current)
            and current[1][0] == "a"
            and current[1][2] == "get"
            and current[1][1][0] == "n"
            and current[2]
            and is_text(current[2][0])
        ):
            yield current[1][1][1], current[2][0][1]
        elif current[0] == "n":
            yield current[1], ""
        else:
            if current[0] == "a" and "(" not in (text := text_of(current)):
                yield text, ""
            pending.extend(children(current))


def values_of_field(subject: Subject, field: str) -> set[tuple[str, str]]:
    """Return the names that a function fills a variable part of a template with, each with the entry that is meant.

    `render(context=passages)` gives ("passages", ""), and `format(context=state["found"])` gives ("state", "found").
    """
    out: set[tuple[str, str]] = set()
    for call in subject.calls:
        out.update(read for given, value in call[3] if given == field for read in _read(value))
        for argument in arguments_of(call):
            if argument[0] == "d":
                out.update(read for k, v in argument[1] if k == ("k", field) for read in _read(v))
    return out


#: Capabilities that read what the application keeps: the request itself, as often as what an answer rests on.
_KEPT = frozenset({"db_read", "db_execute", "cache"})
#: Methods that read what is there already.
_ACCESS = frozenset({"get", "items", "keys", "values", "pop", "join", "format", "strip", "split", "append"})
#: Names of what an answer rests on.
_MATERIAL = re.compile(
    r"doc|result|row|record|passage|chunk|snippet|source|knowledge|memor|fact|evidence|article|paper|note"
    r"|finding|insight|search|retriev|hits|matches"
)
#: Entries of a graph's state that hold it.
OF_STATE = re.compile(rf"context|{_MATERIAL.pattern}")


def fetched_for(field: str) -> frozenset[str]:
    """Return the capabilities that fetch the value of a variable part, by its name."""
    return EVIDENCE if _MATERIAL.search(field.lower()) else EVIDENCE - _KEPT


def fetching_lines(code: ClaimedCode, subject: Subject, e: Expr, wanted: frozenset[str]) -> list[int]:
    """Return the lines of the calls in an expression that fetch material and give no answer of a model."""
    out = []
    for call in walk(e):
        if not is_call(call) or last_name(call) in _ACCESS:
            continue
        is_fetched = subject.reach(call).capability in wanted or any(
            is_found_by(code, edge.dst, wanted) for edge in subject.inside(call)
        )
        if is_fetched:
            out.append(call_line(call))
    return out


def is_found_by(code: ClaimedCode, symbol: str, wanted: frozenset[str]) -> bool:
    """Return whether a function fetches; one that asks a model too must give what it fetched, and no reply."""
    if symbol not in code.reaching(wanted):
        return False
    if symbol not in code.reaching(_MODELS):
        return True
    wanted &= SEARCHED
    if symbol not in code.reaching(wanted):
        return False
    known = code.finders.get((symbol, wanted))
    if known is None:
        code.finders[symbol, wanted] = False  # of a function that calls itself
        subject = code.subject(symbol)
        known = code.finders[symbol, wanted] = subject is not None and _gives_found(code, subject, wanted)
    return known


def _gives_found(code: ClaimedCode, subject: Subject, wanted: frozenset[str]) -> bool:
    """Return whether what a function gives comes from what it fetches: the model only said what to look for."""
    bound = [pair for s in subject.statements for pair in bindings_of(s)]
    found: set[str] = set()
    for _ in range(_MAX_STEPS):
        before = len(found)
        found |= {name for name, value in bound if _is_found(code, subject, value, found, wanted)}
        if len(found) == before:
            break
    given = subject.returned
    return bool(given) and any(_is_found(code, subject, e, found, wanted) for e in given)


def _is_found(code: ClaimedCode, subject: Subject, e: Expr, found: set[str], wanted: frozenset[str]) -> bool:
    """Return whether a value holds what was fetched; what a model is asked with is not in its answer."""
    pending = [e]
    while pending:
        current = pending.pop()
        if current[0] == "n" and current[1] in found:
            return True
        if is_call(current):
            edges = subject.inside(current)
            if subject.reach(current).capability in wanted or any(
                is_found_by(code, edge.dst, wanted) for edge in edges
            ):
                return True
            if _is_answer(code, subject, current):
                continue
        pending.extend(children(current))
    return False


def evidence_beside(code: ClaimedCode, symbol: str, lines: set[int]) -> dict[str, list[CodePlace]]:
    """Return what was found by a search and is sent to a model beside its prompt, by the name that holds it.

    Args:
        code: The functions.
        symbol: The function that asks.
        lines: Lines of its call.
    """
    subject = code.subject(symbol)
    out: dict[str, list[CodePlace]] = {}
    if subject is None:
        return out
    path = subject.program.path(subject.info)
    names = {name for _, e in said_to_model(subject, lines) for name, _ in _read(e)}
    for s in subject.statements:
        for name, value in bindings_of(s):
            if name in names and (found := fetching_lines(code, subject, value, SEARCHED)):
                out.setdefault(name, []).extend(CodePlace(path, line) for line in found)
    for name in sorted(names & {p.name for p in subject.ir.params}):
        if OF_STATE.search(name.lower()) and (places := evidence_of(code, symbol, name, SEARCHED)):
            out.setdefault(name, []).extend(places)
    return out or _by_provider(subject, lines)


def _by_provider(subject: Subject, lines: set[int]) -> dict[str, list[CodePlace]]:
    """Return the lines that have the provider of a model search for it, in its call or in what makes its arguments."""
    given = [e for call in subject.calls if call_line(call) in lines for e in arguments_of(call)]
    flowing = [(s, e) for s, e in flowing_into(subject, given) if s is not None]
    makers = {edge.dst for _, e in flowing for call in walk(e) if is_call(call) for edge in subject.inside(call)}
    statements = [
        s for s in subject.statements if any(call_line(c) in lines for e in own_expressions(s) for c in calls_of(e))
    ]
    out = [(subject, s) for s in (*statements, *(s for s, _ in flowing))]
    out += [(maker, s) for symbol in sorted(makers) if (maker := subject.other(symbol)) for s in maker.statements]
    named = {n for _, s in out for e in own_expressions(s) for n in names_in(e) if n.isupper()}
    body = Subject(
        subject.program, subject.sites, subject.program.functions[subject.program.bodies[subject.info.module]]
    )
    out += [(body, s) for s in body.statements if any(name in named for name, _ in bindings_of(s))]
    found = [CodePlace(o.program.path(o.info), line_of(s)) for o, s in out if searches_by_provider(s)]
    return {PROVIDED: list(dict.fromkeys(found))} if found else {}


def searches_by_provider(s: Stmt) -> bool:
    """Return whether a statement writes that the provider of a model searches for it, in data or on the web."""
    for e in own_expressions(s):
        for inner in walk(e):
            if is_call(inner) and any(name in _PROVIDED for name, _ in keywords_of(inner)):
                return True
            if inner[0] == "d":
                for key, value in pairs_in(inner):
                    if key is not None and is_text(key):
                        is_tool = key[1] == "type" and is_text(value) and _PROVIDED_TOOL.search(value[1])
                        if key[1] in _PROVIDED or is_tool:
                            return True
    return False
