"""Follows data to prompts: what reaches a model call, what frameworks carry, what callers give."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gapwatch.design.architecture.claimed_code import ClaimedCode
from gapwatch.design.architecture.material import Material
from gapwatch.design.architecture.text_shapes import is_path, is_signature, signature_text
from gapwatch.design.patterns.code_walk import (
    arguments_of,
    children,
    names_in,
    own_expressions,
    target_names,
    text_of,
    walk,
)
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.source.ir import (
    Expr,
    Stmt,
    call_line,
    constant_of,
    is_call,
    is_name,
    is_text,
    line_of,
    pairs_in,
    targets_of,
    value_of,
)
from gapwatch.design.source.program import last_name, statements

#: Keyword arguments by which frameworks take a prompt for later calls.
_CARRYING = frozenset(
    {"system_prompt", "instructions", "system_message", "prompt", "backstory", "system", "state_modifier"}
)
#: Keyword arguments of a task of crewAI.
_OF_TASK = frozenset({"description", "expected_output"})
#: Classes and functions that make a message or a template of their first arguments.
_MAKING = frozenset(
    {
        "SystemMessage",
        "SystemMessagePromptTemplate",
        "from_template",
        "from_messages",
        "PromptTemplate",
        "PromptBuilder",
        "ChatPromptBuilder",
    }
)
#: Keyword arguments of a model call that describe tools and the form of the answer, and set no task.
_BESIDE = frozenset(
    {"tools", "functions", "tool_choice", "function_call", "tool_resources", "response_format", "response_model"}
    | {"text_format", "output_type", "output_schema", "callbacks", "callback_manager", "model", "llm"}
)
#: Decorators of functions that return a prompt.
_DECORATING = frozenset({"system_prompt", "instructions"})
#: Names of parameters that hold a prompt, and of those that hold a chain of a prompt and a model.
_HOLDS_PROMPT = re.compile(r"prompt|system|instruct|template|^prefix$")
_HOLDS_CHAIN = re.compile(r"(^|_)(chain|runnable|synthesizer)$")
#: Classes of DSPy whose objects hold the prompt that they ask a model with.
_ASKING_MODULES = frozenset({"Module", "Predict", "ChainOfThought", "ReAct", "ProgramOfThought", "TypedPredictor"})
#: Most callers that are read for an argument.
_MAX_CALLERS = 8


def said_to_model(subject: Subject, lines: set[int], others: frozenset[int] = frozenset()) -> list[tuple[Stmt, Expr]]:
    """Return the expressions of a function that flow into its calls at some lines, each with its statement.

    Args:
        subject: The function.
        lines: Lines of the calls that reach a model.
        others: Lines of its other calls of models: their replies are what flows on, and not what they were sent.
    """
    sent = [
        (s, call)
        for s in subject.statements
        for e in own_expressions(s)
        for call in walk(e)
        if is_call(call) and call_line(call) in lines
    ]
    out = [(s, argument) for s, call in sent for argument in (*_given(call), call[1])]
    out += [(s, e) for s, e in flowing_into(subject, [e for _, e in out], others=others) if s is not None]
    return out


def _given(call: Expr) -> list[Expr]:
    return [*call[2], *(value for name, value in call[3] if name not in _BESIDE)]


def flowing_into(
    subject: Subject, given: list[Expr], before: int = 0, others: frozenset[int] = frozenset()
) -> list[tuple[Stmt | None, Expr]]:
    """Return expressions, and those of the same function that flow into them through names, with their statements.

    Args:
        subject: The function.
        given: The expressions.
        before: Line from which they are read: a name then has what it was given last before; 0 for any line.
        others: Lines of calls whose arguments are not followed.
    """
    out: list[tuple[Stmt | None, Expr]] = [(None, e) for e in given]
    names = {name: before for e in given for name in _roots(e)}
    known: set[int] = set()
    described = _of_tools(subject)
    latest = _latest(subject) if before else {}
    for _ in range(4):
        size = len(known)
        for s in subject.statements if names else ():
            if id(s) in known or id(s) in described or not (bound := list(bindings_of(s))):
                continue
            values = [value for name, value in bound if name in names and _is_read(s, name, names[name], latest)]
            values = [v for v in values if not (others and any(is_call(c) and call_line(c) in others for c in walk(v)))]
            if values:
                known.add(id(s))
                out += [(s, value) for value in values]
                for name in (name for value in values for name in _roots(value)):
                    names[name] = max(names.get(name, 0), line_of(s)) if before else 0
        if len(known) == size:
            break
    return out


def _latest(subject: Subject) -> dict[str, list[int]]:
    """Return the lines at which a function gives names a value anew, outside of its branches and loops."""
    out: dict[str, list[int]] = {}
    for s in subject.ir.body:
        if s[0] == "assign":
            for name in (name for target in targets_of(s) if target[0] == "n" for name in target_names(target)):
                out.setdefault(name, []).append(line_of(s))
    return out


def _is_read(s: Stmt, name: str, line: int, latest: dict[str, list[int]]) -> bool:
    """Return whether what a statement gives a name is what the name has at a line."""
    if not line:
        return True
    since = max((at for at in latest.get(name, ()) if at < line), default=0)
    return since <= line_of(s) < line


#: Names of lists of tools, which code goes through to describe each to a model.
_TOOLS = re.compile(r"(^|[._])(tools|functions|plugins)$")


def _of_tools(subject: Subject) -> set[int]:
    """Return the statements, by identity, in loops over tools: what they write describes a tool and sets no task."""
    loops = [s for s in subject.statements if s[0] == "for" and any(map(_TOOLS.search, names_in(s[3])))]
    return {id(inner) for s in loops for inner in statements(s[4])}


def given_whole(subject: Subject, given: Expr) -> list[tuple[Stmt, Expr]]:
    """Return what the names were given that stand whole in an expression, and not as a part of a text, and so on."""
    out: list[tuple[Stmt, Expr]] = []
    pending = [given]
    while pending:
        names = set(_whole(pending.pop()))
        for s in subject.statements if names else ():
            value = value_of(s) if s[0] == "assign" else None
            is_named = value is not None and any(t[0] == "n" and t[1] in names for t in targets_of(s))
            if value is not None and is_named and not any(s is known for known, _ in out):
                out.append((s, value))
                pending.append(value)
    return out


def _whole(e: Expr) -> Iterator[str]:
    if e[0] == "n":
        yield e[1]
    elif e[0] in ("t", "l", "b", "?"):
        yield from (name for inner in children(e) for name in _whole(inner))
    elif e[0] == "o":
        # What follows the first text of a sum is what it is filled with.
        yield from _whole(e[2][0])
    elif is_call(e) and e[1][0] == "a":
        yield from _whole(e[1][1])


def _roots(e: Expr) -> Iterator[str]:
    for name in names_in(e):
        yield name
        yield name.partition(".")[0] if not name.startswith("self.") else ".".join(name.split(".")[:2])


def bindings_of(s: Stmt) -> Iterator[tuple[str, Expr]]:
    """Yield each name that a statement gives a value or adds to, with what it adds."""
    if s[0] == "assign" and (value := value_of(s)) is not None:
        for target in targets_of(s):
            owner = target[1] if target[0] == "s" else target
            yield from ((name, value) for name in target_names(owner))
    elif s[0] == "aug":
        yield from ((name, s[4]) for name in target_names(s[2]))
    elif s[0] == "for":
        yield from ((name, s[3]) for name in target_names(s[2]))
    elif s[0] == "with":
        yield from ((name, e) for e, target in s[2] if target is not None for name in target_names(target))
    elif s[0] == "expr" and is_call(s[2]) and s[2][1][0] == "a" and s[2][1][2] in ("append", "extend", "insert"):
        yield from ((name, a) for name in target_names(s[2][1][1]) for a in s[2][2])


@dataclass(frozen=True)
class Carried:
    """A prompt that code hands to a framework.

    Attributes:
        holder: Function, or code of a module, that hands it over.
        value: The expression.
        line: Its line.
        label: What holds the agent or template: a variable, a class; empty for none.
        key: Key of a dictionary under which the code hands it over; empty for none.
    """

    holder: Subject
    value: Expr
    line: int
    label: str
    key: str = ""


def carried(material: Material) -> Iterator[Carried]:
    """Yield what the code hands to frameworks as prompts, outside tests and examples."""
    program = material.program
    tagged = {file.path for file in program.files if file is not None and file.tags}
    for info in program.functions:
        if program.path(info) in tagged:
            continue
        subject = Subject(program, material.sites, info)
        for decorator in info.ir.decorators:
            if last_name(decorator) in _DECORATING:
                owner = text_of(decorator).partition("(")[0].rpartition(".")[0]
                for s in subject.statements:
                    if s[0] == "return" and (value := value_of(s)) is not None:
                        yield Carried(subject, value, line_of(s), owner)
        for s in subject.statements:
            label = next((n for t in targets_of(s) for n in target_names(t)), "") if s[0] == "assign" else ""
            every = [inner for e in own_expressions(s) for inner in walk(e)]
            pairs = [pair for inner in every if inner[0] == "d" for pair in pairs_in(inner)]
            keys = {id(value): str(constant_of(key)) for key, value in pairs if key is not None and is_text(key)}
            for call in filter(is_call, every):
                key = keys.get(id(call), "")
                for name, value in call[3]:
                    is_config = name == "config" and last_name(call) in ("Agent", "Task")
                    if name in _CARRYING or is_config or (name in _OF_TASK and last_name(call) == "Task"):
                        yield Carried(subject, value, call_line(call), label.rpartition(".")[2], key)
                if material.sites.catalog.capability(outside := subject.reach(call).dotted) == "framework":
                    for written in material.sites.catalog.prompt_files([outside]):
                        yield Carried(subject, ("k", written), call_line(call), label.rpartition(".")[2])
                if last_name(call) in _MAKING:
                    for value in arguments_of(call):
                        yield Carried(subject, value, call_line(call), label.rpartition(".")[2], key)
    for cls in program.classes:
        path = program.index.modules[cls.module].path
        if path not in tagged and is_signature(cls.ir) and signature_text(cls.ir)[0]:
            body = Subject(program, material.sites, program.functions[program.bodies[cls.module]])
            yield Carried(body, ("n", cls.ir.name), cls.ir.line, cls.ir.name)


def given_by_callers(code: ClaimedCode, subject: Subject, name: str) -> Sequence[tuple[Subject, int, Expr]]:
    """Return what the callers of a function pass for a parameter: (caller, line of the call, expression)."""
    key = subject.symbol, name
    if key not in code.given:
        code.given[key] = tuple(_given_by_callers(code, subject, name))
    return code.given[key]


def _given_by_callers(code: ClaimedCode, subject: Subject, name: str) -> Iterator[tuple[Subject, int, Expr]]:
    parameters = [p.name for p in subject.ir.params if p.name not in ("self", "cls")]
    if name not in parameters:
        return
    position = parameters.index(name)
    for edge in subject.sites.callers[subject.symbol][:_MAX_CALLERS]:
        caller = code.subject(edge.src)
        lines = {line for _, line in edge.sites}
        for call in caller.calls if caller is not None else ():
            if caller is None or call_line(call) not in lines:
                continue
            if edge.kind == "framework" and (handed := _input_of(call, name)) is not None:
                yield caller, call_line(call), handed
            if not any(e.dst == subject.symbol for e in caller.inside(call)):
                continue
            given = next((v for n, v in call[3] if n == name), None)
            if given is None and position < len(call[2]):
                given = call[2][position]
            if given is not None:
                yield caller, call_line(call), given


def _input_of(call: Expr, name: str) -> Expr | None:
    """Return what a pipeline of a library is handed by a name: `run(inputs={"rows": rows})`."""
    for given, value in call[3]:
        if given == "inputs" and value[0] == "d":
            return next((v for k, v in pairs_in(value) if k == ("k", name)), None)
    return None


def prompts_given(code: ClaimedCode, subject: Subject, name: str) -> Iterator[tuple[Subject, int, Expr]]:
    """Yield what a parameter can hold as a prompt or the file of one: (function that gives it, line, expression)."""
    holds = bool(_HOLDS_PROMPT.search(name.lower()))
    annotations = [p.annotation for p in subject.ir.params if p.name == name and p.annotation is not None]
    holds_module = any(last_name(e) in _ASKING_MODULES for e in annotations)
    for caller, line, value in given_by_callers(code, subject, name):
        # A prompt that a caller passes to a client is the caller's; one that makes an object is the object's.
        is_made = subject.ir.name == "__init__" and holds
        is_chain = holds_module or bool(_HOLDS_CHAIN.search(name.lower()))
        if is_made or is_chain or (is_text(value) and is_path(constant_of(value))):
            yield caller, line, value
    for p in subject.ir.params if holds else ():
        if p.name == name and p.default is not None:
            yield subject, subject.ir.line, p.default


def possible_texts(code: ClaimedCode, subject: Subject, key: Expr, given: frozenset[str]) -> frozenset[str]:
    """Return the texts that a key can be, in lower case: a constant, or what callers pass; empty where it varies.

    Args:
        code: The functions.
        subject: Function that reads the key.
        key: The key.
        given: Texts that the caller at hand passes: of those that callers pass, they count alone.
    """
    if is_text(key):
        return frozenset({str(constant_of(key)).lower()})
    if not is_name(key):
        return frozenset()
    values = [p.default for p in subject.ir.params if p.name == key[1] and p.default is not None]
    values += [value for _, _, value in given_by_callers(code, subject, str(key[1]))]
    texts = frozenset(str(constant_of(v)).lower() for v in values if is_text(v) and constant_of(v))
    return texts & {g.lower() for g in given} or texts


def results_of(subject: Subject) -> list[tuple[Stmt, Expr]]:
    """Return what a function gives; a text in place of several values is told to its caller and left out."""
    out = [(s, value) for s in subject.statements if s[0] == "return" and (value := value_of(s)) is not None]
    gives_several = any(value[0] == "t" for _, value in out)
    return [(s, value) for s, value in out if not (gives_several and is_text(value))]
