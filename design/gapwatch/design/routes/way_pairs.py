"""Decides whether a way replaces an earlier one, or only repeats it, cleans up, or makes what was missing."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from gapwatch.design.patterns.code_walk import arguments_of, callee_text, constants_in, names_in, text_of
from gapwatch.design.routes.forms import STEPS
from gapwatch.design.routes.ways import Way
from gapwatch.design.source.ir import Expr, Stmt, end_of, is_call, keywords_of, line_of, members_in, positional_of
from gapwatch.design.source.program import last_name

#: Capabilities of answers: fixed text in the place of one of these is a route.
_ANSWERS = frozenset({"llm_chat", "guardrail"})
_FOUND = frozenset({"llm_chat", "retrieval", "rerank", "web_search", "guardrail", "embedding"})
_SOURCES = frozenset(
    {"http", "web_search", "saas", "retrieval", "tool", "llm_chat", "rerank", "guardrail", "embedding"}
)
_STORES = frozenset({"db_read", "db_execute", "ingest"})
#: Capabilities that say little of what a call gives.
_SERVICES = frozenset({"http", "saas", "tool"})
_FALLBACK = re.compile(
    r"fall_?back|backup_(model|client|provider|llm|url|source)|secondary|alternat|degrad|cascade|tier|primary|default_model|cheap|plan_b|legacy|mock|canned"
    r"|rule_?based",
    re.I,
)
_SETTING = re.compile(r"environ|getenv|get_?env|settings?(\.|_|$)|(^|[._])config(\.|_|$)|from_env", re.I)
_MAKING = frozenset(("create", "make", "add", "insert", "new", "init", "register", "ensure", "setup", "start"))
_REPEATED = re.compile(r"attempt|retry|retries|tries|delay|timeout|backoff|wait|jitter|sleep", re.I)
_READS = re.compile(r"\s*(SELECT|MATCH)\b", re.I)
_WRITES = re.compile(r"\s*(INSERT|UPDATE|UPSERT|MERGE|CREATE|REPLACE)\b", re.I)
#: Words of names that say nothing about what a call gives.
_COMMON = frozenset(
    ["get", "set", "is", "to", "from", "make", "create", "build", "new", "async", "default", "init", "model", "class"]
) | {"run", "handle", "call", "process", "execute", "do", "data", "value", "result", "original"}
_CLEANS = re.compile(
    r"^_?(log|record|notify|report|emit|track|close|cleanup|clean_up|delete|remove|mark|update|save|store|send_error)",
    re.I,
)


#: Methods of plain values and of logs, which are no work.
_OF_VALUES = {n for kind in (str, bytes, list, dict, set, datetime, Path, logging.Logger) for n in dir(kind)}


@dataclass(frozen=True)
class RouteStep:
    """Step of a route: a way and the one that is taken after it.

    Attributes:
        first: The earlier way.
        second: The later way; the same one for the next of a table.
        why: What makes it go on, in words.
        line: First line.
        end: Last line.
        confidence: In [0.5, 1].
        is_table: Whether the next way comes from the same table.
        is_end: Whether the second way only gives a failure back.
    """

    first: Way
    second: Way
    why: str
    line: int
    end: int
    confidence: float
    is_table: bool = False
    is_end: bool = False


def step_of(
    s: Stmt,
    first: Way | None,
    second: Way,
    why: str,
    rebound: frozenset[str] = frozenset(),
    is_handler: bool = False,
) -> Iterator[RouteStep]:
    """Yield the step from one way to another if it is one, or if the second gives a failure back.

    Args:
        s: The statement that decides.
        first: The earlier way; None for none.
        second: The later one.
        why: What makes it go on, in words.
        rebound: Names that get another value between the two.
        is_handler: Whether the second way stands in a handler of the first one's errors.
    """
    if first is None or first.line >= second.line:
        return
    line, end = min(line_of(s), first.line), max(end_of(s), second.line)
    confidence = pair_of(first, second, rebound, is_handler)
    if confidence is not None:
        yield RouteStep(first, second, why, line, end, confidence)
    elif second.form in ("empty", "error"):
        yield RouteStep(first, second, why, line, end, 0.7, is_end=True)


def is_replacement_by_name(call: Expr) -> bool:
    """Return whether the name of a callee says that it stands in for another."""
    return bool(_FALLBACK.search(callee_text(call)))


def is_same_elsewhere(first: Expr, second: Expr) -> bool:
    """Return whether a call does with the same what an earlier one does, by the same method of something else."""
    name = last_name(first)
    if name != last_name(second) or callee_text(first) == callee_text(second):
        return False
    if name in _OF_VALUES or _CLEANS.search(name):
        return False
    left, right = (callee_text(call).split(".")[-2:-1] for call in (first, second))
    return bool(left) and bool(right) and left != right and bool(_shared(first, second))


def pair_of(first: Way, second: Way, rebound: frozenset[str] = frozenset(), is_handler: bool = False) -> float | None:
    """Return the confidence that a second way replaces the first, in [0.5, 1], or None if it does not.

    Args:
        first: The earlier way.
        second: The later one.
        rebound: Names that get another value between the two.
        is_handler: Whether the second way stands in a handler of the first one's errors.
    """
    if first.call is None:
        return None
    if second.call is None:
        return _value_instead(first, second, is_handler)
    left, right = last_name(first.call), last_name(second.call)
    if _is_setting(first) or _is_setting(second) or _makes(left) or _makes(right) or _CLEANS.search(right):
        return None
    if _is_made_where_missing(first.call, second.call):
        return None
    if callee_text(first.call) == callee_text(second.call):
        return _again(first, second, rebound)
    named = bool(_FALLBACK.search(f"{callee_text(second.call)} {text_of(second.call)}"))
    shared = bool(_shared(first.call, second.call))
    words = bool(_words(left) & _words(right) - _COMMON)
    if "person" in second.reaches and first.is_work:
        return 0.8
    if first.is_cached:
        return 0.85 if second.is_work or shared or named else 0.6
    is_mended = is_handler and shared and _named_alike(first.call, second.call)
    if first.by == "json" and not (second.by in ("json", "llm_chat") or words or is_mended):
        return None
    if first.is_work and second.is_work:
        if {first.by, second.by} <= _STORES and not (named or words):
            return None
        is_alike = first.by == second.by and (is_handler or first.by not in _SERVICES)
        if named or shared or words or is_alike:
            return 0.9 if named else 0.8
        # Two ways that have nothing in common: an error may lead to any other, an absence from a store to its source.
        return 0.6 if is_handler or (first.by in _STORES and second.by in _SOURCES) else None
    if first.is_work and (named or words or (shared and (is_handler or first.by in _ANSWERS))):
        return 0.9 if named else 0.7 if first.by in _SOURCES or words or is_mended else None
    if named and shared:
        return 0.9
    if is_handler and (first.is_work or second.is_work) and len(_shared(first.call, second.call)) > 1:
        return 0.6
    if is_handler and {first.target, second.target} == {"return"} and _is_own(right):
        # The handler returns what a function of the application makes in place of the result.
        return 0.55
    if is_handler and first.target == second.target and _named_alike(first.call, second.call):
        return 0.55
    return None


def _named_alike(first: Expr, second: Expr) -> bool:
    """Return whether two callees share a noun that says what they give: `yaml.safe_load`, `fix_yaml`."""
    left, right = last_name(first), last_name(second)
    if left == right or right in ("cls", "self") or any(p[:1].isupper() for p in callee_text(second).split(".")):
        return False  # the same of another form, or what was missing is made
    root = callee_text(first).partition(".")[0]
    verbs = {name.lstrip("_").partition("_")[0] for name in (left, right)}
    return bool((_words(left) | _words(root)) & _words(right) - _COMMON - verbs)


def _is_own(name: str) -> bool:
    """Return whether a name is that of a private function, which makes values for its neighbours."""
    return name.startswith("_") and not name.startswith("__")


def _value_instead(first: Way, second: Way, is_handler: bool) -> float | None:
    if not is_handler and _is_next_step(second.value):
        return None
    if second.form == "text":
        if first.by in _ANSWERS:
            return 0.75
        # Of what a service or a store gives, a fixed value in a handler takes the place.
        is_bound = second.target not in ("return", "yield")
        return 0.7 if is_handler and is_bound and first.by in _SOURCES | _STORES else None
    if second.form == "given":
        return 0.7 if first.by in _FOUND and second.target in ("return", "yield") else None
    return None


def _is_next_step(value: Expr) -> bool:
    """Return whether a value only says which nodes of a graph are next."""
    inner = list(members_in(value)) if value[0] in ("l", "t") else [value]
    return bool(inner) and all(is_call(e) and last_name(e) in STEPS for e in inner)


def _is_made_where_missing(first: Expr, second: Expr) -> bool:
    """Return whether a statement of SQL reads a row, and the other writes it where there is none."""
    read, write = ([t for a in arguments_of(call) for t in constants_in(a)] for call in (first, second))
    return any(_READS.match(t) for t in read) and any(_WRITES.match(t) for t in write)


def _is_setting(way: Way) -> bool:
    """Return whether a call reads a setting, or a field of a dictionary."""
    assert way.call is not None
    if last_name(way.call) == "get" and not way.is_work:
        return True
    return bool(_SETTING.search(callee_text(way.call)))


def _again(first: Way, second: Way, rebound: frozenset[str]) -> float | None:
    """Return the confidence of the same call with other arguments: another model, another query; a retry has none."""
    assert first.call is not None
    assert second.call is not None
    is_pattern = _reads_by_pattern(first.call) and first.target == second.target
    if not (first.is_work or is_pattern) and not any(_FALLBACK.search(text_of(a)) for a in arguments_of(second.call)):
        return None
    left, right = _arguments(first.call), _arguments(second.call)
    if any(rebound & names_in(a) for a in arguments_of(second.call)):
        return 0.75
    if left == right:
        return None
    other = {key for key in left.keys() | right.keys() if left.get(key) != right.get(key)}
    if all(_REPEATED.search(f"{key} {left.get(key, '')} {right.get(key, '')}") for key in other):
        return None
    texts = " ".join(f"{key} {left.get(key, '')} {right.get(key, '')}" for key in other)
    return 0.9 if _FALLBACK.search(texts) or re.search(r"model|provider", texts) else 0.75


def _reads_by_pattern(call: Expr) -> bool:
    """Return whether a call looks for a regular expression in a text."""
    return callee_text(call) in {f"re.{name}" for name in ("search", "match", "fullmatch", "findall", "finditer")}


def _arguments(call: Expr) -> dict[str, str]:
    out = {str(i): text_of(a) for i, a in enumerate(positional_of(call))}
    return out | {str(name): text_of(value) for name, value in keywords_of(call)}


def _makes(name: str) -> bool:
    head = name.lstrip("_").partition("_")[0].lower()
    return head in _MAKING and not _FALLBACK.search(name)


def _shared(first: Expr, second: Expr) -> set[str]:
    left = {n for a in arguments_of(first) for n in names_in(a)}
    right = {n for a in arguments_of(second) for n in names_in(a)}
    return {n for n in left & right if n not in ("self", "cls")}


def _words(name: str) -> set[str]:
    return {w.lower() for w in re.findall(r"[A-Z]?[a-z]{2,}|[A-Z]{2,}(?![a-z])", name)}
