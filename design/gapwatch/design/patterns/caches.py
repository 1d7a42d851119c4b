"""Finds caches: a value is computed for a key, stored, and returned again for the same key."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gapwatch.design.patterns.code_walk import calls_of, tags_in, target_names, text_of, unwrapped
from gapwatch.design.patterns.hit import PatternHit, Subject
from gapwatch.design.source.ir import (
    Body,
    Expr,
    Stmt,
    body_of,
    branches_of,
    call_line,
    callee_of,
    caught_by,
    handlers_of,
    index_of,
    is_call,
    is_member,
    keywords_of,
    line_of,
    line_or,
    member_of,
    members_in,
    name_of,
    operand_of,
    operands_of,
    operators_of,
    owner_of,
    positional_of,
    targets_of,
    value_of,
    walrus_value,
)
from gapwatch.design.source.program import last_name, statements

_DECORATORS = frozenset(
    [
        "lru_cache",
        "cache",
        "cached",
        "ttl_cache",
        "alru_cache",
        "async_lru_cache",
        "timed_cache",
        "memoize",
        "memoized",
        "cache_data",
        "cache_resource",
        "cachedmethod",
        "cachier",
        "disk_cache",
        "file_cache",
        "async_cache",
        "redis_cache",
        "cached_async",
        "aiocache",
    ]
)
_CACHE_NAME = re.compile(r"cache|memo", re.I)
#: Values that a process creates once: pools and singletons, which are not caches.
_POOL = re.compile(
    r"client|session|pool|lock|conn|engine|instance|logger|semaphore|queue|registry|singleton|loop|handler|model|tokeni[sz]er|encoder",
    re.I,
)
_CLIENTS = re.compile(r"(client|session|engine|connection|pool)s?$", re.I)
_CONSTANT = re.compile(r"['\"0-9]")
_GETS = frozenset({"get", "aget", "hget", "lookup", "get_item", "fetch", "getex", "get_cached", "read", "get_cache"})
_SETS = frozenset(
    {
        "set",
        "aset",
        "setex",
        "hset",
        "put",
        "store",
        "set_item",
        "add",
        "save",
        "setdefault",
        "write",
        "update",
        "set_cache",
        "psetex",
    }
)


def find_caches(subject: Subject) -> Iterator[PatternHit]:
    """Yield caches: look-up, early return, compute and store in one function, or a caching decorator with arguments."""
    function = subject.ir
    takes = [p for p in function.params if p.name not in ("self", "cls")]
    for decorator in function.decorators:
        name = last_name(decorator)
        if function.returns == ("k", None) or _CLIENTS.search(function.name):
            # A function without a result only runs once, and a function that gives clients is a pool.
            continue
        if (name in _DECORATORS or (_CACHE_NAME.search(name) and "property" not in name)) and takes:
            line = line_or(decorator, function.line)
            yield subject.hit("has_cache", line, function.line, "decorator", f"@{text_of(decorator)}", 0.9)
    if function.kind == "module":
        return
    stores = _stores(subject)
    for place, key, line, kind, gives in _lookups(function.body):
        for stored_place, stored_key, stored_line, value in stores:
            if stored_place != place or (stored_key and key and stored_key != key) or stored_line < line - 1:
                continue
            if place.endswith("environ"):
                continue
            named = bool(_CACHE_NAME.search(place))
            if not named and not _is_computed(subject, value):
                continue
            if not named and (_POOL.search(place) or not _outlives(subject, place)):
                continue
            if not named and (not gives or _CONSTANT.match(key)):
                # A table of running work: a hit leads elsewhere and does not return the stored value.
                continue
            if named and (_makes_pool(value) or (value[0] in "ldS" and not members_in(value))):
                continue
            evidence = f"{place}[{key}] is returned if known, else stored in line {stored_line}"
            yield subject.hit("has_cache", line, stored_line, kind, evidence, 0.9 if named else 0.65)
            return


_Lookup = tuple[str, str, int, str, bool]
"""Container, key, line, kind, and whether a hit returns the stored value."""


def _lookups(body: Body) -> Iterator[_Lookup]:
    """Yield look-ups whose hit returns early or skips the computation."""
    bound: dict[str, tuple[str, str, int]] = {}
    for s in statements(body):
        if s[0] == "assign" and (assigned := value_of(s)) is not None:
            found = _read_of(assigned)
            if found is not None:
                for name in (n for t in targets_of(s) for n in target_names(t)):
                    bound[name] = (*found, line_of(s))
        elif s[0] == "if":
            for test, inner in branches_of(s):
                yield from _tested(test, inner, s, bound)
        elif s[0] == "try" and handlers_of(s):
            for tried in body_of(s):
                value = value_of(tried) if tried[0] == "return" else None
                found = _read_of(value) if value is not None else None
                if found is not None and any(
                    last_name(kind) in ("KeyError", "LookupError")
                    for h in handlers_of(s)
                    if (kind := caught_by(h)) is not None
                ):
                    yield (*found, line_of(tried), "handler", True)


def _tested(test: Expr, inner: Body, s: Stmt, bound: dict[str, tuple[str, str, int]]) -> Iterator[_Lookup]:
    parts = operands_of(test) if test[0] == "b" else (test,)
    for part in parts:
        if part[0] == "q" and len(operands_of(part)) == 2:
            left, right = operands_of(part)
            operator = operators_of(part)[0]
            if operator == "in" and tags_in(inner, "return", "continue"):
                name = f"{text_of(right)}[{text_of(left)}]"
                yield (text_of(right), text_of(left), line_of(s), "lookup", _hands_out(inner, name))
            elif operator == "not in":
                yield (text_of(right), text_of(left), line_of(s), "fill", True)
        if tags_in(inner, "return", "continue"):
            read = _read_of(part)
            if read is not None:
                yield (*read, line_of(s), "lookup", _hands_out(inner, f"{read[0]}[{read[1]}]"))
            for name in _tested_names(part):
                if name in bound:
                    place, key, line = bound[name]
                    yield (place, key, line, "lookup", _hands_out(inner, name))
        elif part[0] == "q" and operators_of(part)[0] == "is" and operands_of(part)[1] == ("k", None):
            name = text_of(operands_of(part)[0])
            if name in bound:
                place, key, line = bound[name]
                yield (place, key, line, "fill", True)
        elif part[0] == "!" and text_of(operand_of(part)) in bound:
            place, key, line = bound[text_of(operand_of(part))]
            yield (place, key, line, "fill", True)


def _hands_out(inner: Body, name: str) -> bool:
    """Return whether a block returns the value that was found, or a part of it, and not an object built around it."""
    for s in statements(inner):
        value = unwrapped(value_of(s)) if s[0] == "return" else None
        if value is None or (is_call(value) and last_name(value).lstrip("_")[:1].isupper()):
            continue
        if name in text_of(value):
            return True
    return False


def _tested_names(part: Expr) -> list[str]:
    if part[0] in ("n", ":="):
        return [name_of(part)]
    if part[0] == "q" and operators_of(part)[0] in ("is not", "!=") and operands_of(part)[1] == ("k", None):
        asked = operands_of(part)[0]
        return [text_of(unwrapped(asked) or asked)]
    return []


def _read_of(e: Expr) -> tuple[str, str] | None:
    if e[0] == ":=":
        return _read_of(walrus_value(e))
    inner = unwrapped(e)
    if inner is None:
        return None
    if inner[0] == "s" and index_of(inner)[0] != "sl":
        return text_of(owner_of(inner)), text_of(index_of(inner))
    if is_call(inner) and is_member(callee := callee_of(inner)) and member_of(callee) in _GETS and positional_of(inner):
        return text_of(owner_of(callee)), text_of(positional_of(inner)[0])
    if inner[0] == "q" and len(operands_of(inner)) == 2 and operators_of(inner)[0] in ("is not", "!="):
        return _read_of(operands_of(inner)[0])
    return None


def _stores(subject: Subject) -> list[tuple[str, str, int, Expr]]:
    out: list[tuple[str, str, int, Expr]] = []
    for s in subject.statements:
        if s[0] == "assign" and (assigned := value_of(s)) is not None:
            for target in targets_of(s):
                if target[0] == "s":
                    out.append((text_of(owner_of(target)), text_of(index_of(target)), line_of(s), assigned))
    for call in subject.calls:
        if (
            is_member(callee_of(call))
            and member_of(callee_of(call)) in _SETS
            and len(positional_of(call)) + len(keywords_of(call)) >= 2
            and positional_of(call)
        ):
            value = positional_of(call)[-1] if len(positional_of(call)) > 1 else keywords_of(call)[0][1]
            out.append((text_of(owner_of(callee_of(call))), text_of(positional_of(call)[0]), call_line(call), value))
    return out


def _outlives(subject: Subject, place: str) -> bool:
    """Return whether a container outlives the call: an attribute, or a name of the module."""
    first = place.partition(".")[0].partition("[")[0]
    return place.startswith(("self.", "cls.")) or first not in subject.ir.local_names


def _is_computed(subject: Subject, value: Expr) -> bool:
    """Return whether the stored value comes from a call with arguments, and is not an empty container or a client."""
    candidates = [value]
    if value[0] == "n":
        for s in subject.statements:
            is_it = s[0] == "assign" and any(name_of(value) in target_names(t) for t in targets_of(s))
            if is_it and (assigned := value_of(s)) is not None:
                candidates.append(assigned)
    for candidate in candidates:
        for call in calls_of(candidate):
            name = last_name(call)
            if not (positional_of(call) or keywords_of(call)) or name[:1].isupper() or _POOL.search(name):
                continue
            if name in (
                "list",
                "dict",
                "set",
                "int",
                "str",
                "float",
                "get",
                "append",
                "defaultdict",
                "deque",
                "frozenset",
                "tuple",
                "sorted",
                "create_task",
                "ensure_future",
                "len",
                "time",
                "pop",
                "format",
            ):
                continue
            return True
    return False


def _makes_pool(value: Expr) -> bool:
    call = unwrapped(value)
    return call is not None and is_call(call) and bool(_POOL.search(last_name(call))) and last_name(call)[:1].isupper()
