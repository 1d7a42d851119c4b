"""What the portfolio has no key for, in DuckDB: graph, confidences, overlays, verdicts, version by version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import orjson

from gapwatch.design.reports.summary import summary
from gapwatch.design.stage import Design
from gapwatch.scorers.errors import StoreError

_TABLES: dict[str, str] = {
    "versions": "version VARCHAR, ordinal INTEGER, repository VARCHAR, scan_sha VARCHAR, goal VARCHAR, "
    "overall_confidence DOUBLE, overall_assessment VARCHAR",
    "numbers": "version VARCHAR, name VARCHAR, value DOUBLE",
    "files": "version VARCHAR, path VARCHAR, module VARCHAR, sha VARCHAR, lines INTEGER, errors INTEGER, "
    "salience DOUBLE, llm_proximity DOUBLE, caller_centrality DOUBLE, callee_centrality DOUBLE, excluded VARCHAR[]",
    "skipped": "version VARCHAR, path VARCHAR, reason VARCHAR",
    "symbols": "version VARCHAR, id VARCHAR, kind VARCHAR, path VARCHAR, line INTEGER, end_line INTEGER, "
    "component VARCHAR",
    "call_edges": "version VARCHAR, src VARCHAR, dst VARCHAR, kind VARCHAR, path VARCHAR, line INTEGER",
    "externals": "version VARCHAR, src VARCHAR, dotted VARCHAR, path VARCHAR, line INTEGER",
    "unresolved": "version VARCHAR, src VARCHAR, path VARCHAR, line INTEGER, text VARCHAR, cause VARCHAR",
    "pattern_hits": "version VARCHAR, pattern VARCHAR, symbol VARCHAR, path VARCHAR, line INTEGER, end_line "
    "INTEGER, kind VARCHAR, evidence VARCHAR, confidence DOUBLE",
    "components": "version VARCHAR, id VARCHAR, name VARCHAR, description VARCHAR, role VARCHAR, kind VARCHAR, "
    "priority VARCHAR, stage VARCHAR, pattern VARCHAR, strategies VARCHAR[], semantics VARCHAR[], capabilities "
    "VARCHAR[], silent_failure VARCHAR, silent_because VARCHAR, offline_evaluable BOOLEAN, runtime_observable "
    "BOOLEAN, measured VARCHAR, user_facing_failure VARCHAR, alignment VARCHAR, confidence DOUBLE, "
    "classification_confidence DOUBLE, reasoning VARCHAR, pruned BOOLEAN",
    "annotations": "version VARCHAR, component VARCHAR, confidence DOUBLE, issues VARCHAR[], suggestions VARCHAR[]",
    "missing_nodes": "version VARCHAR, path VARCHAR, salience DOUBLE, why VARCHAR",
    "tiers": "version VARCHAR, component VARCHAR, id VARCHAR, answers_by VARCHAR, symbol VARCHAR, path VARCHAR, "
    "line INTEGER",
    "edges": "version VARCHAR, src VARCHAR, dst VARCHAR, label VARCHAR, verification VARCHAR, because VARCHAR, "
    "evidence VARCHAR[]",
    "prompts": "version VARCHAR, component VARCHAR, symbol VARCHAR, path VARCHAR, line INTEGER, name VARCHAR, "
    "text VARCHAR, fields VARCHAR[], evidence_fields VARCHAR[], output_fields VARCHAR[]",
    "metrics": "version VARCHAR, name VARCHAR, component VARCHAR, source VARCHAR, family VARCHAR, concern "
    "VARCHAR, pattern VARCHAR, tier VARCHAR, claim JSON, better VARCHAR, direction_verdict VARCHAR, severity "
    "VARCHAR, action VARCHAR, targets VARCHAR[], exported BOOLEAN, symbols VARCHAR[], evidence VARCHAR[], "
    "monitors VARCHAR[], cost_bundle JSON",
    "metric_places": "version VARCHAR, metric VARCHAR, path VARCHAR, line INTEGER, end_line INTEGER",
    "verdicts": "version VARCHAR, metric VARCHAR, component VARCHAR, verdict VARCHAR, rules VARCHAR[], "
    "reasoning VARCHAR, review JSON, suggested_fix VARCHAR, direction JSON, dropped BOOLEAN",
    "cross_component_issues": "version VARCHAR, component VARCHAR, issue VARCHAR, suggestion VARCHAR",
    "gaps": "version VARCHAR, metric VARCHAR, missing VARCHAR, fix VARCHAR",
    "questions": "version VARCHAR, id VARCHAR, component VARCHAR, text VARCHAR, why VARCHAR, kind VARCHAR, "
    "answer_type VARCHAR, options VARCHAR[], default_value VARCHAR, decides VARCHAR[], open BOOLEAN",
    "integration_points": "version VARCHAR, component VARCHAR, span VARCHAR, kind VARCHAR, symbol VARCHAR, path "
    "VARCHAR, line INTEGER, fields VARCHAR[], blind VARCHAR[]",
}


def write_store(design: Design, path: Path) -> None:
    """Add a design to the store; the same version replaces itself.

    Raises:
        StoreError: The file is no DuckDB store, or another process holds it.
    """
    try:
        with duckdb.connect(str(path)) as connection:
            connection.execute("BEGIN")
            for table, columns in _TABLES.items():
                connection.execute(f"CREATE TABLE IF NOT EXISTS {table} ({columns})")
                if table != "versions":
                    connection.execute(f"DELETE FROM {table} WHERE version = ?", [design.version])
            found = connection.execute("SELECT ordinal FROM versions WHERE version = ?", [design.version]).fetchone()
            last = connection.execute("SELECT coalesce(max(ordinal), 0) FROM versions").fetchone()
            ordinal = found[0] if found else (last[0] if last else 0) + 1
            connection.execute("DELETE FROM versions WHERE version = ?", [design.version])
            for table, rows in _rows(design, ordinal).items():
                _insert(connection, table, rows)
            connection.execute("COMMIT")
    except duckdb.Error as error:
        text = str(error).splitlines()[0]
        raise StoreError(f"{path}: {text}; give another file with --out, or end the process that holds it") from error


def _insert(connection: Any, table: str, rows: list[list[Any]]) -> None:
    """Insert rows through one parameter: binding each value costs ten times as much."""
    if not rows:
        return
    columns = [column.strip().split(" ")[0] for column in _TABLES[table].split(", ")]
    types = [column.strip().split(" ", 1)[1] for column in _TABLES[table].split(", ")]
    struct = ", ".join(f"{c} {t}" for c, t in zip(columns, types, strict=True))
    data = orjson.dumps([dict(zip(columns, (_plain(v) for v in row), strict=True)) for row in rows]).decode()
    chosen = ", ".join(f"r.{c}" for c in columns)
    connection.execute(
        f"INSERT INTO {table} SELECT {chosen} FROM (SELECT unnest(from_json(?::JSON, '[{_shape(struct)}]')) AS r)",
        [data],
    )


def _shape(struct: str) -> str:
    parts = []
    for column in struct.split(", "):
        name, kind = column.split(" ", 1)
        shape = f'["{kind[:-2]}"]' if kind.endswith("[]") else f'"{kind}"'
        parts.append(f'"{name}": {shape}')
    return "{" + ", ".join(parts) + "}"


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace").replace("\x00", "�")
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value


def _rows(design: Design, ordinal: int) -> dict[str, list[list[Any]]]:
    v, a = design.version, design.architecture
    owner = {s: c.id for c in a.components for s in c.symbols}
    salience = {f.path: f for f in design.salience}
    numbers = {k: n for k, n in summary(design).items() if isinstance(n, int | float)}
    out: dict[str, list[list[Any]]] = {
        "versions": [
            [
                v,
                ordinal,
                design.name,
                design.scan_sha,
                design.goal,
                a.overall_confidence,
                design.critique.overall_assessment,
            ]
        ],
        "numbers": [[v, k, float(n)] for k, n in numbers.items()],
        "skipped": [[v, s.path, s.reason] for s in design.skipped],
        "symbols": [[v, s.id, s.kind, s.path, s.line, s.end, owner.get(s.id)] for s in design.graph.symbols],
        "call_edges": [[v, e.src, e.dst, e.kind, p, n] for e in design.graph.edges for p, n in e.sites],
        "externals": [[v, e.src, e.dotted, e.path, n] for e in design.graph.externals for n in e.lines],
        "unresolved": [[v, u.src, u.path, u.line, u.text, u.cause] for u in design.graph.unresolved],
        "pattern_hits": [
            [v, h.pattern, h.symbol, h.path, h.line, h.end, h.kind, h.evidence, h.confidence] for h in design.hits
        ],
        "missing_nodes": [[v, m.path, m.salience, m.why] for m in a.missing],
        "edges": [[v, e.src, e.dst, e.label, e.verification, e.because, e.evidence] for e in a.edges],
        "cross_component_issues": [
            [v, i.component, i.issue, i.suggestion] for i in design.critique.cross_component_issues
        ],
        "gaps": [[v, g.metric, g.missing, g.fix] for g in design.gaps],
        "integration_points": [
            [v, p.component, p.name, p.kind, p.symbol, p.place.path, p.place.line, p.fields, p.blind]
            for p in design.points
        ],
    }
    out["files"] = [
        [
            v,
            r.path,
            r.module,
            r.sha,
            r.lines,
            len(r.errors),
            f.salience,
            f.llm_proximity,
            f.caller_centrality,
            f.callee_centrality,
            f.excluded,
        ]
        for r in design.readings
        if (f := salience[r.path])
    ]
    for c in [*a.components, *a.pruned]:
        pruned = c in a.pruned
        out.setdefault("components", []).append(
            [
                v,
                c.id,
                c.name,
                c.description,
                c.role,
                c.kind,
                c.priority,
                c.stage,
                c.pattern,
                c.strategies,
                c.semantics,
                c.capabilities,
                c.silent_failure,
                c.silent_because,
                c.is_offline_evaluable,
                c.is_runtime_observable,
                c.measured,
                c.user_facing_failure,
                c.alignment,
                c.confidence,
                c.classification_confidence,
                c.reasoning,
                pruned,
            ]
        )
        out.setdefault("annotations", []).append([v, c.id, c.confidence, c.issues, c.suggestions])
        out.setdefault("tiers", []).extend([v, c.id, t.id, t.by, t.symbol, t.place.path, t.place.line] for t in c.tiers)
        for p in design.prompts.get(c.id, []):
            out.setdefault("prompts", []).append(
                [
                    v,
                    c.id,
                    p.symbol,
                    p.place.path,
                    p.place.line,
                    p.name,
                    p.text,
                    p.fields,
                    p.evidence_fields,
                    p.output_fields,
                ]
            )
    _metric_rows(design, out)
    return out


def _metric_rows(design: Design, out: dict[str, list[list[Any]]]) -> None:
    v = design.version
    exported = {m.name for m in design.metrics if m.is_exported}
    for m in [*design.metrics, *(m for m, _ in design.dropped)]:
        out.setdefault("metrics", []).append(
            [
                v,
                m.name,
                m.component,
                m.source,
                m.family,
                m.concern,
                m.pattern,
                m.tier,
                m.claim,
                m.better,
                m.direction_verdict,
                m.severity,
                m.action,
                m.targets,
                m.name in exported,
                m.symbols,
                m.evidence,
                m.monitors,
                m.cost_bundle,
            ]
        )
        out.setdefault("metric_places", []).extend([v, m.name, p.path, p.line, max(p.line, p.end)] for p in m.places)
    for verdict, dropped in [(x, False) for x in design.critique.verdicts] + [(x, True) for _, x in design.dropped]:
        out.setdefault("verdicts", []).append(
            [
                v,
                verdict.metric,
                verdict.component,
                verdict.verdict,
                verdict.rules,
                verdict.reasoning,
                verdict.review,
                verdict.suggested_fix,
                verdict.direction,
                dropped,
            ]
        )
    answered = {q.id for q in design.open_questions}
    out["questions"] = [
        [v, q.id, q.component, q.text, q.why, q.kind, q.answer_type, q.options, q.default, q.decides, q.id in answered]
        for q in design.questions
    ]
