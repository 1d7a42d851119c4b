"""Finds loops of agents in functions, and how their runs end: by statuses, exceptions, conditions around a line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gapwatch.design.agents.agent_loop import ERROR, LEFT, AgentLoop, LoopExit
from gapwatch.design.agents.exit_causes import ExitCauses, limit_of_range, of_words, status_of
from gapwatch.design.agents.loop_lines import leaving_lines
from gapwatch.design.agents.told_errors import caught_names, errors_of_tools, format_errors, once_each, tool_errors
from gapwatch.design.agents.turns import LoopTurn, is_asked, turn_of
from gapwatch.design.patterns.code_walk import (
    calls_in,
    names_in,
    own_expressions,
    target_names,
    text_of,
    unwrapped,
    walk,
)
from gapwatch.design.patterns.hit import PatternHit, Subject
from gapwatch.design.source.ir import (
    Expr,
    Stmt,
    body_of,
    branches_of,
    constant_of,
    end_of,
    handler_body,
    handlers_of,
    is_call,
    is_text,
    iterable_of,
    keywords_of,
    line_of,
    operands_of,
    operators_of,
    orelse_of,
    pairs_in,
    target_of,
    targets_of,
    test_of,
    value_of,
)
from gapwatch.design.source.program import Program, last_name, statements

#: Names of loops that try the same again, and of loops over what a user or a queue sends.
_AGAIN = re.compile(r"attempt|retr(y|ies)|(^|_)tries($|_)|backoff", re.I)
_LISTENS = frozenset(
    [
        *("input", "receive", "receive_text", "receive_json", "receive_bytes", "recv", "recv_json", "readline", "poll"),
        *("getone", "getmany", "get_updates", "prompt", "ask_user", "accept", "sleep", "brpop", "blpop", "get_nowait"),
    ]
)
_STATUS = re.compile(
    r"^(exit_?(status|reason|code_name)|stop_?reason|end_?reason|terminat\w*_reason|finish_?status|run_?status|agent_?status)$",
    re.I,
)
#: Before the words of a status that the code itself gives a run.
SAID = "status "
_SUPPRESSES = frozenset({"Exception", "BaseException"})


def code_loops(program: Program, subjects: Iterable[Subject], distances: dict[str, int]) -> list[AgentLoop]:
    """Return the loops of agents in functions; of loops that hold each other only the innermost.

    Args:
        program: All files in intermediate form.
        subjects: The functions to read.
        distances: Calls to the nearest model by symbol.
    """
    models = {symbol for symbol, distance in distances.items() if distance == 0}
    found: list[tuple[AgentLoop, set[str]]] = []
    around: list[tuple[Subject, Stmt]] = []
    for subject in subjects:
        if subject.ir.kind == "module":
            continue
        for s in subject.statements:
            if s[0] not in ("for", "while") or not _makes_steps(s):
                continue
            if not _is_near(subject, s, distances):
                if any(line.told()[0] == "limit" for line in leaving_lines(body_of(s))):
                    around.append((subject, s))
                continue
            turn = turn_of(subject, body_of(s), models)
            if turn.asks and turn.acts:
                found.append((_LoopReader(program, subject, s, turn).loop(), {f.symbol for f in turn.functions}))
    holding = {loop.symbol for loop, _ in found}
    # A loop around another is an agent of its own where it tells that it ended by its limit.
    out = [loop for loop, runs in found if not (runs - {loop.symbol}) & holding or _says_limit(loop)]
    for subject, s in around:
        turn = turn_of(subject, body_of(s), models)
        if holding & {f.symbol for f in turn.functions}:
            out.append(_LoopReader(program, subject, s, turn).loop())
    return [a for a in out if not any(_is_inside(b, a) for b in out)]


def _says_limit(loop: AgentLoop) -> bool:
    return any(e.how == "limit" and e.why.startswith(SAID) for e in loop.exits)


def _is_inside(inner: AgentLoop, outer: AgentLoop) -> bool:
    return inner != outer and inner.symbol == outer.symbol and outer.line < inner.line and inner.end <= outer.end


def _makes_steps(s: Stmt) -> bool:
    """Return whether a loop makes steps, is none of attempts, and listens to nobody."""
    if s[0] == "for":
        name = last_name(iterable_of(s)) if is_call(iterable_of(s)) else ""
        if name not in ("range", "count") or _AGAIN.search(f"{text_of(target_of(s))} {text_of(iterable_of(s))}"):
            return False
    elif _AGAIN.search(text_of(test_of(s))):
        return False
    return not any(last_name(call) in _LISTENS for call in calls_in(body_of(s)))


def _is_near(subject: Subject, s: Stmt, distances: dict[str, int]) -> bool:
    """Return whether a loop leads to a model within a few calls."""
    return any(
        is_asked(subject, call) or any(distances.get(e.dst, 99) <= _NEAR for e in subject.inside(call))
        for call in calls_in(body_of(s))
    )


#: Calls between a loop and the model that it asks.
_NEAR = 3


class _LoopReader:
    def __init__(self, program: Program, subject: Subject, s: Stmt, turn: LoopTurn) -> None:
        self._program, self._subject, self._loop, self._turn = program, subject, s, turn
        self._path = program.path(subject.info)
        bound: dict[str, Expr] = {}
        for one in subject.statements:
            if one[0] == "assign" and (value := value_of(one)) is not None:
                bound.update((name, value) for t in targets_of(one) for name in target_names(t))
        self._bound = bound
        self._causes = ExitCauses(bound)

    def loop(self) -> AgentLoop:
        """Return the loop."""
        s, subject = self._loop, self._subject
        limit, by_end = self._end()
        exits = list(self._lines())
        statuses = self._statuses()
        words = {how: of_words(how) for _, how, _, _ in statuses}
        used_up = self._used_up()
        if s[0] == "while" and (used_up or (test_of(s)[0] == "b" and by_end == "limit")):
            by_end = "done"
        if s[0] == "while" and test_of(s)[0] == "b":
            # `while steps < most and not done`: both may be so at once.
            used_up = []
        default = by_end or "done"
        if len(words) > 1 and not {"limit", "error"}.isdisjoint(words.values()):
            exits = [
                LoopExit(path, line, symbol, how, self._why(symbol, line, how), is_good=words[how] == "done")
                for line, how, symbol, path in statuses
                if words[how]
            ]
            good = sorted({e.how for e in exits if e.is_good})
            default = good[0] if len(good) == 1 else default
        else:
            exits += self._raised()
            if not any(e.how == "done" for e in exits):
                exits = [
                    LoopExit(e.path, e.line, e.symbol, "done", e.why, e.flag, True) if e.how == "no_tool_call" else e
                    for e in exits
                ]
        exits += used_up
        if default == "limit" and not self._ends_early(exits):
            default = "done"  # It always makes so many steps, or what follows is reached by good runs, too.
        body = body_of(s)
        told = {h for f in self._near() for h in tool_errors(f, f.statements)}
        told |= {h for f in (subject, *self._turn.functions) for h in errors_of_tools(f)}
        told |= {*tool_errors(subject, statements(body)), *format_errors(subject, s)}
        told = once_each(self._functions_of(told), told)
        limit = limit or next((e.why for e in exits if e.how == "limit" or of_words(e.how) == "limit"), "")
        return AgentLoop(
            self._path,
            line_of(s),
            subject.symbol,
            end_of(s),
            "loop",
            line_of(body[0]),
            default,
            tuple(sorted(set(exits))),
            tuple(sorted(told)),
            tuple(self._flow()),
            not self._takes_all(),
            limit,
        )

    def _functions_of(self, hits: Iterable[PatternHit]) -> list[Subject]:
        return [f for symbol in sorted({h.symbol for h in hits}) if (f := self._subject.other(symbol)) is not None]

    def _near(self) -> list[Subject]:
        """Return the functions of its steps that lie in the same file."""
        return [f for f in self._turn.functions if f.info.module == self._subject.info.module]

    def _end(self) -> tuple[str, str]:
        """Return (code of the limit, how a run ends) where the loop itself is over."""
        s = self._loop
        if s[0] == "for":
            limit = limit_of_range(iterable_of(s))
            return (limit or "", "limit") if limit else ("", "")
        test = test_of(s)
        if test[0] == "k":
            return "", ""
        found = self._causes.of([(test, False)]) or self._causes.of([(test, True)])
        causes = {cause for cause, _, _ in found}
        if any(e[0] == "q" and (self._causes.is_limit(e) or _counts_up(e, s, self._bound)) for e in walk(test)):
            return text_of(test)[:100], "limit"
        return "", next((c for c in ("done", "error", "limit") if c in causes), "done")

    def _used_up(self) -> list[LoopExit]:
        """Return the end that `if steps >= most` tells behind a loop which compares the same names."""
        asked = names_in(test_of(self._loop)) if self._loop[0] == "while" else set()
        behind = (x for x in self._subject.statements if x[0] == "if" and line_of(x) > end_of(self._loop))
        for test, block in (branch for x in behind for branch in branches_of(x)):
            compared = [e for e in walk(test) if e[0] == "q" and self._causes.is_limit(e)]
            if block and any(set(names_in(e)) <= set(asked) for e in compared):
                return [self._exit(line_of(block[0]), "limit", text_of(test), "")]
        return []

    def _lines(self) -> Iterator[LoopExit]:
        for line in leaving_lines(body_of(self._loop)):
            s = line.statement
            value = value_of(s) if s[0] in ("return", "raise") else None
            by_value = of_words(status_of(value)) if value is not None else ""
            by_caught = next((c for n in line.caught if (c := of_words(n))), ERROR if line.caught else "")
            causes = self._causes.of(line.tests)
            told, status = line.told()
            is_free = not by_caught and {cause for cause, _, _ in causes} <= {"no_tool_call"}
            if told in ("limit", ERROR) or (told and is_free):
                causes = [(told, f"{SAID}{status}", "")]
            elif by_value and (s[0] == "raise" or by_value != "error"):
                causes = [(by_value, causes[0][1] if causes else status_of(value), "")]
            elif by_caught:
                causes = [(by_caught, f"except {', '.join(line.caught)}", "")]
            elif not causes:
                causes = [(ERROR if s[0] == "raise" else "done", text_of(value) or str(s[0]), "")]
            plain = [cause for cause, _, flag in causes if not flag]
            # `if done or steps >= most`: where the name is not true, it is the other.
            is_told = len(plain) == 1 and all(cause in ("done", "stopped") for cause, _, flag in causes if flag)
            if len({cause for cause, _, _ in causes}) > 1 and plain and not is_told:
                order = ("limit", "error", "no_tool_call", "stopped", "done")
                causes = [min(causes, key=lambda c: order.index(c[0]))]
            if len(causes) == 1 and causes[0][0] == "limit" and not (told or by_value) and not _is_plain(line.tests):
                causes = [(LEFT, causes[0][1], "")]  # A good run may pass it, too.
            has_several = len(causes) > 1
            for cause, why, flag in causes:
                yield self._exit(line_of(s), cause, why, flag if has_several else "")

    def _ends_early(self, exits: list[LoopExit]) -> bool:
        """Return whether good runs leave the function inside of the loop, so that its end is that of the others."""
        body = body_of(self._loop)
        left = {line_of(line.statement): line.statement[0] for line in leaving_lines(body)}
        good = [e for e in exits if e.is_good and e.symbol == self._subject.symbol and e.line in left]
        others = [
            e for e in exits if e.how != "limit" and left.get(e.line) == "break" and not e.why.startswith("except ")
        ]
        return bool(good) and (bool(orelse_of(self._loop)) or not others)

    def _exit(self, line: int, how: str, why: str, flag: str) -> LoopExit:
        short = " ".join(why.split())[:100]
        return LoopExit(self._path, line, self._subject.symbol, how, short, flag, how in ("done", "stopped"))

    def _raised(self) -> Iterator[LoopExit]:
        """Yield the exceptions of the repository by which a step ends the run, by their names."""
        for one in self._near():
            for s in one.statements:
                value = value_of(s) if s[0] == "raise" else None
                how = of_words(last_name(value)) if value is not None else ""
                if value is not None and how in ("limit", "done"):
                    why = text_of(value)[:100]
                    yield LoopExit(self._path, line_of(s), one.symbol, how, why, is_good=how == "done")

    def _why(self, symbol: str, line: int, how: str) -> str:
        """Return the condition under which a line gives the run a status, where it holds a limit; else the status."""
        one = self._subject.other(symbol)
        for s in one.statements if one is not None else ():
            for test, block in branches_of(s) if s[0] == "if" else ():
                inside = block and line_of(block[0]) <= line <= max(line_of(x) for x in statements(block))
                if inside and any(e[0] == "q" and self._causes.is_limit(e) for e in walk(test)):
                    return " ".join(text_of(test).split())[:100]
        return f"{SAID}{how}"

    # -- statuses ----------------------------------------------------------------------------------------------

    def _statuses(self) -> list[tuple[int, str, str, str]]:
        """Return (line, status, function, path) of each line that gives the run a status by name."""
        around = [self._subject, *self._turn.functions]
        owner = self._subject.info.owner
        if owner >= 0:
            known = {f.symbol for f in around}
            same = (i for i in self._program.functions if i.owner == owner and i.symbol not in known)
            around += [f for i in same if (f := self._subject.other(i.symbol)) is not None]
        out: set[tuple[int, str, str, str]] = set()
        for one in around:
            for s in one.statements:
                for status in _statuses_in(s):
                    out.add((line_of(s), status, one.symbol, self._program.path(one.info)))
        return sorted(out)

    # -- handlers ----------------------------------------------------------------------------------------------

    def _flow(self) -> Iterator[int]:
        """Yield the lines of `try` statements in the loop that take only exceptions of the repository, and go on."""
        own = {c.ir.name for c in self._program.classes}
        for s in statements(body_of(self._loop)):
            if s[0] == "try" and handlers_of(s):
                going_on = [h for h in handlers_of(s) if not any(x[0] == "raise" for x in handler_body(h))]
                names = [caught_names(h) for h in going_on]
                if going_on and all(mine and set(mine) <= own for mine in names):
                    yield line_of(s)

    def _takes_all(self) -> bool:
        """Return whether a handler in or around the loop takes every exception of a step."""
        for s in self._subject.statements:
            if s[0] != "try" or not (self._is_around(s) or self._is_first(s)):
                continue
            for handler in handlers_of(s):
                names = caught_names(handler)
                if (not names or set(names) & _SUPPRESSES) and not any(
                    x[0] == "raise" for x in statements(handler_body(handler))
                ):
                    return True
        return False

    def _is_around(self, s: Stmt) -> bool:
        return any(x is self._loop for x in statements(body_of(s)))

    def _is_first(self, s: Stmt) -> bool:
        """Return whether a `try` holds the calls of a step: nearly the whole block of the loop."""
        body = [x for x in body_of(self._loop) if any(True for _ in calls_in((x,)))]
        return any(x is s for x in body) and len(body) <= 2


def _is_plain(tests: tuple[tuple[Expr, bool], ...]) -> bool:
    """Return whether the innermost condition around a line is a single one."""
    test = unwrapped(tests[-1][0]) or tests[-1][0] if tests else None
    return test is not None and test[0] != "b"


def _statuses_in(s: Stmt) -> Iterator[str]:
    given: list[tuple[str, Expr]] = []
    for e in own_expressions(s):
        for one in walk(e):
            if one[0] == "d":
                given += [(str(constant_of(k)), v) for k, v in pairs_in(one) if k is not None and k[0] == "k"]
            elif is_call(one):
                given += [(name, v) for name, v in keywords_of(one) if name]
    if s[0] == "assign" and (value := value_of(s)) is not None:
        given += [(_last_key(t), value) for t in targets_of(s)]
    for name, value in given:
        is_name = value[0] == "a" and value[2].isupper()
        if _STATUS.search(name) and (is_name or (is_text(value) and constant_of(value).strip())):
            yield str(value[2]) if is_name else str(constant_of(value))


def _counts_up(comparison: Expr, loop: Stmt, values: dict[str, Expr]) -> bool:
    """Return whether a comparison holds what the loop itself counts against a bound: `while i < 5: i += 1`.

    What is counted must be no index, and the bound must be a number or a name that the loop does not bind.
    """
    inside = list(statements(body_of(loop)))
    counted = {name for x in inside if x[0] == "aug" for name in target_names(target_of(x))}
    indexes = {
        n for x in inside for e in own_expressions(x) for one in walk(e) if one[0] == "s" for n in names_in(one[2])
    }
    bound = {n for x in inside if x[0] == "assign" for t in targets_of(x) for n in target_names(t)} | counted
    sides = [e[1] if e[0] == "n" else "" for e in operands_of(comparison)]
    others = [e for e, name in zip(operands_of(comparison), sides, strict=True) if name not in counted]
    if len(others) != 1 or not (counted - indexes) & set(sides) or not set(operators_of(comparison)) <= {"<", "<="}:
        return False
    other = values.get(others[0][1], others[0]) if others[0][0] == "n" else others[0]
    if any(is_call(e) and last_name(e) == "len" for e in walk(other)):
        return False
    is_number = other[0] == "k" and type(other[1]) is int and other[1] > 1
    return is_number or (others[0][0] in "na" and bound.isdisjoint(names_in(others[0])))


def _last_key(target: Expr) -> str:
    if target[0] == "s" and target[2][0] == "k":
        return str(target[2][1])
    return text_of(target).rpartition(".")[2]
