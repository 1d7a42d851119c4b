"""What the rules over a whole portfolio see: every part that could be read, also where others could not."""

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
    """A portfolio that may still be refused.

    Attributes:
        problems: Where problems are noted.
        components: That could be read, by their position in the file.
        component_ids: Of all components, readable or not: an id that is there is not called unknown.
        metrics: That could be read, by their position in the file.
        metric_names: Of all metrics, readable or not.
        facts: In force, those of a file of facts included.
        edges: That could be read, by position.
        questions: That could be read, by position.
        written_by_llm: Fields that models write.
        by_name: The readable metrics by name.
        by_id: The readable components by id.
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
    by_name: dict[str, Metric] = field(default_factory=dict)
    by_id: dict[str, Component] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.by_name.update({metric.name: metric for _, metric in self.metrics})
        self.by_id.update({component.id: component for _, component in self.components})

    def know_component(self, name: str | None, path: KeyPath) -> None:
        """Note where a component is named that the portfolio does not have; None names none."""
        if name is not None and name not in self.component_ids:
            self.problems.add(
                path,
                f"no component named {shown(name)}",
                _listed(self.component_ids),
                nearest(name, self.component_ids),
            )

    def know_metric(self, name: str, path: KeyPath) -> Metric | None:
        """Return a metric by its name; note where the portfolio has none."""
        if name not in self.metric_names:
            self.problems.add(
                path, f"no metric named {shown(name)}", _listed(self.metric_names), nearest(name, self.metric_names)
            )
        return self.by_name.get(name)


def _listed(names: Iterable[str]) -> str:
    names = sorted(names)
    return "one of " + ", ".join(names[:8]) + (", ..." if len(names) > 8 else "") if names else ""
