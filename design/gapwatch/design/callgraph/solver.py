"""The fixed point: scopes are interpreted until what they read no longer grows.

A cell holds the set of values that a parameter, a result, an attribute or a slot of a container may have, and knows the
scopes that read it. Interpreting a scope (`statements`) reads and grows cells; when a cell grows, its readers
are interpreted once more in the next round. Sets only grow and are bounded, so this ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from gapwatch.design.callgraph.values import EMPTY, Kind, Values, ValueTable
from gapwatch.design.source.ir import Stmt
from gapwatch.design.source.program import FunctionInfo, Program, last_name, statements

#: Values in one set (the last addition may overstep it); more mean that the set says nothing any more.
MAX_VALUES = 32
#: Values beyond which a set takes no more constants and library values.
MAX_LIGHT = 10
#: Constant keys of one container that are told apart.
MAX_KEYS = 32
#: Rounds over what has changed, whatever they cost; real code finds 97 % of its edges in them.
MIN_ROUNDS = 4
#: Lines read and lines of scopes interpreted up to which more rounds follow, for long chains of containers. About ten
#: seconds; repositories of up to 150,000 lines are solved to the end within it, large ones take the rounds above.
MAX_WORK = 900_000

#: Subclasses that one abstract or missing member is looked for in. Each class has the list of its own: of a chain of
#: thousands they would hold millions.
MAX_DESCENDANTS = 40

#: Classes in the order of one class beyond itself; of a chain of thousands the far ones are not asked.
MAX_ORDER = 60

Target = int | str
"""Where an edge ends: a function's number, -1 minus a class's number, or a dotted name outside."""


Shape = tuple[list[int], int, dict[str, int], bool]
"""Which parameters of a function take arguments by position, which one the rest, which by name; whether it has `**`."""


@dataclass(slots=True)
class Cell:
    """A set of values and the scopes that read it."""

    values: Values = EMPTY
    #: Most cells are read by one scope or by none: a set for each would be a third of the memory.
    readers: set[int] | int | None = None

    def read_by(self, reader: int) -> Values:
        """Return the values, and remember who has read them."""
        readers = self.readers
        if readers is None:
            self.readers = reader
        elif isinstance(readers, set):
            readers.add(reader)
        elif readers != reader:
            self.readers = {readers, reader}
        return self.values


@dataclass(slots=True)
class ScopeResult:
    """What the last interpretation of one scope found.

    Attributes:
        edges: (target, kind, class whose body the call stands in, or -1) to lines.
        unresolved: (line, text, cause) of the calls whose target is not known.
        resolved: Number of call sites with at least one target.
    """

    edges: dict[tuple[Target, str, int], list[int]] = field(default_factory=dict)
    unresolved: list[tuple[int, str, str]] = field(default_factory=list)
    resolved: int = 0


class Solver:
    """The state of the fixed point."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.table = ValueTable()
        self.cells: dict[tuple[Any, ...], Cell] = {}
        self.dirty: set[int] = set()
        self.results: dict[int, ScopeResult] = {}
        self.loop_memory: dict[tuple[int, int], dict[str, Values]] = {}
        self.box_keys: dict[int, list[Any]] = {}
        self.mro_cache: dict[int, list[int]] = {}
        #: Class to its own methods by name (the last definition of a name counts).
        self.methods: list[dict[str, int]] = [{} for _ in program.classes]
        self.setters: dict[tuple[int, str], int] = {}
        #: Functions that hand on what the function they decorate gives.
        self.wrappers: dict[int, set[int]] = {}
        self.shapes: dict[int, Shape] = {}
        #: Scopes that others stand in; what is bound in the others nobody else sees.
        self.enclosing = {f.parent for f in program.functions} | set(program.bodies)
        #: Functions that a library was given by a decorator, with its dotted names.
        self.entries: dict[int, set[str]] = {}
        for function in program.functions:
            if function.owner >= 0 and not function.is_overload:
                if any(last_name(d) == "setter" for d in function.ir.decorators):
                    # A property's setter must not hide its getter.
                    self.setters[function.owner, function.ir.name] = function.number
                else:
                    self.methods[function.owner][function.ir.name] = function.number
        #: Attribute names that anything is ever stored under; all others are methods and need no look at cells.
        self.stored_names = _stored_names(program)
        self.descendant_cache: dict[int, list[int]] = {}
        #: Whether any class has these; few do, and asking costs.
        self.has_getattr = any("__getattr__" in methods for methods in self.methods)
        self.has_getattribute = any("__getattribute__" in methods for methods in self.methods)
        self.has_setattr = any("__setattr__" in methods for methods in self.methods)
        self.has_truth = any("__bool__" in methods or "__len__" in methods for methods in self.methods)

    # -- cells -----------------------------------------------------------------------------------------------------

    def cell(self, key: tuple[Any, ...]) -> Cell:
        """Return the cell of a key, made when first asked for."""
        found = self.cells.get(key)
        if found is None:
            found = self.cells[key] = Cell()
        return found

    def read(self, key: tuple[Any, ...], reader: int) -> Values:
        """Read a cell for a scope, which is interpreted again when the cell grows."""
        found = self.cells.get(key)
        if found is None:
            found = self.cells[key] = Cell()
        return found.read_by(reader)

    def grow(self, key: tuple[Any, ...], values: Values) -> None:
        """Add values to a cell, within the bounds."""
        if not values:
            return
        found = self.cells.get(key)
        if found is None:
            found = self.cells[key] = Cell()
        known = found.values
        if values <= known:
            return
        if len(known) >= MAX_LIGHT:
            # What is light (a constant, a library's value) says nothing among so many; functions and classes still do.
            if len(known) >= MAX_VALUES:
                return
            is_light = self.table.is_light
            values = frozenset(v for v in values if not is_light[v])
            if values <= known:
                return
        found.values = known | values
        if isinstance(found.readers, set):
            self.dirty |= found.readers
        elif found.readers is not None:
            self.dirty.add(found.readers)

    # -- classes ---------------------------------------------------------------------------------------------------

    def set_bases(self, number: int, bases: list[int], outside: list[str]) -> None:
        """Record the bases of a class; a change forgets what was derived from the old ones."""
        cls = self.program.classes[number]
        if cls.bases == bases and cls.outside == outside:
            return
        for base in cls.bases:
            self.program.classes[base].subclasses.remove(number)
        cls.bases, cls.outside = bases, outside
        for base in bases:
            self.program.classes[base].subclasses.append(number)
            self.grow(("subclasses", base), self.table.one(Kind.CLASS, number))
        self.descendant_cache.clear()
        if cls.subclasses:
            self.mro_cache.clear()
        else:
            self.mro_cache.pop(number, None)

    def mro(self, number: int) -> list[int]:
        """Return the method resolution order over internal classes (C3, depth first where that fails)."""
        known = self.mro_cache
        found = known.get(number)
        if found is not None:
            return found
        # Bases first and each once: a lattice of classes has as many ways up as there are subsets of it.
        pending, entered = [number], set[int]()
        while pending:
            cls = pending[-1]
            bases = self.program.classes[cls].bases
            missing = [base for base in bases if base not in known and base not in entered]
            if missing and cls not in known:
                entered.add(cls)
                pending += missing
                continue
            pending.pop()
            if cls not in known:
                # A base that is not known by now is among the subclasses: a circle.
                known[cls] = _linearise(cls, [known.get(base, [base]) for base in bases], bases)
        return known[number]

    def find_method(self, cls: int, name: str, after: int = -1) -> int:
        """Return the function that a name means on a class, or -1.

        Args:
            cls: Number of the class.
            name: Of the attribute or method.
            after: Begin behind this class of the order (for `super()`); -1 begins at the front.
        """
        order = self.mro(cls)
        if after >= 0:
            order = order[order.index(after) + 1 :] if after in order else []
        for candidate in order:
            found = self.methods[candidate].get(name)
            if found is not None:
                return found
        return -1

    def outside_bases(self, number: int) -> list[str]:
        """Return the dotted names of all bases outside, nearest first."""
        out: list[str] = []
        for cls in self.mro(number):
            out.extend(name for name in self.program.classes[cls].outside if name not in out)
        return out

    def descendants(self, number: int) -> list[int]:
        """Return the internal subclasses, near ones first, the first `MAX_DESCENDANTS` of them."""
        known = self.descendant_cache.get(number)
        if known is not None:
            return known
        out: list[int] = []
        self.descendant_cache[number] = out
        queue = [number]
        seen = {number}
        while queue and len(out) < MAX_DESCENDANTS:
            for sub in sorted(self.program.classes[queue.pop(0)].subclasses):
                if sub not in seen:
                    seen.add(sub)
                    out.append(sub)
                    queue.append(sub)
        del out[MAX_DESCENDANTS:]
        return out

    # -- containers ------------------------------------------------------------------------------------------------

    def put(self, box: int, key: Any, values: Values) -> None:
        """Put values into a container; key None where the place is not known."""
        if not values:
            return
        if key is not None:
            keys = self.box_keys.setdefault(box, [])
            if key not in keys:
                if len(keys) < MAX_KEYS:
                    keys.append(key)
                else:
                    key = None
        self.grow(("s", box, key), values)
        self.grow(("all", box), values)

    # -- rounds ----------------------------------------------------------------------------------------------------

    def solve(self, interpret: Callable[[Solver, int], None], progress: Callable[[int, int], None]) -> None:
        """Interpret scopes until nothing grows.

        Args:
            interpret: Interprets one scope.
            progress: Told how many scopes of this round are done, of how many.
        """
        bodies = [number for number in self.program.bodies if number >= 0]
        # Modules first: what functions see of them is then complete.
        work = bodies
        for _ in range(4):
            self.dirty = set()
            for number in work:
                interpret(self, number)
            work = [number for number in bodies if number in self.dirty]
            if not work:
                break
        sizes = [f.ir.end - f.ir.line + 1 for f in self.program.functions]
        pending = [f.number for f in self.program.functions if f.parent >= 0]
        cost = sum(sizes[number] for number in bodies)
        rounds = 0
        while pending:
            cost += sum(sizes[number] for number in pending)
            if rounds >= MIN_ROUNDS and cost > MAX_WORK:
                break
            rounds += 1
            self.dirty = set()
            for done, number in enumerate(pending):
                self.dirty.discard(number)
                interpret(self, number)
                if done % 500 == 0:
                    progress(done, len(pending))
            progress(len(pending), len(pending))
            pending = sorted(self.dirty)


def _stored_names(program: Program) -> set[str]:
    out: set[str] = set()
    for cls in program.classes:
        out.update(cls.field_names)
    for info in program.functions:
        for s in statements(info.ir.body):
            out.update(_stored_by(s))
    return out


def _stored_by(s: Stmt) -> Iterator[str]:
    tag = s[0]
    targets = s[2] if tag == "assign" else (s[2],) if tag in ("aug", "for") else ()
    if tag == "with":
        targets = tuple(target for _, target in s[2] if target is not None)
    pending = list(targets)
    while pending:
        target = pending.pop()
        if target[0] == "a":
            yield target[2]
        elif target[0] == "t":
            pending.extend(target[1])
        elif target[0] == "*":
            pending.append(target[1])
    if tag == "expr" and s[2][0] == "c" and s[2][1] == ("n", "setattr") and len(s[2][2]) > 1:
        name = s[2][2][1]
        if name[0] == "k" and isinstance(name[1], str):
            yield name[1]


def _linearise(number: int, orders: list[list[int]], bases: list[int]) -> list[int]:
    orders = [[c for c in order if c != number] for order in orders]
    rest = _merge([*orders, bases]) if len(orders) > 1 else [c for order in orders for c in order]
    return [number, *rest[:MAX_ORDER]]


def _merge(orders: list[list[int]]) -> list[int]:
    out: list[int] = []
    orders = [order for order in orders if order]
    while orders:
        head = next(
            (order[0] for order in orders if not any(order[0] in other[1:] for other in orders)),
            orders[0][0],
        )
        out.append(head)
        orders = [rest for order in orders if (rest := [c for c in order if c != head])]
    return out


def is_method(info: FunctionInfo) -> bool:
    """Whether calling it on an instance passes the instance."""
    return info.owner >= 0 and not info.is_static
