"""What a change of the code does to a portfolio: metrics that became stale, and what is new and unwatched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from design.metric_design import MetricDesign
from design.pattern_hit import PATTERNS
from design.scan import Scan
from design.stage import Design


@dataclass(frozen=True)
class StaleMetric:
    """A metric of the old design and what changed under it.

    Attributes:
        verdict: `gone` (the code that it watched is no more), `changed` (cited code reads otherwise), `moved` (the same
            code on other lines).
    """

    metric: str
    component: str
    verdict: str
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Unwatched:
    """Something that is new in the code: a pattern, a tier, or a component."""

    what: str
    name: str
    component: str
    where: str
    metrics: tuple[str, ...]


@dataclass(frozen=True)
class DesignDiff:
    """The difference of two designs."""

    stale: tuple[StaleMetric, ...]
    unwatched: tuple[Unwatched, ...]
    unchanged: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "stale": [
                {"metric": s.metric, "component": s.component, "verdict": s.verdict, "reasons": list(s.reasons)}
                for s in self.stale
            ],
            "unwatched": [
                {"what": u.what, "name": u.name, "component": u.component, "where": u.where, "metrics": list(u.metrics)}
                for u in self.unwatched
            ],
            "unchanged": list(self.unchanged),
        }


class CodeTexts:
    """The text of each symbol of a design, so that a moved function is told from a changed one."""

    def __init__(self, scan: Scan, design: Design) -> None:
        self._lines = {f.path: f.source.split(b"\n") for f in scan.files}
        self._symbols = {s.id: s for s in design.graph.symbols}
        self.paths = set(self._lines)

    def of(self, symbol: str) -> bytes | None:
        """Return the text of a symbol, without the white space at the ends of lines; None where there is none."""
        found = self._symbols.get(symbol)
        if found is None or found.path not in self._lines:
            return None
        lines = self._lines[found.path][found.line - 1 : found.end]
        return b"\n".join(line.rstrip() for line in lines)

    def place(self, symbol: str) -> str:
        """Return where a symbol stands."""
        found = self._symbols.get(symbol)
        return f"{found.path}:{found.line}" if found is not None else ""


def compare(old: Design, new: Design, old_texts: CodeTexts, new_texts: CodeTexts) -> DesignDiff:
    """Compare two designs of one pipeline.

    Args:
        new: The design of the changed code.
        new_texts: Code of the new design.
        old: The design that the portfolio came from.
        old_texts: Code of the old design.
    """
    stale, unchanged = [], []
    names = {m.name for m in new.metrics}
    patterns = {(h.pattern, h.symbol) for h in new.hits}
    for metric in old.metrics:
        found = _judge(metric, old_texts, new_texts, patterns, metric.name in names)
        if found is None:
            unchanged.append(metric.name)
        else:
            stale.append(StaleMetric(metric.name, metric.component, *found))
    return DesignDiff(tuple(stale), tuple(_new_things(old, new)), tuple(unchanged))


def _judge(
    metric: MetricDesign, old: CodeTexts, new: CodeTexts, patterns: set[tuple[str, str]], still_designed: bool
) -> tuple[str, tuple[str, ...]] | None:
    reasons: list[str] = []
    lost, moved = 0, 0
    for path in sorted({p.path for p in metric.places}):
        if path not in new.paths:
            reasons.append(f"file {path} is gone")
    for symbol in metric.symbols:
        before, after = old.of(symbol), new.of(symbol)
        if after is None:
            reasons.append(f"symbol {symbol} is gone")
            lost += 1
        elif before != after:
            reasons.append(f"symbol {symbol} changed ({new.place(symbol)})")
        elif old.place(symbol) != new.place(symbol):
            moved += 1
        is_pattern = metric.source == "catalog" and metric.pattern in PATTERNS
        if is_pattern and after is not None and (metric.pattern, symbol) not in patterns:
            reasons.append(f"pattern {metric.pattern} no longer in {symbol}")
    if lost == len(metric.symbols) or (reasons and not still_designed):
        return "gone", tuple(reasons)
    if reasons:
        return "changed", tuple(reasons)
    if moved:
        return "moved", (f"{moved} of {len(metric.symbols)} symbols stand on other lines",)
    return None


def _new_things(old: Design, new: Design) -> list[Unwatched]:
    out: list[Unwatched] = []
    old_components = {c.id for c in old.architecture.components}
    old_tiers = {t.symbol for c in old.architecture.components for t in c.tiers}
    old_patterns = {(h.pattern, h.symbol) for c in old.architecture.components for h in c.hits}
    watched_before = {m.name for m in old.metrics}
    for c in new.architecture.components:
        mine = [m for m in new.metrics if m.component == c.id]
        if c.id not in old_components:
            out.append(Unwatched("component", c.id, c.id, c.files[0], _fresh(mine, watched_before)))
        for tier in c.tiers:
            if tier.symbol not in old_tiers:
                about = [m for m in mine if m.tier == tier.id or tier.symbol in m.symbols]
                out.append(Unwatched("tier", tier.id, c.id, str(tier.place), _fresh(about, watched_before)))
        for pattern, symbol in sorted({(h.pattern, h.symbol) for h in c.hits} - old_patterns):
            hit = next(h for h in c.hits if (h.pattern, h.symbol) == (pattern, symbol))
            about = [m for m in mine if m.pattern == pattern and symbol in m.symbols]
            out.append(Unwatched("pattern", pattern, c.id, f"{hit.path}:{hit.line}", _fresh(about, watched_before)))
    return out


def _fresh(metrics: list[MetricDesign], known: set[str]) -> tuple[str, ...]:
    """Metrics that the new design has for it; those that the old portfolio had already are marked."""
    return tuple(m.name if m.name not in known else f"{m.name} (extend it)" for m in metrics)
