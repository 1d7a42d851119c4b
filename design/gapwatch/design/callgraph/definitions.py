"""Interprets definitions: a function's defaults and decorators, a class's bases, body and decorators."""

from __future__ import annotations

from collections.abc import Callable

from gapwatch.design.callgraph.annotations import annotated
from gapwatch.design.callgraph.calls import call_values
from gapwatch.design.callgraph.expressions import evaluate
from gapwatch.design.callgraph.frame import Frame
from gapwatch.design.callgraph.values import EMPTY, Kind, Values
from gapwatch.design.source.ir import Body, Expr
from gapwatch.design.source.program import last_name

_TRANSPARENT = frozenset({"staticmethod", "classmethod", "property", "abstractmethod", "overload", "wraps", "override"})

#: Library decorators that turn a function into a decorator; its first argument is the decorated function.
_MAKES_DECORATORS = frozenset({"decorator.decorator", "wrapt.decorator", "funcy.decorator"})

#: Kinds of callables; a decorator with any other result only registers the function.
_CALLABLE = frozenset({Kind.FUNC, Kind.CLASS, Kind.INST, Kind.PARTIAL, Kind.DECORATED, Kind.OUTSIDE})


def define_function(frame: Frame, local_index: int) -> None:
    """Interpret a `def`: defaults and decorators run now, the body runs when it is called."""
    program, table = frame.program, frame.table
    number = program.first_function[frame.module] + local_index
    info = program.functions[number]
    if info.is_overload:
        return
    bind_defaults(frame, number)
    if info.ir.returns is not None:
        frame.solver.grow(("declared", number), annotated(frame, info.ir.returns))
    values = table.one(Kind.FUNC, number)
    if info.ir.decorators:
        values = _decorate(frame, number, values)
    frame.bind(info.ir.name, values)
    if frame.classes:
        if values != table.one(Kind.FUNC, number):
            frame.solver.grow(("deco", number), values)
        frame.solver.grow(("m", frame.classes[-1], info.ir.name), values)


def bind_defaults(frame: Frame, number: int) -> None:
    """Evaluate the defaults of a function in the defining scope."""
    for position, param in enumerate(frame.program.functions[number].ir.params):
        if param.default is not None:
            frame.solver.grow(("default", number, position), evaluate(frame, param.default))


def _decorate(frame: Frame, number: int, values: Values) -> Values:
    table = frame.table
    info = frame.program.functions[number]
    for decorator in reversed(info.ir.decorators):
        line = _line_of_decorator(decorator, info.ir.line)
        made = evaluate(frame, decorator)
        if last_name(decorator) in _TRANSPARENT:
            continue
        result = EMPTY
        for v in made:
            kind = table.kinds[v]
            if kind is Kind.FUNC and frame.solver.entries.get(table.a[v], set()) & _MAKES_DECORATORS:
                # `@decorator def opens(method, self, *args)`: the decorated function is called as before, through it.
                call_values(frame, table.single(v), [(False, values)], [], 0)
            elif kind in (Kind.FUNC, Kind.CLASS, Kind.INST, Kind.PARTIAL, Kind.DECORATED):
                result |= call_values(frame, table.single(v), [(False, values)], [], line)
            elif kind is Kind.OUTSIDE:
                if decorator[0] != "c":
                    frame.edge(table.a[v], "call", line)
                frame.solver.entries.setdefault(number, set()).add(table.a[v])
        # A library decorator, or one without a known result, is assumed to return the function.
        if not any(table.kinds[v] in _CALLABLE for v in result):
            continue
        if result and not values <= result:
            values = _as_decorated(frame, number, result)
        elif result:
            values = result if len(result) <= 3 else values
    return values


def _as_decorated(frame: Frame, number: int, result: Values) -> Values:
    table = frame.table
    out = EMPTY
    for v in result:
        if table.kinds[v] is Kind.FUNC and table.b[v] == -1:
            frame.solver.wrappers.setdefault(table.a[v], set()).add(number)
            out |= table.one(Kind.DECORATED, number, v)
        else:
            out |= table.single(v)
    return out


def _line_of_decorator(decorator: Expr, default: int) -> int:
    last = decorator[-1]
    return last if isinstance(last, int) and decorator[0] in "ac" else default


def define_class(frame: Frame, local_index: int, run: Callable[[Frame, Body], None]) -> None:
    """Interpret a `class`: its bases, its body as a scope, its decorators."""
    program, table = frame.program, frame.table
    number = program.first_class[frame.module] + local_index
    cls = program.classes[number]
    bases: list[int] = []
    outside: list[str] = []
    for base in cls.ir.bases:
        expression = base[1] if base[0] == "s" else base
        found = evaluate(frame, expression)
        if base[0] == "s":
            evaluate(frame, base[2])
        for v in sorted(found):
            if table.kinds[v] is Kind.CLASS and table.a[v] != number and table.a[v] not in bases:
                bases.append(table.a[v])
            elif table.kinds[v] is Kind.OUTSIDE and table.a[v] not in outside:
                outside.append(table.a[v])
            elif table.kinds[v] is Kind.BUILTIN:
                outside.append(f"<builtin>.{table.a[v]}")
    frame.solver.set_bases(number, bases, outside)
    for name in ("__init_subclass__", "__pydantic_init_subclass__"):
        if (hook := frame.solver.find_method(number, name, after=number)) >= 0:
            frame.edge(hook, "framework", cls.ir.line)
    saved, saved_paths = frame.names, frame.has_paths
    frame.names = dict(saved)
    frame.classes.append(number)
    was_dead = frame.is_dead
    run(frame, cls.ir.body)
    frame.is_dead = was_dead
    frame.classes.pop()
    frame.names, frame.has_paths = saved, saved_paths
    values = table.one(Kind.CLASS, number)
    for decorator in cls.ir.decorators:
        for v in evaluate(frame, decorator):
            if table.kinds[v] is Kind.FUNC:
                call_values(frame, table.single(v), [(False, values)], [], cls.ir.line)
            elif table.kinds[v] is Kind.OUTSIDE and decorator[0] != "c":
                frame.edge(table.a[v], "call", cls.ir.line)
    frame.bind(cls.ir.name, values)
    if frame.classes:
        frame.solver.grow(("m", frame.classes[-1], cls.ir.name), values)
