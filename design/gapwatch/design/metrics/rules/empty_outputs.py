"""Rules of the critic about outputs: why that of a function is never missing, or is missing by design."""

from __future__ import annotations

from gapwatch.design.architecture.claimed_code import MAX_HOPS, ClaimedCode
from gapwatch.design.architecture.reply_flow import is_tool_run
from gapwatch.design.metrics.rules.stream_rules import sends_starts
from gapwatch.design.patterns.code_walk import (
    calls_in,
    keyword,
    leaves,
    names_in,
    own_expressions,
    target_names,
    unwrapped,
    walk,
)
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.source.ir import (
    Expr,
    Stmt,
    body_of,
    call_line,
    caught_by,
    constant_of,
    handler_body,
    handlers_of,
    is_call,
    is_name,
    is_text,
    keywords_of,
    name_of,
    operand_of,
    operands_of,
    pairs_in,
    positional_of,
    targets_of,
    text_parts,
    value_of,
)
from gapwatch.design.source.program import last_name, statements

_MODELS = frozenset({"llm_chat"})
#: Bases outside the repository of classes whose objects always hold.
_PLAIN = frozenset({"pydantic.BaseModel", "pydantic.main.BaseModel", "abc.ABC", "object", "sqlmodel.SQLModel"})
#: Keys of the records that a generator sends, by which a reader tells one kind from another.
_KINDS = frozenset({"type", "event", "kind", "status"})


def why_never_missing(code: ClaimedCode, symbol: str) -> str | None:
    """Return why the output of a function cannot be missing, or is missing by design; None where it can be."""
    subject = code.subject(code.worker(symbol))
    if subject is None:
        return None
    given = code.returned(subject)
    if gives_words_of_model(code, subject):
        return None
    if not given or subject.gives_number:
        return "returns a number, or yes or no, which are always there" if given else "returns nothing"
    brought = code.names_brought(subject, None)
    outer = [e for e in given if names_in(e) & brought or code.brings(subject, e, None)]
    if not outer:
        return "returns nothing that a model, a search or a service gave it"
    if all(_is_unread_stream(subject, e) for e in given):
        return "gives a stream that nobody has read yet"
    if any(_is_given_back(e, subject) for e in given) and all(
        _is_given_back(e, subject) or _is_never_empty(e) or _is_bound_to_text(e, subject) for e in given
    ):
        return "gives back what it was given where it fails, and else a text around the answer"
    if all(_is_full(code, subject, e) for e in given):
        return "never returns an empty value"
    if _gives_object(subject):
        return "gives an object of an own class, which is there whatever it holds"
    if _gives_something_else(code, subject):
        return "gives something else where the model fails"
    if subject.ir.is_generator and any(s[0] == "for" and sends_starts(s) for s in subject.statements):
        return "sends a piece of its own when the run begins"
    if subject.ir.is_generator and all(_is_event(e) for e in _sent(subject)):
        return "sends events of what it does, of which a failure is one"
    return None


def gives_words_of_model(code: ClaimedCode, subject: Subject) -> bool:
    """Return whether the output of a function is what its model said: it asks one itself and gives no text of its own.

    What the model said is then in an object that it makes, in a state of a graph, or in nothing that it gives back.
    """
    hits = code.material.hits_of(subject.symbol)
    lines = {h.line for h in hits if h.pattern == "calls_llm" and h.kind == "direct" and not is_tool_run(h)}
    asking = [
        c
        for c in subject.calls
        if call_line(c) in lines and (reached := subject.reach(c)).capability == "llm_chat"
        if not subject.sites.catalog.gives_text_alone(reached.dotted) and ".with_raw_response." not in reached.dotted
    ]
    if not asking or subject.gives_number:
        return False
    if subject.ir.is_generator:
        return not any(_is_event(e) for e in _sent(subject)) and all(_is_no_text(subject, e) for e in _sent(subject))
    given = [e for s in subject.statements if s[0] == "return" and (e := value_of(s)) is not None]
    if all(e == ("k", None) for e in given):
        # Where it gives nothing, a way around the model has no output and is no failure.
        return _asks_in_any_case(subject, asking)
    takes_failures = _gives_something_else(code, subject) or any(map(_says_nothing, given))
    return all(_is_no_text(subject, e) for e in given) and not takes_failures


def _says_nothing(e: Expr) -> bool:
    """Return whether a value is a pair or a list of nothing: `return None, False`, which its callers look for."""
    return e[0] in ("t", "l") and bool(e[1]) and all(x[0] == "k" and not x[1] for x in e[1])


def _asks_in_any_case(subject: Subject, asking: list[Expr]) -> bool:
    """Return whether each way through a function asks its model."""
    for s in subject.ir.body:
        if s[0] in ("if", "for", "while", "try") and any(x[0] == "return" for x in statements((s,))):
            return s[0] == "try" and any(c is i for c in asking for x in body_of(s) for i in calls_in((x,)))
        if s[0] in ("assign", "expr", "return") and any(c is i for c in asking for i in calls_in((s,))):
            return True
    return False


def _is_no_text(subject: Subject, e: Expr, depth: int = 0) -> bool:
    """Return whether a value is no text: a list, a mapping, an object that is made here, nothing, or a number."""
    inner = unwrapped(e)
    while inner is not None and inner[0] == "w":
        inner = unwrapped(operand_of(inner))
    if inner is None or depth > MAX_HOPS:
        return False
    if inner[0] in ("d", "l", "t", "S", "lc", "sc", "dc") or (inner[0] == "k" and inner[1] in (None, True, False)):
        return True
    if inner[0] == "?":
        return all(_is_no_text(subject, one, depth + 1) for one in inner[2:4])
    if is_call(inner):
        return last_name(inner).lstrip("_")[:1].isupper()
    name = str(name_of(inner)) if is_name(inner) else ""
    values = _bound_values(subject, name) if name else []
    if not values:
        kinds = [p.annotation for p in subject.ir.params if p.name == name and p.annotation is not None]
        return any(is_name(kind) and name_of(kind) not in ("str", "Any", "object") for kind in kinds)
    return all(_is_no_text(subject, value, depth + 1) for value in values)


def _gives_object(subject: Subject) -> bool:
    """Return whether a function that asks no model itself says that it gives an object of a class of the repository.

    Its class is a plain one or a model of pydantic, without a length of its own, and no way through it gives nothing.
    """
    returns = subject.ir.returns
    if returns is None or not is_name(returns) or any(subject.reach(c).capability == "llm_chat" for c in subject.calls):
        return False
    pending = [cls for cls in subject.program.classes if cls.ir.name == name_of(returns)]
    gives = [value_of(s) for s in subject.statements if s[0] == "return"]
    if not pending or not gives or subject.ir.is_generator or any(e is None or e == ("k", None) for e in gives):
        return False
    for cls in pending:
        plain = all(name in _PLAIN for name in cls.outside)
        if not plain or len(cls.bases) + len(cls.outside) != len(cls.ir.bases):
            return False
        if any(f.owner == cls.number and f.ir.name in ("__len__", "__bool__") for f in subject.program.functions):
            return False
        pending += [base for number in cls.bases if (base := subject.program.classes[number]) not in pending]
    return leaves(subject.ir.body)


def _gives_something_else(code: ClaimedCode, subject: Subject) -> bool:
    """Return whether each call that reaches a model lies in a `try` that takes every error and gives another value."""
    tries = [s for s in subject.statements if s[0] == "try" and any(map(_gives_instead, handlers_of(s)))]
    asking = [c for c in subject.calls if code.brings(subject, c, _MODELS)]
    return bool(asking) and all(any(c in set(calls_in(body_of(s))) for s in tries) for c in asking)


def _gives_instead(handler: Stmt) -> bool:
    """Return whether a handler takes every error and ends with a value that is not empty."""
    body = handler_body(handler)
    caught = caught_by(handler)
    is_wide = caught is None or last_name(caught) in ("Exception", "BaseException")
    value = value_of(body[-1]) if is_wide and body and body[-1][0] == "return" else None
    inner = unwrapped(value)
    return inner is not None and (_is_never_empty(inner) or inner[0] in ("a", "s"))


def _sent(subject: Subject) -> list[Expr]:
    """Return what a generator sends by `yield`; what it hands on of another one is none."""
    inner = [i for s in subject.statements for e in own_expressions(s) for i in walk(e) if i[0] == "y"]
    return [e for i in inner if (e := operand_of(i)) is not None] or [("k", None)]


def _is_event(e: Expr) -> bool:
    return e[0] == "d" and any(
        key is not None and is_text(key) and constant_of(key) in _KINDS for key, _ in pairs_in(e)
    )


def _is_full(code: ClaimedCode, subject: Subject, e: Expr, depth: int = 0, given: frozenset[str] = frozenset()) -> bool:
    """Return whether a value is never empty: a text, an object, or what an own function gives that never is.

    Args:
        code: The functions.
        subject: The function.
        e: The value.
        depth: Calls and names that were followed.
        given: Names whose values are never empty.
    """
    inner = unwrapped(e)
    while inner is not None and inner[0] == "w":
        inner = unwrapped(operand_of(inner))
    if inner is None or depth > MAX_HOPS:
        return False
    if _is_never_empty(inner):
        return True
    if is_name(inner):
        name = str(name_of(inner))
        values = _bound_values(subject, name)
        if name in given or not values or name in {p.name for p in subject.ir.params}:
            return name in given or (not values and name.isupper() and "EMPTY" not in name)
        return all(_is_full(code, subject, value, depth + 1, given | {name}) for value in values)
    if inner[0] == "?":
        return all(_is_full(code, subject, one, depth + 1, given) for one in inner[2:4])
    if not is_call(inner):
        return False
    if last_name(inner) == "cast" and len(positional_of(inner)) == 2:
        return _is_full(code, subject, positional_of(inner)[1], depth + 1, given)
    if subject.reach(inner).dotted.partition(".")[0] == "instructor" and keyword(inner, "response_model"):
        return True
    targets = [edge.dst for edge in subject.inside(inner)]
    if last_name(inner).lstrip("_")[:1].isupper():
        return not any(_counts_itself(code, target) for target in targets)
    others = [other for t in targets if (other := code.subject(t)) is not None and not other.info.is_abstract]
    return bool(others) and all(
        _always_gives(code, other, depth + 1, _full_parameters(code, subject, inner, other, depth, given))
        for other in others
    )


def _full_parameters(
    code: ClaimedCode, subject: Subject, call: Expr, other: Subject, depth: int, given: frozenset[str]
) -> frozenset[str]:
    """Return the parameters of a function that a call gives values which are never empty."""
    names = [p.name for p in other.ir.params if p.name not in ("self", "cls")]
    placed = [*zip(names, positional_of(call), strict=False), *keywords_of(call)]
    return frozenset(n for n, value in placed if n and _is_full(code, subject, value, depth + 1, given))


def _always_gives(code: ClaimedCode, subject: Subject, depth: int, given: frozenset[str]) -> bool:
    last = subject.ir.body[-1] if subject.ir.body else None
    returns = [value_of(s) for s in subject.statements if s[0] == "return"]
    if last is None or not returns or subject.ir.is_generator or not leaves(subject.ir.body):
        return False
    given = frozenset(
        n for n in given if all(_is_full(code, subject, value, depth + 1, given) for value in _bound_values(subject, n))
    )
    return all(value is not None and _is_full(code, subject, value, depth, given) for value in returns)


def _counts_itself(code: ClaimedCode, symbol: str) -> bool:
    """Return whether objects of a class may be empty: it says how long they are, or whether they hold."""
    owner = symbol.rpartition(".")[0] if symbol.rpartition(".")[2] == "__init__" else symbol
    return any(code.subject(f"{owner}.{name}") is not None for name in ("__len__", "__bool__"))


def _is_given_back(e: Expr, subject: Subject) -> bool:
    """Return whether a value is a parameter that the function never binds anew."""
    inner = unwrapped(e)
    name = name_of(inner) if inner is not None and is_name(inner) else None
    return name in {p.name for p in subject.ir.params} and not _bound_values(subject, str(name))


def _is_bound_to_text(e: Expr, subject: Subject) -> bool:
    """Return whether a value is a name that is only bound to values which are never empty."""
    inner = unwrapped(e)
    values = _bound_values(subject, str(name_of(inner))) if inner is not None and is_name(inner) else []
    return bool(values) and all(_is_never_empty(value) for value in values)


def _is_unread_stream(subject: Subject, e: Expr) -> bool:
    """Return whether a value is a model's stream as the client gives it."""
    inner = unwrapped(e)
    while inner is not None and inner[0] == "w":
        inner = unwrapped(operand_of(inner))
    if inner is None or not is_call(inner) or subject.reach(inner).capability != "llm_chat":
        return False
    return keyword(inner, "stream") == ("k", True) or "stream" in last_name(inner)


def _bound_values(subject: Subject, name: str) -> list[Expr]:
    return [
        value
        for s in subject.statements
        if s[0] == "assign"
        and (value := value_of(s)) is not None
        and any(name in target_names(t) for t in targets_of(s))
    ]


def _is_never_empty(e: Expr) -> bool:
    inner = unwrapped(e)
    if inner is None:
        return False
    if is_text(inner):
        return bool(constant_of(inner).strip())
    if inner[0] == "d":
        return any(key is not None for key, _ in pairs_in(inner))
    if inner[0] in ("t", "l", "S"):
        return any(element[0] != "*" for element in inner[1])
    if inner[0] == "f":
        return any(isinstance(part, str) and part.strip() for part in text_parts(inner))
    if inner[0] == "b":
        return _is_never_empty(operands_of(inner)[-1])
    if inner[0] == "?":
        return _is_never_empty(inner[2]) and _is_never_empty(inner[3])
    return False
