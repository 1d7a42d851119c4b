"""Key figures of a design, computed once for every report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from gapwatch.design.metrics.spans import IntegrationPoint
from gapwatch.design.source.scan import LEFT_OUT_ON_PURPOSE, Skipped
from gapwatch.design.stage import Design

#: Unknown libraries that are named.
_MOST_LIBRARIES = 4


def summary(design: Design) -> dict[str, Any]:
    """Return the key figures, in the order in which reports show them."""
    edges = design.architecture.edges
    verified = sum(e.verification == "verified" for e in edges)
    causes = Counter(u.cause for u in design.graph.unresolved)
    statuses = Counter(r.status for r in design.critique.reviews)
    broken = [r for r in design.readings if r.errors]
    return {
        "files": len(design.readings),
        "lines": sum(r.lines for r in design.readings),
        "files_skipped": len(design.skipped),
        "files_with_errors": len(broken),
        "symbols": len(design.graph.symbols),
        "call_edges": len(design.graph.edges),
        "call_sites": design.graph.call_sites,
        "resolution_rate": round(design.graph.resolution_rate, 4),
        "unresolved_by_cause": dict(sorted(causes.items())),
        "own_import_rate": round(design.own_imports.rate, 4),
        "own_imports_lost": len(design.own_imports.lost),
        "components": len(design.architecture.components),
        "component_edges": len(edges),
        "edges_verified_share": round(verified / len(edges), 4) if edges else 1.0,
        "overall_confidence": design.architecture.overall_confidence,
        "lowest_confidence": min((c.confidence for c in design.architecture.components), default=0.0),
        "nodes_pruned": len(design.architecture.pruned),
        "nodes_missing": len(design.architecture.missing),
        "pattern_hits": len(design.hits),
        "metrics": len(design.metrics),
        "metrics_exported": sum(m.is_exported for m in design.metrics),
        "judges": sum(m.source == "judge" for m in design.metrics),
        "metrics_on_shelf": len(design.selection.shelf),
        "metrics_dropped": len(design.dropped),
        "passed": statuses["pass"],
        "flagged": sum(statuses.values()) - statuses["pass"],
        "open_questions": len(design.open_questions),
        "integration_points": len(design.points),
        "spans_first": sum(p.is_first for p in design.points),
        "metrics_of_first": len({name for p in design.points if p.is_first for name in p.blind}),
        "spans_there": len(design.instrumentation.spans),
        "libraries_instrumented": len(design.instrumentation.libraries),
        "metrics_answered": sum(m.is_exported and m.is_answered == "yes" for m in design.metrics),
        "metrics_partly_answered": sum(m.is_exported and m.is_answered == "partly" for m in design.metrics),
    }


def unread_paths(design: Design) -> list[Skipped]:
    """Return the Python files and folders that should have been read and were not."""
    return [s for s in design.skipped if s.reason not in LEFT_OUT_ON_PURPOSE]


def unread_languages(design: Design) -> str:
    """Return how many files of which languages were not read."""
    return ", ".join(f"{n:,} file{'' if n == 1 else 's'} of {language}" for language, n in design.unread.items())


def notices(design: Design) -> Iterator[str]:
    """Yield a sentence for each thing that makes a design less than its numbers say; the report has the places."""
    if not design.has_model:
        yield "Gapwatch found no call to a model. Answer the first question to name it."
    if design.unknown_libraries:
        yield f"{unknown_of(design)} Calls through them are missing."
    if lost := len(design.own_imports.lost):
        yield f"Imports of the repository's own files that lead to no file: {lost:,}. Calls through them are missing."
    if unread := unread_paths(design):
        more = f" and {len(unread) - 1:,} more" if len(unread) > 1 else ""
        yield f"Python that was not read: {unread[0].path} ({unread[0].reason}){more}."
    if design.unread:
        yield f"Not read: {unread_languages(design)}."
    if design.secrets:
        more = f" and {len(design.secrets) - 1:,} more" if len(design.secrets) > 1 else ""
        yield f"Keys or passwords in the code: {design.secrets[0]}{more}. The files of this design mask them."


def unknown_of(design: Design) -> str:
    """Return the sentence that names the libraries of models and agents that are not known."""
    found = design.unknown_libraries
    named = [f"{one.name} ({one.place})" for one in found[:_MOST_LIBRARIES]]
    more = f" and {len(found) - _MOST_LIBRARIES} more" if len(found) > _MOST_LIBRARIES else ""
    plural = "Libraries that look" if len(found) > 1 else "A library that looks"
    return f"{plural} like models or agents and that Gapwatch does not know: {', '.join(named)}{more}."


def spans_in_order(design: Design) -> list[tuple[str, list[IntegrationPoint]]]:
    """Return the spans to emit in two steps, each with its title; a step without spans is left out."""
    steps = (
        ("First: model calls, retrieval and the tiers of an answer", True),
        ("Then: all other functions", False),
    )
    found = [(title, [p for p in design.points if p.is_first is wanted]) for title, wanted in steps]
    return [(title, points) for title, points in found if points]


def begin_with(design: Design) -> str:
    """Return the sentence that says how many metrics the first step serves, or an empty text."""
    numbers = summary(design)
    if not numbers["spans_first"]:
        return ""
    exported = len({name for p in design.points for name in p.blind})
    served = f"{numbers['metrics_of_first']} of {exported} metrics"
    return f"Begin with the first {numbers['spans_first']}: they serve {served}."
