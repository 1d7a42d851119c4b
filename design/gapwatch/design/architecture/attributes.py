"""Finds what the classes of a repository assign to their attributes, in their bodies and their methods."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from gapwatch.design.patterns.call_sites import CallSites
from gapwatch.design.patterns.code_walk import keyword, text_of
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.source.ir import Expr, call_line, is_member, line_of, member_of, owner_of, targets_of, value_of
from gapwatch.design.source.program import Program

#: Most assignments of one attribute.
_MOST = 6


class AssignedAttributes:
    """Attributes of classes with what is assigned to them.

    Args:
        program: All files in intermediate form.
        sites: Targets of all call sites.
    """

    def __init__(self, program: Program, sites: CallSites) -> None:
        self._program = program
        self._sites = sites
        self._known: dict[int, dict[str, list[tuple[Subject, Expr, int]]]] = {}

    def of(self, owner: int, name: str) -> list[tuple[Subject, Expr, int]]:
        """Return what the methods of a class, of its bases, or else of its subclasses assign to an attribute."""
        classes = self._program.classes
        line, seen = [owner], {owner}
        while line:
            number = line.pop(0)
            if found := self._assigned(number).get(name):
                return found[:_MOST]
            line += [n for n in classes[number].bases if n not in seen]
            seen.update(line)
        refined = [one for n in classes[owner].subclasses for one in self._assigned(n).get(name, ())]
        return (refined or list(self._given(owner, name)))[:_MOST]

    def _given(self, owner: int, name: str) -> Iterator[tuple[Subject, Expr, int]]:
        """Yield what is given by name where an object of a class is made, whose library keeps it as an attribute."""
        made = self._program.classes[owner]
        if not made.outside:
            return
        for edge in (*self._sites.callers[f"{made.symbol}.__init__"], *self._sites.callers[made.symbol]):
            number = self._sites.numbers(self._program).get(edge.src)
            if number is None or edge.kind != "construct":
                continue
            holder = Subject(self._program, self._sites, self._program.functions[number])
            for call in holder.calls:
                value = keyword(call, name)
                if value is not None and edge in holder.inside(call):
                    yield holder, value, call_line(call)

    def _assigned(self, owner: int) -> dict[str, list[tuple[Subject, Expr, int]]]:
        if owner not in self._known:
            out: dict[str, list[tuple[Subject, Expr, int]]] = {}
            cls = self._program.classes[owner]
            body = self._program.functions[self._program.bodies[cls.module]]
            holder = Subject(self._program, self._sites, body)
            for s in cls.ir.body:
                if s[0] == "assign" and (value := value_of(s)) is not None:
                    for target in targets_of(s):
                        out.setdefault(text_of(target), []).append((holder, value, line_of(s)))
            for number in self._methods.get(owner, ()):
                method = Subject(self._program, self._sites, self._program.functions[number])
                for s in method.statements:
                    if s[0] == "assign" and (value := value_of(s)) is not None:
                        for target in targets_of(s):
                            if is_member(target) and owner_of(target) == ("n", "self"):
                                out.setdefault(member_of(target), []).append((method, value, line_of(s)))
            self._known[owner] = out
        return self._known[owner]

    @cached_property
    def _methods(self) -> dict[int, list[int]]:
        out: dict[int, list[int]] = {}
        for info in self._program.functions:
            if info.owner >= 0:
                out.setdefault(info.owner, []).append(info.number)
        return out
