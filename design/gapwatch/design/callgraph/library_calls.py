"""Interprets calls of builtins, builtin methods and library functions."""

from __future__ import annotations

import re
from typing import Any

from gapwatch.design.callgraph.callback_runners import RUNNER_METHODS, RUNNERS, TRANSPARENT
from gapwatch.design.callgraph.containers import copy_box, read_slot
from gapwatch.design.callgraph.frame import Frame
from gapwatch.design.callgraph.function_attributes import call_attribute, callback_targets
from gapwatch.design.callgraph.streamed_chains import ask_streamed
from gapwatch.design.callgraph.values import EMPTY, Kind, Values, text_with_gap

_TYPES = {"str": "str", "dict": "dict", "list": "list", "set": "set", "tuple": "tuple", "int": "int", "bytes": "bytes"}


def call_outside(frame: Frame, dotted: str, positional: list[Any], named: list[Any], line: int) -> Values:
    """Call a library function: record the edge, run callbacks, return its result as far as it is known."""
    frame.edge(dotted, "call", line)
    given: list[Values] = [pair[1] if isinstance(pair, tuple) else pair for pair in positional]
    keywords = dict(named)
    name = dotted.rpartition(".")[2]
    if dotted in ("functools.partial", "functools.partialmethod") and given:
        return _partial(frame, given, named, line)
    if dotted == "functools.wraps":
        return EMPTY
    _run_given(frame, dotted, name, given, keywords, line)
    ask_streamed(frame, dotted, [*given, *keywords.values()], line)
    if name == "set_defaults" and dotted.startswith("argparse."):
        for keyword, values in named:
            frame.solver.grow(("namespace", keyword), values)
    if dotted == "typing.cast" and len(given) > 1:
        return _instances(frame, given[0]) | given[1]
    if name in _GIVES_INSTANCE and len(given) == 1 and not named and (made := _instances(frame, given[0])):
        return made
    if dotted in _AS_MAPPING and given:
        return _as_mapping(frame, given[0])
    if dotted == "importlib.import_module" and given:
        return _imported(frame, given[0])
    if dotted == "asyncio.gather":
        return _gathered(frame, given, line)
    if dotted in TRANSPARENT and given:
        return given[0]
    if name in ("add_node", "compile") and dotted.startswith("langgraph."):
        return frame.table.one(Kind.OUTSIDE, dotted) | _built(frame, name, [*given, *keywords.values()])
    if name == "RunnableParallel" and dotted.startswith("langchain"):
        return frame.table.one(Kind.OUTSIDE, dotted) | _models_inside(frame, [*given, *keywords.values()])
    if dotted.count(".") >= 8 or dotted.startswith(("typing.", "logging.", "warnings.", "os.path.")):
        return EMPTY
    return frame.table.one(Kind.OUTSIDE, dotted)


#: Methods by which a container of objects gives the one of a class: `injector.get(Store)`, `container.resolve(Store)`.
_GIVES_INSTANCE = frozenset({"get", "resolve", "get_instance", "create_object", "aget"})


def _instances(frame: Frame, classes: Values) -> Values:
    """Return the instances of the program's classes among some values."""
    kinds, table = frame.table.kinds, frame.table
    return frozenset(table.value(Kind.INST, table.a[v]) for v in classes if kinds[v] is Kind.CLASS)


#: Names of models of LangChain, and of what they make: `ChatOpenAI`, `LanguageModelLike.bind_tools`.
_MODEL = re.compile(r"^langchain\w*\.((.+\.)?(language_models|chat_models|llms)\.|Chat[A-Z])")


def _built(frame: Frame, name: str, given: list[Values]) -> Values:
    """Note the nodes of a graph that are models or chains with one, which no function asks: the compiled graph does."""
    table, key = frame.table, ("asks", frame.number)
    if name == "compile":
        return frame.read(key)
    if any(table.kinds[v] is Kind.OUTSIDE and _MODEL.search(table.a[v]) for values in given for v in values):
        frame.solver.grow(key, table.one(Kind.OUTSIDE, "langchain_core.runnables.Runnable"))
    return EMPTY


def _models_inside(frame: Frame, given: list[Values]) -> Values:
    """Return the models, and chains with one, among the members of runnables that run at the same time."""
    table = frame.table
    members = [
        frame.read(("all", v)) if table.kinds[v] is Kind.BOX else table.single(v) for values in given for v in values
    ]
    return frozenset(v for one in members for v in one if table.kinds[v] is Kind.OUTSIDE and _MODEL.search(table.a[v]))


#: Functions that return the fields of an instance as a dictionary.
_AS_MAPPING = frozenset({"dataclasses.asdict", "attr.asdict", "attrs.asdict"})


def _as_mapping(frame: Frame, instances: Values) -> Values:
    """Return the dictionary of an instance's fields (`asdict`), through which functions are often passed on."""
    table, solver, out = frame.table, frame.solver, EMPTY
    for v in sorted(instances):
        if table.kinds[v] is not Kind.INST:
            continue
        box = table.value(Kind.BOX, "d", ("fields", table.a[v]))
        for cls in solver.mro(table.a[v]):
            for name in frame.program.classes[cls].field_names:
                solver.put(box, name, frame.read(("a", cls, name)) | frame.read(("m", cls, name)))
                solver.grow(("keys", box), table.one(Kind.TEXT, name))
        out |= table.single(box)
    return out


def _imported(frame: Frame, names: Values) -> Values:
    """Return the modules of `import_module` with a constant name."""
    table, index, out = frame.table, frame.program.index, EMPTY
    for v in sorted(names):
        name = table.a[v] if table.kinds[v] is Kind.TEXT else ""
        plain = name.lstrip(".")
        if not plain.replace(".", "").isidentifier():
            continue
        level = len(name) - len(plain)
        module = index.relative(frame.module, level, plain)[0] if level else index.resolve(frame.module, plain)
        if module is not None:
            out |= table.one(Kind.MODULE, module)
        elif not level:
            out |= table.one(Kind.OUTSIDE, plain)
    return out


def _partial(frame: Frame, given: list[Values], named: list[Any], line: int) -> Values:
    table, out = frame.table, EMPTY
    for v in given[0]:
        key = ("partial", frame.number, line, v)
        box = table.value(Kind.BOX, "t", key)
        for i, values in enumerate(given[1:]):
            frame.solver.put(box, i, values)
        for name, values in named:
            if name is not None:
                frame.solver.put(box, name, values)
        out |= table.one(Kind.PARTIAL, v, key)
    return out


def _gathered(frame: Frame, given: list[Values], line: int) -> Values:
    box = frame.table.value(Kind.BOX, "l", ("gather", frame.number, line))
    for i, values in enumerate(given):
        inside = EMPTY
        for v in values:
            # gather(*tasks) takes the values of the container, not the container.
            inside |= frame.read(("all", v)) if frame.table.kinds[v] is Kind.BOX else frame.table.single(v)
        frame.solver.put(box, i if len(given) > 1 else None, inside)
    return frame.table.single(box)


def _run_given(
    frame: Frame, dotted: str, name: str, given: list[Values], keywords: dict[str | None, Values], line: int
) -> None:
    """Record functions passed to a library as callbacks; call those that the library is known to run."""
    if not given and not keywords:
        return
    is_function, kinds = frame.table.is_function, frame.table.kinds
    places = RUNNERS.get(dotted) or RUNNER_METHODS.get(name, ())
    run: Values = EMPTY
    for place in places:
        chosen = given[place] if isinstance(place, int) and place < len(given) else keywords.get(place, EMPTY)  # type: ignore[arg-type]
        run |= frozenset(v for v in chosen if is_function[v] or kinds[v] is Kind.INST)
    handed = [v for values in given for v in values if is_function[v]]
    lower = name.lower()
    if "tool" in lower or "agent" in lower:
        for values in given:
            handed += _functions_inside(frame, values)
    for keyword, values in keywords.items():
        handed += [v for v in values if is_function[v]]
        if keyword in _REGISTRIES:
            handed += _functions_inside(frame, values)
    if not run and not handed:
        return
    for v in sorted(run.union(handed))[:40]:
        for target in callback_targets(frame, v):
            frame.edge(target, "callback", line)
    if run:
        after = [i for i, values in enumerate(given) if values & run]
        rest = given[after[0] + 1 :] if after else []
        frame.interpreter.call_values(frame, run, [(False, values) for values in rest], [], 0)


#: Keywords whose lists of functions a library will call.
_REGISTRIES = frozenset({"tools", "functions", "handlers", "callbacks", "hooks", "nodes", "steps", "dependencies"})


def _functions_inside(frame: Frame, values: Values) -> list[int]:
    """Return the functions inside containers, as in `tools=[a, b]`."""
    table = frame.table
    boxes = [v for v in values if table.kinds[v] is Kind.BOX]
    return [v for box in boxes for v in frame.read(("all", box)) if table.is_function[v]]


_FIRST_IS_CALLED = frozenset({"map", "filter"})
_KEY_IS_CALLED = frozenset({"sorted", "min", "max"})
_KEEPS_ELEMENTS = frozenset({"sorted", "list", "tuple", "set", "frozenset", "reversed", "iter", "filter", "aiter"})
_PROTOCOL = {
    "str": ("__str__", "__repr__"),
    "repr": ("__repr__",),
    "len": ("__len__",),
    "iter": ("__iter__",),
    "next": ("__next__",),
    "hash": ("__hash__",),
    "bool": ("__bool__", "__len__"),
    "int": ("__int__",),
    "float": ("__float__",),
    "abs": ("__abs__",),
    "format": ("__format__", "__str__"),
    "anext": ("__anext__",),
    "aiter": ("__aiter__",),
    "print": ("__str__", "__repr__"),
    "reversed": ("__reversed__",),
}


def call_builtin(frame: Frame, name: str, positional: list[Any], named: list[Any], line: int) -> Values:
    """Call a builtin: record edges to the special methods it runs, return its result as far as it matters."""
    table = frame.table
    frame.edge(f"<builtin>.{name}", "call", line)
    given: list[Values] = [pair[1] if isinstance(pair, tuple) else pair for pair in positional]
    first = given[0] if given else EMPTY
    out = EMPTY
    if name in _PROTOCOL:
        for values in given if name == "print" else given[:1]:
            out |= frame.interpreter.method_result(frame, values, _PROTOCOL[name], [], line)
    if name in _KEY_IS_CALLED:
        for keyword, values in named:
            if keyword == "key":
                frame.interpreter.call_values(
                    frame, values, [(False, frame.interpreter.elements_of(frame, first, 0))], [], line
                )
        out |= frame.interpreter.elements_of(frame, first, 0) | (first if name != "sorted" else EMPTY)
    if name in _FIRST_IS_CALLED:
        return _mapped(frame, name, given, line)
    if name == "next":
        return out | frame.interpreter.elements_of(frame, first, 0) | (given[1] if len(given) > 1 else EMPTY)
    if name in ("enumerate", "zip"):
        return _zipped(frame, name, given, line)
    if name == "dict":
        return _dict(frame, first, named, line)
    if name in _KEEPS_ELEMENTS:
        elements = frame.interpreter.elements_of(frame, first, line)
        if not elements:
            plain = _TYPES.get(name)
            return table.one(Kind.PLAIN, plain) if plain else EMPTY
        same = all(table.kinds[v] is Kind.BOX and table.a[v] in "tl" for v in first)
        if same and name in ("list", "tuple", "iter"):
            return first
        box = table.value(Kind.BOX, "t" if name == "tuple" else "l", ("of", frame.number, line, name))
        frame.solver.put(box, None, elements)
        return table.single(box)
    if name in _TYPES:
        return table.one(Kind.PLAIN, _TYPES[name])
    if name == "open":
        return table.one(Kind.OUTSIDE, "io.TextIOWrapper")
    return out


def _mapped(frame: Frame, name: str, given: list[Values], line: int) -> Values:
    if not given:
        return EMPTY
    kinds = frame.table.kinds
    callables = {Kind.FUNC, Kind.DECORATED, Kind.PARTIAL, Kind.CLASS, Kind.INST, Kind.BUILTIN, Kind.OUTSIDE}
    function, items = given[0], given[1:]
    if not any(kinds[v] in callables for v in function) and any(
        kinds[v] in (Kind.FUNC, Kind.DECORATED) for values in items for v in values
    ):
        function, items = items[0], [given[0]]
    elements = [frame.interpreter.elements_of(frame, values, 0) for values in items]
    result = frame.interpreter.call_values(frame, function, [(False, values) for values in elements], [], line)
    box = frame.table.value(Kind.BOX, "g", (name, frame.number, line))
    frame.solver.put(box, None, result if name == "map" else (elements[0] if elements else EMPTY))
    return frame.table.single(box)


def _zipped(frame: Frame, name: str, given: list[Values], line: int) -> Values:
    table = frame.table
    pair = table.value(Kind.BOX, "t", (name, "pair", frame.number, line))
    shift = 1 if name == "enumerate" else 0
    for i, values in enumerate(given if name == "zip" else given[:1]):
        frame.solver.put(pair, i + shift, frame.interpreter.elements_of(frame, values, line))
    box = table.value(Kind.BOX, "g", (name, frame.number, line))
    frame.solver.put(box, None, table.single(pair))
    return table.single(box)


def _dict(frame: Frame, first: Values, named: list[Any], line: int) -> Values:
    table = frame.table
    box = table.value(Kind.BOX, "d", ("dict", frame.number, line))
    for v in first:
        if table.kinds[v] is Kind.BOX and v != box and table.a[v] == "d":
            copy_box(frame, v, box)
    for name, values in named:
        if name is not None:
            frame.solver.put(box, name, values)
            frame.solver.grow(("keys", box), table.one(Kind.TEXT, name))
    return table.single(box)


def call_method(frame: Frame, name: str, owner: int, positional: list[Any], named: list[Any], line: int) -> Values:
    """Call a method of a builtin type, of a function or of a generator, or `__subclasses__` of a class."""
    table = frame.table
    kind = table.kinds[owner]
    given: list[Values] = [pair[1] if isinstance(pair, tuple) else pair for pair in positional]
    if kind is Kind.BUILTIN:
        frame.edge(f"<builtin>.{table.a[owner]}.{name}", "call", line)
        return EMPTY
    if kind is Kind.FUNC:
        return call_attribute(frame, name, owner, positional, named, line)
    if kind is Kind.CLASS:
        box = table.value(Kind.BOX, "l", ("subclasses", table.a[owner]))
        frame.solver.put(box, None, frame.read(("subclasses", table.a[owner])))
        return table.single(box)
    if kind is Kind.GENERATOR:
        return frame.read(("y", table.a[owner])) if name in ("__next__", "send", "__anext__", "asend") else EMPTY
    if kind is Kind.TASK:
        return table.single(table.a[owner])
    type_name = _type_name(frame, owner)
    frame.edge(f"<builtin>.{type_name}.{name}", "call", line)
    if kind is Kind.BOX:
        return _box_method(frame, name, owner, given)
    if kind is Kind.AFFIX and name in ("lower", "upper", "strip", "casefold", "replace"):
        ends = [
            getattr(end, name)() if name in ("lower", "upper", "casefold") else end
            for end in (table.a[owner], table.b[owner])
        ]
        return text_with_gap(table, *ends)
    if kind is Kind.TEXT and name == "format":
        before, opened, rest = table.a[owner].partition("{")
        return text_with_gap(table, before, rest.rpartition("}")[2] if opened else "")
    if type_name == "str" and name in ("format", "join", "strip", "lower", "upper", "replace", "title"):
        return table.one(Kind.PLAIN, "str")
    if type_name == "str" and name in ("split", "splitlines", "rsplit"):
        return table.one(Kind.PLAIN, "list")
    return EMPTY


def _type_name(frame: Frame, owner: int) -> str:
    table = frame.table
    kind = table.kinds[owner]
    if kind in (Kind.TEXT, Kind.AFFIX):
        return "str"
    if kind is Kind.BOX:
        return {"l": "list", "t": "tuple", "S": "set", "d": "dict", "g": "iterator"}[table.a[owner]]
    return str(table.a[owner]) if kind is Kind.PLAIN else "object"


_READS = frozenset({"get", "pop", "popleft", "setdefault", "popitem", "__getitem__", "get_nowait"})


def _box_method(frame: Frame, name: str, box: int, given: list[Values]) -> Values:
    table, solver = frame.table, frame.solver
    first = given[0] if given else EMPTY
    is_dict = table.a[box] == "d"
    if name in ("append", "add", "appendleft", "put", "put_nowait", "insert"):
        solver.put(box, None, given[-1] if given else EMPTY)
    elif name in ("extend", "update", "extendleft", "union"):
        for v in first:
            if table.kinds[v] is Kind.BOX and v != box:
                if is_dict:
                    copy_box(frame, v, box)
                else:
                    solver.put(box, None, frame.read(("all", v)))
        return table.single(box)
    elif name == "setdefault" and len(given) > 1:
        solver.grow(("keys", box), first)
        keys = [table.a[v] for v in first if table.kinds[v] in (Kind.TEXT, Kind.NUMBER)]
        for key in keys or [None]:
            solver.put(box, key, given[1])
        return read_slot(frame, box, first)
    elif name in _READS:
        default = given[1] if is_dict and len(given) > 1 else EMPTY
        return (read_slot(frame, box, first) if given and is_dict else frame.read(("all", box))) | default
    elif name in ("values", "copy", "items", "keys"):
        return _view(frame, name, box)
    return EMPTY


def _view(frame: Frame, name: str, box: int) -> Values:
    table, solver = frame.table, frame.solver
    if name == "copy":
        return table.single(box)
    made = table.value(Kind.BOX, "g", (name, box))
    inside = frame.read(("all", box))
    if name == "values":
        solver.put(made, None, inside)
    elif name == "keys":
        solver.put(made, None, frame.read(("keys", box)))
    else:
        pair = table.value(Kind.BOX, "t", ("item", box))
        solver.put(pair, 0, frame.read(("keys", box)))
        solver.put(pair, 1, inside)
        solver.put(made, None, table.single(pair))
    return table.single(made)
