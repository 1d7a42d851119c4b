"""Evaluates expressions: their possible values and the edges that evaluation takes."""

from __future__ import annotations

import re
from typing import Any

from gapwatch.design.callgraph.annotations import annotated
from gapwatch.design.callgraph.attributes import attribute_of, store_attribute
from gapwatch.design.callgraph.calls import call_values, method_result
from gapwatch.design.callgraph.containers import copy_box, read_slot
from gapwatch.design.callgraph.frame import PATH, Frame
from gapwatch.design.callgraph.values import EMPTY, Kind, Values, text_with_gap
from gapwatch.design.source.ir import Expr, dotted_text
from gapwatch.design.source.program import last_name

#: Longest constant text that may name a method or a key, in characters; longer ones are prose.
_MAX_TEXT = 80


_PERCENT = re.compile(r"%[-#0 +]*\d*(?:\.\d+)?[a-z]")


def evaluate(frame: Frame, e: Expr) -> Values:
    """Return the possible values of an expression."""
    return _EVALUATORS[e[0]](frame, e)  # type: ignore[no-any-return]


def _name(frame: Frame, e: Expr) -> Values:
    found = frame.names.get(e[1])
    return found if found else frame.look_up(e[1])


def _constant(frame: Frame, e: Expr) -> Values:
    value = e[1]
    kind = type(value)
    if kind is str:
        table = frame.table
        known = table.texts.get(value)
        if known is None:
            known = table.one(Kind.TEXT, value) if len(value) <= _MAX_TEXT else table.one(Kind.PLAIN, "str")
            table.texts[value] = known
        return known
    if kind is int:
        return frame.table.one(Kind.NUMBER, value) if -1000 <= value <= 1000 else EMPTY
    return EMPTY


def _attribute(frame: Frame, e: Expr) -> Values:
    values = evaluate(frame, e[1])
    return attribute_of(frame, values, e[2], e[3]) if values else EMPTY


def _call(frame: Frame, e: Expr) -> Values:
    _, callee, args, keywords, line = e
    if callee[0] == "n":
        special = _SPECIAL.get(callee[1])
        if special is not None and callee[1] not in frame.names:
            found = frame.look_up(callee[1])
            if found == frame.table.one(Kind.BUILTIN, callee[1]):
                result: Values | None = special(frame, e)
                if result is not None:
                    frame.result.resolved += 1
                    frame.edge(f"<builtin>.{callee[1]}", "call", line)
                    return result
    functions = evaluate(frame, callee)
    positional = []
    for arg in args:
        if arg[0] == "*":
            positional.append((True, evaluate(frame, arg[1])))
        else:
            positional.append((False, evaluate(frame, arg)))
    named = [(name, evaluate(frame, value)) for name, value in keywords]
    if frame.has_paths or (callee[0] == "a" and callee[2] == "update"):
        _forget_changed(frame, e, functions)
    if not functions:
        _unresolved(frame, callee, line)
        return EMPTY
    frame.result.resolved += 1
    return call_values(frame, functions, positional, named, line)


def _forget_changed(frame: Frame, e: Expr, functions: Values) -> None:
    """Drop access paths of containers that a call may change: its arguments, or all if it runs repository code."""
    _, callee, args, keywords, _ = e
    kinds = frame.table.kinds
    if any(kinds[v] in (Kind.FUNC, Kind.DECORATED, Kind.PARTIAL) for v in functions):
        frame.forget_paths(None)
        return
    for arg in (*args, *(value for _, value in keywords)):
        if arg[0] == "n":
            frame.forget_paths(arg[1])
    if callee[0] == "a" and callee[1][0] == "n":
        if callee[2] == "update" and len(args) == 1 and args[0][0] == "d":
            for key, value in args[0][1]:
                if key is not None and key[0] == "k":
                    frame.has_paths = True
                    frame.names[PATH.join((callee[1][1], repr(key[1])))] = evaluate(frame, value)
        elif callee[2] not in ("get", "items", "keys", "values", "copy"):
            frame.forget_paths(callee[1][1])


def _unresolved(frame: Frame, callee: Expr, line: int) -> None:
    if callee[0] == "n":
        cause = "unknown_name"
    elif callee[0] == "a":
        cause = "unknown_receiver"
    else:
        cause = "dynamic"
    frame.result.unresolved.append((line, dotted_text(callee)[:80], cause))


# -- builtins that need the expressions of their arguments ---------------------------------------------------------


def _super(frame: Frame, e: Expr) -> Values | None:
    owner = frame.info.owner
    info = frame.info
    while owner < 0 and info.parent >= 0:
        info = frame.program.functions[info.parent]
        owner = info.owner
    if e[2]:
        for v in evaluate(frame, e[2][0]):
            if frame.table.kinds[v] is Kind.CLASS:
                owner = frame.table.a[v]
    if owner < 0:
        return None
    params = info.ir.params
    receivers = frame.look_up(params[0].name) if params else EMPTY
    out = EMPTY
    for v in receivers:
        if frame.table.kinds[v] in (Kind.INST, Kind.CLASS) and owner in frame.solver.mro(frame.table.a[v]):
            out |= frame.table.one(Kind.SUPER, owner, v)
    return out or frame.table.one(Kind.SUPER, owner, frame.table.value(Kind.INST, owner))


def _getattr(frame: Frame, e: Expr) -> Values | None:
    if len(e[2]) < 2:
        return None
    values = evaluate(frame, e[2][0])
    out = EMPTY
    for default in e[2][2:]:
        out |= evaluate(frame, default)
    name = e[2][1]
    for v in evaluate(frame, name):
        if frame.table.kinds[v] is Kind.TEXT and frame.table.a[v].isidentifier():
            out |= attribute_of(frame, values, frame.table.a[v], e[4])
        elif frame.table.kinds[v] is Kind.AFFIX:
            for owner in values:
                if frame.table.kinds[owner] in (Kind.INST, Kind.CLASS):
                    out |= _by_affix(frame, owner, frame.table.a[v], frame.table.b[v])
    return out


def _text_ends(e: Expr) -> tuple[str, str]:
    """Return the constant beginning and end of a composed text."""
    if e[0] == "o" and e[1] == "%" and e[2][0][0] == "k" and isinstance(e[2][0][1], str):
        pieces = _PERCENT.split(e[2][0][1])
        return (pieces[0], pieces[-1]) if len(pieces) > 1 else ("", "")
    parts = e[1] if e[0] == "f" else e[2] if e[0] == "o" and e[1] == "+" else ()
    if not parts:
        return "", ""
    ends = [p if isinstance(p, str) else p[1] if p[0] == "k" and isinstance(p[1], str) else "" for p in parts]
    return ends[0], ends[-1] if len(ends) > 1 else ""


def _by_affix(frame: Frame, v: int, prefix: str, suffix: str) -> Values:
    out = EMPTY
    for cls in frame.solver.mro(frame.table.a[v]):
        for name, method in frame.solver.methods[cls].items():
            if name.startswith(prefix) and name.endswith(suffix) and name not in (prefix, suffix):
                out |= frame.table.one(Kind.FUNC, method, (v, "dynamic"))
    return out


def _isinstance(frame: Frame, e: Expr) -> Values | None:
    for arg in e[2]:
        evaluate(frame, arg)
    return EMPTY


def _type(frame: Frame, e: Expr) -> Values | None:
    if len(e[2]) != 1:
        return None
    table = frame.table
    return frozenset(
        table.value(Kind.CLASS, table.a[v]) for v in evaluate(frame, e[2][0]) if table.kinds[v] is Kind.INST
    )


def _setattr(frame: Frame, e: Expr) -> Values | None:
    if len(e[2]) == 3:
        target, name, value = (evaluate(frame, arg) for arg in e[2])
        for v in name:
            if frame.table.kinds[v] is Kind.TEXT:
                store_attribute(frame, target, frame.table.a[v], value, e[4])
    return EMPTY


_SPECIAL: dict[str, Any] = {
    "super": _super,
    "getattr": _getattr,
    "isinstance": _isinstance,
    "issubclass": _isinstance,
    "hasattr": _isinstance,
    "type": _type,
    "setattr": _setattr,
}


# -- containers ----------------------------------------------------------------------------------------------------


def _subscript(frame: Frame, e: Expr) -> Values:
    _, value, index, line = e
    if frame.has_paths and index[0] == "k":
        path = frame.path_of(e)
        known = frame.names.get(path) if path is not None else None
        if known is not None:
            evaluate(frame, value)
            return known
    values = evaluate(frame, value)
    keys = evaluate(frame, index)
    out = EMPTY
    table = frame.table
    for v in values:
        kind = table.kinds[v]
        if kind is Kind.BOX:
            out |= _slice(frame, v, index) if index[0] == "sl" else read_slot(frame, v, keys)
        elif kind is Kind.INST:
            out |= method_result(frame, table.single(v), ("__getitem__",), [keys], line)
        elif kind is Kind.OUTSIDE or kind is Kind.CLASS:
            out |= table.single(v)
    if not out and value[0] in "na" and last_name(value) not in ("environ",):
        kinds = [table.kinds[v] for v in values]
        if any(k in (Kind.BUILTIN, Kind.OUTSIDE) for k in kinds):
            # A type alias such as `Documents = list[Document]`.
            return annotated(frame, e)
    return out


def _slice(frame: Frame, box: int, index: Expr) -> Values:
    """Return the container of a slice; the container itself if the start of the slice is unknown."""
    table, solver = frame.table, frame.solver
    start = index[1][1] if index[1] is not None and index[1][0] == "k" else 0
    known = [k for k in solver.box_keys.get(box, ()) if isinstance(k, int)]
    if table.a[box] not in "tl" or not isinstance(start, int) or start <= 0 or not known:
        return table.single(box)
    made = table.value(Kind.BOX, table.a[box], ("slice", box, start))
    for key in known:
        if key >= start:
            solver.put(made, key - start, frame.read(("s", box, key)))
    solver.put(made, None, frame.read(("s", box, None)))
    return table.single(made)


def _sequence(frame: Frame, e: Expr) -> Values:
    tag, parts, site = e
    solver, table = frame.solver, frame.table
    box = table.value(Kind.BOX, tag, (frame.module, site))
    unknown_places = False
    for i, part in enumerate(parts):
        if part[0] == "*":
            inside = elements_of(frame, evaluate(frame, part[1]), 0)
            solver.put(box, None, inside)
            unknown_places = True
        else:
            values = evaluate(frame, part)
            if values:
                solver.put(box, None if unknown_places or tag == "S" else i, values)
            elif tag == "t":
                solver.box_keys.setdefault(box, [])
                if i not in solver.box_keys[box]:
                    solver.box_keys[box].append(i)
    return table.single(box)


def _dictionary(frame: Frame, e: Expr) -> Values:
    _, pairs, site = e
    solver, table = frame.solver, frame.table
    box = table.value(Kind.BOX, "d", (frame.module, site))
    for key, value in pairs:
        values = evaluate(frame, value)
        if key is None:
            for other in values:
                if table.kinds[other] is Kind.BOX and other != box:
                    copy_box(frame, other, box)
            continue
        keys = evaluate(frame, key)
        solver.grow(("keys", box), keys)
        constants = [table.a[v] for v in keys if table.kinds[v] in (Kind.TEXT, Kind.NUMBER)]
        for constant in constants or [None]:
            solver.put(box, constant, values)
    return table.single(box)


def elements_of(frame: Frame, values: Values, line: int) -> Values:
    """Return the values of iterating; with a line other than 0, the protocol's methods are edges."""
    out = EMPTY
    table = frame.table
    for v in values:
        kind = table.kinds[v]
        if kind is Kind.BOX:
            out |= frame.read(("keys", v)) if table.a[v] == "d" else frame.read(("all", v))
        elif kind is Kind.GENERATOR:
            out |= frame.read(("y", table.a[v]))
            if line:
                _resume(frame, table.a[v], line)
        elif kind is Kind.OUTSIDE:
            out |= table.single(v)
        elif kind is Kind.INST:
            iterators = method_result(frame, table.single(v), ("__iter__", "__aiter__"), [], line, kind="call")
            turned = method_result(frame, iterators, ("__next__", "__anext__"), [], line, kind="call")
            others = frozenset(i for i in iterators if table.kinds[i] is not Kind.INST)
            out |= turned | (elements_of(frame, others, 0) if others else EMPTY)
            if not iterators:
                out |= method_result(frame, table.single(v), ("__getitem__",), [EMPTY], line, kind="call")
    return out


def _resume(frame: Frame, generator: int, line: int) -> None:
    """Record that taking from a generator runs its body, also if another function made the generator.

    It is an edge kind of its own, because the generators that a parameter holds are known less reliably than callees.
    """
    cls = frame.classes[-1] if frame.classes else -1
    made_here = any((generator, kind, cls) in frame.result.edges for kind in ("call", "decorated", "cha", "dynamic"))
    if not made_here and generator != frame.number:
        frame.edge(generator, "resume", line)


def _comprehension(frame: Frame, e: Expr) -> Values:
    tag, element, value, clauses, site = e
    solver, table = frame.solver, frame.table
    saved = frame.names
    frame.names = dict(saved)
    for target, iterable, tests in clauses:
        frame.interpreter.assign_to(frame, target, elements_of(frame, evaluate(frame, iterable), frame.line))
        for test in tests:
            evaluate(frame, test)
    kind = {"lc": "l", "gc": "g", "sc": "S", "dc": "d"}[tag]
    box = table.value(Kind.BOX, kind, (frame.module, site))
    first = evaluate(frame, element)
    if tag == "dc":
        solver.grow(("keys", box), first)
        solver.put(box, None, evaluate(frame, value))
    else:
        solver.put(box, None, first)
    frame.names = saved
    return table.single(box)


def _line_of(e: Expr) -> int:
    return next((part for part in reversed(e) if isinstance(part, int)), 0)


# -- the rest ------------------------------------------------------------------------------------------------------


def _lambda(frame: Frame, e: Expr) -> Values:
    number = frame.program.first_function[frame.module] + e[1]
    frame.interpreter.bind_defaults(frame, number)
    return frame.table.one(Kind.FUNC, number)


def _conditional(frame: Frame, e: Expr) -> Values:
    evaluate_test(frame, e[1])
    return evaluate(frame, e[2]) | evaluate(frame, e[3])


def _boolean(frame: Frame, e: Expr) -> Values:
    out = EMPTY
    last = len(e[1]) - 1
    for i, operand in enumerate(e[1]):
        values = evaluate(frame, operand)
        if i < last:
            ask_truth(frame, operand, values)
        out |= values
    return out


def ask_truth(frame: Frame, e: Expr, values: Values) -> None:
    """Call `__bool__` or `__len__` of a value in a condition."""
    if values and frame.solver.has_truth and e[0] not in "bq!k" and frame.is_telling(values):
        method_result(frame, values, ("__bool__", "__len__"), [], _line_of(e) if e[0] != "n" else frame.line)


def evaluate_test(frame: Frame, e: Expr) -> None:
    """Evaluate a condition."""
    ask_truth(frame, e, evaluate(frame, e))


def _binary(frame: Frame, e: Expr) -> Values:
    _, operator, operands, line = e
    left = evaluate(frame, operands[0])
    name = _OPERATORS.get(operator)
    for operand in operands[1:]:
        right = evaluate(frame, operand)
        left = _combine(frame, left, right, name, line)
    if operator in "+%":
        prefix, suffix = _text_ends(e)
        if prefix or suffix:
            made = text_with_gap(frame.table, prefix, suffix)
            return made if frame.table.kinds[min(made)] is Kind.AFFIX else left
    return left


def _combine(frame: Frame, left: Values, right: Values, name: str | None, line: int) -> Values:
    table = frame.table
    kinds = table.kinds
    out = EMPTY
    own = frozenset(v for v in left if kinds[v] is Kind.INST)
    if name is not None and own:
        out |= method_result(frame, own, (f"__{name}__",), [right], line)
    if name is not None and not out and not own and any(kinds[v] is Kind.INST for v in right):
        out |= method_result(frame, right, (f"__r{name}__",), [left], line)
    for v in (*left, *right):
        if kinds[v] in (Kind.BOX, Kind.OUTSIDE, Kind.PLAIN):
            out |= table.single(v)
        elif kinds[v] in (Kind.TEXT, Kind.AFFIX):
            out |= table.one(Kind.PLAIN, "str")
        elif kinds[v] is Kind.CLASS and name == "or":
            # A name for several types: `Tool = FunctionTool | SearchTool`.
            out |= table.single(v)
    return out


_OPERATORS = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "/": "truediv",
    "//": "floordiv",
    "%": "mod",
    "**": "pow",
    "|": "or",
    "&": "and",
    "^": "xor",
    "@": "matmul",
    "<<": "lshift",
    ">>": "rshift",
}


def _unary(frame: Frame, e: Expr) -> Values:
    return evaluate(frame, e[2])


def _not(frame: Frame, e: Expr) -> Values:
    evaluate_test(frame, e[1])
    return EMPTY


_COMPARISONS = {
    "==": "__eq__",
    "!=": "__eq__",
    "<": "__lt__",
    ">": "__gt__",
    "<=": "__le__",
    ">=": "__ge__",
    "in": "__contains__",
}


def _comparison(frame: Frame, e: Expr) -> Values:
    _, operators, operands, line = e
    values = [evaluate(frame, operand) for operand in operands]
    for i, operator in enumerate(operators[: len(values) - 1]):
        name = _COMPARISONS.get(operator.removeprefix("not ").strip() if "in" in operator else operator)
        if name == "__eq__" and "k" in (operands[i][0], operands[i + 1][0]):
            # An operand compared with a constant is a text or a number and has no method to call.
            continue
        if name is not None:
            subject, other = (values[i + 1], values[i]) if name == "__contains__" else (values[i], values[i + 1])
            if frame.is_telling(subject) if name in ("__eq__", "__contains__") else subject:
                method_result(frame, subject, (name,), [other], line)
    return EMPTY


def _await(frame: Frame, e: Expr) -> Values:
    return awaited(frame, evaluate(frame, e[1]))


def awaited(frame: Frame, values: Values) -> Values:
    """Return the values of `await`: the value itself, or the value of a task."""
    table = frame.table
    if not any(table.kinds[v] is Kind.TASK for v in values):
        return values
    out = EMPTY
    for v in values:
        out |= table.single(table.a[v] if table.kinds[v] is Kind.TASK else v)
    return out


def _yield(frame: Frame, e: Expr) -> Values:
    if e[1] is not None:
        frame.solver.grow(("y", frame.number), evaluate(frame, e[1]))
    return EMPTY


def _yield_from(frame: Frame, e: Expr) -> Values:
    values = evaluate(frame, e[1])
    frame.solver.grow(("y", frame.number), elements_of(frame, values, frame.line))
    out = EMPTY
    for v in values:
        if frame.table.kinds[v] is Kind.GENERATOR:
            out |= frame.read(("r", frame.table.a[v]))
    return out


def _splat(frame: Frame, e: Expr) -> Values:
    return evaluate(frame, e[1])


def _walrus(frame: Frame, e: Expr) -> Values:
    values = evaluate(frame, e[2])
    frame.bind(e[1], values)
    return values


def _fstring(frame: Frame, e: Expr) -> Values:
    for part in e[1]:
        if not isinstance(part, str):
            values = evaluate(frame, part)
            if any(frame.table.kinds[v] is Kind.INST for v in values):
                method_result(frame, values, ("__format__", "__str__"), [], _line_of(part) or frame.line)
    return text_with_gap(frame.table, *_text_ends(e))


def _slice_expression(frame: Frame, e: Expr) -> Values:
    for part in e[1:]:
        if part is not None:
            evaluate(frame, part)
    return EMPTY


_EVALUATORS: dict[str, Any] = {
    "n": _name,
    "k": _constant,
    "a": _attribute,
    "c": _call,
    "s": _subscript,
    "sl": _slice_expression,
    "l": _sequence,
    "t": _sequence,
    "S": _sequence,
    "d": _dictionary,
    "lc": _comprehension,
    "gc": _comprehension,
    "sc": _comprehension,
    "dc": _comprehension,
    "L": _lambda,
    "?": _conditional,
    "b": _boolean,
    "o": _binary,
    "u": _unary,
    "!": _not,
    "q": _comparison,
    "w": _await,
    "y": _yield,
    "Y": _yield_from,
    "*": _splat,
    ":=": _walrus,
    "f": _fstring,
}
