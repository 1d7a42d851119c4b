"""Code that serves no request, as far as the design can see, and the metrics that somebody may still want of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from gapwatch.design.metrics.metric_design import MetricDesign, MetricReview
from gapwatch.design.metrics.rules.code_rules import bad_places
from gapwatch.design.metrics.rules.code_view import CodeView
from gapwatch.design.metrics.rules.place_rules import UNSERVED
from gapwatch.design.patterns.library_uses import CodePlace


@dataclass(frozen=True, order=True)
class LeftOutCode:
    """Places of a file that have no metric because nothing that users ask runs them.

    Attributes:
        path: The file.
        reason: Why, in a sentence.
        places: The places, in order.
        metrics: Metrics that `gapwatch design add` takes in against this reason.
    """

    path: str
    reason: str
    places: tuple[CodePlace, ...]
    metrics: tuple[str, ...]


def left_out_code(view: CodeView, dropped: Iterable[tuple[MetricDesign, MetricReview]]) -> list[LeftOutCode]:
    """Return the code that is left out, by file and reason.

    Args:
        view: Input of the rules, after the last round.
        dropped: Rejected metrics, each with its last review.
    """
    found: dict[tuple[str, str], set[CodePlace]] = defaultdict(set)
    for (place, *_), refusal in view.refusals.items():
        if refusal is not None and refusal[0] in UNSERVED and isinstance(place, CodePlace):
            found[place.path, refusal[1].removeprefix(f"{place}: ")].add(place)
    wanted: dict[CodePlace, set[str]] = defaultdict(set)
    for metric, review in dropped:
        if set(review.rules) <= {*UNSERVED, "missing_judge"} and metric.places:
            contradicted = replace(view, added=frozenset([metric.name]))
            bad = bad_places(metric, contradicted)
            for place in metric.places:
                if place not in bad:
                    wanted[place].add(metric.name)
    return sorted(
        LeftOutCode(
            path,
            reason,
            tuple(sorted(places, key=lambda p: (p.line, p.end))),
            tuple(sorted({name for place in places for name in wanted[place]})),
        )
        for (path, reason), places in found.items()
    )
