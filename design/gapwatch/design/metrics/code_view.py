"""Code as the rules of the critic read it: functions, prompts, spans, and which functions requests run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from gapwatch.design.architecture.claimed_code import ClaimedCode
from gapwatch.design.architecture.prompts import Prompt
from gapwatch.design.metrics.error_paths import ErrorPaths
from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.metrics.served_code import set_up_functions
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
    """

    code: ClaimedCode
    prompts: dict[str, list[Prompt]]
    metrics: list[MetricDesign]
    points: dict[str, list[IntegrationPoint]]
    served: set[str] | None

    @property
    def errors(self) -> ErrorPaths:
        """Errors of its functions."""
        return ErrorPaths(self.code)

    def hits_at(self, pattern: str, symbol: str, place: CodePlace) -> list[PatternHit]:
        """Return the hits of a pattern at a place, or those of the function that works for its function."""
        worker = self.code.worker(symbol)
        mine = [h for h in self.code.material.hits if h.pattern == pattern and h.symbol in (symbol, worker)]
        return [h for h in mine if h.path == place.path and h.line == place.line] or [
            h for h in mine if h.symbol == worker
        ]

    def is_at_work(self, symbol: str) -> bool:
        """Return whether a function itself asks a model or a service."""
        patterns = ("calls_llm", "calls_external_api")
        return any(h.pattern in patterns and h.symbol == symbol for h in self.code.material.hits)

    @cached_property
    def set_up(self) -> set[str]:
        """Functions that run once, when the program starts."""
        return set_up_functions(self.code)


#: Says why a place of a metric does not support it, or None.
PlaceRule = Callable[[MetricDesign, CodePlace, str, CodeView], str | None]
#: Says why a metric as a whole is refused, or None.
MetricRule = Callable[[MetricDesign, CodeView], str | None]


def placed(metric: MetricDesign, view: CodeView) -> Iterator[tuple[CodePlace, str]]:
    """Yield the places of a metric that lie in a function, each with that function."""
    for place in metric.places:
        symbol = view.code.function_at(place)
        if symbol is not None:
            yield place, symbol
