"""Fixed-point iteration: interprets scopes until the values that they read no longer grow.

A cell holds the set of values of one parameter, result, variable, attribute or container slot, and the scopes that
read it. Interpreting a scope (`statements`) reads and grows cells. If a cell grows, its readers are interpreted again
in the next round. Sets only grow and are bounded, so the iteration ends.

Keys of cells, with numbers f of a function, c of a class, m of a module, v of a container's value:

    ("p", f, position)        parameter
    ("default", f, position)  default of a parameter
    ("r", f)                  result
    ("declared", f)           annotation of the result
    ("y", f)                  yielded values
    ("deco", f)               decorated form of a method
    ("fa", f, name)           attribute of a function
    ("v", f, name)            variable of a scope
    ("a", c, name)            attribute of instances
    ("m", c, name)            name in a class body
    ("factory", c)            default factories of fields; ("subclasses", c) direct subclasses
    ("s", v, key)             slot of a container; key None for unknown places
    ("all", v)                all slots of a container
    ("keys", v)               keys of a dictionary
    ("star", m)               libraries that a module imports by `*`
    ("namespace", name)       attribute of a result of argparse
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from gapwatch.design.callgraph.values import EMPTY, Kind, Values, ValueTable
from gapwatch.design.source.ir import Stmt
from gapwatch.design.source.program import FunctionInfo, Program, last_name, statements

#: Most values of a set (the last addition may exceed it); a larger set would lead everywhere.
MAX_VALUES = 32
#: Size from which a set takes no more constants, containers and library values.
MAX_LIGHT = 10
#: Most constant keys that a container keeps apart.
MAX_KEYS = 32
#: Rounds that every repository gets; real code finds 97 % of its edges in them.
MIN_ROUNDS = 4
#: Budget for further rounds, in lines of interpreted scopes: about ten seconds. Repositories of up to 150,000 lines
#: reach the fixed point within it; larger ones stop after `MIN_ROUNDS`.
MAX_WORK = 900_000
#: Most subclasses that are searched for an abstract or missing member. Each class caches its list; without a bound, a
#: chain of thousands of classes would need millions of entries.
MAX_DESCENDANTS = 40
#: Longest method resolution order, without the class itself; of a chain of thousands, far bases are not searched.
MAX_ORDER = 60

Target = int | str
"""Target of an edge: a function's number, -1 minus a class's number, or a dotted name outside."""


Shape = tuple[list[int], int, dict[str, int], bool]
"""Positions of the positional parameters, of `*args` (or -1), of parameters by name; whether there is `**kwargs`."""


@dataclass(slots=True)
class Cell:
    """A set of values and the scopes that read it.

    Attributes:
        values: The values.
        readers: Number of the only reader, a set of several, or None.
    """

    values: Values = EMPTY
    # Most cells have at most one reader; a set for each would take a third of the memory.
    readers: set[int] | int | None = None

    def read_by(self, reader: int) -> Values:
        """Return the values and record the reader."""
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
    """Results of the last interpretation of one scope.

    Attributes:
        edges: Lines by (target, kind, class whose body holds the call, or -1).
        unresolved: (line, text, cause) of the calls without a known target.
        resolved: Number of call sites with at least one target.
    """

    edges: dict[tuple[Target, str, int], list[int]] = field(default_factory=dict)
    unresolved: list[tuple[int, str, str]] = field(default_factory=list)
    resolved: int = 0


class Solver:
    """State of the fixed-point iteration.

    Attributes:
        program: All files in intermediate form.
        table: The values.
        cells: Cells by key.
        dirty: Scopes to interpret in the next round.
        results: Last result by scope.
        loop_memory: Values that later turns bring to the head of a loop, by (scope, line).
        box_keys: Known constant keys by container.
        mro_cache: Method resolution orders by class.
        methods: Methods by name, by class; the last definition of a name counts.
        setters: Property setters by (class, name).
        wrappers: Decorated functions by wrapper.
        shapes: Parameter shapes by function.
        enclosing: Scopes that contain others; only their variables are visible elsewhere.
        entries: Dotted names of the library decorators by function.
        stored_names: Attribute names that are ever assigned; all others are methods and need no look at cells.
        descendant_cache: Subclasses by class.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.table = ValueTable()
        self.cells: dict[tuple[Any, ...], Cell] = {}
        self.dirty: set[int] = set()
        self.results: dict[int, ScopeResult] = {}
        self.loop_memory: dict[tuple[int, int], dict[str, Values]] = {}
        self.box_keys: dict[int, list[Any]] = {}
        self.mro_cache: dict[int, list[int]] = {}
        self.methods: list[dict[str, int]] = [{} for _ in program.classes]
        self.setters: dict[tuple[int, str], int] = {}
        self.wrappers: dict[int, set[int]] = {}
        self.shapes: dict[int, Shape] = {}
        self.enclosing = {f.parent for f in program.functions} | set(program.bodies)
        self.entries: dict[int, set[str]] = {}
        for function in program.functions:
            if function.owner >= 0 and not function.is_overload:
                if any(last_name(d) == "setter" for d in function.ir.decorators):
                    # A property's setter must not hide its getter.
                    self.setters[function.owner, function.ir.name] = function.number
                else:
                    self.methods[function.owner][function.ir.name] = function.number
        self.stored_names = _stored_names(program)
        self.descendant_cache: dict[int, list[int]] = {}
        # Few programs define these methods; a flag avoids looking for them at every access.
        self.has_getattr = any("__getattr__" in methods for methods in self.methods)
        self.has_getattribute = any("__getattribute__" in methods for methods in self.methods)
        self.has_setattr = any("__setattr__" in methods for methods in self.methods)
        self.has_truth = any("__bool__" in methods or "__len__" in methods for methods in self.methods)

    # -- cells -----------------------------------------------------------------------------------------------------

    def cell(self, key: tuple[Any, ...]) -> Cell:
        """Return the cell of a key, created on first use."""
        found = self.cells.get(key)
        if found is None:
            found = self.cells[key] = Cell()
        return found

    def read(self, key: tuple[Any, ...], reader: int) -> Values:
        """Return the values of a cell; the reading scope is interpreted again when the cell grows."""
        found = self.cells.get(key)
        if found is None:
            found = self.cells[key] = Cell()
        return found.read_by(reader)

    def grow(self, key: tuple[Any, ...], values: Values) -> None:
        """Add values to a cell and mark its readers for the next round.

        From `MAX_LIGHT` values on, only functions, classes and instances are added; from `MAX_VALUES` on, nothing.
        """
        if not values:
            return
        found = self.cells.get(key)
        if found is None:
            found = self.cells[key] = Cell()
        known = found.values
        if values <= known:
            return
        if len(known) >= MAX_LIGHT:
            # Among so many values, constants and library values tell nothing; functions and classes still do.
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
        """Set the bases of a class; a change drops the cached orders and subclasses."""
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
        """Return the method resolution order over classes of the repository.

        Source:
            Barrett et al. (1996), A Monotonic Superclass Linearization for Dylan (C3). If C3 fails, the first head is
            taken.
        """
        known = self.mro_cache
        found = known.get(number)
        if found is not None:
            return found
        # Without recursion, bases first and each once: a lattice of n classes has up to 2 ** n paths upwards.
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
                # A base without an order by now is part of a cycle of inheritance.
                known[cls] = _linearise(cls, [known.get(base, [base]) for base in bases], bases)
        return known[number]

    def find_method(self, cls: int, name: str, after: int = -1) -> int:
        """Return the number of the method that a name means on a class, or -1.

        Args:
            cls: Number of the class.
            name: Name of the method.
            after: Start behind this class of the order (for `super()`); -1 starts at the class itself.
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
        """Return the dotted names of all bases outside the repository, nearest first."""
        out: list[str] = []
        for cls in self.mro(number):
            out.extend(name for name in self.program.classes[cls].outside if name not in out)
        return out

    def descendants(self, number: int) -> list[int]:
        """Return the subclasses inside the repository, nearest first, at most `MAX_DESCENDANTS`."""
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
        """Add values to a container.

        Args:
            box: Value of the container.
            key: Constant key or position; None if unknown.
            values: The values.
        """
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
        """Interpret scopes until nothing grows or the budget is spent.

        Module bodies come first, in at most four rounds. Then functions are interpreted in rounds: at least
        `MIN_ROUNDS`, and more while the sum of the lines of all interpreted scopes stays within `MAX_WORK`.

        Args:
            interpret: Interprets one scope.
            progress: Called with the scopes done in this round and their total.
        """
        bodies = [number for number in self.program.bodies if number >= 0]
        # Module bodies first, so that functions see complete modules.
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
    """Return whether calling the function on an instance passes the instance."""
    return info.owner >= 0 and not info.is_static
