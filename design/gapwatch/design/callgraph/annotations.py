"""Evaluates annotations: instances of classes, unions and containers."""

from __future__ import annotations

from gapwatch.design.callgraph.frame import Frame
from gapwatch.design.callgraph.values import EMPTY, Kind, Values
from gapwatch.design.source.ir import Expr
from gapwatch.design.source.program import last_name

_SAME = frozenset({"Optional", "Annotated", "ClassVar", "Final", "Required", "NotRequired", "ReadOnly", "Awaitable"})
_LISTS = {
    "list": "l",
    "List": "l",
    "set": "S",
    "Set": "S",
    "frozenset": "S",
    "FrozenSet": "S",
    "deque": "l",
    "Deque": "l",
    "Sequence": "l",
    "MutableSequence": "l",
    "Iterable": "g",
    "Iterator": "g",
    "Generator": "g",
    "AsyncIterable": "g",
    "AsyncIterator": "g",
    "AsyncGenerator": "g",
    "Collection": "l",
    "AbstractSet": "S",
    "ContextManager": "g",
    "AsyncContextManager": "g",
}
_DICTS = frozenset({"dict", "Dict", "Mapping", "MutableMapping", "defaultdict", "DefaultDict", "OrderedDict"})
_PLAIN = frozenset({"str", "int", "float", "bool", "bytes", "list", "dict", "set", "tuple", "frozenset"})


def annotated(frame: Frame, e: Expr) -> Values:
    """Return the values that an annotation allows; empty if it names nothing known."""
    tag = e[0]
    if tag == "n":
        return _named(frame, frame.look_up(e[1]), e[1])
    if tag == "a":
        return _named(frame, frame.interpreter.evaluate(frame, e), e[2])
    if tag == "o" and e[1] == "|":
        out = EMPTY
        for part in e[2]:
            out |= annotated(frame, part)
        return out
    if tag == "s":
        return _subscripted(frame, e)
    if tag == "k" and isinstance(e[1], str):
        return _named(frame, frame.look_up(e[1]), e[1]) if e[1].isidentifier() else EMPTY
    return EMPTY


def _named(frame: Frame, values: Values, name: str) -> Values:
    table = frame.table
    out = EMPTY
    for v in values:
        kind = table.kinds[v]
        if kind is Kind.CLASS:
            out |= table.one(Kind.INST, table.a[v])
        elif kind is Kind.OUTSIDE:
            if name == "Self" and frame.info.owner >= 0:
                out |= table.one(Kind.INST, frame.info.owner)
            elif not _says_nothing(table.a[v]):
                out |= table.single(v)
        elif kind is Kind.BUILTIN and table.a[v] in _PLAIN:
            out |= table.one(Kind.PLAIN, table.a[v])
        elif kind in (Kind.INST, Kind.BOX, Kind.PLAIN):
            # An alias: `Documents = list[Document]`.
            out |= table.single(v)
    return out


def _says_nothing(dotted: str) -> bool:
    return dotted.startswith(("typing.", "typing_extensions.", "collections.abc."))


def _subscripted(frame: Frame, e: Expr) -> Values:
    name = last_name(e[1])
    index = e[2]
    parts: tuple[Expr, ...] = index[1] if index[0] == "t" else (index,)
    if not parts:
        return EMPTY
    if name in _SAME:
        return annotated(frame, parts[0])
    if name in ("Union", "Literal"):
        out = EMPTY
        for part in parts if name == "Union" else ():
            out |= annotated(frame, part)
        return out
    if name in ("type", "Type"):
        return frozenset(
            frame.table.value(Kind.CLASS, frame.table.a[v])
            for v in annotated(frame, parts[0])
            if frame.table.kinds[v] is Kind.INST
        )
    if name in _LISTS:
        return _box_of(frame, _LISTS[name], ((None, annotated(frame, parts[0])),))
    if name in _DICTS and len(parts) == 2:
        return _box_of(frame, "d", ((None, annotated(frame, parts[1])),))
    if name in ("tuple", "Tuple"):
        if len(parts) == 2 and parts[1] == ("k", Ellipsis):
            return _box_of(frame, "t", ((None, annotated(frame, parts[0])),))
        return _box_of(frame, "t", tuple((i, annotated(frame, part)) for i, part in enumerate(parts)))
    if name == "Coroutine":
        return annotated(frame, parts[-1])
    if name == "Callable":
        return EMPTY
    return annotated(frame, e[1])


def _box_of(frame: Frame, kind: str, slots: tuple[tuple[int | None, Values], ...]) -> Values:
    """Return the container of an annotation; equal annotations share one container, which limits their number."""
    if not any(values for _, values in slots):
        plain = {"l": "list", "d": "dict", "S": "set", "t": "tuple"}.get(kind)
        return frame.table.one(Kind.PLAIN, plain) if plain else EMPTY
    box = frame.table.value(Kind.BOX, kind, ("annotation", slots))
    for key, values in slots:
        frame.solver.put(box, key, values)
    return frame.table.single(box)
