"""State while one scope is interpreted: the names bound so far and the edges found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gapwatch.design.callgraph.solver import Cell, ScopeResult, Solver, Target
from gapwatch.design.callgraph.values import EMPTY, Kind, Values, ValueTable
from gapwatch.design.source.ir import Expr, Function
from gapwatch.design.source.program import FunctionInfo, Program

#: Separator of the parts of an access path such as `d["a"]["b"]` in `Frame.names`.
PATH = "\x00"

#: Most classes of an operand of a test or comparison. More classes meet at parameters that take anything, where nearly
#: all edges would be wrong.
MAX_OPERAND_CLASSES = 2

_BUILTINS = frozenset(Path(__file__).with_name("builtin_names.txt").read_text("utf-8").split())

Positional = list[tuple[bool, Values]]
"""Arguments by position: whether it is written `*x`, and its values."""

Named = list[tuple[str | None, Values]]
"""Arguments by name, None for `**x`, and their values."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """Functions of the evaluator that lower modules call; Python's syntax is recursive, imports may not be.

    Evaluating `a.b` may run a property, which is a call; a call may run a lambda, which is an expression. Each frame
    carries these functions; `gapwatch.design.callgraph.statements` assembles them.

    Attributes:
        evaluate: Returns the values of an expression.
        elements_of: Returns the values of iterating; takes the line of the loop, 0 for no edges.
        call_values: Calls every possible callee.
        call_function: Calls a function by number, with receiver (-1 for none), arguments, line and kind of the edge.
        method_result: Calls the first method of a list that an instance has.
        run_model_method: Runs the validators or serialisers of a model class.
        assign_to: Binds a target of any form.
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
    """State while one scope is interpreted.

    Args:
        solver: State of the fixed-point iteration.
        number: Number of the scope.
        interpreter: Functions of the evaluator.

    Attributes:
        names: Values of the names bound so far, and of access paths into containers.
        classes: Numbers of the class bodies under interpretation, innermost last.
        result: Edges and unresolved calls.
        is_dead: Whether the statement before left the block.
        line: Line of the current statement.
        has_paths: Whether `names` holds access paths.
        left: Names at each `break` and `continue`, by loop, innermost last.
        parameters: Values of the parameters on entry.
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
        self.line = 0
        self.has_paths = False
        self.left: list[list[dict[str, Values]]] = []
        self.parameters: dict[str, Values] = {}

    def read(self, key: tuple[Any, ...]) -> Values:
        """Return the values of a cell (`Solver.read` inlined, because a third of all calls end here)."""
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
        """Return whether an operand holds instances of few enough classes for its methods to be right."""
        kinds = self.table.kinds
        return 0 < sum(1 for v in values if kinds[v] is Kind.INST) <= MAX_OPERAND_CLASSES

    # -- names -----------------------------------------------------------------------------------------------------

    def bind(self, name: str, values: Values) -> None:
        """Bind a name in this scope, or in the scope that `global` or `nonlocal` names."""
        foreign = self.function.foreign
        if name in foreign and not self.classes:
            if foreign[name] == "global":
                self.solver.grow(("v", self.program.bodies[self.module], name), values)
            else:
                owner = self._owner_of(name)
                if owner >= 0:
                    self.solver.grow(("v", owner, name), values)
        if self.has_paths:
            self.forget_paths(name)
        self.names[name] = values

    def forget_paths(self, name: str | None) -> None:
        """Drop the access paths of one container by its name, or of all containers."""
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
        """Return the possible values of a name: local, enclosing, module, builtin, or from a library's `*`."""
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
        """Return values of an unbound name in the libraries that the module imports by `*`."""
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
        """Return the access path of `name["a"]["b"]`, or None for other expressions."""
        parts: list[str] = []
        while e[0] == "s" and e[2][0] == "k" and isinstance(e[2][1], str | int):
            parts.append(repr(e[2][1]))
            e = e[1]
        if e[0] != "n":
            return None
        return PATH.join([e[1], *reversed(parts)])


def join(left: dict[str, Values], right: dict[str, Values]) -> dict[str, Values]:
    """Return the names known where two branches meet: unions of values, and access paths that both branches have."""
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
        # A path that only one branch knows may have been changed by the other.
        if PATH in name and name not in right:
            del out[name]
    return out
