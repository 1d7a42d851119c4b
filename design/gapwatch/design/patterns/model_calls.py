"""Calls to language models: direct ones, and those through wrappers of the repository."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gapwatch.design.callgraph.graph import CallEdge
from gapwatch.design.patterns.code_walk import callee_text
from gapwatch.design.patterns.hit import PatternHit, Subject
from gapwatch.design.source.ir import Expr, call_line
from gapwatch.design.source.program import last_name

_WRAPPER_NAMES = re.compile(
    r"(^|_)(call|complete|completion|acompletion|generate|agenerate|chat|achat|invoke|ainvoke|ask|aask|query_llm|call_llm|llm"
    r"|predict|apredict|prompt|infer|inference|respond|request|create|stream|run_prompt|send|answer|message|messages|complete_json)(_|$)",
    re.I,
)
_WRAPPER_OWNER = re.compile(
    r"llm|model|chat|gpt|claude|gemini|provider|completion|client|openai|anthropic|ollama", re.I
)
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
    for depth in range(1, MAX_WRAPPED + 1):
        reached = [symbol for symbol, d in depths.items() if d == depth - 1 and kinds.get(symbol, False)]
        for symbol in reached:
            for edge in subject.sites.callers[symbol]:
                if edge.src not in depths and (edge.kind in CALLS or _is_run(subject, edge)):
                    depths[edge.src] = depth
    return depths


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


def _asks(subject: Subject, call: Expr, depths: dict[str, int]) -> bool:
    return any(e.dst in depths and e.kind in CALLS and e.dst != subject.symbol for e in subject.inside(call))


def is_model_caller(subject: Subject, symbol: str) -> bool:
    """Return whether a function calls a model itself or is a thin wrapper of one that does."""
    depths = model_depths(subject)
    if symbol not in depths:
        return False
    name = symbol.rpartition(".")[2]
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
        for edge in subject.inside(call):
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
