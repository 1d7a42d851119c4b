"""Shared subexpressions of one block of the query: each is computed once, as a derived column.

Many metrics may need the same lower-cased text, checked JSON text or list of pointer values. `Expressions` names each
as a column and nests as many SELECTs as the longest chain of derived columns needs.
"""

from __future__ import annotations

from gapwatch.scorers.plan.sql_text import literals


class Expressions:
    """The derived columns of one block."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._names: dict[str, str] = {}
        self._layers: dict[str, int] = {}
        self._pointers: dict[tuple[str, str], list[str]] = {}

    def column(self, expression: str, *inputs: str) -> str:
        """Return the name of the column with an expression's value.

        Args:
            expression: SQL over base columns and the columns in `inputs`.
            inputs: Derived columns that the expression reads; base columns are not listed.
        """
        name = self._names.get(expression)
        if name is None:
            name = f"{self._prefix}{len(self._names)}"
            self._names[expression] = name
            self._layers[name] = 1 + max((self._layers.get(i, 0) for i in inputs), default=0)
        return name

    def at_pointer(self, function: str, json_column: str, pointer: str) -> str:
        """Return an expression of `function(json_column, pointer)`; all pointers of one text are computed together.

        Args:
            function: json_extract_string, json_extract or json_type.
            json_column: Name of a column with strictly checked JSON text.
            pointer: RFC 6901.

        Returns:
            An element of the list that `pointer_column` computes.
        """
        pointers = self._pointers.setdefault((function, json_column), [])
        if pointer not in pointers:
            pointers.append(pointer)
        return f"{self.pointer_column(function, json_column)}[{pointers.index(pointer) + 1}]"

    def pointer_column(self, function: str, json_column: str) -> str:
        """Return the name of the list column of `at_pointer`; expressions that read an element list it as input."""
        return self.column(f"{function}({json_column}, ?)", json_column)

    def select(self, source: str) -> str:
        """Return the SELECT that adds all derived columns to those of `source`."""
        sql = source
        for layer in range(1, 1 + max(self._layers.values(), default=0)):
            columns = [f"{self._filled(e)} AS {n}" for e, n in self._names.items() if self._layers[n] == layer]
            sql = f"SELECT *, {', '.join(columns)} FROM ({sql})"
        return sql

    def _filled(self, expression: str) -> str:
        for (function, column), pointers in self._pointers.items():
            if expression == f"{function}({column}, ?)":
                return f"{function}({column}, [{literals(pointers)}])"
        return expression
