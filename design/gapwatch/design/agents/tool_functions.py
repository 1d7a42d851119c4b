"""Finds the functions that a model calls as tools, and the lines at which they give the model an error.

A call of a tool fails where an exception leaves the function, and where a line of it tells the model of an error.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from gapwatch.design.agents.told_errors import NO_SUCH_TOOL, caught_names, says_no_such_tool
from gapwatch.design.patterns.call_sites import CallSites
from gapwatch.design.patterns.code_walk import arguments_of, keyword, text_of, unwrapped, walk
from gapwatch.design.patterns.hit import PatternHit, Subject
from gapwatch.design.source.ir import (
    Expr,
    callee_of,
    handler_body,
    handlers_of,
    is_call,
    is_member,
    line_of,
    members_in,
    owner_of,
    pairs_in,
    positional_of,
    targets_of,
    value_of,
)
from gapwatch.design.source.program import ClassInfo, Program, last_name, statements

#: Decorators that make a tool of a function: `@tool`, `@mcp.tool()`, `@function_tool`, `@register_tool`.
_MAKES_TOOL = re.compile(r"(^|_)tool(_plain|_function)?$|^(kernel|ai|sk)_function$|^register_for_(llm|execution)$")
#: Classes of tools, and their methods that a model calls.
_OF_TOOLS = re.compile(r"(Tool|SearchResults|SearchRun|QueryRun)$")
_IS_RUN = re.compile(r"^_*a?(run|execute|call|invoke|forward)(_impl|_async|_tool|_action)?_*$")
#: Where functions are handed to a model as its tools: variables and arguments, calls, and arguments of calls.
_TOOLS = re.compile(
    r"(^|_)(tools|tool_(map|functions|registry|handlers)|tools_by_name|(available|callable)_functions|function_map)$",
    re.I,
)
_TAKES_TOOLS = re.compile(
    r"^(bind_tools|from_function|from_defaults|add_tools?|register_tools?|create_\w*agent|ToolNode|\w*Agent"
    r"|\w*Tool(Spec|Definition)?)$"
)
#: Calls that make a tool of the function which is their argument: `StructuredTool.from_function(look)`.
_MAKES_ONE = re.compile(r"^(from_function|from_defaults|add_tool|register_tool|tool|function_tool|\w*Tool)$")
#: Names of what makes an object.
_MADE = re.compile(r"^([A-Z]\w*$|(create|make|build|get)_\w+$|as_tool$|tools?$)")
_PATTERN = "tells_model_error"
#: Lines between a text and where it is given back.
_NEAR = 5
_MAY_SAY = re.compile(NO_SUCH_TOOL.pattern.encode(), re.I | re.S)
#: Exceptions of a look-up that finds nothing.
_MISSING = re.compile(r"^(KeyError|IndexError|LookupError|StopIteration)$|NotFound|DoesNotExist|NoResult")
_AS_TOOL = ("func", "fn", "function", "coroutine", "async_fn", "execute", "handler")


def errors_of_functions(program: Program, sites: CallSites, hits: Iterable[PatternHit]) -> set[PatternHit]:
    """Return the tools of a model, and the lines that tell it of an error: error texts, and texts for an exception.

    A tool is a hit of kind `tool` at its first line, a line a `tool error`. A tool that runs code or commands is left
    to the metric of what the model wrote.

    Args:
        program: All files in intermediate form.
        sites: Targets of all call sites.
        hits: Hits of the program.
    """
    given: dict[str, list[PatternHit]] = defaultdict(list)
    running, coding, told = set[str](), set[str](), set[tuple[str, int]]()
    for hit in hits:
        if hit.pattern == "returns_failure" and hit.kind in ("error text", "fixed text"):
            given[hit.symbol].append(hit)
        elif hit.pattern == "runs_code" and hit.kind in ("code", "command"):
            running.add(hit.symbol)
            coding |= {hit.symbol} if hit.kind == "code" else set()
        elif hit.pattern == _PATTERN:
            told.add((hit.path, hit.line))
    subjects = [
        Subject(program, sites, i)
        for i in program.functions
        if i.ir.body and not i.is_overload and (file := program.files[i.module]) is not None and not file.tags
    ]
    counted = told | {(h.path, h.line) for hits_of_one in given.values() for h in hits_of_one}
    # A text that is bound just before it is given back is one error.
    unknown = {
        h
        for h in _unknown_tools(program, subjects)
        if counted.isdisjoint((h.path, line) for line in range(h.line, h.line + _NEAR))
    }
    told |= {(h.path, h.line) for h in unknown}
    handled = {s.symbol: _handled(s) for s in subjects if s.symbol in given}
    missing = {s.symbol: _handled(s, _MISSING) for s in subjects if s.symbol in given}
    plain = {s.symbol for s in subjects if len(s.returned) == 1}
    tools, near = tool_functions(subjects, given)
    failing = [
        hit
        for symbol in (tools | near) - running
        for hit in given.get(symbol, ())
        # What a function gives back whatever happens is no error.
        if hit.line in handled[symbol] or (hit.kind == "error text" and symbol not in plain)
        # A tool that finds nothing did what it was asked.
        if hit.kind == "error text" or hit.line not in missing[symbol]
    ]
    made = {
        s.hit(_PATTERN, s.ir.line, s.ir.line, "tool", f"tool: {s.ir.name}", 0.9)
        for s in subjects
        if s.symbol in tools - coding and not s.info.is_abstract
    }
    lines = {
        replace(h, pattern=_PATTERN, kind="tool error", evidence=f"told: {h.evidence}"[:160])
        for h in failing
        if (h.path, h.line) not in told
    }
    return unknown | made | lines


def _unknown_tools(program: Program, subjects: list[Subject]) -> Iterator[PatternHit]:
    """Yield where a function says that a model named a tool which there is not."""
    files = {i for i, file in enumerate(program.files) if file is not None and _MAY_SAY.search(file.source)}
    for subject in subjects:
        for s in subject.statements if subject.info.module in files and subject.ir.kind != "module" else ():
            value = value_of(s) if s[0] in ("assign", "return") else None
            if value is not None and value[0] in "kfocd" and says_no_such_tool(value):
                yield subject.hit(_PATTERN, line_of(s), line_of(s), "tool error", f"told: {text_of(value)}", 0.7)


def _handled(subject: Subject, kinds: re.Pattern[str] = re.compile("")) -> set[int]:
    """Return the lines of the handlers of a function, where any text stands for an error; of some kinds alone."""
    handlers = [h for s in subject.statements if s[0] == "try" for h in handlers_of(s)]
    taken = [h for h in handlers if not kinds.pattern or (caught_names(h) and all(map(kinds.search, caught_names(h))))]
    return {line_of(x) for h in taken for x in statements(handler_body(h))}


def tool_functions(subjects: list[Subject], wanted: Collection[str]) -> tuple[set[str], set[str]]:
    """Return the functions that a model calls as tools, and those near them whose result such a one gives back.

    Args:
        subjects: Functions of the program.
        wanted: Symbols of the functions near them to look for.
    """
    if not subjects:
        return set(), set()
    program = subjects[0].program
    top = _top_functions(subjects)
    found, near = _handed(subjects, top), set[str]()
    for subject in subjects:
        info = subject.info
        is_made = any(_MAKES_TOOL.search(last_name(d)) for d in info.ir.decorators)
        is_of_class = (
            info.owner >= 0 and _IS_RUN.search(info.ir.name) and _is_tool(program, program.classes[info.owner])
        )
        if is_made or is_of_class or info.symbol in found:
            found.add(info.symbol)
            near |= {s for s in _handed_on(subject) if s in wanted}
            around = {f"{f.symbol}." for d in info.ir.decorators for f in _named(last_name(d), subject, top)}
            near |= {s for s in wanted if any(s.startswith(start) for start in around)}
    return found, near - found


def _is_tool(program: Program, cls: ClassInfo) -> bool:
    """Return whether a class is one of tools: by the name of a class that it is made from."""
    seen, todo = set[int](), [cls.number]
    while todo:
        number = todo.pop()
        if number in seen:
            continue
        seen.add(number)
        one = program.classes[number]
        if number != cls.number and _OF_TOOLS.search(one.ir.name):
            return True
        if any(_OF_TOOLS.search(name.rpartition(".")[2]) for name in one.outside):
            return True
        todo += one.bases
    return False


def _handed_on(subject: Subject) -> Iterator[str]:
    """Yield the functions of its own file whose result a tool gives back: `return await self._click(index)`."""
    bound: dict[str, list[Expr]] = defaultdict(list)
    for s in subject.statements:
        if s[0] == "assign" and (value := unwrapped(value_of(s))) is not None and is_call(value):
            for target in targets_of(s):
                bound[text_of(target)].append(value)
    for value in subject.returned:
        calls = [e for e in walk(value) if is_call(e)]
        calls += [call for e in walk(value) if e[0] == "n" for call in bound.get(e[1], ())]
        for edge in (edge for call in calls for edge in subject.inside(call)):
            other = subject.other(edge.dst)
            if other is not None and other.info.module == subject.info.module:
                yield edge.dst


def _top_functions(subjects: list[Subject]) -> dict[str, list[Subject]]:
    """Return the functions that are no methods, by their name."""
    top: dict[str, list[Subject]] = defaultdict(list)
    for subject in subjects:
        if subject.info.owner < 0 and subject.ir.kind != "module":
            top[subject.ir.name].append(subject)
    return top


def _named(name: str, subject: Subject, top: dict[str, list[Subject]]) -> list[Subject]:
    """Return the functions that a name means: those of the same file, or the only one of that name."""
    found = top.get(name, [])
    return [s for s in found if s.info.module == subject.info.module] or (found if len(found) == 1 else [])


def _handed(subjects: list[Subject], top: dict[str, list[Subject]]) -> set[str]:
    """Return the functions that are handed to a model as tools: in a list, a table, or an argument."""
    methods = {(s.info.owner, s.ir.name): s.symbol for s in subjects if s.info.owner >= 0}
    classes: dict[str, list[int]] = defaultdict(list)
    for number in {s.info.owner for s in subjects if s.info.owner >= 0 and _IS_RUN.search(s.ir.name)}:
        classes[subjects[0].program.classes[number].ir.name].append(number)
    out: set[str] = set()
    for subject in subjects:
        for e in _values_handed(subject):
            if e[0] == "n":
                out |= {f.symbol for f in _named(e[1], subject, top) if not _makes(f)}
            elif e[0] == "a" and text_of(e[1]) == "self" and (found := methods.get((subject.info.owner, e[2]))):
                out.add(found)
            elif is_call(e) and len(of_name := classes.get(last_name(e), [])) == 1:
                out |= {
                    symbol for (owner, name), symbol in methods.items() if owner == of_name[0] and _IS_RUN.search(name)
                }
    return out


def _makes(subject: Subject) -> bool:
    """Return whether a function is given nothing and makes an object, such as the tool itself."""
    made = [(last_name(e) if is_call(e) else text_of(e)).lstrip("_") for e in subject.returned]
    return not subject.ir.params and bool(made) and all(_MADE.search(name) for name in made)


def _values_handed(subject: Subject) -> Iterator[Expr]:
    for s in subject.statements:
        value = value_of(s) if s[0] == "assign" else None
        if value is not None and value[0] in "dlt" and any(_TOOLS.search(text_of(t)) for t in targets_of(s)):
            yield from _members(value)
    for call in subject.calls:
        name = last_name(call)
        if _MAKES_ONE.search(name):
            yield from positional_of(call)
        if name == "append" and _TOOLS.search(text_of(owner_of(callee_of(call))) if is_member(callee_of(call)) else ""):
            yield from positional_of(call)
        if not _TAKES_TOOLS.search(name):
            continue
        yield from (given for key in _AS_TOOL if (given := keyword(call, key)) is not None)
        for given in (keyword(call, "tools"), *arguments_of(call)):
            if given is not None and given[0] in "dlt":
                yield from _members(given)


def _members(value: Expr) -> Iterator[Expr]:
    yield from [v for _, v in pairs_in(value)] if value[0] == "d" else list(members_in(value))
