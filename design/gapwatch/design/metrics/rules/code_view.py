"""Code as the rules of the critic read it: functions, prompts, spans, and which functions requests run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from gapwatch.design.architecture.claimed_code import ClaimedCode
from gapwatch.design.architecture.prompts import Prompt
from gapwatch.design.architecture.reply_flow import is_tool_run
from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.metrics.rules.error_paths import ErrorPaths
from gapwatch.design.metrics.spans import IntegrationPoint
from gapwatch.design.patterns.hit import PatternHit
from gapwatch.design.patterns.library_uses import CodePlace


@dataclass(frozen=True)
class CodeView:
    """Input of the rules.

    Attributes:
        code: The analysed code.
        prompts: Prompts by component.
        metrics: All metrics under review, in order.
        points: Spans by component.
        served: Functions that requests run; None where the code has no server.
        set_up: Functions that run once, when the program starts.
        refusals: Rule and reason of each place that was looked at for a claim, None for a good one; further rounds of
            review take them over.
        added: Metrics that somebody added, against what the code shows of who runs it.
    """

    code: ClaimedCode
    prompts: dict[str, list[Prompt]]
    metrics: list[MetricDesign]
    points: dict[str, list[IntegrationPoint]]
    served: set[str] | None
    set_up: set[str]
    refusals: dict[tuple[object, ...], tuple[str, str] | None] = field(default_factory=dict)
    added: frozenset[str] = frozenset()

    @cached_property
    def swallowing(self) -> dict[tuple[str, int], str]:
        """Metrics of errors that a handler swallows, by (file, line) of each `try` that they count."""
        return {
            (p.path, p.line): metric.name
            for metric in self.metrics
            if metric.claim.get("field") == "attributes.swallowed_errors"
            for p in metric.places
        }

    @cached_property
    def by_claim(self) -> dict[str, list[MetricDesign]]:
        """Metrics of the catalogue by what they claim, in order."""
        out: dict[str, list[MetricDesign]] = {}
        for metric in self.metrics:
            if metric.source == "catalog":
                out.setdefault(claim_key(metric), []).append(metric)
        return out

    @cached_property
    def own_clients(self) -> set[str]:
        """Classes of models of libraries that are used by own classes alone, which extend them and make the calls."""
        material = self.code.material
        hits = [h for h in material.hits if (h.pattern, h.kind) == ("calls_llm", "direct") and not is_tool_run(h)]
        asking = {h.symbol.rpartition(".")[0] for h in hits}
        extended = {base for cls in material.program.classes if cls.symbol in asking for base in cls.outside}
        return extended - {external.dotted for external in material.graph.externals}

    @property
    def errors(self) -> ErrorPaths:
        """Errors of its functions."""
        return ErrorPaths(self.code)

    def hits_at(self, pattern: str, symbol: str, place: CodePlace) -> list[PatternHit]:
        """Return the hits of a pattern at a place, or those of the function that works for its function."""
        worker = self.code.worker(symbol)
        mine = [
            h
            for one in dict.fromkeys((symbol, worker))
            for h in self.code.material.hits_of(one)
            if h.pattern == pattern
        ]
        return [h for h in mine if h.path == place.path and h.line == place.line] or [
            h for h in mine if h.symbol == worker
        ]

    def is_at_work(self, symbol: str) -> bool:
        """Return whether a function itself asks a model or a service."""
        patterns = ("calls_llm", "calls_external_api")
        return any(h.pattern in patterns for h in self.code.material.hits_of(symbol))


#: Says why a place of a metric does not support it, or None; of the metric it reads source, pattern, family, and field
#: and presence of the claim, by which `CodeView.refusals` remembers it.
PlaceRule = Callable[[MetricDesign, CodePlace, str, CodeView], str | None]
#: Says why a metric as a whole is refused, or None.
MetricRule = Callable[[MetricDesign, CodeView], str | None]


def placed(metric: MetricDesign, view: CodeView) -> Iterator[tuple[CodePlace, str]]:
    """Yield the places of a metric that lie in a function, each with that function."""
    for place in metric.places:
        symbol = view.code.function_at(place)
        if symbol is not None:
            yield place, symbol


def claim_key(metric: MetricDesign) -> str:
    """Return a text that is equal for metrics that claim the same, whatever their spans."""
    claim = {k: v for k, v in metric.claim.items() if k != "json"}
    return json.dumps([claim, metric.claim.get("json"), metric.fields if metric.tier else []], sort_keys=True)


def keep_places(
    metric: MetricDesign, good: list[CodePlace], code: ClaimedCode, points: Iterable[IntegrationPoint]
) -> MetricDesign | None:
    """Keep some places of a metric, with their functions and spans; None where no evidence is left.

    Args:
        metric: It is changed.
        good: The places to keep, at least one.
        code: The analysed code.
        points: Spans of its component.
    """
    bad = [p for p in metric.places if p not in good]
    metric.evidence = [e for e in metric.evidence if not any(e.startswith(f"{p} ") for p in bad)]
    metric.places = good
    if not metric.evidence:
        return None
    kept = {symbol for place in good if (symbol := code.function_at(place)) is not None}
    metric.symbols = [s for s in metric.symbols if s in kept] or metric.symbols
    spans = sorted({p.name for p in points if p.name in metric.spans and is_around(p.symbol, kept)})
    if spans and spans != metric.spans and metric.when is not None:
        metric.when = json.loads(json.dumps(metric.when).replace(json.dumps(metric.spans), json.dumps(spans)))
        metric.spans = spans
    return metric


def is_around(outer: str, symbols: set[str]) -> bool:
    """Return whether a function is one of others or holds one of them."""
    return any(s == outer or s.startswith(f"{outer}.") for s in symbols)
