"""Follows data to and from prompts: what reaches a model call, what frameworks carry, where evidence comes from."""

from __future__ import annotations

from collections.abc import Iterator

from gapwatch.design.architecture.claimed_code import EVIDENCE, ClaimedCode
from gapwatch.design.architecture.material import Material
from gapwatch.design.architecture.model import ComponentDraft
from gapwatch.design.patterns.code_walk import arguments_of, names_in, own_expressions, target_names, walk
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.patterns.library_uses import CodePlace
from gapwatch.design.source.ir import Expr, Stmt, call_line, docstring, is_call, line_of, targets_of, value_of
from gapwatch.design.source.program import last_name

#: Keyword arguments by which frameworks take a prompt for later calls.
_CARRYING = frozenset(
    {"system_prompt", "instructions", "system_message", "prompt", "backstory", "system", "state_modifier"}
)
#: Classes and functions that make a message or a template of their first arguments.
_MAKING = frozenset(
    {"SystemMessage", "SystemMessagePromptTemplate", "from_template", "from_messages", "PromptTemplate"}
)
#: Decorators of functions that return a prompt.
_DECORATING = frozenset({"system_prompt", "instructions"})
#: Most calls up that an argument is followed.
_MAX_UP = 3


def said_to_model(subject: Subject, lines: set[int]) -> list[tuple[Stmt, Expr]]:
    """Return the expressions of a function that flow into its calls at some lines, each with its statement.

    Args:
        subject: The function.
        lines: Lines of the calls that reach a model.
    """
    sent = [
        (s, call)
        for s in subject.statements
        for e in own_expressions(s)
        for call in walk(e)
        if is_call(call) and call_line(call) in lines
    ]
    out: list[tuple[Stmt, Expr]] = [(s, argument) for s, call in sent for argument in (*arguments_of(call), call[1])]
    names = {name for _, e in out for name in _roots(e)}
    known: set[int] = set()
    for _ in range(4):
        before = len(known)
        for s in subject.statements:
            if id(s) in known or not (bound := list(_bound(s))):
                continue
            values = [value for name, value in bound if name in names]
            if values:
                known.add(id(s))
                out += [(s, value) for value in values]
                names |= {name for value in values for name in _roots(value)}
        if len(known) == before:
            break
    return out


def _roots(e: Expr) -> Iterator[str]:
    for name in names_in(e):
        yield name
        yield name.partition(".")[0] if not name.startswith("self.") else ".".join(name.split(".")[:2])


def _bound(s: Stmt) -> Iterator[tuple[str, Expr]]:
    """Yield each name that a statement gives a value or adds to, with what it adds."""
    if s[0] == "assign" and (value := value_of(s)) is not None:
        for target in targets_of(s):
            owner = target[1] if target[0] == "s" else target
            yield from ((name, value) for name in target_names(owner))
    elif s[0] == "aug":
        yield from ((name, s[4]) for name in target_names(s[2]))
    elif s[0] == "for":
        yield from ((name, s[3]) for name in target_names(s[2]))
    elif s[0] == "expr" and is_call(s[2]) and s[2][1][0] == "a" and s[2][1][2] in ("append", "extend", "insert"):
        yield from ((name, a) for name in target_names(s[2][1][1]) for a in s[2][2])


def carried(component: ComponentDraft, material: Material) -> Iterator[tuple[Subject, Expr, int]]:
    """Yield what the files of a component hand to a framework as a prompt: (function or module, expression, line)."""
    program = material.program
    files = set(component.files)
    for info in program.functions:
        if program.path(info) not in files:
            continue
        subject = Subject(program, material.sites, info)
        if any(last_name(d) in _DECORATING for d in info.ir.decorators):
            for s in subject.statements:
                if s[0] == "return" and (value := value_of(s)) is not None:
                    yield subject, value, line_of(s)
        for call in subject.calls:
            for name, value in call[3]:
                if name in _CARRYING:
                    yield subject, value, call_line(call)
            if last_name(call) in _MAKING:
                for value in arguments_of(call):
                    yield subject, value, call_line(call)
    for cls in program.classes:
        path = program.index.modules[cls.module].path
        if path in files and any(last_name(base).endswith("Signature") for base in cls.ir.bases):
            text = docstring(cls.ir.body)
            if text:
                body = Subject(program, material.sites, program.functions[program.bodies[cls.module]])
                yield body, ("k", text), line_of(cls.ir.body[0])


def evidence_of(code: ClaimedCode, symbol: str, field: str, depth: int = 0) -> list[CodePlace]:
    """Return the lines where the value of a prompt's variable part is fetched: a search, a tool, a data source.

    Args:
        code: The functions.
        symbol: Function that has the variable.
        field: Its name.
        depth: Number of callers followed so far.
    """
    subject = code.subject(symbol)
    if subject is None or depth > _MAX_UP:
        return []
    path = subject.program.path(subject.info)
    out: list[CodePlace] = []
    wanted = {field}
    for _ in range(4):
        for s in subject.statements:
            for name, value in _bound(s):
                if name in wanted:
                    wanted |= set(names_in(value))
                    if _fetches(code, subject, value):
                        out.append(CodePlace(path, line_of(s)))
    parameters = [p.name for p in subject.ir.params if p.name not in ("self", "cls")]
    for position, name in enumerate(parameters):
        if name not in wanted:
            continue
        for edge in subject.sites.callers[symbol][:8]:
            out += _from_caller(code, edge.src, symbol, position, name, depth)
    return list(dict.fromkeys(out))


def _from_caller(
    code: ClaimedCode, caller: str, symbol: str, position: int, name: str, depth: int
) -> Iterator[CodePlace]:
    subject = code.subject(caller)
    for call in subject.calls if subject is not None else ():
        if subject is None or not any(edge.dst == symbol for edge in subject.inside(call)):
            continue
        given = next((v for n, v in call[3] if n == name), None)
        if given is None and position < len(call[2]):
            given = call[2][position]
        if given is None:
            continue
        if _fetches(code, subject, given):
            yield CodePlace(subject.program.path(subject.info), call_line(call))
        for read in names_in(given):
            yield from evidence_of(code, caller, read, depth + 1)


def _fetches(code: ClaimedCode, subject: Subject, e: Expr) -> bool:
    """Return whether an expression calls what fetches material and is no answer of a model."""
    models = code.reaching(frozenset({"llm_chat"}))
    for call in walk(e):
        if not is_call(call):
            continue
        if subject.reach(call).capability in EVIDENCE:
            return True
        if any(edge.dst in code.reaching(EVIDENCE) and edge.dst not in models for edge in subject.inside(call)):
            return True
    return False
