"""Interprets assignment to names, attributes, slots of containers and several targets at once."""

from __future__ import annotations

from gapwatch.design.callgraph.attributes import class_attribute, store_attribute
from gapwatch.design.callgraph.calls import method_result
from gapwatch.design.callgraph.expressions import elements_of, evaluate
from gapwatch.design.callgraph.frame import Frame
from gapwatch.design.callgraph.values import EMPTY, Kind, Values
from gapwatch.design.source.ir import Expr


def assign_to(frame: Frame, target: Expr, values: Values) -> None:
    """Bind a target of any form."""
    tag = target[0]
    if tag == "n":
        frame.bind(target[1], values)
    elif tag == "t":
        _unpack(frame, target, values)
    elif tag == "*":
        box = frame.table.value(Kind.BOX, "l", ("*t", frame.number, id_of(target)))
        frame.solver.put(box, None, values)
        assign_to(frame, target[1], frame.table.single(box))
    elif tag in ("a", "s"):
        store(frame, target, values)


def id_of(target: Expr) -> str:
    """Return a name for a starred target that is the same in every run."""
    return str(target[1][1]) if target[1][0] == "n" else "*"


def continue_pairs(frame: Frame, target: Expr, value: Expr) -> None:
    """Bind each part of a tuple of targets to the same part of a tuple of values."""
    parts = [evaluate(frame, part) for part in value[1]]
    for inner, values in zip(target[1], parts, strict=True):
        assign_to(frame, inner, values)


def has_same_shape(target: Expr, value: Expr) -> bool:
    """Return whether both tuples have the same length and no starred part."""
    return len(target[1]) == len(value[1]) and not any(part[0] == "*" for part in (*target[1], *value[1]))


def _unpack(frame: Frame, target: Expr, values: Values) -> None:
    parts = target[1]
    star = next((i for i, part in enumerate(parts) if part[0] == "*"), None)
    kinds, solver = frame.table.kinds, frame.solver
    bound: list[Values] = [EMPTY] * len(parts)
    for v in values:
        keys = solver.box_keys.get(v, ()) if kinds[v] is Kind.BOX else ()
        numbers = [key for key in keys if isinstance(key, int)]
        if kinds[v] is Kind.BOX and frame.table.a[v] in "tl" and numbers:
            rest = frame.read(("s", v, None))
            size = max(numbers) + 1
            for i in range(len(parts)):
                if star is None or i < star:
                    bound[i] |= frame.read(("s", v, i)) | rest
                elif i > star:
                    bound[i] |= frame.read(("s", v, size - (len(parts) - i))) | rest
                else:
                    for j in range(star, size - (len(parts) - 1 - star)):
                        bound[i] |= frame.read(("s", v, j))
                    bound[i] |= rest
        elif kinds[v] is Kind.INST and (fields := frame.program.classes[frame.table.a[v]].field_names):
            # Unpacking a named tuple binds its fields in order.
            for i, name in enumerate(fields[: len(parts)]):
                bound[i] |= class_attribute(frame, frame.table.a[v], name, v, frame.line)
        else:
            element = elements_of(frame, frame.table.single(v), 0)
            bound = [mine | element for mine in bound]
    for part, mine in zip(parts, bound, strict=True):
        assign_to(frame, part, mine)


def store(frame: Frame, target: Expr, values: Values) -> None:
    """Interpret writing to `x.name` or `x[key]`."""
    if target[0] == "a":
        store_attribute(frame, evaluate(frame, target[1]), target[2], values, target[3])
        return
    _, box, index, line = target
    is_slice = index[0] == "sl"
    keys = evaluate(frame, index)
    # `x[1:2] = items` stores the elements of `items`, not `items` itself.
    taken = elements_of(frame, values, 0) if is_slice else values
    table, solver = frame.table, frame.solver
    constants = [table.a[v] for v in keys if table.kinds[v] in (Kind.TEXT, Kind.NUMBER)]
    for v in evaluate(frame, box):
        if table.kinds[v] is Kind.BOX:
            solver.grow(("keys", v), keys)
            for key in constants if constants and len(constants) == len(keys) else [None]:
                solver.put(v, key, taken)
        elif table.kinds[v] is Kind.INST:
            method_result(frame, table.single(v), ("__setitem__",), [keys, values], line)
    path = frame.path_of(target)
    if path is not None:
        frame.has_paths = True
        frame.names[path] = values
