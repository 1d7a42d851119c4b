"""Says which fields and lines the metrics of a portfolio need of each span; a function has one span of a name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gapwatch.design.emission.planned_span import PlannedSpan
from gapwatch.design.metrics.answered_metrics import needed_fields
from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.metrics.spans import IntegrationPoint
from gapwatch.design.patterns.hit import PatternHit


@dataclass
class NeededOfSpan:
    """Fields and lines of a span that metrics read.

    Attributes:
        fields: Fields.
        lines: By field the files and lines of the metrics that read it; None where one of them names no lines of its
            own, so that each line of the function counts.
    """

    fields: set[str] = field(default_factory=set)
    lines: dict[str, set[tuple[str, int]] | None] = field(default_factory=dict)

    def named(self, name: str, hits: list[PatternHit]) -> list[PatternHit] | None:
        """Return those hits that metrics count by a field; None where they count others, and none of these.

        Args:
            name: The field.
            hits: Hits of a function.
        """
        lines = self.lines.get(name)
        if lines is None or not hits:
            return hits
        return [h for h in hits if (h.path, h.line) in lines] or None


def needed_of_spans(
    points: Iterable[IntegrationPoint], metrics: Iterable[MetricDesign]
) -> dict[tuple[str, str], NeededOfSpan]:
    """Return what metrics need, by component and name of the span.

    Args:
        points: Spans to emit.
        metrics: The portfolio.
    """
    by_name = {m.name: m for m in metrics}
    out: dict[tuple[str, str], NeededOfSpan] = {}
    for point in points:
        found = out.setdefault((point.component, point.name), NeededOfSpan())
        for metric in (by_name[name] for name in point.blind):
            named = {(p.path, p.line) for p in metric.places} if metric.source == "catalog" else None
            for name in needed_fields(metric):
                before = found.lines.get(name, set())
                found.fields.add(name)
                found.lines[name] = None if named is None or before is None else before | named
    return out


def one_of_each_function(planned: Iterable[PlannedSpan]) -> list[PlannedSpan]:
    """Return spans of which no two are of one function by one name, as those of a function of two components are.

    The first one stays, with the marks and the fields of the others.

    Args:
        planned: The spans; changed in place.
    """
    out: dict[tuple[str, str, str], PlannedSpan] = {}
    for span in planned:
        first = out.setdefault((span.path, span.function.name, span.span), span)
        if first is span:
            continue
        first.start = span.start | first.start
        first.above = first.above or span.above
        first.reads_reply = first.reads_reply or span.reads_reply
        first.fields += [f for f in span.fields if f not in first.fields]
        first.by_hand = {n: why for n, why in (span.by_hand | first.by_hand).items() if n not in first.fields}
        of_name = {f.name: f for f in first.inner} | {first.function.name: first.function}
        for function in (span.function, *span.inner):
            if (known := of_name.get(function.name)) is None:
                first.inner.append(function)
            else:
                known.marks = sorted(
                    {*known.marks, *function.marks}, key=lambda m: (m.line, m.action, m.field, str(m.value))
                )
    return list(out.values())
