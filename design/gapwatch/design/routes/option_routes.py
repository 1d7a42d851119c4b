"""Routes that a library takes by an option of a call, listed in the library catalogue as `fallback`."""

from __future__ import annotations

from collections.abc import Iterator

from gapwatch.design.patterns.code_walk import callee_text, keyword, text_of
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.patterns.libraries import LibraryCatalog
from gapwatch.design.routes.route import Arm, Route
from gapwatch.design.source.ir import (
    Expr,
    call_line,
    callee_of,
    is_call,
    is_member,
    is_name,
    keywords_of,
    line_of,
    members_in,
    operand_of,
    owner_of,
    positional_of,
    targets_of,
    value_of,
)
from gapwatch.design.source.program import last_name


def option_routes(subject: Subject) -> Iterator[Route]:
    """Yield routes that a library takes: `fallbacks=[...]`, `with_fallbacks([...])`, a last resort of retries."""
    catalog = subject.sites.catalog
    for call in [*subject.calls, *(d for d in subject.ir.decorators if is_call(d))]:
        given = _ways_given(subject, call, catalog)
        if given is None:
            continue
        option, value = given
        line, why = call_line(call), f"the library's {option}"
        made, value = _made(subject, value, line)
        ways = list(members_in(value)) if value[0] in "lt" else [value]
        callee = callee_of(call)
        first, _ = _made(subject, owner_of(callee), line) if is_member(callee) else (line, callee)
        arms = [Arm(first, "first", callee_text(call)[:80], "llm_chat", subject.symbol, why)]
        for i, way in enumerate(ways):
            at = way[-1] if way[0] in "ac" and isinstance(way[-1], int) else made
            name = f"fallback_{i + 1}" if len(ways) > 1 else "fallback"
            arms.append(Arm(at, name, text_of(way)[:80], "llm_chat", subject.symbol, why if i + 1 < len(ways) else ""))
        yield Route(subject.program.path(subject.info), line, subject.symbol, line, "option", tuple(arms), 0.95)


def _made(subject: Subject, e: Expr, line: int) -> tuple[int, Expr]:
    """Return where a local name got its value before a line, with that value if it is a list; else the line itself."""
    for s in reversed(subject.statements) if is_name(e) else ():
        if s[0] == "assign" and line_of(s) <= line and e in targets_of(s) and (value := value_of(s)) is not None:
            return line_of(s), value if value[0] in "lt" else e
    return line, e


def _ways_given(subject: Subject, call: Expr, catalog: LibraryCatalog) -> tuple[str, Expr] | None:
    """Return the option of a call that names other ways, with its value."""
    if (name := last_name(call)) in catalog.fallback_methods and positional_of(call):
        given = tuple(operand_of(a) if a[0] == "*" else a for a in positional_of(call))
        return name, ("l", given, None) if name[:1].isupper() and len(given) > 1 else given[0]
    if not keywords_of(call):
        return None
    names = subject.sites.named_at(subject.symbol, call) or _names_of_decorator(subject, call)
    for option in catalog.fallback_options(names):
        value = keyword(call, option)
        if value is not None and value not in (("k", None), ("k", False)) and not (value[0] in "lt" and not value[1]):
            return option, value
    return None


def _names_of_decorator(subject: Subject, call: Expr) -> list[str]:
    if call not in subject.ir.decorators:
        return []
    outer = subject.program.functions[subject.info.parent].symbol if subject.info.parent >= 0 else ""
    owner = subject.program.classes[subject.info.owner].symbol if subject.info.owner >= 0 else outer
    return subject.sites.names_outside(owner, call) or subject.sites.names_outside(outer, call)
