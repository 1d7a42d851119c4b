"""Interprets calls: the functions that run, their arguments and their results."""

from __future__ import annotations

from typing import Any

from gapwatch.design.callgraph.arguments import pass_arguments
from gapwatch.design.callgraph.frame import Frame, Named, Positional
from gapwatch.design.callgraph.library_calls import call_builtin, call_method, call_outside
from gapwatch.design.callgraph.solver import is_method
from gapwatch.design.callgraph.values import EMPTY, Kind, Values
from gapwatch.design.source.program import last_name

#: Most callees of one call site; an unbounded registry would lead everywhere.
MAX_TARGETS = 60

#: Depth of nested models whose validators and factories are followed.
MAX_NESTED = 2

#: Decorators that run a method while a model is built or written out.
_VALIDATORS = frozenset({"field_validator", "model_validator", "validator", "root_validator"})
#: Methods that a generated constructor runs at its end.
_AFTER_INIT = ("__post_init__", "model_post_init", "__attrs_post_init__")
_SERIALISERS = frozenset({"field_serializer", "model_serializer", "computed_field"})


def call_values(frame: Frame, functions: Values, positional: Positional | list[Any], named: Named, line: int) -> Values:
    """Call every possible callee.

    Args:
        frame: The scope under interpretation.
        functions: Values of the callee.
        positional: Pairs of (is it `*x`, values), or plain values.
        named: Pairs of (keyword or None for `**x`, values).
        line: Line of the call, 1-based; 0 records no edge.
    """
    out = EMPTY
    table = frame.table
    for v in functions if len(functions) <= MAX_TARGETS else sorted(functions)[:MAX_TARGETS]:
        kind = table.kinds[v]
        if kind is Kind.FUNC:
            receiver, edge = table.b[v], "call"
            if isinstance(receiver, tuple):
                receiver, edge = receiver
            out |= call_function(frame, table.a[v], receiver, positional, named, line, edge)
        elif kind is Kind.CLASS:
            out |= construct(frame, table.a[v], positional, named, line)
        elif kind is Kind.OUTSIDE:
            out |= call_outside(frame, table.a[v], positional, named, line)
        elif kind is Kind.BUILTIN:
            out |= call_builtin(frame, table.a[v], positional, named, line)
        elif kind is Kind.INST:
            # Modules of DSPy and of torch are called, and run `forward`; components of AdalFlow and layers run `call`.
            out |= method_result(
                frame, table.single(v), ("__call__", "forward", "call"), positional, line, named, "call"
            )
        elif kind is Kind.METHOD:
            out |= call_method(frame, table.a[v], table.b[v], positional, named, line)
        elif kind is Kind.DECORATED:
            out |= _call_decorated(frame, v, positional, named, line)
        elif kind is Kind.PARTIAL:
            bound = table.value(Kind.BOX, "t", table.b[v])
            # Read as a whole, so that an argument that is bound later triggers another round.
            frame.read(("all", bound))
            keys = sorted(k for k in frame.solver.box_keys.get(bound, ()) if isinstance(k, int))
            first = [(False, frame.read(("s", bound, key))) for key in keys]
            extra = [
                (k, frame.read(("s", bound, k))) for k in frame.solver.box_keys.get(bound, ()) if isinstance(k, str)
            ]
            out |= call_values(frame, table.single(table.a[v]), [*first, *positional], [*named, *extra], line)
    return out


def call_function(
    frame: Frame, number: int, receiver: int, positional: Positional | list[Any], named: Named, line: int, kind: str
) -> Values:
    """Call one function: record the edge, add the arguments to its parameters, return its result.

    Args:
        frame: The scope under interpretation.
        number: Number of the function.
        receiver: Value of the instance or class; -1 for none.
        positional: As for `call_values`.
        named: As for `call_values`.
        line: Line of the call, 1-based; 0 records no edge.
        kind: Kind of the edge.
    """
    info = frame.program.functions[number]
    if line:
        frame.edge(number, kind, line)
    given = [pair if isinstance(pair, tuple) else (False, pair) for pair in positional]
    if (receiver >= 0 and is_method(info)) or (receiver >= 0 and info.owner < 0):
        given.insert(0, (False, frame.table.single(receiver)))
    passed = pass_arguments(frame, number, given, named)
    if info.ir.is_generator:
        return frame.table.one(Kind.GENERATOR, number)
    out = frame.read(("r", number))
    for position in info.returned:
        own = passed.get(position)
        out |= own if own is not None else frame.read(("default", number, position))
    if info.ir.returns is not None:
        out |= _declared_result(frame, number, receiver)
    return out


def _declared_result(frame: Frame, number: int, receiver: int) -> Values:
    """Return the values of the result's annotation, evaluated once in the defining scope."""
    if receiver >= 0 and last_name(frame.program.functions[number].ir.returns or ("k", None)) == "Self":
        if frame.table.kinds[receiver] is Kind.CLASS:
            return frame.table.one(Kind.INST, frame.table.a[receiver])
        return frame.table.single(receiver)
    return frame.read(("declared", number))


def construct(frame: Frame, cls: int, positional: Positional | list[Any], named: Named, line: int) -> Values:
    """Create an instance: call its constructor, or assign the arguments to its fields if it has none."""
    solver, table = frame.solver, frame.table
    instance = table.value(Kind.INST, cls)
    init = solver.find_method(cls, "__init__")
    new = solver.find_method(cls, "__new__")
    if new >= 0:
        call_function(frame, new, table.value(Kind.CLASS, cls), positional, named, line, "construct")
    if init >= 0:
        call_function(frame, init, instance, positional, named, line, "construct")
    elif new < 0:
        frame.edge(-1 - cls, "construct", line)
        for base in solver.outside_bases(cls)[:2]:
            if not base.startswith("<"):
                frame.edge(f"{base}.__init__", "construct", line)
    if init < 0:
        _fill_fields(frame, cls, positional, named)
    for name in _AFTER_INIT:
        after = solver.find_method(cls, name)
        if after >= 0 and init < 0:
            call_function(frame, after, instance, [], [], line, "construct")
    _run_hooks(frame, cls, _VALIDATORS, line)
    if init < 0:
        _run_factories(frame, cls, line, 0)
    return table.single(instance)


def _run_factories(frame: Frame, cls: int, line: int, depth: int) -> None:
    """Record edges to the `default_factory` functions of an instance, nested models included."""
    kinds, a = frame.table.kinds, frame.table.a
    for base in frame.solver.mro(cls):
        for v in sorted(frame.read(("factory", base))):
            if kinds[v] is Kind.FUNC:
                frame.edge(a[v], "framework", line)
            elif kinds[v] is Kind.CLASS and depth < MAX_NESTED and a[v] != cls:
                for name in ("__init__", *_AFTER_INIT):
                    if (method := frame.solver.find_method(a[v], name)) >= 0:
                        frame.edge(method, "framework", line)
                _run_hooks(frame, a[v], _VALIDATORS, line)
                _run_factories(frame, a[v], line, depth + 1)


def _fill_fields(frame: Frame, cls: int, positional: Positional | list[Any], named: Named) -> None:
    """Assign the arguments of a generated constructor (dataclass, model) to the fields."""
    for name, values in named:
        if name is not None and name in frame.solver.stored_names:
            frame.solver.grow(("a", cls, name), values)
    names: list[str] = []
    for base in reversed(frame.solver.mro(cls)):
        names.extend(n for n in frame.program.classes[base].field_names if n not in names)
    for name, pair in zip(names, positional, strict=False):
        values = pair[1] if isinstance(pair, tuple) else pair
        frame.solver.grow(("a", cls, name), values)


def _run_hooks(frame: Frame, cls: int, decorators: frozenset[str], line: int) -> None:
    """Record framework edges to the methods that a framework calls by their decorators."""
    for number in hooks_of(frame, cls, decorators):
        frame.edge(number, "framework", line)


def hooks_of(frame: Frame, cls: int, decorators: frozenset[str]) -> list[int]:
    """Return the methods of a class, inherited ones included, that bear one of some decorators."""
    out: list[int] = []
    for base in frame.solver.mro(cls):
        for number in frame.solver.methods[base].values():
            function = frame.program.functions[number].ir
            if function.decorators and any(last_name(d) in decorators for d in function.decorators):
                out.append(number)
    return out


def run_model_method(frame: Frame, cls: int, name: str, line: int) -> None:
    """Run the validators (for `model_validate` and the like) or serialisers (for `model_dump`) of a class."""
    if name.startswith(("model_validate", "parse_", "from_orm", "model_construct", "validate_python")):
        _run_hooks(frame, cls, _VALIDATORS, line)
    elif name.startswith(("model_dump", "dict", "json")):
        _run_hooks(frame, cls, _SERIALISERS, line)


def method_result(
    frame: Frame,
    values: Values,
    names: tuple[str, ...],
    positional: Positional | list[Any],
    line: int,
    named: Named | None = None,
    kind: str = "protocol",
) -> Values:
    """Call the first method of a list that an instance has, for operators and protocols.

    Args:
        frame: The scope under interpretation.
        values: Values of the object.
        names: Names of the methods, in order of preference.
        positional: Arguments by position.
        line: Line of the operation, 1-based; 0 records no edge.
        named: Arguments by name.
        kind: Kind of the edge.
    """
    out = EMPTY
    table, solver = frame.table, frame.solver
    for v in values:
        if table.kinds[v] not in (Kind.INST, Kind.SUPER):
            continue
        cls = table.a[v]
        for name in names:
            method = solver.find_method(cls, name)
            if method < 0:
                continue
            info = frame.program.functions[method]
            if info.is_abstract:
                for sub in solver.descendants(cls)[:20]:
                    found = solver.methods[sub].get(name)
                    if found is not None:
                        receiver = table.value(Kind.INST, sub)
                        out |= call_function(frame, found, receiver, positional, named or [], line, "cha")
            out |= call_function(frame, method, v, positional, named or [], line, kind)
            break
        else:
            for name in names:
                stored = EMPTY
                for base in solver.mro(cls):
                    if name in frame.program.classes[base].ir.local_names:
                        stored |= frame.read(("m", base, name))
                if stored:
                    out |= call_values(
                        frame, stored, [(False, table.single(v)), *_pairs(positional)], named or [], line
                    )
                    break
    return out


def _pairs(positional: Positional | list[Any]) -> Positional:
    return [pair if isinstance(pair, tuple) else (False, pair) for pair in positional]


def _call_decorated(frame: Frame, v: int, positional: Positional | list[Any], named: Named, line: int) -> Values:
    """Call a decorated function: the wrapper runs, and through it the function as written."""
    table = frame.table
    number, inner = table.a[v], table.b[v]
    receiver = -1
    if isinstance(inner, tuple):
        inner, receiver = inner
    given = _pairs(positional)
    if receiver >= 0:
        given = [(False, table.single(receiver)), *given]
    result = call_values(frame, table.single(inner), given, named, line)
    info = frame.program.functions[number]
    frame.edge(number, "decorated", line)
    pass_arguments(frame, number, given, named)
    if info.ir.is_generator:
        return table.one(Kind.GENERATOR, number)
    own = frame.read(("r", number)) | frame.read(("declared", number))
    # The wrapper's result mixes those of all functions that it wraps; the function's own result is more precise.
    return own or result
