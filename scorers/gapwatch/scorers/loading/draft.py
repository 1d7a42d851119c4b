"""Draft of a portfolio: every part that could be read, also where others could not; the rules run over it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gapwatch.scorers.loading.problems import KeyPath, ProblemList, nearest
from gapwatch.scorers.portfolio.component import Component, Edge
from gapwatch.scorers.portfolio.fact import Fact, Question
from gapwatch.scorers.portfolio.llm_origin import WrittenByLlm
from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.scorers.printable import shown


@dataclass(frozen=True)
class Draft:
    """Portfolio that may still be refused.

    Attributes:
        problems: List to which the rules add problems.
        components: Readable components with their position in the file.
        component_ids: Ids of all components, readable or not: no rule calls an id unknown that is in the file.
        metrics: Readable metrics with their position in the file.
        metric_names: Names of all metrics, readable or not.
        facts: Facts in force, those of a file of facts included.
        edges: Readable edges with their position in the file.
        questions: Readable questions with their position in the file.
        written_by_llm: Fields that models write.
        with_references: Whether metrics may compare with reference answers, as those of an offline evaluation do.
        by_name: Readable metrics by name.
        by_id: Readable components by id.
    """

    problems: ProblemList
    components: Sequence[tuple[int, Component]]
    component_ids: frozenset[str]
    metrics: Sequence[tuple[int, Metric]]
    metric_names: frozenset[str]
    facts: Sequence[Fact]
    edges: Sequence[tuple[int, Edge]]
    questions: Sequence[tuple[int, Question]]
    written_by_llm: WrittenByLlm
    with_references: bool = False
    by_name: dict[str, Metric] = field(default_factory=dict)
    by_id: dict[str, Component] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.by_name.update({metric.name: metric for _, metric in self.metrics})
        self.by_id.update({component.id: component for _, component in self.components})

    def know_component(self, name: str | None, path: KeyPath) -> None:
        """Note a problem where the portfolio has no component of this name; None means that no component is named."""
        if name is not None and name not in self.component_ids:
            self.problems.add(
                path,
                f"no component named {shown(name)}",
                _listed(self.component_ids),
                nearest(name, self.component_ids),
            )

    def know_metric(self, name: str, path: KeyPath) -> Metric | None:
        """Return a metric by its name; note a problem where the portfolio has none of this name."""
        if name not in self.metric_names:
            self.problems.add(
                path, f"no metric named {shown(name)}", _listed(self.metric_names), nearest(name, self.metric_names)
            )
        return self.by_name.get(name)


def _listed(names: Iterable[str]) -> str:
    names = sorted(names)
    return "one of " + ", ".join(names[:8]) + (", ..." if len(names) > 8 else "") if names else ""
