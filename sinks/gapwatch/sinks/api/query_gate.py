"""Checks untrusted queries before they run: one SELECT, without functions that escape the limits.

The query's transaction cannot write, and its connection cannot access files. This file refuses functions that would
escape these limits: table functions that read memory, settings or logs or run a text as SQL, and functions that need
gigabytes or hours for one row, because within a row DuckDB does not check for interrupts.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import duckdb
import orjson

from gapwatch.scorers.errors import UsageError
from gapwatch.sinks.reading.history import check_select

#: Largest number of characters of a query.
SQL_LIMIT = 100_000

#: Table functions that are allowed in FROM. DuckDB has a hundred more.
TABLE_FUNCTIONS = frozenset({"range", "generate_series", "unnest", "json_each", "json_tree"})

#: Views of DuckDB that show paths and settings.
_INNER_VIEWS = frozenset({"duckdb_databases", "duckdb_logs", "pg_settings", "pg_prepared_statements"})

#: Functions that make large values from small ones within one row.
_SWELLING = frozenset(
    {
        "repeat", "lpad", "rpad", "bar", "printf", "format", "bitstring", "list_resize", "array_resize",
        "levenshtein", "editdist3", "damerau_levenshtein", "jaro_similarity", "jaro_winkler_similarity",
    }
)  # fmt: skip
#: Functions that make lists of numbers, allowed with literal bounds up to a limit.
_LISTS = frozenset({"range", "generate_series"})
_LIST_LIMIT = 10_000

#: Functions that wait: two queries of them would keep out all others.
_WAITING = frozenset({"sleep_ms", "pg_sleep"})

#: Functions that show or change the state of the process.
_INNER_FUNCTIONS = frozenset({"current_setting", "getenv", "write_log", "nextval", "getvariable"})

Node = dict[str, Any]


class QueryGate:
    """Checks queries, which it parses on an empty connection of its own. Thread-safe."""

    def __init__(self) -> None:
        self._con = duckdb.connect(":memory:", config={"threads": 1, "enable_external_access": False})
        self._con.execute("SET lock_configuration = true")
        self._lock = threading.Lock()

    def check(self, sql: str) -> None:
        """Refuse any query that is not one plain SELECT.

        Raises:
            UsageError: The query is refused; the message has the reason.
        """
        if len(sql) > SQL_LIMIT:
            raise UsageError(f"the query is refused: it has {len(sql)} characters; {SQL_LIMIT} are allowed")
        with self._lock:
            check_select(self._con, sql)
            try:
                text = self._con.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()[0][0]
            except duckdb.Error as error:
                raise UsageError(f"the query is refused: {error}") from error
        tree = _read(text)
        if tree.get("error"):
            raise UsageError(f"the query is refused: {tree.get('error_message')}")
        for node in _nodes(tree["statements"]):
            _check_node(node)

    def close(self) -> None:
        """Close the connection."""
        self._con.close()


def _read(text: str) -> Node:
    try:
        tree: Node = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise UsageError("the query is refused: it is nested too deeply") from None
    return tree


def _nodes(tree: Any) -> Iterator[Node]:
    """Yield every object of the parse tree, except the function call within a table function."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, dict):
            yield node
            if node.get("type") == "TABLE_FUNCTION":
                waiting.append(node["function"].get("arguments"))
                waiting += [value for key, value in node.items() if key != "function"]
            else:
                waiting += node.values()


def _check_node(node: Node) -> None:
    kind = node.get("type")
    if kind == "TABLE_FUNCTION":
        name = _name(node["function"].get("function_name"))
        if name not in TABLE_FUNCTIONS:
            _refuse(f"the table function {name}", f"allowed are {', '.join(sorted(TABLE_FUNCTIONS))}")
    elif kind == "BASE_TABLE" and (
        (name := _name(node.get("table_name"))) in _INNER_VIEWS or name.startswith("pragma_")
    ):
        _refuse(name, "SHOW TABLES and DESCRIBE list tables and columns")
    elif isinstance(kind, str) and kind.endswith("_QUERY_NODE"):
        _refuse("writing from within a SELECT", "nothing can be changed here")
    elif node.get("class") == "FUNCTION":
        arguments = [argument["expression"] for argument in node.get("arguments") or ()]
        _check_function(_name(node.get("function_name")), arguments)


def _check_function(name: str, arguments: list[Node]) -> None:
    if name in _SWELLING:
        _refuse(
            f"the function {name}", "it can need gigabytes or hours for one row, and the stream runs in this process"
        )
    if name in _WAITING:
        _refuse(f"the function {name}", "a query that waits takes the place of another")
    if name in _INNER_FUNCTIONS:
        _refuse(f"the function {name}", "it shows the process, not the store")
    if name in _LISTS and not all(_is_small_number(argument) for argument in arguments):
        _refuse(f"a list by {name} without literal bounds up to {_LIST_LIMIT}", f"use it in FROM: FROM {name}(...)")


def _is_small_number(node: Node) -> bool:
    try:
        return abs(int(node["literal"]["text"])) <= _LIST_LIMIT
    except (KeyError, TypeError, ValueError):
        return False


def _name(name: Any) -> str:
    return str(name or "").lower()


def _refuse(what: str, instead: str) -> None:
    raise UsageError(f"the query is refused: {what[:200]} is not allowed here; {instead}")
