"""Portfolio of one pipeline: its components and their metrics, with directions, alerts and facts.

A practitioner or the design stage writes it; every other part of Gapwatch reads it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PrivateAttr
from pydantic_core import PydanticCustomError

from gapwatch.scorers.portfolio.component import Component, Edge
from gapwatch.scorers.portfolio.fact import Fact, Question
from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.scorers.portfolio.polarity import direction_fact
from gapwatch.scorers.portfolio.schema_types import NotNegative, Positive, Prose, Text, Whole, WrittenModel
from gapwatch.scorers.portfolio.span_mapping import SpanMapping
from gapwatch.scorers.printable import shown


def _is_this_version(value: object) -> object:
    if type(value) is not int or value != 1:  # `true` and 1.0 equal 1, too
        context = {"value": shown(value), "expected": "the number 1"}
        message = "this program does not read schema version {value}"
        raise PydanticCustomError("schema_version", message, context)
    return value


SchemaVersion = Annotated[Literal[1], BeforeValidator(_is_this_version)]


class Volume(WrittenModel):
    """Expected traffic; it sets how often a detector may raise a false alarm.

    Attributes:
        traces_per_day: Expected number of traces per day.
    """

    traces_per_day: Positive | None = None


class Budget(WrittenModel):
    """Limits on false alarms and on the cost of judges.

    Attributes:
        pages_per_month: Accepted false pages per month.
        tickets_per_month: Accepted false tickets per month.
        judge_usd_per_week: Cost of judges per week, US dollars.
    """

    pages_per_month: NotNegative | None = None
    tickets_per_month: NotNegative | None = None
    judge_usd_per_week: NotNegative | None = None


class Portfolio(WrittenModel):
    """The components of a pipeline and the metrics that monitor them.

    Attributes:
        gapwatch: Version of this schema.
        portfolio: Name of the portfolio.
        version: Version of the portfolio, counted by its author.
        pipeline: The pipeline whose records it scores; matched exactly.
        goal: Goal of the pipeline, in the practitioner's words.
        time_zone: Time zone of the hour-of-week baselines.
        trace_url: URL of a trace in your tracing tool; `{trace_id}` and the like are filled in.
        runbook_url: URL of a metric's runbook; `{metric}` and the like are filled in.
        written_by_llm: Fields that models write; by default the outputs of llm, agent and chain components.
        redact: Patterns (RE2) of texts to redact, besides the built-in ones.
        volume: Expected traffic.
        budget: Limits on false alarms and on the cost of judges.
        components: Components of the pipeline.
        edges: Flow between the components.
        facts: Answers of practitioners.
        questions: Open questions.
        metrics: Metrics, in the order of the file.
        spans: How spans of OpenTelemetry become steps of the pipeline.
    """

    gapwatch: SchemaVersion
    portfolio: Text
    version: Whole = Field(ge=0)
    pipeline: Text
    goal: Prose | None = None
    time_zone: Text = "UTC"
    trace_url: Prose | None = None
    runbook_url: Prose | None = None
    written_by_llm: tuple[Text, ...] | None = None
    redact: tuple[Prose, ...] = ()
    volume: Volume = Volume()
    budget: Budget = Budget()
    components: tuple[Component, ...]
    edges: tuple[Edge, ...] = ()
    facts: tuple[Fact, ...] = ()
    questions: tuple[Question, ...] = ()
    metrics: tuple[Metric, ...]
    spans: SpanMapping = SpanMapping()

    _sha: str = PrivateAttr("")
    _text: str = PrivateAttr("")

    @property
    def sha(self) -> str:
        """sha256, hexadecimal, of the RFC 8785 form of the file's values; comments and layout do not count."""
        return self._sha

    @property
    def text(self) -> str:
        """The YAML as written."""
        return self._text

    def direction_fact(self, metric: Metric) -> Fact | None:
        """Return the latest fact about a metric's direction, or None where there is none."""
        return direction_fact(metric, self.facts)

    def with_members(self, ids: Iterable[str | None]) -> set[str | None]:
        """Return ids of components with those that they stand for."""
        named = set(ids)
        return named | {member for part in self.components if part.id in named for member in part.members}
