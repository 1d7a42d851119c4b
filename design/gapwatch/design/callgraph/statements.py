"""Interprets statements: how each kind moves values and where control may go."""

from __future__ import annotations

from typing import Any

from gapwatch.design.callgraph.annotations import annotated
from gapwatch.design.callgraph.assignment import assign_to, continue_pairs, has_same_shape
from gapwatch.design.callgraph.attributes import module_member
from gapwatch.design.callgraph.calls import call_function, call_values, method_result, run_model_method
from gapwatch.design.callgraph.definitions import bind_defaults, define_class, define_function
from gapwatch.design.callgraph.expressions import elements_of, evaluate, evaluate_test
from gapwatch.design.callgraph.frame import Frame, Interpreter, join
from gapwatch.design.callgraph.narrowing import narrow
from gapwatch.design.callgraph.solver import Solver, is_method
from gapwatch.design.callgraph.values import EMPTY, Kind, Values
from gapwatch.design.source.ir import Body, Stmt
from gapwatch.design.source.program import import_target

#: The parts of the evaluator, assembled here so that no lower module imports a higher one.
_INTERPRETER = Interpreter(
    evaluate=evaluate,
    elements_of=elements_of,
    call_values=call_values,
    call_function=call_function,
    method_result=method_result,
    run_model_method=run_model_method,
    assign_to=assign_to,
    bind_defaults=bind_defaults,
)


def interpret_scope(solver: Solver, number: int) -> None:
    """Interpret one scope once and store its result in the solver."""
    frame = Frame(solver, number, _INTERPRETER)
    try:
        if frame.info.parent >= 0:
            _enter(frame)
        interpret_body(frame, frame.function.body)
    except RecursionError:
        frame.result.unresolved.append((frame.function.line, frame.function.name, "too_deep"))
    _publish(frame)
    solver.results[number] = frame.result


def _enter(frame: Frame) -> None:
    """Bind the parameters: arguments of all callers, annotations and defaults."""
    info, table = frame.info, frame.table
    for position, param in enumerate(frame.function.params):
        values = frame.read(("p", info.number, position))
        if param.kind == "*":
            values |= table.one(Kind.BOX, "t", ("*", info.number))
            if param.annotation is not None:
                box = table.value(Kind.BOX, "t", ("*", info.number))
                frame.solver.put(box, None, annotated(frame, param.annotation))
        elif param.kind == "**":
            values |= table.one(Kind.BOX, "d", ("**", info.number))
        elif param.annotation is not None:
            values |= annotated(frame, param.annotation)
        if position == 0 and is_method(info):
            kind = Kind.CLASS if info.is_classmethod else Kind.INST
            values |= table.one(kind, info.owner)
        if param.default is not None:
            values |= frame.read(("default", info.number, position))
        frame.names[param.name] = frame.parameters[param.name] = values


def _publish(frame: Frame) -> None:
    """Make the final names of this scope visible to inner functions and importers."""
    if frame.number in frame.solver.enclosing:
        for name, values in frame.names.items():
            frame.solver.grow(("v", frame.number, name), values)


def interpret_body(frame: Frame, body: Body) -> None:
    """Interpret a block; `frame.is_dead` is True afterwards if its end is not reached."""
    frame.is_dead = False
    for s in body:
        frame.line = s[1]
        _STATEMENTS[s[0]](frame, s)
        if frame.is_dead:
            # The rest of the block is not reached.
            return


def _expression(frame: Frame, s: Stmt) -> None:
    evaluate(frame, s[2])


def _assign(frame: Frame, s: Stmt) -> None:
    _, _, targets, value, annotation = s
    values = evaluate(frame, value) if value is not None else EMPTY
    if annotation is not None:
        values |= annotated(frame, annotation)
    for target in targets:
        if value is None and target[0] != "n" and not values:
            continue
        if value is not None and value[0] in "tl" and target[0] == "t" and has_same_shape(target, value):
            # a, b = f, g: binding the parts directly is exact; the container would mix the turns of a loop.
            continue_pairs(frame, target, value)
        else:
            assign_to(frame, target, values)
    if frame.classes and len(targets) == 1 and targets[0][0] == "n":
        cls = frame.classes[-1]
        frame.solver.grow(("m", cls, targets[0][1]), values)
        if value is not None and value[0] == "c":
            for keyword, factory in value[3]:
                if keyword == "default_factory":
                    frame.solver.grow(("factory", cls), evaluate(frame, factory))


def _augment(frame: Frame, s: Stmt) -> None:
    _, line, target, operator, value = s
    right = evaluate(frame, value)
    left = evaluate(frame, target)
    name = _IN_PLACE.get(operator.rstrip("="))
    result = left
    if name is not None:
        result |= method_result(frame, left, (f"__i{name}__", f"__{name}__"), [right], line)
    for box in right:
        if frame.table.kinds[box] is Kind.BOX:
            inside = frame.read(("all", box))
            for mine in left:
                if frame.table.kinds[mine] is Kind.BOX:
                    frame.solver.put(mine, None, inside)
    assign_to(frame, target, result)


_IN_PLACE = {"+": "add", "-": "sub", "*": "mul", "/": "truediv", "|": "or", "&": "and", "%": "mod", "@": "matmul"}


def _return(frame: Frame, s: Stmt) -> None:
    value = s[2]
    if value is not None:
        values = evaluate(frame, value)
        number = frame.number
        if value[0] == "n" and frame.info.returned and values is frame.parameters.get(value[1]):
            # A returned parameter: `call_function` returns to each call its own argument.
            pass
        else:
            frame.solver.grow(("r", number), values)
    frame.is_dead = True


def _if(frame: Frame, s: Stmt) -> None:
    _, _, clauses, orelse, _ = s
    ends: list[dict[str, Values]] = []
    before = frame.names
    for test, body in clauses:
        frame.names = dict(before)
        evaluate_test(frame, test)
        before = dict(frame.names)
        narrow(frame, test)
        interpret_body(frame, body)
        if not frame.is_dead:
            ends.append(frame.names)
    frame.names = before
    interpret_body(frame, orelse)
    if not frame.is_dead:
        ends.append(frame.names)
    _meet(frame, ends)


def _meet(frame: Frame, ends: list[dict[str, Values]]) -> None:
    frame.is_dead = not ends
    if ends:
        frame.names = ends[0]
        for other in ends[1:]:
            frame.names = join(frame.names, other)


def _for(frame: Frame, s: Stmt) -> None:
    _, line, target, iterable, body, orelse, _ = s
    element = elements_of(frame, evaluate(frame, iterable), line)
    _loop(frame, line, body, orelse, lambda: assign_to(frame, target, element))


def _while(frame: Frame, s: Stmt) -> None:
    _, line, test, body, orelse, _ = s
    _loop(frame, line, body, orelse, lambda: evaluate_test(frame, test))


def _loop(frame: Frame, line: int, body: Body, orelse: Body, head: Any) -> None:
    """Interpret a loop once; values that a later turn brings to its head are stored for the next round.

    names at the head = join(names before, values that earlier rounds brought back); a change marks the scope as dirty.
    """
    solver = frame.solver
    key = (frame.number, line if not frame.classes else -line)
    memory = solver.loop_memory.get(key)
    before = frame.names
    if memory:
        frame.names = join(before, memory)
    frame.left.append([])
    head()
    interpret_body(frame, body)
    left = frame.left.pop()
    ends = left if frame.is_dead else [*left, frame.names]
    back: dict[str, Values] = {}
    for end in ends:
        for name, values in end.items():
            known = before.get(name)
            if known is not None and known is not values and not values <= known:
                back[name] = back.get(name, EMPTY) | values
    if back and any(not v <= (memory or {}).get(k, EMPTY) for k, v in back.items()):
        solver.loop_memory[key] = join(memory, back) if memory else back
        solver.dirty.add(frame.number)
    frame.is_dead = False
    _meet(frame, [before, *ends])
    if orelse:
        interpret_body(frame, orelse)


def _jump(frame: Frame, s: Stmt) -> None:
    if frame.left:
        frame.left[-1].append(frame.names)
    frame.is_dead = True


def _try(frame: Frame, s: Stmt) -> None:
    _, _, body, handlers, orelse, final, _ = s
    before = dict(frame.names)
    interpret_body(frame, body)
    # An exception may be raised anywhere in the block: handlers see the names of before and after.
    broken = join(before, frame.names)
    ends: list[dict[str, Values]] = []
    if not frame.is_dead:
        interpret_body(frame, orelse)
        if not frame.is_dead:
            ends.append(frame.names)
    for _, kind, name, handler, _ in handlers:
        frame.names = dict(broken)
        if kind is not None:
            caught = evaluate(frame, kind)
            if name is not None:
                frame.bind(name, annotated(frame, kind if kind[0] != "t" else ("o", "|", kind[1], 0)) or caught)
        interpret_body(frame, handler)
        if not frame.is_dead:
            ends.append(frame.names)
    if final:
        was_dead = not ends
        frame.names = dict(broken)
        for end in ends:
            frame.names = join(frame.names, end)
        interpret_body(frame, final)
        if was_dead:
            frame.is_dead = True
    else:
        _meet(frame, ends)


def _with(frame: Frame, s: Stmt) -> None:
    _, line, items, body, _ = s
    for e, target in items:
        manager = evaluate(frame, e)
        entered = method_result(frame, manager, ("__enter__", "__aenter__"), [], line, kind="call")
        method_result(frame, manager, ("__exit__", "__aexit__"), [EMPTY] * 3, line, kind="call")
        kinds = frame.table.kinds
        for v in manager:
            if kinds[v] is Kind.GENERATOR:
                entered |= frame.read(("y", frame.table.a[v]))
            elif kinds[v] in (Kind.OUTSIDE, Kind.PLAIN):
                entered |= frame.table.single(v)
        if target is not None:
            assign_to(frame, target, entered)
    interpret_body(frame, body)


def _raise(frame: Frame, s: Stmt) -> None:
    _, line, value, cause = s
    if value is not None:
        values = evaluate(frame, value)
        classes = frozenset(v for v in values if frame.table.kinds[v] is Kind.CLASS)
        if classes:
            call_values(frame, classes, [], [], line)
    if cause is not None:
        evaluate(frame, cause)
    frame.is_dead = True


def _def(frame: Frame, s: Stmt) -> None:
    define_function(frame, s[2])


def _class(frame: Frame, s: Stmt) -> None:
    define_class(frame, s[2], interpret_body)


def _import(frame: Frame, s: Stmt) -> None:
    index, table = frame.program.index, frame.table
    for dotted, alias in s[2]:
        bound = dotted if alias else dotted.partition(".")[0]
        target = index.resolve(frame.module, bound)
        if target is None and not alias and index.resolve(frame.module, dotted) is not None:
            # `import pkg.sub` where pkg is the root itself.
            target = index.by_parts.get(())
        values = table.one(Kind.MODULE, target) if target is not None else table.one(Kind.OUTSIDE, bound)
        name = alias or bound
        if not alias and name in frame.names and target is None:
            values |= frame.names[name]
        frame.bind(name, values)


def _from(frame: Frame, s: Stmt) -> None:
    _, _, level, dotted, names = s
    index = frame.program.index
    target = import_target(index, frame.module, level, dotted)
    if names is None:
        _from_star(frame, target, dotted)
        return
    for name, alias in names:
        values = EMPTY
        if target is not None:
            values = module_member(frame, target, name)
        elif level:
            parts = index.relative(frame.module, level, dotted)[1]
            if parts:
                values = frame.table.one(Kind.OUTSIDE, ".".join((*parts, name)))
        else:
            module = index.resolve(frame.module, f"{dotted}.{name}")
            if module is not None:
                values = frame.table.one(Kind.MODULE, module)
            else:
                values = frame.table.one(Kind.OUTSIDE, f"{dotted}.{name}")
        frame.bind(alias or name, values)


def _from_star(frame: Frame, target: int | None, dotted: str) -> None:
    if target is None or frame.program.irs[target] is None:
        if target is None:
            frame.solver.grow(("star", frame.module), frame.table.one(Kind.OUTSIDE, dotted))
        return
    body = frame.program.functions[frame.program.bodies[target]]
    for name in sorted(body.ir.local_names):
        if not name.startswith("_"):
            frame.bind(name, frame.read(("v", body.number, name)))


def _delete(frame: Frame, s: Stmt) -> None:
    for target in s[2]:
        if target[0] == "n":
            frame.names.pop(target[1], None)


def _assert(frame: Frame, s: Stmt) -> None:
    evaluate_test(frame, s[2])
    if s[3] is not None:
        evaluate(frame, s[3])
    narrow(frame, s[2])


def _match(frame: Frame, s: Stmt) -> None:
    _, _, subject, cases, _ = s
    values = evaluate(frame, subject)
    before = frame.names
    ends = [before]
    for captures, classes, guard, body in cases:
        frame.names = dict(before)
        matched = [annotated(frame, cls) for cls in classes]
        for name in captures:
            inside = matched[0] if matched and len(captures) == 1 else EMPTY
            frame.bind(name, inside or values)
        if subject[0] == "n" and matched and matched[0]:
            frame.names[subject[1]] = matched[0]
        if guard is not None:
            evaluate(frame, guard)
        interpret_body(frame, body)
        if not frame.is_dead:
            ends.append(frame.names)
    _meet(frame, ends)


_STATEMENTS: dict[str, Any] = {
    "expr": _expression,
    "assign": _assign,
    "aug": _augment,
    "return": _return,
    "if": _if,
    "for": _for,
    "while": _while,
    "try": _try,
    "with": _with,
    "raise": _raise,
    "def": _def,
    "class": _class,
    "import": _import,
    "from": _from,
    "del": _delete,
    "assert": _assert,
    "break": _jump,
    "continue": _jump,
    "match": _match,
}
