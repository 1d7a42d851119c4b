"""Finds functions that run code or commands that they are given: `exec`, a shell, a sandbox."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gapwatch.design.patterns.code_walk import arguments_of, names_in, target_names, text_of, walk
from gapwatch.design.patterns.hit import PatternHit, Subject
from gapwatch.design.source.ir import (
    Expr,
    Stmt,
    body_of,
    branches_of,
    call_line,
    caught_by,
    handler_body,
    handlers_of,
    is_call,
    keywords_of,
    line_of,
    targets_of,
    value_of,
)
from gapwatch.design.source.program import last_name, statements

#: What runs code by its name; `exec` and `eval` are built in.
_RUNS = re.compile(
    r"^(exec|eval)$|^_?(run|execute|exec|eval|evaluate)_.*(code|python|script|commands?|cmd|shell|cell|notebook|subprocess)"
    r"|^create_subprocess_(exec|shell)$|^exec_run$|^_?run_in_.*(subprocess|sandbox|process|container)$"
)
#: Functions of the module `subprocess`, and of what is named after a sandbox.
_OF_PROCESSES = frozenset({"run", "Popen", "call", "check_call", "check_output", "system"})
_PROCESSES = frozenset({"subprocess", "os"})
_OF_SANDBOXES = frozenset({"run", "execute", "exec", "run_code", "process"})
_SANDBOX = re.compile(r"sandbox|interpreter|kernel|repl$|executor$|jupyter", re.I)
#: Exceptions of what is to run the code.
_CANNOT = re.compile(r"ImportError|ModuleNotFound|FileNotFound|Connection|Permission|Interrupt|Cancelled")
#: Names of code that somebody else wrote.
_CODE = re.compile(
    r"(^|_)(code|script|commands?|cmd|snippet|program_text|bash|shell_input)(_(str|string|text|block|exec))?$", re.I
)
#: Names of commands, which a program writes more often itself than its model does.
_COMMAND = re.compile(r"commands?|cmd", re.I)
#: Names of queries that a model may have written.
_QUERY = re.compile(r"(^|_)(sql|query|statement)(_(str|string|text|query))?$", re.I)
#: Functions that hold code or a query against what it may do.
_CHECKS = re.compile(r"^_*(validate|verify|check|clean|sanitize|ensure|assert|enforce|guard|inspect)(_|$)")
#: What reads code without running it.
_PARSES = re.compile(r"^(ast|sqlglot|sqlparse|libcst|parso)\.(parse|parse_one|parse_module|literal_eval)$")
#: What an exception says that refuses code or a query.
_REFUSES = re.compile(
    r"malicious|unsafe|injection|unauthori[sz]ed|forbidden|disallow|prohibit|dangerous"
    r"|not[ _]?(allowed|permitted|safe)",
    re.I,
)
_OF_CODE = re.compile(r"sql|quer(y|ies)|statement|code|command|keyword|import|table", re.I)


def find_refused_code(subject: Subject) -> Iterator[PatternHit]:
    """Yield where a function raises because code or a query that it is given may not be run, or lacks what it must do.

    Example:
        `def validate(code): tree = ast.parse(code)` and then `if "run_query" not in calls: raise QueryNotUsed(...)`
    """
    given = {p.name for p in subject.ir.params}
    if subject.ir.kind == "module" or not any(_CODE.search(n) or _QUERY.search(n) for n in given):
        return
    parsed = _CHECKS.search(subject.ir.name) and any(
        _PARSES.search(text_of(c[1]))
        and any(_CODE.search(n) or _QUERY.search(n) for e in arguments_of(c) for n in names_in(e))
        for c in subject.calls
    )
    for s in subject.statements:
        for block in (*(b for _, b in branches_of(s)), s[3]) if s[0] == "if" else ():
            for x in block:
                value = value_of(x) if x[0] == "raise" else None
                told = text_of(value) if value is not None else ""
                if value is not None and (parsed or (_REFUSES.search(told) and _OF_CODE.search(told))):
                    yield subject.hit(
                        "runs_code", line_of(x), line_of(x), "raises", f"refuses code: raises {told}"[:160], 0.8
                    )


def find_code_runs(subject: Subject) -> Iterator[PatternHit]:
    """Yield the calls of a function that run code which it was given, and where it raises because the code failed."""
    if subject.ir.kind == "module":
        return
    own = {
        name
        for s in subject.statements
        if s[0] == "assign" and (value := value_of(s)) is not None and _is_written_here(value)
        for target in targets_of(s)
        for name in target_names(target)
    }
    lines: list[int] = []
    for call in subject.calls:
        given = [*arguments_of(call), *(value for _, value in keywords_of(call))]
        names = {n for e in given for n in names_in(e)} - own
        # `args["code"]`
        names |= {str(one[2][1]) for e in given for one in walk(e) if one[0] == "s" and one[2][0] == "k"}
        said = [n for n in names if _CODE.search(n.rpartition(".")[2]) and not n.isupper()]
        if _is_run(call, given) and said:
            evidence = f"runs {text_of(call)}"[:160]
            lines.append(call_line(call))
            kind = "command" if all(_COMMAND.search(n.rpartition(".")[2]) for n in said) else "code"
            yield subject.hit("runs_code", call_line(call), call_line(call), kind, evidence, 0.8)
    for s in subject.statements if lines else ():
        if s[0] == "try" and any(_holds(s, line) for line in lines):
            yield from _raised(subject, s)


def _holds(s: Stmt, line: int) -> bool:
    """Return whether a line lies in the protected block of a `try`."""
    body = body_of(s)
    return bool(body) and line_of(body[0]) <= line <= max(line_of(x) for x in statements(body))


def _raised(subject: Subject, s: Stmt) -> Iterator[PatternHit]:
    """Yield where the handlers of a `try` raise because of what failed in it, and not because it cannot be run."""
    for handler in handlers_of(s):
        for x in handler_body(handler):
            if x[0] == "raise" and not _CANNOT.search(text_of(caught_by(handler))):
                evidence = f"except {text_of(caught_by(handler)) or 'everything'}: raises {text_of(value_of(x))}"
                yield subject.hit("runs_code", line_of(x), line_of(x), "raises", evidence[:160], 0.8)


def _is_written_here(value: Expr) -> bool:
    """Return whether a value is a command of the program itself: `["git", "status"]`, `f"curl {url}"`."""
    if any(_CODE.search(n.rpartition(".")[2]) for n in names_in(value)):
        return False
    if value[0] == "f":
        return bool(value[1]) and isinstance(value[1][0], str) and bool(value[1][0].strip())
    return bool((value[1][0] if value[0] in "lt" and value[1] else value)[0] == "k")


def _is_run(call: Expr, given: list[Expr]) -> bool:
    name, owner = last_name(call), text_of(call[1]).rpartition(".")[0]
    if name in _OF_PROCESSES and owner in _PROCESSES:
        return True
    if name in _OF_SANDBOXES and _SANDBOX.search(owner.rpartition(".")[2].strip("_()")):
        return True
    return any(_RUNS.search(n) for n in (name, *(last_name(e) for e in given if not is_call(e))))
