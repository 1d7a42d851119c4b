"""Interprets reading and writing of attributes."""

from __future__ import annotations

from collections.abc import Callable

from gapwatch.design.callgraph.frame import Frame
from gapwatch.design.callgraph.solver import is_method
from gapwatch.design.callgraph.values import EMPTY, Kind, Values

#: Most dots of a library name; `x = x.next()` in a loop would otherwise grow without end.
MAX_DOTS = 8


def module_member(frame: Frame, module: int, name: str) -> Values:
    """Return the values of `module.name`: a name of its body, else the module of that name below it."""
    program = frame.program
    info = program.index.modules[module]
    body = program.bodies[module]
    if body >= 0 and name in program.functions[body].ir.local_names:
        values = frame.read(("v", body, name))
        if values:
            return values
    child = info.children.get(name)
    if child is not None:
        return frame.table.one(Kind.MODULE, child)
    if body >= 0 and "__getattr__" in program.functions[body].ir.local_names:
        return _late_member(frame, body, name)
    stars = frame.solver.cells.get(("star", module))
    if stars is not None:
        kinds, a = frame.table.kinds, frame.table.a
        return frozenset(
            frame.table.value(Kind.OUTSIDE, f"{a[v]}.{name}") for v in stars.values if kinds[v] is Kind.OUTSIDE
        )
    return EMPTY


def _late_member(frame: Frame, body: int, name: str) -> Values:
    """Return the result of a module's `__getattr__`, by which packages load their parts on demand."""
    reader = frame.read(("v", body, "__getattr__"))
    return frame.interpreter.call_values(frame, reader, [(False, frame.table.one(Kind.TEXT, name))], [], frame.line)


def attribute_of(frame: Frame, values: Values, name: str, line: int) -> Values:
    """Return the values of `x.name` for every value of x; reading a property is an edge."""
    out = EMPTY
    kinds = frame.table.kinds
    for v in values:
        reader = _READERS.get(kinds[v])
        if reader is not None:
            out |= reader(frame, v, name, line)
    return out


def _of_instance(frame: Frame, v: int, name: str, line: int) -> Values:
    cls = frame.table.a[v]
    if name == "__class__":
        return frame.table.one(Kind.CLASS, cls)
    if frame.solver.has_getattribute and (reader := frame.solver.find_method(cls, "__getattribute__")) >= 0:
        frame.interpreter.call_function(
            frame, reader, v, [(False, frame.table.one(Kind.TEXT, name))], [], line, "property"
        )
    return class_attribute(frame, cls, name, v, line)


def class_attribute(frame: Frame, cls: int, name: str, receiver: int, line: int, after: int = -1) -> Values:
    """Return an attribute as an instance of a class sees it.

    The order is: stored attributes and methods of the class and its bases, subclasses if the member is abstract or
    missing, `__getattr__`, bases outside the repository.

    Args:
        frame: The scope under interpretation.
        cls: Number of the class.
        name: Name of the attribute or method.
        receiver: Value of the instance or class that methods are bound to; -1 for none.
        line: Line of the access, 1-based.
        after: Start behind this class of the order, as `super()` does; -1 for the class itself.
    """
    solver, table = frame.solver, frame.table
    out = EMPTY
    order = solver.mro(cls)
    if after >= 0:
        order = order[order.index(after) + 1 :] if after in order else []
    method = -1
    is_stored = after < 0 and name in solver.stored_names
    for candidate in order:
        found = solver.methods[candidate].get(name)
        if is_stored:
            out |= frame.read(("a", candidate, name))
        if found is not None:
            method = found
            out |= _bound(frame, found, receiver, line)
            break
        if name not in frame.program.classes[candidate].ir.local_names:
            continue
        member = frame.read(("m", candidate, name))
        if member:
            out |= _bind_members(frame, member, receiver, line)
            break
    info = frame.program.functions[method] if method >= 0 else None
    is_open = info.is_abstract if info is not None else not out
    if is_open and receiver >= 0 and after < 0 and table.kinds[receiver] is Kind.INST:
        out |= _of_descendants(frame, cls, name, line)
    if not out and solver.has_getattr and receiver >= 0 and after < 0 and table.kinds[receiver] is Kind.INST:
        reader = solver.find_method(cls, "__getattr__")
        if reader >= 0:
            given = frame.interpreter.call_function(
                frame, reader, receiver, [(False, table.one(Kind.TEXT, name))], [], line, "property"
            )
            stand_in = _stood_in_for(frame, reader)
            if stand_in and stand_in != name:
                inner = class_attribute(frame, cls, stand_in, receiver, 0)
                given = attribute_of(frame, inner - table.single(receiver), name, line) or given
            out |= given
    if not out:
        outside = [base for candidate in order for base in frame.program.classes[candidate].outside] or (
            solver.outside_bases(cls) if after >= 0 else []
        )
        if outside and receiver >= 0:
            frame.interpreter.run_model_method(frame, cls, name, line)
        for base in outside[:3]:
            if base.count(".") < MAX_DOTS and not base.startswith("<"):
                out |= table.one(Kind.OUTSIDE, f"{base}.{name}")
    return out


def _stood_in_for(frame: Frame, reader: int) -> str:
    """Return the attribute to which `__getattr__` delegates (`return getattr(self.inner, name)`), or ''."""
    function = frame.program.functions[reader].ir
    if len(function.params) != 2 or not function.body or function.body[-1][0] != "return":
        return ""
    owner, wanted = (param.name for param in function.params)
    value = function.body[-1][2]
    if value is None or value[0] != "c" or value[1] != ("n", "getattr") or len(value[2]) < 2:
        return ""
    inner, name = value[2][:2]
    is_own = inner[0] == "a" and inner[1] == ("n", owner) and name == ("n", wanted)
    return str(inner[2]) if is_own else ""


def _of_descendants(frame: Frame, cls: int, name: str, line: int) -> Values:
    """Return the definitions of an abstract or missing member in the subclasses."""
    solver, table = frame.solver, frame.table
    out = EMPTY
    seen: set[int] = set()
    for sub in solver.descendants(cls):
        found = solver.find_method(sub, name)
        if found >= 0 and found not in seen and not frame.program.functions[found].is_abstract:
            seen.add(found)
            out |= _bound(frame, found, table.value(Kind.INST, sub), line, "cha")
        elif found < 0 and name in solver.stored_names:
            out |= frame.read(("a", sub, name))
    return out


def _bound(frame: Frame, method: int, receiver: int, line: int, kind: str = "call") -> Values:
    """Return a method bound to its receiver; a property is called at once."""
    info = frame.program.functions[method]
    table = frame.table
    if info.is_property:
        if receiver < 0 or table.kinds[receiver] is Kind.CLASS:
            return table.one(Kind.FUNC, method)
        return frame.interpreter.call_function(frame, method, receiver, [], [], line, "property")
    decorated = frame.read(("deco", method))
    if decorated:
        return _bind_members(frame, decorated, receiver, line)
    if info.is_static or receiver < 0:
        bound = -1
    elif info.is_classmethod and table.kinds[receiver] is Kind.INST:
        bound = table.value(Kind.CLASS, table.a[receiver])
    elif table.kinds[receiver] is Kind.CLASS and not info.is_classmethod:
        bound = -1
    else:
        bound = receiver
    if kind == "cha":
        return table.one(Kind.FUNC, method, (bound, "cha"))
    return table.one(Kind.FUNC, method, bound)


def _bind_members(frame: Frame, values: Values, receiver: int, line: int) -> Values:
    """Bind the functions among the values of a class member to the receiver; other values stay."""
    table = frame.table
    out = EMPTY
    for v in values:
        kind = table.kinds[v]
        if kind is Kind.FUNC and table.b[v] == -1:
            info = frame.program.functions[table.a[v]]
            if info.owner >= 0 and info.is_property:
                out |= _bound(frame, table.a[v], receiver, line)
            elif receiver >= 0 and table.kinds[receiver] is Kind.INST and not info.is_static:
                bound = table.value(Kind.CLASS, table.a[receiver]) if info.is_classmethod else receiver
                out |= table.one(Kind.FUNC, table.a[v], bound)
            elif receiver >= 0 and info.is_classmethod:
                out |= table.one(Kind.FUNC, table.a[v], receiver)
            else:
                out |= table.single(v)
        elif kind is Kind.DECORATED and receiver >= 0:
            info = frame.program.functions[table.a[v]]
            bind = is_method(info) and (table.kinds[receiver] is Kind.INST or info.is_classmethod)
            out |= table.one(Kind.DECORATED, table.a[v], (table.b[v], receiver)) if bind else table.single(v)
        else:
            out |= table.single(v)
    return out


def _of_class(frame: Frame, v: int, name: str, line: int) -> Values:
    cls = frame.table.a[v]
    if name == "__subclasses__":
        return frame.table.one(Kind.METHOD, name, v)
    for candidate in frame.solver.mro(cls):
        if name not in frame.program.classes[candidate].ir.local_names:
            continue
        nested = frame.read(("m", candidate, name))
        if nested and frame.solver.methods[candidate].get(name) is None:
            return _bind_members(frame, nested, v, line) | frame.read(("a", candidate, name))
    return class_attribute(frame, cls, name, v, line)


def _of_module(frame: Frame, v: int, name: str, line: int) -> Values:
    del line
    return module_member(frame, frame.table.a[v], name)


def _of_outside(frame: Frame, v: int, name: str, line: int) -> Values:
    del line
    dotted = frame.table.a[v]
    if dotted.startswith("argparse.") and ".parse_" in dotted:
        stored = frame.read(("namespace", name))
        if stored:
            return stored
    table = frame.table
    found = table.members.get((v, name))
    if found is None:
        found = EMPTY if dotted.count(".") >= MAX_DOTS else table.one(Kind.OUTSIDE, f"{dotted}.{name}")
        table.members[v, name] = found
    return found


def _of_super(frame: Frame, v: int, name: str, line: int) -> Values:
    cls, receiver = frame.table.a[v], frame.table.b[v]
    kinds = frame.table.kinds
    start = frame.table.a[receiver] if receiver >= 0 and kinds[receiver] in (Kind.INST, Kind.CLASS) else cls
    if cls not in frame.solver.mro(start):
        start = cls
    return class_attribute(frame, start, name, receiver, line, after=cls)


def _of_box(frame: Frame, v: int, name: str, line: int) -> Values:
    del line
    members = frame.table.members
    found = members.get((v, name))
    if found is None:
        found = members[v, name] = frame.table.one(Kind.METHOD, name, v)
    return found


def _of_function(frame: Frame, v: int, name: str, line: int) -> Values:
    del line
    if name == "__wrapped__":
        return frame.table.single(v)
    return frame.read(("fa", frame.table.a[v], name)) | frame.table.one(Kind.METHOD, name, v)


def _of_decorated(frame: Frame, v: int, name: str, line: int) -> Values:
    inner = frame.table.b[v]
    if isinstance(inner, tuple):
        inner = inner[0]
    return attribute_of(frame, frame.table.single(inner), name, line)


_READERS: dict[int, Callable[[Frame, int, str, int], Values]] = {
    Kind.INST: _of_instance,
    Kind.CLASS: _of_class,
    Kind.MODULE: _of_module,
    Kind.OUTSIDE: _of_outside,
    Kind.SUPER: _of_super,
    Kind.BOX: _of_box,
    Kind.PLAIN: _of_box,
    Kind.TEXT: _of_box,
    Kind.AFFIX: _of_box,
    Kind.GENERATOR: _of_box,
    Kind.FUNC: _of_function,
    Kind.PARTIAL: _of_box,
    Kind.TASK: _of_box,
    Kind.DECORATED: _of_decorated,
    Kind.BUILTIN: _of_box,
}


def store_attribute(frame: Frame, values: Values, name: str, stored: Values, line: int) -> None:
    """Interpret `x.name = stored` for every value of x; setters are called."""
    table, solver = frame.table, frame.solver
    for v in values:
        kind = table.kinds[v]
        if kind in (Kind.INST, Kind.CLASS):
            if not _call_setter(frame, v, name, stored, line):
                solver.grow(("a", table.a[v], name), stored)
            if solver.has_setattr and kind is Kind.INST:
                _call_setattr(frame, v, name, stored, line)
        elif kind is Kind.SUPER:
            solver.grow(("a", table.a[v], name), stored)
        elif kind is Kind.MODULE:
            body = frame.program.bodies[table.a[v]]
            if body >= 0:
                solver.grow(("v", body, name), stored)
        elif kind is Kind.FUNC:
            solver.grow(("fa", table.a[v], name), stored)


def _call_setattr(frame: Frame, v: int, name: str, stored: Values, line: int) -> None:
    """Call the `__setattr__` of a class."""
    writer = frame.solver.find_method(frame.table.a[v], "__setattr__")
    if writer >= 0:
        text = frame.table.one(Kind.TEXT, name)
        frame.interpreter.call_function(frame, writer, v, [(False, text), (False, stored)], [], line, "property")


def _call_setter(frame: Frame, v: int, name: str, stored: Values, line: int) -> bool:
    if not frame.solver.setters:
        return False
    for cls in frame.solver.mro(frame.table.a[v]):
        setter = frame.solver.setters.get((cls, name))
        if setter is not None:
            frame.interpreter.call_function(frame, setter, v, [(False, stored)], [], line, "property")
            return True
    return False
