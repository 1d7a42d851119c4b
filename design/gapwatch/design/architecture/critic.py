"""Reviews components by rule: prunes unsupported ones and lists files without a component, with the reason."""

from __future__ import annotations

from gapwatch.design.architecture.material import Material
from gapwatch.design.architecture.model import Architecture, ComponentDraft, MissingNode
from gapwatch.design.architecture.salience import FileSalience
from gapwatch.design.patterns.hit import PatternHit

#: Components of lower confidence are pruned.
PRUNE_BELOW = 0.3
#: Share of the greatest salience from which a file should belong to a component.
_SALIENT = 0.25
_AI = frozenset({"llm_chat", "embedding", "retrieval", "rerank", "guardrail"})


def review_components(
    architecture: Architecture, files: set[str], salience: list[FileSalience], material: Material
) -> None:
    """Set the confidence of every component, prune those below `PRUNE_BELOW`, list files that no component holds.

    The confidence starts at 1 and loses 0.8 x share of missing files, 0.3 for a wrong role, 0.5 for a duplicate, 0.1
    for each unsupported edge, 0.3 without any edge, and 0.2 if no library confirms the calls.

    Args:
        architecture: Changed in place.
        files: Paths of all files that were read.
        salience: Scores of all files, greatest first.
        material: The analysed code.
    """
    path_of = {s.id: s.path for s in material.graph.symbols}
    called = {path_of.get(e.dst, "") for e in material.graph.edges if path_of.get(e.src) != path_of.get(e.dst)}
    hits = material.hits
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
            score -= 0.3
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
    architecture.missing = _left_out(salience, covered, hits, called)
    top = max((f.salience for f in salience if not f.excluded), default=0.0)
    lost = [m for m in architecture.missing if m.salience >= _SALIENT * top and m.why == _OVER]
    scores = [c.confidence for c in architecture.components]
    coverage = len(covered) / (len(covered) + len(lost)) if covered else 0.0
    architecture.overall_confidence = round(sum(scores) / len(scores) * coverage, 2) if scores else 0.0


_OVER = "near a model or rich in patterns, but beyond the number of components that a person can take in"


def _left_out(
    salience: list[FileSalience], covered: set[str], hits: tuple[PatternHit, ...], called: set[str]
) -> list[MissingNode]:
    """Return every file with a pattern that no component holds, with the reason."""
    found = {hit.path for hit in hits}
    out = []
    for f in salience:
        if f.excluded or f.path in covered or (f.path not in found and not f.llm_proximity):
            continue
        if f.llm_proximity:
            why = _OVER
        elif f.path in called:
            why = "has patterns, but lies on no way from an entry to a model, and does no work for one"
        else:
            why = "has patterns, but nothing calls it"
        out.append(MissingNode(f.path, f.salience, why))
    return out
