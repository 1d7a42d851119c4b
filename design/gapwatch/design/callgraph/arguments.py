"""Passes arguments to parameters: by position, by name, and unpacked from containers."""

from __future__ import annotations

from collections.abc import Sequence

from gapwatch.design.callgraph.frame import Frame, Named, Positional
from gapwatch.design.callgraph.solver import Shape, is_method
from gapwatch.design.callgraph.values import Kind, Values
from gapwatch.design.source.ir import Param


def pass_arguments(frame: Frame, number: int, given: Positional, named: Named) -> dict[int, Values]:
    """Add the arguments of a call to the parameters of a function.

    Args:
        frame: The scope of the call.
        number: Number of the function.
        given: Arguments by position.
        named: Arguments by name.

    Returns:
        Values by position of the parameter.
    """
    solver, table = frame.solver, frame.table
    passed: dict[int, Values] = {}
    if not given and not named:
        return passed
    place = 0
    shape = solver.shapes.get(number)
    if shape is None:
        shape = solver.shapes[number] = _shape(frame.program.functions[number].ir.params)
    places, rest, by_name, collecting = shape
    for is_star, values in given:
        for slot in _unpacked(frame, values) if is_star else (values,):
            if place < len(places):
                position = places[place]
                if is_star and place == 0:
                    slot = _fitting(frame, number, slot)
                passed[position] = slot
                solver.grow(("p", number, position), slot)
            elif rest >= 0:
                box = table.value(Kind.BOX, "t", ("*", number))
                solver.put(box, place - len(places) if not is_star else None, slot)
            place += 1
    for name, values in named:
        if name is None:
            _pass_mapping(frame, number, values, by_name, passed)
        elif name in by_name:
            passed[by_name[name]] = values
            solver.grow(("p", number, by_name[name]), values)
        elif collecting:
            solver.put(table.value(Kind.BOX, "d", ("**", number)), name, values)
    return passed


def _fitting(frame: Frame, number: int, receivers: Values) -> Values:
    """Return those values of a method's first argument that are no instances of other classes.

    A decorator that passes `*args` on has the arguments of all functions that it wraps; of them only instances of its
    own class, or of a subclass, reach a method.
    """
    info, table = frame.program.functions[number], frame.table
    if not is_method(info):
        return receivers
    return frozenset(
        v for v in receivers if table.kinds[v] is not Kind.INST or info.owner in frame.solver.mro(table.a[v])
    )


def _shape(params: Sequence[Param]) -> Shape:
    return (
        [i for i, p in enumerate(params) if p.kind in ("", "/")],
        next((i for i, p in enumerate(params) if p.kind == "*"), -1),
        {p.name: i for i, p in enumerate(params) if p.kind in ("", "=")},
        any(p.kind == "**" for p in params),
    )


def _unpacked(frame: Frame, values: Values) -> list[Values]:
    """Return the values of `*x`, one set for each known position."""
    table = frame.table
    out: list[Values] = []
    for v in values:
        if table.kinds[v] is Kind.BOX:
            numbers = [k for k in frame.solver.box_keys.get(v, ()) if isinstance(k, int)]
            rest = frame.read(("s", v, None))
            for key in range(max(numbers, default=-1) + 1):
                slot = frame.read(("s", v, key)) | rest
                if key < len(out):
                    out[key] |= slot
                else:
                    out.append(slot)
            if rest and not numbers:
                out = [*out, *[rest] * (4 - len(out))]
    return out


def _pass_mapping(
    frame: Frame, number: int, values: Values, by_name: dict[str, int], passed: dict[int, Values]
) -> None:
    for v in values:
        if frame.table.kinds[v] is not Kind.BOX:
            continue
        for key in list(frame.solver.box_keys.get(v, ())):
            slot = frame.read(("s", v, key))
            if key in by_name:
                passed[by_name[key]] = slot
                frame.solver.grow(("p", number, by_name[key]), slot)
            elif isinstance(key, str):
                frame.solver.put(frame.table.value(Kind.BOX, "d", ("**", number)), key, slot)
        frame.read(("all", v))
