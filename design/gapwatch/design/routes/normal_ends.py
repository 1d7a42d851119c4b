"""Tells which values that look like failures are the normal course: settings, missing records, refusals."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from gapwatch.design.patterns.code_walk import (
    arguments_of,
    calls_in,
    constants_in,
    kinds_of,
    names_in,
    own_expressions,
    target_names,
    text_of,
    unwrapped,
    walk,
)
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.routes.forms import ERROR_NAME
from gapwatch.design.routes.given_back import asks_again, conditions_of
from gapwatch.design.routes.reaches import WORK, reaches
from gapwatch.design.routes.refusals import asks_of, refuses_request, says_missing
from gapwatch.design.routes.ways import flowing_calls
from gapwatch.design.source.ir import (
    Body,
    Expr,
    Stmt,
    body_of,
    branches_of,
    callee_of,
    constant_of,
    handler_body,
    handlers_of,
    is_call,
    is_name,
    keywords_of,
    line_of,
    members_in,
    operators_of,
    positional_of,
    target_of,
    targets_of,
    value_of,
)
from gapwatch.design.source.program import inner_bodies, last_name, statements

#: Exceptions of what is not there.
_MISSING = re.compile(r"NotFound|DoesNotExist|NoSuch")
#: Exceptions of a look-up by name, and what is said of it.
_LOOKS_UP = re.compile(r"^(KeyError|LookupError)$|NotFound|DoesNotExist|NoSuch")
_SAYS_NOT_THERE = re.compile(
    r"(not|n't) (be )?found|does(n't| not) exist|no such|^\W*(error\W+)?(unknown|no) \w+", re.I
)
#: Functions that answer yes or no, or say whether a setting works.
_ASKS = re.compile(r"(^|_)(is|has|can|should|supports?|check|verify|probe|ping|test)_|(^|_)exists?$")
#: Values that say of a record that nothing is known.
_UNKNOWN = re.compile(r"\W*(unknown|n/?a|none|not available|undefined)\W*", re.I)
#: Names of amounts that are shown beside an answer.
_AMOUNT = re.compile(r"(^|_)(num|count|counts|estimated?|tokens?|rows?|size|length|total)(_|$)")
#: Names of what a caller gives that may be the result of other work.
_OF_RESULT = re.compile(
    r"answer|response|repl(y|ies)|result|output|completion|generat|content|text|state|data|rows?|items"
)
#: Methods that fill a container, and settings of a process.
_FILLS = frozenset({"append", "extend", "add", "update", "setdefault", "insert"})
_SETTINGS = re.compile(r"(^|\.)(environ\.get|getenv|get_env|get_setting)$")
#: Exceptions of wrong values.
_OF_INPUT = re.compile(r"(Value|Type|Key|Index|Attribute|Lookup|JSONDecode|Unicode\w*|Runtime)Error")


@dataclass(frozen=True)
class _Place:
    """A statement with what is around it.

    Attributes:
        s: The statement.
        after: Statements that follow it in its block.
        around: The statements that hold it, outermost first, each with the handler that it lies in, the tests of its
            branch, and what follows the holding statement.
    """

    s: Stmt
    after: Body
    around: tuple[tuple[Stmt, Stmt | None, tuple[Expr, ...], Body], ...]


class NormalEnds:
    """Queries about the values that a function gives back.

    Args:
        subject: The function.
    """

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self._places: dict[int, _Place] | None = None

    def holds(self, value: Expr, line: int, kind: str) -> bool:
        """Return whether a value at a line is no failure of the work.

        `kind` is the variant of the failure.
        """
        place = self._at(line)
        if place is None or kind in _SURE:
            return False
        if self._ends_a_stream(place, value):
            return True
        if (handled := _handled(place)) is None:
            is_refused = kind != "status" and (refuses_request(value) or self._is_of_arguments(place, kind))
            return is_refused or (kind == "error text" and self._is_verdict(place, value))
        s, handler, rest = handled
        if kind == "error text" and asks_again(self.subject, value):
            return True
        if self._is_for_missing(place, value, s, handler, kind):
            return True
        if kind != "error text" and (self._takes_settings(s, handler) or _is_unset(value, s)):
            return True
        return self._is_start_of_another(place, s, handler, rest)

    def why_beside(self, line: int, kind: str) -> str | None:
        """Return why a failure that is given back at a line costs no answer, or None.

        `kind` is the variant of the failure.
        """
        place = self._at(line)
        value = value_of(place.s) if place is not None and place.s[0] in ("return", "assign") else None
        if place is None or value is None or kind in _SURE:
            return None
        handled = _handled(place)
        if handled is None:
            is_refused = kind != "status" and self._is_of_arguments(place, kind)
            return "it refuses what the caller gives" if is_refused else None
        return self._why_beside(place, value, handled[0])

    # -- where a value lies ------------------------------------------------------------------------------------

    def _at(self, line: int) -> _Place | None:
        if self._places is None:
            self._places = {}
            for place in _placed(self.subject.ir.body, ()):
                if place.s[0] in ("return", "assign", "expr"):
                    self._places.setdefault(line_of(place.s), place)
        return self._places.get(line)

    def _ends_a_stream(self, place: _Place, value: Expr) -> bool:
        """Return whether a generator ends with `return`, or a fixed mark, after what it has sent in the same block."""
        if not self.subject.ir.is_generator or any(is_call(e) for e in walk(value)):
            return False
        is_end = place.s[0] == "return" and value_of(place.s) is None
        if not is_end and not (place.s[0] == "expr" and place.s[2][0] == "y" and place.s[2][1][0] == "k"):
            return False
        block = handler_body(place.around[-1][1]) if place.around and place.around[-1][1] else _block_of(place)
        before = [x for x in block if line_of(x) < line_of(place.s)]
        return any(i[0] == "y" for x in before for e in own_expressions(x) for i in walk(e))

    # -- rules -------------------------------------------------------------------------------------------------

    def _is_of_arguments(self, place: _Place, kind: str) -> bool:
        """Return whether a branch looks at the arguments of its function alone: what the caller gave is refused."""
        if not place.around or place.around[-1][1] is not None:
            return False
        s, _, tests, _ = place.around[-1]
        if s[0] != "if" or not tests:
            return False
        given = {p.name for p in self.subject.ir.params if p.name not in ("self", "cls")}
        given = {name for name in given if not _OF_RESULT.search(name)} - self._made
        given = {name for name in given if not self._is_result_of_callers(name)}
        # What is empty, or not one of many, may be the result of a step before.
        compared = {op for t in tests for e in walk(t) if e[0] == "q" for op in operators_of(e)}
        is_compared = kind != "empty" or bool(compared & {"==", "!="})
        return is_compared and all(asks_of(test, given) for test in tests)

    def _is_verdict(self, place: _Place, value: Expr) -> bool:
        """Return whether a model that checks the work was not content, and what it says of it is handed on.

        `if not verdict.is_good: return {"feedback": verdict.feedback}`: whoever did the work does it again.
        """
        if not place.around or place.around[-1][0][0] != "if":
            return False
        asked = {e[1][1] for t in place.around[-1][2] for e in conditions_of(t) if e[0] == "a" and is_name(e[1])}
        told = {e[1][1] for e in walk(value) if e[0] == "a" and is_name(e[1]) and not ERROR_NAME.search(e[2])}
        made = [c for n in asked & told for c in flowing_calls(self.subject, self.subject.statements, ("n", n))]
        return any("llm_chat" in reaches(self.subject, c) for c in made)

    def _is_result_of_callers(self, name: str) -> bool:
        """Return whether a caller gives the result of work, and no words or choice of a person, for a parameter."""
        subject = self.subject
        names = [p.name for p in subject.ir.params if p.name not in ("self", "cls")]
        for caller in subject.callers:
            for call in caller.calls:
                if not any(edge.dst == subject.symbol for edge in caller.inside(call)):
                    continue
                placed = dict(zip(names, positional_of(call), strict=False))
                value = placed.get(name) or dict(keywords_of(call)).get(name)
                made = flowing_calls(caller, caller.statements, value) if value is not None else []
                if any(not reaches(caller, c).isdisjoint(WORK) for c in made):
                    return True
        return False

    @functools.cached_property
    def _made(self) -> set[str]:
        """Names that the function binds to results of work."""
        return {
            name
            for s in self.subject.statements
            if s[0] == "assign" and (value := value_of(s)) is not None
            if any(is_call(e) and reaches(self.subject, e) for e in walk(value))
            for t in targets_of(s)
            for name in target_names(t)
        }

    def _is_for_missing(self, place: _Place, value: Expr, s: Stmt, handler: Stmt, kind: str) -> bool:
        """Return whether a handler takes a record that is not there, or there already."""
        inside = [tests for x, _, tests, _ in place.around if x[0] == "if" and _is_within(x, handler)]
        if any(says_missing(test) for tests in inside for test in tests[-1:]):
            return True
        names = [last_name(one) for one in kinds_of(handler)]
        if kind == "error text" and names and all(_LOOKS_UP.search(n) for n in names) and len(body_of(s)) == 1:
            # What was asked for by its name or number is not there.
            return any(map(_SAYS_NOT_THERE.search, constants_in(value)))
        is_missing = bool(names) and any(map(_MISSING.search, names))
        is_missing = is_missing and all(_MISSING.search(n) or n in ("KeyError", "LookupError") for n in names)
        return is_missing and kind == "fixed text" and " " not in "".join(constants_in(value))

    def _why_beside(self, place: _Place, value: Expr, s: Stmt) -> str | None:
        reached = {c for call in calls_in(body_of(s)) for c in reaches(self.subject, call)}
        if "llm_chat" in reached:
            return None
        name = self.subject.ir.name
        e = members_in(value)[0] if value[0] == "t" and members_in(value) else value
        if e[0] == "k" and constant_of(e) is False and place.s[0] == "return":
            compares = any(one[0] in ("q", "!") for one in self.subject.returned)
            is_asked = bool(_ASKS.search(name)) or (compares and reached.isdisjoint(WORK))
            return f"{name} is asked whether something holds, and answers no" if is_asked else None
        if e[0] != "k":
            return None
        if isinstance(constant_of(e), str) and _UNKNOWN.fullmatch(constant_of(e)):
            return "it says of a record that is shown that nothing is known"
        names = [n for t in targets_of(place.s) for n in target_names(t)] if place.s[0] == "assign" else [name]
        if type(constant_of(e)) in (int, float) and all(_AMOUNT.search(n.rpartition(".")[2]) for n in names):
            return f"{names[0]} is an amount that is shown beside the work"
        if place.s[0] == "assign" and type(constant_of(e)) is bool and self._only_decides(names):
            return f"{names[0]} is read by conditions alone"
        return None

    def _only_decides(self, names: list[str]) -> bool:
        """Return whether names are read by conditions alone."""
        for s in self.subject.statements:
            if s[0] in ("if", "while"):
                continue
            read = [value_of(s)] if s[0] == "assign" else own_expressions(s)
            if any(set(names) & names_in(e) for e in read if e is not None):
                return False
        return True

    def _takes_settings(self, s: Stmt, handler: Stmt) -> bool:
        """Return whether a `try` only converts a value, a setting or a literal, and takes wrong values alone."""
        names = [last_name(one) for one in kinds_of(handler)]
        if not names or not all(n == "PackageNotFoundError" or _OF_INPUT.fullmatch(n) for n in names):
            return False
        return all(self._converts(call) for call in calls_in(body_of(s)))

    def _converts(self, call: Expr) -> bool:
        """Return whether a call makes a value of another one, and fails only for the value."""
        if _SETTINGS.search(text_of(callee_of(call))) or last_name(call) == "version":
            return True
        if last_name(call) == "loads":
            # `json.loads('"' + text + '"')` reads the escapes of a text.
            given = arguments_of(call)
            return bool(given) and given[0][0] in ("o", "f") and any('"' in t for t in constants_in(given[0]))
        own = [self.subject.program.classes[n] for n in self._classes_named(last_name(call))]
        if own and all(any(last_name(b).endswith("Enum") for b in cls.ir.bases) for cls in own):
            return True
        known = self.subject.sites.names_outside(self.subject.symbol, call)
        is_value = all(
            name.partition(".")[0] in ("<builtin>", "builtins", "os", "flask", "mimetypes", "pathlib") for name in known
        )
        is_own = bool(self.subject.inside(call))
        return not is_own and is_value and (bool(known) or last_name(call) == "get")

    def _classes_named(self, name: str) -> list[int]:
        return [n for n, cls in enumerate(self.subject.program.classes) if cls.ir.name == name]

    def _is_start_of_another(self, place: _Place, s: Stmt, handler: Stmt, rest: Body) -> bool:
        """Return whether what is bound is filled or bound anew by another way, or starts a record that is written."""
        value = value_of(place.s) if place.s[0] == "assign" else None
        names = {n for t in targets_of(place.s) for n in target_names(t)} if value is not None else set()
        if value is None or not (value[0] == "k" or text_of(value) in ("[]", "d()", "dict()", "list()")):
            return False
        later = [x for x in statements(handler_body(handler)) if line_of(x) > line_of(place.s)]
        if any(_fills(x, names) for x in later):
            return True
        follows = next((x for x in rest if x[0] != "expr"), None)
        if follows is not None and follows[0] == "if":
            for test, block in branches_of(follows)[:1]:
                if names & names_in(test) and any(_fills(x, names) for x in statements(block)):
                    return True
        returned = {n for e in self.subject.returned for n in names_in(e)}
        is_record = value[0] != "k" and not names & {n.partition(".")[0] for n in returned}
        return is_record and any(_puts_into(x, names) for x in rest)


def _is_unset(value: Expr, s: Stmt) -> bool:
    """Return whether a value is made without arguments by the only class that a `try` makes: settings as they come."""
    made = [c for c in calls_in(body_of(s)) if last_name(c)[:1].isupper()]
    if not is_call(value) or arguments_of(value) or len(body_of(s)) != 1:
        return False
    return (
        len(made) == 1 and text_of(callee_of(made[0])) == text_of(callee_of(value)) and last_name(value)[:1].isupper()
    )


def _handled(place: _Place) -> tuple[Stmt, Stmt, Body] | None:
    """Return the nearest `try` with a handler that holds a place, the handler, and what follows the `try`."""
    return next(((s, h, rest) for s, h, _, rest in reversed(place.around) if h is not None), None)


def _placed(body: Body, around: tuple[tuple[Stmt, Stmt | None, tuple[Expr, ...], Body], ...]) -> Iterator[_Place]:
    for i, s in enumerate(body):
        rest = body[i + 1 :]
        yield _Place(s, rest, around)
        if s[0] == "try":
            blocks: list[tuple[Stmt | None, tuple[Expr, ...], Body]]
            blocks = [(h, (), handler_body(h)) for h in handlers_of(s)]
            known = {id(handler_body(h)) for h in handlers_of(s)}
            blocks += [(None, (), b) for b in inner_bodies(s) if id(b) not in known]
        elif s[0] == "if":
            tests = tuple(test for test, _ in branches_of(s))
            blocks = [(None, tests[: n + 1], block) for n, (_, block) in enumerate(branches_of(s))]
            blocks.append((None, tests, s[3]))
        else:
            blocks = [(None, (), b) for b in inner_bodies(s)]
        for handler, given, block in blocks:
            yield from _placed(block, (*around, (s, handler, given, rest)))


def _block_of(place: _Place) -> Body:
    """Return the block of the nearest statement around that holds a place."""
    if not place.around:
        return ()
    return next((b for b in inner_bodies(place.around[-1][0]) if any(x is place.s for x in b)), ())


def _is_within(s: Stmt, handler: Stmt) -> bool:
    return any(x is s for x in statements(handler_body(handler)))


def _fills(s: Stmt, names: set[str]) -> bool:
    """Return whether a statement binds names to what it made, or puts something into them."""
    if s[0] == "assign":
        value = value_of(s)
        is_plain = value is None or value[0] == "k" or text_of(value) in ("[]", "d()", "dict()", "list()")
        return not is_plain and bool(names & {n for t in targets_of(s) for n in target_names(t)})
    return (s[0] == "aug" and text_of(target_of(s)) in names) or _puts_into(s, names)


def _puts_into(s: Stmt, names: set[str]) -> bool:
    if s[0] == "assign":
        return any(t[0] == "s" and text_of(t[1]) in names for t in targets_of(s))
    call = unwrapped(s[2]) if s[0] == "expr" else None
    if call is None or not is_call(call) or callee_of(call)[0] != "a":
        return False
    return last_name(call) in _FILLS and text_of(callee_of(call)[1]) in names


#: Kinds of failures that other rules are sure of.
_SURE = frozenset({"no right form", "nothing found", "default for an invalid value"})
