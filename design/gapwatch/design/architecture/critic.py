"""The architecture's critic by rule: what is claimed and not there, what is there and not claimed."""

from __future__ import annotations

from gapwatch.design.architecture.model import Architecture, ComponentDraft, MissingNode
from gapwatch.design.architecture.salience import FileSalience

#: Under this a node is pruned.
PRUNE_BELOW = 0.3
#: Files above this share of the greatest salience belong to some component.
_SALIENT = 0.25
_AI = frozenset({"llm_chat", "embedding", "retrieval", "rerank", "guardrail"})


def review_components(architecture: Architecture, files: set[str], salience: list[FileSalience]) -> None:
    """Judge every node, prune those that do not stand, list what is missing.

    Args:
        architecture: Components and edges; changed in place.
        files: Paths that were read.
        salience: Of all files, greatest first.
    """
    seen: list[tuple[ComponentDraft, set[str]]] = []
    for component in architecture.components:
        component.issues, component.suggestions = [], []
        score = 1.0
        absent = [path for path in component.files if path not in files]
        if absent:
            component.issues.append(f"phantom: {', '.join(absent[:3])} not found")
            score -= 0.8 * len(absent) / len(component.files)
        if component.role == "ai_core" and not _AI & set(component.capabilities):
            component.issues.append("misclassified role: ai_core without a call to a model, an index or a guardrail")
            component.suggestions.append("supporting")
            score -= 0.3
        own = set(component.symbols)
        for other, symbols in seen:
            overlap = len(own & symbols) / len(own | symbols) if own | symbols else 0.0
            if overlap > 0.5:
                component.issues.append(f"duplicate of {other.id}: {overlap:.0%} of the symbols are the same")
                score -= 0.5
        seen.append((component, own))
        wrong = [e for e in architecture.edges if e.src == component.id and e.verification == "unsupported"]
        if wrong:
            component.issues.append(f"wrong edge: to {', '.join(e.dst for e in wrong)}, without a call")
            score -= 0.1 * len(wrong)
        if not any(component.id in (e.src, e.dst) for e in architecture.edges) and len(architecture.components) > 1:
            component.issues.append("no edge to any other component was seen")
            score -= 0.15
        inferred = [u for u in component.uses if "." not in u.dotted]
        if component.uses and len(inferred) == len(component.uses):
            component.issues.append("its calls are known by their shape only")
            score -= 0.2
        component.confidence = round(max(0.0, min(1.0, score)), 2)
    architecture.pruned = [c for c in architecture.components if c.confidence < PRUNE_BELOW]
    kept = {c.id for c in architecture.components if c.confidence >= PRUNE_BELOW}
    architecture.components = [c for c in architecture.components if c.id in kept]
    architecture.edges = [e for e in architecture.edges if {e.src, e.dst} <= kept and e.verification != "unsupported"]
    covered = {path for c in architecture.components for path in c.files}
    top = max((f.salience for f in salience if not f.excluded), default=0.0)
    architecture.missing = [
        MissingNode(f.path, f.salience, "near a model or full of patterns, and in no component")
        for f in salience
        if not f.excluded and top and f.salience >= _SALIENT * top and f.path not in covered and f.llm_proximity > 0
    ][:10]
    scores = [c.confidence for c in architecture.components]
    coverage = len(covered) / (len(covered) + len(architecture.missing)) if covered else 0.0
    architecture.overall_confidence = round(sum(scores) / len(scores) * coverage, 2) if scores else 0.0
