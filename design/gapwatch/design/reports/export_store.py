"""Writes a design to DuckDB by version: call graph, confidences, reviews and all else outside the portfolio."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import duckdb
import orjson

from gapwatch.design.reports.summary import summary
from gapwatch.design.stage import Design
from gapwatch.scorers.errors import StoreError

#: Columns of each table after `version`, as `name TYPE = attribute`. A column without a type is VARCHAR; one without an
#: attribute is read from the attribute of its own name.
_TABLES: dict[str, str] = {
    "versions": "ordinal INTEGER, repository = name, scan_sha, goal, "
    "overall_confidence DOUBLE = architecture.overall_confidence, overall_assessment = critique.overall_assessment",
    "numbers": "name, value DOUBLE",
    "files": "path, module, sha, lines INTEGER, errors INTEGER, salience DOUBLE, llm_proximity DOUBLE, "
    "caller_centrality DOUBLE, callee_centrality DOUBLE, excluded VARCHAR[]",
    "skipped": "path, reason",
    "symbols": "id, kind, path, line INTEGER, end_line INTEGER = end, component",
    "call_edges": "src, dst, kind, path, line INTEGER",
    "externals": "src, dotted, path, line INTEGER",
    "unresolved": "src, path, line INTEGER, text, cause",
    "pattern_hits": "pattern, symbol, path, line INTEGER, end_line INTEGER = end, kind, evidence, confidence DOUBLE",
    "components": "id, name, description, role, kind, priority, stage, pattern, strategies VARCHAR[], "
    "semantics VARCHAR[], capabilities VARCHAR[], silent_failure, silent_because, "
    "offline_evaluable BOOLEAN = is_offline_evaluable, runtime_observable BOOLEAN = is_runtime_observable, measured, "
    "user_facing_failure, alignment, confidence DOUBLE, classification_confidence DOUBLE, reasoning, pruned BOOLEAN",
    "annotations": "component = id, confidence DOUBLE, issues VARCHAR[], suggestions VARCHAR[]",
    "missing_nodes": "path, salience DOUBLE, why",
    "tiers": "component, id, answers_by = by, symbol, path = place.path, line INTEGER = place.line",
    "edges": "src, dst, label, verification, because, evidence VARCHAR[]",
    "prompts": "component, symbol, path = place.path, line INTEGER = place.line, name, text, fields VARCHAR[], "
    "evidence_fields VARCHAR[], output_fields VARCHAR[]",
    "metrics": "name, component, source, family, concern, pattern, tier, claim JSON, better, direction_verdict, "
    "severity, action, targets VARCHAR[], exported BOOLEAN, symbols VARCHAR[], evidence VARCHAR[], "
    "monitors VARCHAR[], cost_bundle JSON",
    "metric_places": "metric, path, line INTEGER, end_line INTEGER",
    "verdicts": "metric, component, verdict = status, rules VARCHAR[], reasoning, review JSON = findings, "
    "suggested_fix, direction JSON, dropped BOOLEAN",
    "cross_component_issues": "component, issue, suggestion",
    "gaps": "metric, missing, fix",
    "questions": "id, component, text, why, kind, answer_type, options VARCHAR[], default_value = default, "
    "decides VARCHAR[], open BOOLEAN",
    "integration_points": "component, span = name, kind, symbol, path = place.path, line INTEGER = place.line, "
    "fields VARCHAR[], blind VARCHAR[]",
}


@dataclass(frozen=True)
class _Row:
    """A value of the design as one row.

    Attributes:
        source: Object whose attributes fill the columns.
        given: Columns that no attribute of `source` gives.
    """

    source: object
    given: dict[str, Any]


@dataclass(frozen=True)
class _Column:
    name: str
    type: str
    attribute: str

    def of(self, rows: list[_Row]) -> list[Any]:
        """Return the values of rows in this column as JSON data."""
        name, read = self.name, attrgetter(self.attribute)
        return [_plain(row.given[name] if name in row.given else read(row.source)) for row in rows]

    @property
    def shape(self) -> str:
        """This column in the structure that `from_json` takes."""
        return f'"{self.name}": ["{self.type[:-2]}"]' if self.type.endswith("[]") else f'"{self.name}": "{self.type}"'


def write_store(design: Design, path: Path) -> None:
    """Add a design to the store; rows of the same version are replaced.

    Args:
        design: The design.
        path: The DuckDB file, created if missing.

    Raises:
        StoreError: The file is not a DuckDB store, or another process holds it.
    """
    try:
        with duckdb.connect(str(path)) as connection:
            connection.execute("BEGIN")
            for table in _TABLES:
                columns = ", ".join(f"{c.name} {c.type}" for c in _columns(table))
                connection.execute(f"CREATE TABLE IF NOT EXISTS {table} ({columns})")
            ordinal = _ordinal(connection, design.version)
            for table, rows in _rows(design, ordinal).items():
                connection.execute(f"DELETE FROM {table} WHERE version = ?", [design.version])
                _insert(connection, table, _values(table, rows, design.version))
            connection.execute("COMMIT")
    except duckdb.Error as error:
        text = str(error).splitlines()[0]
        raise StoreError(f"{path}: {text}; give another file with --out, or end the process that holds it") from error


def _ordinal(connection: Any, version: str) -> int:
    """Return the number of a version: its old number if it is stored, else the next one."""
    found = connection.execute(
        "SELECT coalesce(max(ordinal) FILTER (version = ?), max(ordinal) + 1, 1) FROM versions", [version]
    ).fetchone()
    return int(found[0])


def _columns(table: str) -> list[_Column]:
    columns = [_Column("version", "VARCHAR", "version")]
    for declared in _TABLES[table].split(", "):
        left, _, attribute = declared.partition(" = ")
        name, _, kind = left.partition(" ")
        columns.append(_Column(name, kind or "VARCHAR", attribute or name))
    return columns


def _values(table: str, rows: list[_Row], version: str) -> list[dict[str, Any]]:
    columns = _columns(table)[1:]
    names = ["version", *(column.name for column in columns)]
    values = zip(*(column.of(rows) for column in columns), strict=True)
    return [dict(zip(names, (version, *row), strict=True)) for row in values]


def _insert(connection: Any, table: str, rows: list[dict[str, Any]]) -> None:
    """Insert rows through one parameter: binding each value takes ten times as long."""
    if not rows:
        return
    columns = _columns(table)
    shape = ", ".join(c.shape for c in columns)
    chosen = ", ".join(f"r.{c.name}" for c in columns)
    connection.execute(
        f"INSERT INTO {table} SELECT {chosen} FROM (SELECT unnest(from_json(?::JSON, '[{{{shape}}}]')) AS r)",
        [orjson.dumps(rows).decode()],
    )


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        if value.isascii() and "\x00" not in value:
            return value
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace").replace("\x00", "�")
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value


def _row(source: object, **given: Any) -> _Row:
    return _Row(source, given)


def _rows(design: Design, ordinal: int) -> dict[str, list[_Row]]:
    a, graph = design.architecture, design.graph
    components = [*a.components, *a.pruned]
    metrics = [*design.metrics, *(metric for metric, _ in design.dropped)]
    exported = {m.name for m in design.metrics if m.is_exported}
    owner = {s: c.id for c in a.components for s in c.symbols}
    salience = {f.path: f for f in design.salience}
    asked = {q.id for q in design.open_questions}
    return {
        "versions": [_row(design, ordinal=ordinal)],
        "numbers": [
            _row(None, name=name, value=float(number))
            for name, number in summary(design).items()
            if isinstance(number, int | float)
        ],
        "files": [
            _row(salience[r.path], module=r.module, sha=r.sha, lines=r.lines, errors=len(r.errors))
            for r in design.readings
        ],
        "skipped": [_row(s) for s in design.skipped],
        "symbols": [_row(s, component=owner.get(s.id)) for s in graph.symbols],
        "call_edges": [_row(e, path=path, line=line) for e in graph.edges for path, line in e.sites],
        "externals": [_row(e, line=line) for e in graph.externals for line in e.lines],
        "unresolved": [_row(u) for u in graph.unresolved],
        "pattern_hits": [_row(h) for h in design.hits],
        "components": [_row(c, pruned=c in a.pruned) for c in components],
        "annotations": [_row(c) for c in components],
        "missing_nodes": [_row(m) for m in a.missing],
        "tiers": [_row(t, component=c.id) for c in components for t in c.tiers],
        "edges": [_row(e) for e in a.edges],
        "prompts": [_row(p, component=c.id) for c in components for p in design.prompts.get(c.id, [])],
        "metrics": [_row(m, exported=m.name in exported) for m in metrics],
        "metric_places": [_row(p, metric=m.name, end_line=max(p.line, p.end)) for m in metrics for p in m.places],
        "verdicts": [_row(r, dropped=False) for r in design.critique.reviews]
        + [_row(r, dropped=True) for _, r in design.dropped],
        "cross_component_issues": [_row(i) for i in design.critique.cross_component_issues],
        "gaps": [_row(g) for g in design.gaps],
        "questions": [_row(q, open=q.id in asked) for q in design.questions],
        "integration_points": [_row(p) for p in design.points],
    }
