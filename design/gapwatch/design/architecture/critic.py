"""Reviews components by rule: prunes unsupported ones and lists important files without a component."""

from __future__ import annotations

from gapwatch.design.architecture.model import Architecture, ComponentDraft, MissingNode
from gapwatch.design.architecture.salience import FileSalience

#: Components of lower confidence are pruned.
PRUNE_BELOW = 0.3
#: Share of the greatest salience from which a file should belong to a component.
_SALIENT = 0.25
_AI = frozenset({"llm_chat", "embedding", "retrieval", "rerank", "guardrail"})


def review_components(architecture: Architecture, files: set[str], salience: list[FileSalience]) -> None:
    """Set the confidence of every component, prune those below `PRUNE_BELOW`, list missing files.

    The confidence starts at 1 and loses 0.8 x share of missing files, 0.3 for a wrong role, 0.5 for a duplicate, 0.1
    for each unsupported edge, 0.15 without any edge, and 0.2 if no library confirms the calls.

    Args:
        architecture: Changed in place.
        files: Paths of all files that were read.
        salience: Scores of all files, greatest first.
    """
    seen: list[tuple[ComponentDraft, set[str]]] = []
    for component in architecture.components:
        component.issues, component.suggestions = [], []
        score = 1.0
        absent = [path for path in component.files if path not in files]
        if absent:
            component.issues.append(f"missing files: {', '.join(absent[:3])}")
            score -= 0.8 * len(absent) / len(component.files)
        if component.role == "ai_core" and not _AI & set(component.capabilities):
            component.issues.append("wrong role: ai_core without a call to a model, an index or a guardrail")
            component.suggestions.append("supporting")
            score -= 0.3
        own = set(component.symbols)
        for other, symbols in seen:
            overlap = len(own & symbols) / len(own | symbols) if own | symbols else 0.0
            if overlap > 0.5:
                component.issues.append(f"duplicate of {other.id}: {overlap:.0%} shared symbols")
                score -= 0.5
        seen.append((component, own))
        wrong = [e for e in architecture.edges if e.src == component.id and e.verification == "unsupported"]
        if wrong:
            component.issues.append(f"unsupported edge to {', '.join(e.dst for e in wrong)}: no call")
            score -= 0.1 * len(wrong)
        if not any(component.id in (e.src, e.dst) for e in architecture.edges) and len(architecture.components) > 1:
            component.issues.append("no edge to another component")
            score -= 0.15
        inferred = [u for u in component.uses if "." not in u.dotted]
        if component.uses and len(inferred) == len(component.uses):
            component.issues.append("its calls are recognised by their form only, not by a library")
            score -= 0.2
        component.confidence = round(max(0.0, min(1.0, score)), 2)
    architecture.pruned = [c for c in architecture.components if c.confidence < PRUNE_BELOW]
    kept = {c.id for c in architecture.components if c.confidence >= PRUNE_BELOW}
    architecture.components = [c for c in architecture.components if c.id in kept]
    architecture.edges = [e for e in architecture.edges if {e.src, e.dst} <= kept and e.verification != "unsupported"]
    covered = {path for c in architecture.components for path in c.files}
    top = max((f.salience for f in salience if not f.excluded), default=0.0)
    architecture.missing = [
        MissingNode(f.path, f.salience, "near a model or rich in patterns, but in no component")
        for f in salience
        if not f.excluded and top and f.salience >= _SALIENT * top and f.path not in covered and f.llm_proximity > 0
    ][:10]
    scores = [c.confidence for c in architecture.components]
    coverage = len(covered) / (len(covered) + len(architecture.missing)) if covered else 0.0
    architecture.overall_confidence = round(sum(scores) / len(scores) * coverage, 2) if scores else 0.0
