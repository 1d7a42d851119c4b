"""Calls to language models: direct ones, and those through wrappers of the repository."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gapwatch.design.callgraph.graph import CallEdge
from gapwatch.design.patterns.code_walk import arguments_of, callee_text, constants_in, keyword, target_names, walk
from gapwatch.design.patterns.hit import PatternHit, Subject
from gapwatch.design.patterns.model_requests import is_other_work
from gapwatch.design.source.ir import (
    Expr,
    call_line,
    callee_of,
    is_name,
    items_of,
    iterable_of,
    name_of,
    targets_of,
    value_of,
)
from gapwatch.design.source.program import FunctionInfo, last_name

_WRAPPER_NAMES = re.compile(
    r"(^|_)(call|complete|completion|acompletion|generate|agenerate|chat|achat|invoke|ainvoke|ask|aask|query_llm|call_llm|llm"
    r"|predict|apredict|prompt|infer|inference|respond|request|create|stream|run_prompt|send|answer|message|messages|complete_json)(_|$)",
    re.I,
)
_WRAPPER_OWNER = re.compile(
    r"llm|model|chat|gpt|claude|gemini|provider|completion|client|openai|anthropic|ollama", re.I
)
#: Names by which a model is asked, and which other classes use for other things.
_ASKS_IF_MODEL = re.compile(r"^a?(query|gen)(_stream)?$")
_MODEL_CLASS = re.compile(r"(LLM|[a-z]Llm|[a-z]LM|^LM|GPT|Model)$")
#: Most wrappers between a function and the model call at which the function counts as a caller of the model.
MAX_WRAPPED = 3


def model_depths(subject: Subject) -> dict[str, int]:
    """Return, by function that reaches a model, the number of wrappers in between; 0 calls it directly."""
    key = id(subject.sites)
    cached = _DEPTHS.get("depths") if _DEPTHS.get("key") == key else None
    if cached is None:
        cached = _find_depths(subject)
        _DEPTHS.update(key=key, depths=cached, keep=subject.sites)
    assert isinstance(cached, dict)
    return cached


_DEPTHS: dict[str, object] = {}
#: Kinds of edges that are calls.
CALLS = frozenset({"call", "construct", "cha", "protocol", "decorated", "dynamic", "property", "resume"})
#: Methods and functions that run what they are handed, for the one that waits for it.
_RUNS_NOW = frozenset({"submit", "to_thread", "run_in_executor", "run_in_threadpool", "run_sync", "sync_to_async"})


def _find_depths(subject: Subject) -> dict[str, int]:
    depths: dict[str, int] = {}
    kinds: dict[str, bool] = {}
    for info in subject.program.functions:
        one = Subject(subject.program, subject.sites, info)
        if any(_direct(one, call) for call in one.calls):
            depths[info.symbol] = 0
        owner = subject.program.classes[info.owner].symbol.rpartition(".")[2] if info.owner >= 0 else ""
        is_named = bool(_WRAPPER_NAMES.search(info.ir.name)) or info.ir.name == "__call__"
        kinds[info.symbol] = is_named or bool(_WRAPPER_OWNER.search(owner) and not info.ir.name.startswith("__"))
    passes = {info.symbol for info in subject.program.functions if _passes_on(subject, info)}
    for depth in range(1, MAX_WRAPPED + 1):
        reached = [symbol for symbol, d in depths.items() if d == depth - 1 and kinds.get(symbol, False)]
        for symbol in reached:
            for edge in subject.sites.callers[symbol]:
                if edge.src in depths or not (edge.kind in CALLS or _is_run(subject, edge)) or _is_other(subject, edge):
                    continue
                if edge.src in passes:
                    depths[edge.src] = depth - 1
                    reached.append(edge.src)
                else:
                    depths[edge.src] = depth
    return depths


def _passes_on(subject: Subject, info: FunctionInfo) -> bool:
    """Return whether a function runs a function that the one around it was given: the wrapper of a decorator."""
    if info.parent < 0 or info.owner >= 0:
        return False
    given = {p.name for p in subject.program.functions[info.parent].ir.params}
    return bool(given) and any(
        is_name(callee_of(call)) and name_of(callee_of(call)) in given
        for call in Subject(subject.program, subject.sites, info).calls
    )


def _is_other(subject: Subject, edge: CallEdge) -> bool:
    """Return whether all calls of an edge hand on the path of other work: `self._request("/images/generations")`."""
    one, called = subject.other(edge.src), edge.dst.rpartition(".")[2]
    lines = {line for _, line in edge.sites}
    calls = [c for c in one.calls if call_line(c) in lines and last_name(c) == called] if one is not None else []
    return bool(calls) and all(_is_other_call(c) for c in calls)


def _is_other_call(call: Expr) -> bool:
    return is_other_work(text for arg in arguments_of(call) for text in constants_in(arg) if text.startswith("/"))


def _is_run(subject: Subject, edge: CallEdge) -> bool:
    """Return whether a function hands another one to an executor or a thread: `pool.submit(model.ask, question)`."""
    one = subject.other(edge.src) if edge.kind == "callback" else None
    lines = {line for _, line in edge.sites}
    return one is not None and any(last_name(c) in _RUNS_NOW and call_line(c) in lines for c in one.calls)


def _direct(subject: Subject, call: Expr) -> bool:
    return subject.reach(call).capability == "llm_chat"


def asks_later(subject: Subject, call: Expr, deep: int = MAX_WRAPPED) -> bool:
    """Return whether a call makes a response that asks a model when the server sends it, after its function has ended.

    Args:
        subject: The function that holds the call.
        call: The call.
        deep: Most functions of the repository between it and the response.
    """
    reach = subject.reach(call)
    if reach.capability == "llm_chat":
        return subject.sites.catalog.capability(reach.dotted) == "stream"
    depths = model_depths(subject)
    reached = [one for e in subject.inside(call) if e.dst in depths and (one := subject.other(e.dst)) is not None]
    asking = [(one, c) for one in reached for c in one.calls if _direct(one, c) or _asks(one, c, depths)]
    return deep > 0 and bool(asking) and all(asks_later(one, c, deep - 1) for one, c in asking)


#: Names of calls that give a stream of a reply.
_STREAMS = re.compile(r"(^|_)a?stream(ed|_|$)|_stream$")


def hands_on_stream(subject: Subject, call: Expr) -> bool:
    """Return whether a function gives the stream of a model unread: itself, or in an object that is made of it.

    A response of a server is followed by the recorders until it is sent.

    Args:
        subject: The function that holds the call.
        call: The call of the model.
    """
    if subject.ir.is_generator or not (_STREAMS.search(last_name(call)) or keyword(call, "stream") == ("k", True)):
        return False
    held = set[str]()

    def holds(e: Expr | None) -> bool:
        return e is not None and any(i is call or (is_name(i) and name_of(i) in held) for i in walk(e))

    for s in (*subject.statements, *subject.statements):
        if s[0] == "assign" and holds(value_of(s)):
            held |= {name for target in targets_of(s) for name in target_names(target)}
        if (s[0] == "for" and holds(iterable_of(s))) or (s[0] == "with" and any(holds(e) for e, _ in items_of(s))):
            return False
        if s[0] == "expr" and holds(s[2]) and any(i[0] == "Y" for i in walk(s[2])):
            return False
    for other in subject.calls:
        if other is call or not any(map(holds, (callee_of(other), *arguments_of(other)))):
            continue
        made = [subject.other(edge.dst) for edge in subject.inside(other)]
        is_made = last_name(other)[:1].isupper() or any(f is not None and f.ir.is_generator for f in made)
        if subject.sites.catalog.capability(subject.reach(other).dotted) == "stream" or not is_made:
            return False
    return any(holds(e) for e in subject.returned)


def _asks(subject: Subject, call: Expr, depths: dict[str, int]) -> bool:
    return any(e.dst in depths and e.kind in CALLS and e.dst != subject.symbol for e in subject.inside(call))


def is_model_caller(subject: Subject, symbol: str) -> bool:
    """Return whether a function calls a model itself or is a thin wrapper of one that does."""
    depths = model_depths(subject)
    if symbol not in depths:
        return False
    owner, _, name = symbol.rpartition(".")
    if _ASKS_IF_MODEL.search(name) and _MODEL_CLASS.search(owner.rpartition(".")[2]):
        return True
    # Through wrappers, `create` usually makes an object and calls no model: `Coder.create(...)`.
    return depths[symbol] == 0 or (name != "create" and bool(_WRAPPER_NAMES.search(name)))


def find_model_calls(subject: Subject) -> Iterator[PatternHit]:
    """Yield calls to language models: direct ones, and those through wrappers of the repository."""
    depths = model_depths(subject)
    for call in subject.calls:
        reach = subject.reach(call)
        if reach.capability == "llm_chat":
            yield subject.hit(
                "calls_llm", call_line(call), call_line(call), "direct", reach.dotted, 0.95 * reach.confidence
            )
            continue
        for edge in subject.inside(call) if not _is_other_call(call) else ():
            depth = depths.get(edge.dst)
            if (
                depth is not None
                and edge.kind in CALLS
                and edge.dst != subject.symbol
                and is_model_caller(subject, edge.dst)
            ):
                evidence = f"{callee_text(call)} reaches a model through {edge.dst} ({depth + 1} calls away)"
                yield subject.hit(
                    "calls_llm",
                    call_line(call),
                    call_line(call),
                    f"wrapped:{depth + 1}",
                    evidence,
                    max(0.6, 0.9 - 0.1 * depth),
                )
                break
