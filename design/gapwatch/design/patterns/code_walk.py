"""Walks over the intermediate form of a function: calls, names, constants, blocks."""

from __future__ import annotations

from collections.abc import Iterator

from gapwatch.design.source.ir import Body, Expr, Stmt, caught_by
from gapwatch.design.source.program import inner_bodies, statements

#: Members of a tuple that are expressions, by tag; "+" after one means a tuple of them.
_CHILDREN: dict[str, tuple[int, ...]] = {
    "a": (1,),
    "s": (1, 2),
    "w": (1,),
    "y": (1,),
    "Y": (1,),
    "*": (1,),
    "!": (1,),
    "u": (2,),
    ":=": (2,),
    "?": (1, 2, 3),
    "sl": (1, 2, 3),
}
_LISTS: dict[str, int] = {"l": 1, "t": 1, "S": 1, "b": 1, "o": 2, "q": 2}


def children(e: Expr) -> Iterator[Expr]:
    """Yield the expressions directly inside one, in the order of evaluation."""
    tag = e[0]
    if tag in _CHILDREN:
        for i in _CHILDREN[tag]:
            if e[i] is not None:
                yield e[i]
    elif tag in _LISTS:
        yield from e[_LISTS[tag]]
    elif tag == "c":
        yield e[1]
        yield from e[2]
        for _, value in e[3]:
            yield value
    elif tag == "d":
        for key, value in e[1]:
            if key is not None:
                yield key
            yield value
    elif tag in ("lc", "gc", "sc", "dc"):
        for _, iterable, tests in e[3]:
            yield iterable
            yield from tests
        yield e[1]
        if e[2] is not None:
            yield e[2]
    elif tag == "f":
        for part in e[1]:
            if not isinstance(part, str):
                yield part


def walk(e: Expr) -> Iterator[Expr]:
    """Yield an expression and all expressions inside it."""
    stack = [e]
    while stack:
        current = stack.pop()
        yield current
        # Most expressions are names, constants and members; the short ways halve the time of all walks.
        tag = current[0]
        if tag == "a":
            stack.append(current[1])
        elif tag not in "nk":
            stack.extend(reversed(list(children(current))))


def own_expressions(s: Stmt) -> list[Expr]:
    """Return the expressions of a statement without those of its blocks."""
    tag = s[0]
    out: list[Expr | None] = []
    if tag == "expr":
        out = [s[2]]
    elif tag == "assign":
        out = [*s[2], s[3]]
    elif tag == "aug":
        out = [s[2], s[4]]
    elif tag == "return":
        out = [s[2]]
    elif tag == "if":
        out = [test for test, _ in s[2]]
    elif tag == "for":
        out = [s[2], s[3]]
    elif tag == "while":
        out = [s[2]]
    elif tag == "try":
        out = [handler[1] for handler in s[3]]
    elif tag == "with":
        out = [part for item in s[2] for part in item]
    elif tag in ("raise", "assert"):
        out = [s[2], s[3]]
    elif tag == "del":
        out = list(s[2])
    elif tag == "match":
        out = [s[2], *(case[2] for case in s[3])]
    return [e for e in out if e is not None]


def calls_in(body: Body) -> Iterator[Expr]:
    """Yield every call of a body, blocks included."""
    for s in statements(body):
        for e in own_expressions(s):
            for inner in walk(e):
                if inner[0] == "c":
                    yield inner


def calls_of(e: Expr) -> Iterator[Expr]:
    """Yield every call in an expression."""
    return (inner for inner in walk(e) if inner[0] == "c")


_BRACKETS = {"t": ("(", ")"), "l": ("[", "]"), "S": ("{", "}")}


def text_of(e: Expr | None) -> str:
    """Return short text of an expression, equal for equal code; used for comparison and as evidence."""
    if e is None:
        return ""
    tag = e[0]
    if tag == "n":
        return str(e[1])
    if tag == "k":
        return repr(e[1])[:60]
    if tag == "a":
        return f"{text_of(e[1])}.{e[2]}"
    if tag == "c":
        parts = [text_of(a) for a in e[2]] + [f"{n or '**'}={text_of(v)}" for n, v in e[3]]
        return f"{text_of(e[1])}({', '.join(parts)})"
    if tag == "s":
        return f"{text_of(e[1])}[{text_of(e[2])}]"
    if tag in ("w", "*"):
        return text_of(e[1])
    if tag == "f":
        return "f" + "".join("…" if isinstance(p, str) else "{" + text_of(p) + "}" for p in e[1])
    if tag in _BRACKETS:
        left, right = _BRACKETS[tag]
        return f"{left}{', '.join(text_of(c) for c in e[1])}{right}"
    if tag == "!":
        return f"not {text_of(e[1])}"
    if tag == "L":
        return "lambda"
    if tag == "q":
        return " ".join([text_of(e[2][0]), *(f"{o} {text_of(c)}" for o, c in zip(e[1], e[2][1:], strict=False))])
    if tag in "bo":
        sign = e[1] if tag == "o" else "and/or"
        return f" {sign} ".join(text_of(c) for c in children(e))
    return f"{tag}({', '.join(text_of(c) for c in children(e))})"


def callee_text(call: Expr) -> str:
    """Return the dotted text of the callee of a call."""
    return text_of(call[1])


def names_in(e: Expr) -> set[str]:
    """Return the plain and dotted names that an expression reads."""
    out: set[str] = set()
    for inner in walk(e):
        if inner[0] == "n":
            out.add(inner[1])
        elif inner[0] == "a":
            text = text_of(inner)
            if "(" not in text:
                out.add(text)
    return out


def arguments_of(call: Expr) -> list[Expr]:
    """Return the arguments of a call, keyword arguments included."""
    return [*call[2], *(value for _, value in call[3])]


def keyword(call: Expr, name: str) -> Expr | None:
    """Return a keyword argument of a call, or None."""
    for given, value in call[3]:
        if given == name:
            return value  # type: ignore[no-any-return]
    return None


def unwrapped(e: Expr | None) -> Expr | None:
    """Return the expression inside `await` or a walrus."""
    while e is not None and e[0] in ("w", ":="):
        e = e[-1]
    return e


def leaves(body: Body) -> bool:
    """Return whether a block always ends by leaving its function or loop."""
    if not body:
        return False
    last = body[-1]
    tag = last[0]
    if tag in ("return", "raise", "break", "continue"):
        return True
    if tag == "if":
        return bool(last[3]) and all(leaves(b) for _, b in last[2]) and leaves(last[3])
    if tag == "with":
        return leaves(last[3])
    if tag == "try":
        return (leaves(last[2]) or leaves(last[4])) and all(leaves(h[3]) for h in last[3])
    return False


def tags_in(body: Body, *wanted: str) -> bool:
    """Return whether a block holds a statement of some kinds; `break` and `continue` of inner loops do not count."""
    for s in body:
        if s[0] in wanted:
            return True
        if s[0] in ("for", "while") and set(wanted) <= {"break", "continue"}:
            continue
        if any(tags_in(inner, *wanted) for inner in inner_bodies(s)):
            return True
    return False


def constants_in(e: Expr) -> list[str]:
    """Return the constant texts in an expression, those of f-strings included."""
    out: list[str] = []
    for inner in walk(e):
        if inner[0] == "k" and isinstance(inner[1], str):
            out.append(inner[1])
        elif inner[0] == "f":
            out.extend(part for part in inner[1] if isinstance(part, str))
    return out


def kinds_of(handler: Stmt) -> list[Expr]:
    """Return the exceptions that a handler takes; none where it takes everything."""
    caught = caught_by(handler)
    return [] if caught is None else list(caught[1]) if caught[0] == "t" else [caught]


def target_names(e: Expr) -> list[str]:
    """Return the names and dotted names that a target binds."""
    if e[0] == "t":
        return [name for part in e[1] for name in target_names(part)]
    if e[0] == "*":
        return target_names(e[1])
    return [text_of(e)]
