"""Caches: what was computed for a key is kept and handed out again."""

from __future__ import annotations

import re
from collections.abc import Iterator

from design.code_walk import calls_of, tags_in, target_names, text_of, unwrapped
from design.ir import Body, Expr, Stmt
from design.pattern_hit import PatternHit, Subject
from design.program import last_name, statements

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
#: What is kept once for the whole process is a pool or a singleton, no cache.
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
    """Look-up, early return, compute, store; or a decorator that does it for a function with arguments."""
    function = subject.ir
    takes = [p for p in function.params if p.name not in ("self", "cls")]
    for decorator in function.decorators:
        name = last_name(decorator)
        if function.returns == ("k", None) or _CLIENTS.search(function.name):
            # Nothing comes back that could be kept, and it is there to run once; or it is a pool of connections.
            continue
        if (name in _DECORATORS or (_CACHE_NAME.search(name) and "property" not in name)) and takes:
            line = decorator[-1] if isinstance(decorator[-1], int) else function.line
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
                # A table of what is going on: a hit leads elsewhere, the value is not handed out again.
                continue
            if named and (_makes_pool(value) or (value[0] in "ldS" and not value[1])):
                continue
            evidence = f"{place}[{key}] is returned if known, else stored in line {stored_line}"
            yield subject.hit("has_cache", line, stored_line, kind, evidence, 0.9 if named else 0.65)
            return


_Lookup = tuple[str, str, int, str, bool]
"""Container, key, line, kind, and whether a hit hands out what was kept."""


def _lookups(body: Body) -> Iterator[_Lookup]:
    """Look-ups whose hit leaves early or skips the computing."""
    bound: dict[str, tuple[str, str, int]] = {}
    for s in statements(body):
        if s[0] == "assign" and s[3] is not None:
            found = _read_of(s[3])
            if found is not None:
                for name in (n for t in s[2] for n in target_names(t)):
                    bound[name] = (*found, s[1])
        elif s[0] == "if":
            for test, inner in s[2]:
                yield from _tested(test, inner, s, bound)
        elif s[0] == "try" and s[3]:
            for inner in s[2]:
                value = inner[2] if inner[0] == "return" else None
                found = _read_of(value) if value is not None else None
                if found is not None and any(
                    last_name(h[1]) in ("KeyError", "LookupError") for h in s[3] if h[1] is not None
                ):
                    yield (*found, inner[1], "handler", True)


def _tested(test: Expr, inner: Body, s: Stmt, bound: dict[str, tuple[str, str, int]]) -> Iterator[_Lookup]:
    parts = test[1] if test[0] == "b" else (test,)
    for part in parts:
        if part[0] == "q" and len(part[2]) == 2:
            left, right = part[2]
            operator = part[1][0]
            if operator == "in" and tags_in(inner, "return", "continue"):
                name = f"{text_of(right)}[{text_of(left)}]"
                yield (text_of(right), text_of(left), s[1], "lookup", _hands_out(inner, name))
            elif operator == "not in":
                yield (text_of(right), text_of(left), s[1], "fill", True)
        if tags_in(inner, "return", "continue"):
            read = _read_of(part)
            if read is not None:
                yield (*read, s[1], "lookup", _hands_out(inner, f"{read[0]}[{read[1]}]"))
            for name in _tested_names(part):
                if name in bound:
                    place, key, line = bound[name]
                    yield (place, key, line, "lookup", _hands_out(inner, name))
        elif part[0] == "q" and part[1][0] == "is" and part[2][1] == ("k", None):
            name = text_of(part[2][0])
            if name in bound:
                place, key, line = bound[name]
                yield (place, key, line, "fill", True)
        elif part[0] == "!" and text_of(part[1]) in bound:
            place, key, line = bound[text_of(part[1])]
            yield (place, key, line, "fill", True)


def _hands_out(inner: Body, name: str) -> bool:
    """Whether a block returns what was found, as it is or a part of it, and no answer made about it."""
    for s in statements(inner):
        value = unwrapped(s[2]) if s[0] == "return" and s[2] is not None else None
        if value is None or (value[0] == "c" and last_name(value).lstrip("_")[:1].isupper()):
            continue
        if name in text_of(value):
            return True
    return False


def _tested_names(part: Expr) -> list[str]:
    if part[0] == "n":
        return [part[1]]
    if part[0] == ":=":
        return [part[1]]
    if part[0] == "q" and part[1][0] in ("is not", "!=") and part[2][1] == ("k", None):
        return [text_of(unwrapped(part[2][0]) or part[2][0])]
    return []


def _read_of(e: Expr) -> tuple[str, str] | None:
    if e[0] == ":=":
        return _read_of(e[2])
    inner = unwrapped(e)
    if inner is None:
        return None
    if inner[0] == "s" and inner[2][0] != "sl":
        return text_of(inner[1]), text_of(inner[2])
    if inner[0] == "c" and inner[1][0] == "a" and inner[1][2] in _GETS and inner[2]:
        return text_of(inner[1][1]), text_of(inner[2][0])
    if inner[0] == "q" and len(inner[2]) == 2 and inner[1][0] in ("is not", "!="):
        return _read_of(inner[2][0])
    return None


def _stores(subject: Subject) -> list[tuple[str, str, int, Expr]]:
    out: list[tuple[str, str, int, Expr]] = []
    for s in subject.statements:
        if s[0] == "assign" and s[3] is not None:
            for target in s[2]:
                if target[0] == "s":
                    out.append((text_of(target[1]), text_of(target[2]), s[1], s[3]))
    for call in subject.calls:
        if call[1][0] == "a" and call[1][2] in _SETS and len(call[2]) + len(call[3]) >= 2 and call[2]:
            value = call[2][-1] if len(call[2]) > 1 else call[3][0][1]
            out.append((text_of(call[1][1]), text_of(call[2][0]), call[4], value))
    return out


def _outlives(subject: Subject, place: str) -> bool:
    """Whether a container is still there at the next call: an attribute, or a name of the module."""
    first = place.partition(".")[0].partition("[")[0]
    return place.startswith(("self.", "cls.")) or first not in subject.ir.local_names


def _is_computed(subject: Subject, value: Expr) -> bool:
    """Whether what is stored was worked out by a call with arguments, and is no empty container or client."""
    candidates = [value]
    if value[0] == "n":
        for s in subject.statements:
            if s[0] == "assign" and s[3] is not None and any(value[1] in target_names(t) for t in s[2]):
                candidates.append(s[3])
    for candidate in candidates:
        for call in calls_of(candidate):
            name = last_name(call)
            if not (call[2] or call[3]) or name[:1].isupper() or _POOL.search(name):
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
    return call is not None and call[0] == "c" and bool(_POOL.search(last_name(call))) and last_name(call)[:1].isupper()
