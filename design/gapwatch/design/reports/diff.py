"""Compares two designs: metrics that a change of the code made stale, and new code that is not monitored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gapwatch.design.architecture.prompts import Prompt
from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.reports.code_texts import CodeTexts
from gapwatch.design.stage import Design


@dataclass(frozen=True)
class TouchedMetric:
    """A metric of the old design whose code changed or moved.

    Attributes:
        metric: Name of the metric.
        component: Id of its component in the old design.
        verdict: `gone` (none of the code that it monitors is left), `changed` (cited code or a cited prompt differs),
            `moved` (the same code on other lines or in another file).
        reasons: One line of text for each changed or moved symbol.
        successors: At most three metrics of the new design that monitor the same code under other names.
    """

    metric: str
    component: str
    verdict: str
    reasons: tuple[str, ...]
    successors: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the metric as plain data."""
        return {
            "metric": self.metric,
            "component": self.component,
            "verdict": self.verdict,
            "reasons": list(self.reasons),
            "successors": list(self.successors),
        }


@dataclass(frozen=True)
class UnmonitoredCode:
    """New code that the old portfolio does not monitor: a pattern, a tier or a component.

    Attributes:
        what: `pattern`, `tier` or `component`.
        name: Name of the pattern, or id of the tier or component.
        component: Id of the component in the new design.
        where: `path:line`, or the first file of a component.
        metrics: Metrics of the new design that would monitor it.
    """

    what: str
    name: str
    component: str
    where: str
    metrics: tuple[str, ...]


@dataclass(frozen=True)
class DesignDiff:
    """The difference of two designs.

    Attributes:
        stale: Metrics whose code is gone or changed.
        moved: Metrics whose code only moved.
        unmonitored: New code without a metric of the old design.
        unchanged: Names of the metrics whose code is the same at the same place.
    """

    stale: tuple[TouchedMetric, ...]
    moved: tuple[TouchedMetric, ...]
    unmonitored: tuple[UnmonitoredCode, ...]
    unchanged: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the difference as plain data; unmonitored code stands under `unwatched`."""
        return {
            "stale": [m.as_json() for m in self.stale],
            "moved": [m.as_json() for m in self.moved],
            "unwatched": [
                {"what": u.what, "name": u.name, "component": u.component, "where": u.where, "metrics": list(u.metrics)}
                for u in self.unmonitored
            ],
            "unchanged": list(self.unchanged),
        }


def compare(old: Design, new: Design, old_texts: CodeTexts, new_texts: CodeTexts) -> DesignDiff:
    """Compare two designs of one pipeline.

    Args:
        old: The design that the portfolio came from.
        new: The design of the changed code.
        old_texts: Code of the old design.
        new_texts: Code of the new design.
    """
    return _Comparison(old, new, old_texts, new_texts).result()


class _Comparison:
    def __init__(self, old: Design, new: Design, old_texts: CodeTexts, new_texts: CodeTexts) -> None:
        self.old, self.new = old, new
        self.old_texts, self.new_texts = old_texts, new_texts
        self.old_hits = {(h.pattern, h.symbol) for h in old.hits}
        self.new_hits = {(h.pattern, h.symbol) for h in new.hits}
        self.old_prompts, self.new_prompts = _by_symbol(old), _by_symbol(new)
        self._now: dict[str, str | None] = {}

    def result(self) -> DesignDiff:
        touched = [self.judged(metric) for metric in self.old.metrics]
        return DesignDiff(
            tuple(m for m in touched if m.verdict in ("gone", "changed")),
            tuple(m for m in touched if m.verdict == "moved"),
            tuple(self.new_things()),
            tuple(m.metric for m in touched if not m.verdict),
        )

    def now(self, symbol: str) -> str | None:
        """Return the name of an old symbol in the new design, or None if it is gone."""
        if symbol not in self._now:
            self._now[symbol] = self.old_texts.where_now(symbol, self.new_texts)
        return self._now[symbol]

    def judged(self, metric: MetricDesign) -> TouchedMetric:
        changes: list[str] = []
        moves: list[str] = []
        is_left = [self._follow(metric, symbol, changes, moves) for symbol in metric.symbols]
        verdict = "gone" if is_left and not any(is_left) else "changed" if changes else "moved" if moves else ""
        return TouchedMetric(metric.name, metric.component, verdict, tuple(changes or moves), self._successors(metric))

    def _follow(self, metric: MetricDesign, symbol: str, changes: list[str], moves: list[str]) -> bool:
        """Note what happened to one cited symbol; return whether the monitored code is still there."""
        now = self.now(symbol)
        if now is None:
            changes.append(f"{symbol} is gone")
            return False
        place = self.new_texts.place(now)
        if self.old_texts.of(symbol) != self.new_texts.of(now):
            changes.append(f"{symbol} changed ({place})")
        elif self.old_texts.place(symbol) != place:
            moves.append(f"{self.old_texts.place(symbol)} is now {place}")
        if metric.source == "judge":
            changes.extend(self._changed_prompts(symbol, now))
        if (metric.pattern, symbol) in self.old_hits and (metric.pattern, now) not in self.new_hits:
            changes.append(f"{metric.pattern} is no longer in {now}")
            return False
        return True

    def _changed_prompts(self, symbol: str, now: str) -> list[str]:
        before = {p.text for p in self.old_prompts.get(symbol, ())}
        after = {p.text for p in self.new_prompts.get(now, ())}
        fresh = [p for p in self.new_prompts.get(now, ()) if p.text not in before]
        lost = [p for p in self.old_prompts.get(symbol, ()) if p.text not in after]
        out = [f"prompt {p.name or 'text'} changed ({p.place})" for p in fresh]
        return out or [f"prompt {p.name or 'text'} is gone (was at {p.place})" for p in lost]

    def _successors(self, metric: MetricDesign) -> tuple[str, ...]:
        """Return new metrics of the same family on the same code, unless the old name still exists."""
        if any(m.name == metric.name for m in self.new.metrics):
            return ()
        mine = {self.now(symbol) for symbol in metric.symbols}
        same = [m.name for m in self.new.metrics if m.family == metric.family and mine & set(m.symbols)]
        return tuple(same[:3])

    def new_things(self) -> list[UnmonitoredCode]:
        """Return the code that the old design did not hold; code that only moved is left out."""
        old = self.old.architecture.components
        known = {self.now(symbol) for c in old for symbol in c.symbols}
        tiers = {self.now(t.symbol) for c in old for t in c.tiers}
        patterns = {(h.pattern, self.now(h.symbol)) for c in old for h in c.hits}
        out: list[UnmonitoredCode] = []
        for c in self.new.architecture.components:
            mine = [m for m in self.new.metrics if c.id in m.owners]
            if known.isdisjoint(c.symbols):
                out.append(UnmonitoredCode("component", c.id, c.id, c.files[0], tuple(m.name for m in mine)))
            for tier in c.tiers:
                if tier.symbol not in tiers:
                    about = tuple(m.name for m in mine if m.tier == tier.id or tier.symbol in m.symbols)
                    out.append(UnmonitoredCode("tier", tier.id, c.id, str(tier.place), about))
            first = {(h.pattern, h.symbol): h for h in reversed(c.hits)}
            for (pattern, symbol), hit in sorted(first.items()):
                if (pattern, symbol) not in patterns:
                    about = tuple(m.name for m in mine if m.pattern == pattern and symbol in m.symbols)
                    out.append(UnmonitoredCode("pattern", pattern, c.id, f"{hit.path}:{hit.line}", about))
        return out


def _by_symbol(design: Design) -> dict[str, list[Prompt]]:
    out: dict[str, list[Prompt]] = {}
    for prompts in design.prompts.values():
        for prompt in prompts:
            out.setdefault(prompt.symbol, []).append(prompt)
    return out
