"""Appends records of issues, tests and test runs to the store: at rest, or over the API of the process that holds it.

Each row of `issues` and `issue_tests` is a whole version with who and when; the latest one holds. Nothing is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.portfolio.author import check_author
from gapwatch.sinks.store.decisions import Decisions, HumanDecision
from gapwatch.sinks.store.row_inserts import insert_rows
from gapwatch.sinks.store.schema import ROW_TABLES
from gapwatch.sinks.store.store import Store
from gapwatch.sinks.store.transaction import StoreTransaction

RECORDS_PATH = "/v1/issues"
#: Tables that records may go to.
RECORD_TABLES = (
    "issues", "issue_tests", "triage", "test_runs", "test_results", "test_verdicts", "test_overrides",
)  # fmt: skip
#: Characters of one text of a record, and records of one decision.
TEXT_LIMIT, RECORD_LIMIT = 200_000, 2_000
_STAMPED = ("seq", "at")

Rows = Mapping[str, Sequence[Mapping[str, Any]]]


@dataclass(frozen=True)
class IssueRecords:
    """Records of one decision.

    Attributes:
        rows: Rows by table, without `seq` and `at`; a column that is left out is null.
    """

    rows: Rows

    @classmethod
    def read(cls, asked: Mapping[str, Any]) -> IssueRecords:
        """Return the records of a JSON object: lists of rows by table.

        Raises:
            UsageError: A table or column is unknown, a value has another type, or nobody is named.
        """
        rows: dict[str, list[dict[str, Any]]] = {}
        for table, given in asked.items():
            if table not in RECORD_TABLES or not isinstance(given, list):
                raise UsageError(f"records are lists of {', '.join(RECORD_TABLES)}; there is no {table!r}")
            rows[table] = [_checked(table, row) for row in given]
        count = sum(map(len, rows.values()))
        if not 0 < count <= RECORD_LIMIT:
            raise UsageError(f"send 1 to {RECORD_LIMIT:,} records at once, not {count:,}")
        return cls(rows)

    def apply(self, transaction: StoreTransaction) -> str:
        """Insert the records in the open transaction."""
        for table, rows in self.rows.items():
            columns = ROW_TABLES[table].names
            stamp = {"seq": transaction.seq, "at": transaction.kept_at}
            values = [tuple({**row, **stamp}.get(name) for name in columns) for row in rows]
            insert_rows(transaction.con, table, columns, values)
        return ""

    def at_rest(self, store: Store) -> None:
        """Store the records in a store that no other process holds."""
        decisions = Decisions()
        decisions.submit(self)
        decisions.apply(store)


def _checked(table: str, row: object) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise UsageError(f"each record of {table} is a JSON object")
    fields = {field.name: field for field in ROW_TABLES[table] if field.name not in _STAMPED}
    found: dict[str, Any] = {}
    for name, value in row.items():
        if name not in fields:
            raise UsageError(f"{table} has no column {name!r}; it has {', '.join(fields)}")
        kind = str(fields[name].type)
        is_right = value is None or (
            isinstance(value, bool) if kind == "bool"
            else isinstance(value, int | float) and not isinstance(value, bool) if kind in ("double", "int64")
            else isinstance(value, str) and len(value) <= TEXT_LIMIT
        )  # fmt: skip
        if not is_right:
            raise UsageError(f"{name} of {table} must be a {kind}, a text of at most {TEXT_LIMIT:,} characters")
        found[name] = value
    if "by" in fields:
        check_author(found.get("by"), "record")
    return found


def record_reader() -> dict[str, Callable[[Mapping[str, Any]], HumanDecision]]:
    """Return the reader of the API's path for records."""
    return {RECORDS_PATH: IssueRecords.read}


def as_json(value: Any) -> str:
    """Return a value as the JSON text of a column."""
    return orjson.dumps(value).decode()


def now_text() -> str:
    """Return the current time as part of an id, such as 20261124-200000-123."""
    now = datetime.now(UTC)
    return f"{now:%Y%m%d-%H%M%S}-{now.microsecond // 1000:03d}"
