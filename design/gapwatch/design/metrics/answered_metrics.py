"""Says for each metric whether the spans that there are answer it, and lets it read them."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

from gapwatch.design.instrumentation.named_spans import NamedSpan
from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.metrics.present_spans import PointSpans, PresentSpans
from gapwatch.design.metrics.spans import IntegrationPoint

#: Fields that a field of a claim is made of.
_MADE_OF = {
    "latency": ("started_at", "ended_at"),
    "latency_ms": ("started_at", "ended_at"),
    "usage.total_tokens": ("usage.input_tokens", "usage.output_tokens"),
    "trace.duration": ("started_at", "ended_at"),
}
#: What a cost is made of where the price of a model is known.
_PRICED = ("model", "usage.input_tokens", "usage.output_tokens")


def needed_fields(metric: MetricDesign) -> tuple[str, ...]:
    """Return the fields of a step that a metric cannot do without."""
    claim = metric.claim
    if claim["form"] == "judge" and metric.rubric is not None:
        # A trace tells what its spans read and wrote.
        return ("input", "output") if metric.is_of_trace else tuple(metric.rubric.inputs)
    named = claim.get("field")
    if not isinstance(named, str):
        return tuple(metric.fields)
    base = named.partition("#")[0]
    return _MADE_OF.get(base, (base,))


def set_answered(
    metrics: list[MetricDesign], points: list[IntegrationPoint], present: PresentSpans, has_prices: bool
) -> None:
    """Set for each metric the functions whose spans of today answer it, and let it read those spans.

    Args:
        metrics: Changed in place: `answered`, `unanswered` and `when`.
        points: Functions to ask for a span.
        present: Spans that there are.
        has_prices: Whether the portfolio knows prices of models; then a cost is made of model and tokens.
    """
    by_name: dict[tuple[str, str], list[IntegrationPoint]] = defaultdict(list)
    for point in points:
        by_name[point.component, point.name].append(point)
    for metric in metrics:
        if metric.claim["form"] == "ratio":
            continue
        fields = needed_fields(metric)
        if has_prices and fields == ("usage.cost_usd",):
            fields = _PRICED
        wanted = _client_kind(metric)
        names: dict[str, None] = {}
        kinds: dict[str, None] = {}
        answered: list[str] = []
        unanswered: dict[str, str] = {}
        for name in metric.spans:
            reasons = []
            mine = [p for owner in metric.owners for p in by_name[owner, name]]
            for point in mine:
                spans = present.points.get(point.symbol, PointSpans())
                own = _own_spans(spans.own, fields, wanted)
                client = [k for k, has in spans.client.items() if k == wanted and set(fields) <= set(has)]
                # The answer is what the function gives back; all else of a call is in the span of the client.
                if own and (not client or fields == ("output",)):
                    for span in own:
                        if span.is_native:
                            kinds.update(dict.fromkeys([span.kind] if span.kind else []))
                        else:
                            names.update(dict.fromkeys(n for n in span.names))
                elif client:
                    kinds.update(dict.fromkeys(client))
                else:
                    reasons.append(_reason(point, spans, fields, wanted is not None))
            if mine and not reasons:
                answered.append(name)
            else:
                unanswered[name] = "; ".join(dict.fromkeys(reasons)) or "no function has this span"
                # What is missing is added to the span that there is.
                there = [s for p in mine for s in present.points.get(p.symbol, PointSpans()).own if s.is_current]
                names.update(dict.fromkeys([n for s in there for n in s.names] or [name]))
        metric.answered, metric.unanswered = answered, unanswered
        if metric.when is not None and (answered or list(names) != metric.spans):
            metric.when = _with_spans(metric.when, list(names), list(kinds))
    by_metric = {m.name: m for m in metrics}
    for metric in metrics:
        if metric.claim["form"] == "ratio":
            parts = [by_metric.get(metric.claim[p]) for p in ("numerator", "denominator")]
            known = [p for p in parts if p is not None]
            metric.answered = list(dict.fromkeys(n for p in known for n in p.answered))
            metric.unanswered = {n: why for p in known for n, why in p.unanswered.items()}


def _client_kind(metric: MetricDesign) -> str | None:
    """Return the kind of the client's spans that a metric can read, None where it is about the function."""
    if metric.reads_search:
        return "retrieval"
    if metric.source == "judge" or metric.pattern in ("calls_llm", "llm_chat"):
        return "llm"
    return {"passages_found": "retrieval", "retrieval_latency": "retrieval", "embedding_errors": "embedding"}.get(
        metric.family
    )


def _own_spans(spans: list[NamedSpan], fields: tuple[str, ...], wanted: str | None) -> list[NamedSpan]:
    """Return the spans of a function that answer: those of the kind, else those of the whole function, else all."""
    found = [s for s in spans if set(fields) <= set(s.fields)]
    return [s for s in found if wanted is not None and s.kind == wanted] or [s for s in found if s.is_whole] or found


def _reason(point: IntegrationPoint, spans: PointSpans, fields: tuple[str, ...], is_of_client: bool) -> str:
    if spans.own or (is_of_client and spans.client):
        has = {f for s in spans.own for f in s.fields}
        if is_of_client:
            has |= {f for fields_of_kind in spans.client.values() for f in fields_of_kind}
        missing = [f for f in fields if f not in has]
        if missing:
            return f"its span has no {', '.join(missing)}"
    if spans.shared:
        return f"the name {', '.join(spans.shared)} is also that of other components"
    if is_of_client and spans.lost:
        return spans.lost
    return f"{point.name} has no span"


def _with_spans(when: dict[str, Any], names: list[str], kinds: list[str]) -> dict[str, Any]:
    """Return a condition with its names of spans replaced."""
    if "all_of" in when:
        head, *rest = when["all_of"]
        return {"all_of": [_with_spans(head, names, kinds), *rest]}
    if when.get("field") != "name":
        return when
    conditions: list[dict[str, Any]] = []
    if names:
        plain = [n for n in names if "*" not in n]
        if plain:
            conditions.append({"field": "name", "one_of": plain})
        for glob in (n for n in names if "*" in n):
            pattern = ".*".join(re.escape(part) for part in glob.split("*"))
            conditions.append({"field": "name", "matches": f"^{pattern}$"})
    if kinds:
        conditions.append({"field": "kind", "one_of": kinds})
    if not conditions:
        return {"field": "status", "present": True}
    return conditions[0] if len(conditions) == 1 else {"any_of": conditions}
