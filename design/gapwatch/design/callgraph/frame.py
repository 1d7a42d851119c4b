"""One interpretation of one scope: the names it knows so far, and what it has found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gapwatch.design.callgraph.solver import Cell, ScopeResult, Solver, Target
from gapwatch.design.callgraph.values import EMPTY, Kind, Values, ValueTable
from gapwatch.design.source.ir import Expr, Function
from gapwatch.design.source.program import FunctionInfo, Program

#: Between the parts of an access path such as `d["a"]["b"]` in the names of a frame.
PATH = "\x00"

#: Classes that one operand of a test or of a comparison may have. What holds more has met at a parameter that takes
#: anything, and nearly all of the edges would be wrong.
MAX_OPERAND_CLASSES = 2

_BUILTINS = frozenset(Path(__file__).with_name("builtin_names.txt").read_text("utf-8").split())

Positional = list[tuple[bool, Values]]
"""Arguments by position: whether it is written `*x`, and its values."""

Named = list[tuple[str | None, Values]]
"""Arguments by name, None for `**x`, and their values."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """Functions of the evaluator that lower parts of it call: Python's syntax is recursive, its imports are not.

    Evaluating `a.b` may run a property, which is a call; a call may run a lambda, which is an expression. Each frame
    carries the functions, `gapwatch.design.callgraph.statements` puts them together.

    Attributes:
        evaluate: Returns the values of an expression.
        elements_of: Returns what iterating over values gives; the line of the loop, 0 for no edges.
        call_values: Calls everything that a callee may be.
        call_function: Calls one function by its number, with the receiver (-1 for none), the line and the edge's kind.
        method_result: Calls the first of some methods that an instance has.
        run_model_method: Runs the validators or serialisers of a class that a model's own method runs.
        assign_to: Binds a target of any shape.
        bind_defaults: Evaluates the defaults of a function.
    """

    evaluate: Callable[[Frame, Expr], Values]
    elements_of: Callable[[Frame, Values, int], Values]
    call_values: Callable[[Frame, Values, list[Any], Named, int], Values]
    call_function: Callable[[Frame, int, int, list[Any], Named, int, str], Values]
    method_result: Callable[[Frame, Values, tuple[str, ...], list[Any], int], Values]
    run_model_method: Callable[[Frame, int, str, int], None]
    assign_to: Callable[[Frame, Expr, Values], None]
    bind_defaults: Callable[[Frame, int], None]


class Frame:
    """The state while one scope is interpreted.

    Attributes:
        interpreter: The functions that parts below their own file call.
        names: Value sets of the names bound so far; access paths into containers stand beside them.
        classes: Class bodies that are being interpreted, innermost last.
        is_dead: Whether the statement before left the block.
    """

    __slots__ = (
        "classes",
        "function",
        "has_paths",
        "info",
        "interpreter",
        "is_dead",
        "left",
        "line",
        "module",
        "names",
        "number",
        "parameters",
        "program",
        "result",
        "solver",
        "table",
    )

    def __init__(self, solver: Solver, number: int, interpreter: Interpreter) -> None:
        self.solver = solver
        self.interpreter = interpreter
        self.program: Program = solver.program
        self.table: ValueTable = solver.table
        self.number = number
        self.info: FunctionInfo = self.program.functions[number]
        self.function: Function = self.info.ir
        self.module = self.info.module
        self.names: dict[str, Values] = {}
        self.classes: list[int] = []
        self.result = ScopeResult()
        self.is_dead = False
        #: Line of the statement that is interpreted.
        self.line = 0
        self.has_paths = False
        self.left: list[list[dict[str, Values]]] = []
        self.parameters: dict[str, Values] = {}

    def read(self, key: tuple[Any, ...]) -> Values:
        """Read a cell; `Solver.read`, written out here because a third of all calls end here."""
        cells = self.solver.cells
        found = cells.get(key)
        if found is None:
            found = cells[key] = Cell()
        return found.read_by(self.number)

    def edge(self, target: Target, kind: str, line: int) -> None:
        """Record an edge from this scope."""
        key = (target, kind, self.classes[-1] if self.classes else -1)
        lines = self.result.edges.get(key)
        if lines is None:
            self.result.edges[key] = [line]
        elif line not in lines:
            lines.append(line)

    def is_telling(self, values: Values) -> bool:
        """Whether an operand holds instances, and so few that asking them leads to the right methods."""
        kinds = self.table.kinds
        return 0 < sum(1 for v in values if kinds[v] is Kind.INST) <= MAX_OPERAND_CLASSES

    # -- names -----------------------------------------------------------------------------------------------------

    def bind(self, name: str, values: Values) -> None:
        """Bind a name in the innermost scope, or where `global` and `nonlocal` say."""
        foreign = self.function.foreign
        if name in foreign and not self.classes:
            if foreign[name] == "global":
                self.solver.grow(("v", self.program.bodies[self.module], name), values)
                body = self.program.functions[self.program.bodies[self.module]].ir
                body.local_names.add(name)
            else:
                owner = self._owner_of(name)
                if owner >= 0:
                    self.solver.grow(("v", owner, name), values)
        if self.has_paths:
            self.forget_paths(name)
        self.names[name] = values

    def forget_paths(self, name: str | None) -> None:
        """Forget what is known about the inside of a container by its name, or of all containers."""
        prefix = PATH if name is None else name + PATH
        gone = [key for key in self.names if (PATH in key if name is None else key.startswith(prefix))]
        for key in gone:
            del self.names[key]

    def _owner_of(self, name: str) -> int:
        parent = self.info.parent
        while parent >= 0:
            info = self.program.functions[parent]
            if info.parent < 0:
                return -1
            if name in info.ir.local_names:
                return parent
            parent = info.parent
        return -1

    def look_up(self, name: str) -> Values:
        """Return what a name may stand for here."""
        found = self.names.get(name)
        if found:
            return found
        function = self.function
        if self.info.parent >= 0 and name in function.local_names and name not in function.foreign and not self.classes:
            return found if found is not None else EMPTY
        parent = self.info.parent
        functions = self.program.functions
        while parent >= 0:
            info = functions[parent]
            if info.parent < 0:
                break
            if name in info.ir.local_names:
                return self.read(("v", parent, name))
            parent = info.parent
        body = self.program.bodies[self.module]
        if name in functions[body].ir.local_names:
            if self.number != body or found is None:
                values = self.read(("v", body, name))
                if values or name not in _BUILTINS:
                    return values
            return found or EMPTY
        if name in _BUILTINS:
            return self.table.one(Kind.BUILTIN, name)
        return self._from_star(name)

    def _from_star(self, name: str) -> Values:
        """A name that nothing binds may come from a library's `*`."""
        outside = self.solver.cells.get(("star", self.module))
        if outside is None or not name.isidentifier():
            return EMPTY
        values = [
            self.table.value(Kind.OUTSIDE, f"{self.table.a[v]}.{name}")
            for v in outside.values
            if self.table.kinds[v] is Kind.OUTSIDE
        ]
        return frozenset(values)

    def path_of(self, e: Expr) -> str | None:
        """Return the access path of `name["a"]["b"]`, or None for anything else."""
        parts: list[str] = []
        while e[0] == "s" and e[2][0] == "k" and isinstance(e[2][1], str | int):
            parts.append(repr(e[2][1]))
            e = e[1]
        if e[0] != "n":
            return None
        return PATH.join([e[1], *reversed(parts)])


def join(left: dict[str, Values], right: dict[str, Values]) -> dict[str, Values]:
    """Return what is known where two ways meet."""
    if left is right:
        return left
    out = dict(left)
    for name, values in right.items():
        mine = out.get(name)
        if mine is None:
            if PATH not in name:
                out[name] = values
        elif mine is not values and not values <= mine:
            out[name] = mine | values
    for name in left:
        # What only one way knows about the inside of a container is not known after both.
        if PATH in name and name not in right:
            del out[name]
    return out
