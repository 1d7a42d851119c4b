"""The portfolio: which metric watches which component, in which direction it may move, on which evidence.

A practitioner or the design stage writes it; everything else reads it.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PrivateAttr
from pydantic_core import PydanticCustomError

from gapwatch.scorers.portfolio.component import Component, Edge
from gapwatch.scorers.portfolio.fact import Fact, Question
from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.scorers.portfolio.polarity import direction_fact
from gapwatch.scorers.portfolio.schema_types import NotNegative, Positive, Prose, Text, Whole, WrittenModel
from gapwatch.scorers.printable import shown


def _is_this_version(value: object) -> object:
    if type(value) is not int or value != 1:  # `true` and 1.0 equal 1, too
        context = {"value": shown(value), "expected": "the number 1"}
        raise PydanticCustomError("schema_version", "schema version {value}; this program reads version 1", context)
    return value


SchemaVersion = Annotated[Literal[1], BeforeValidator(_is_this_version)]


class Volume(WrittenModel):
    """How much traffic is expected; from it follows how often a detector may be wrong.

    Attributes:
        traces_per_day: Declared.
    """

    traces_per_day: Positive | None = None


class Budget(WrittenModel):
    """What a team can bear.

    Attributes:
        pages_per_month: False pages.
        tickets_per_month: False tickets.
        judge_usd_per_week: Cost of judges, US dollars.
    """

    pages_per_month: NotNegative | None = None
    tickets_per_month: NotNegative | None = None
    judge_usd_per_week: NotNegative | None = None


class Portfolio(WrittenModel):
    """A portfolio that was read and found good.

    Attributes:
        gapwatch: Version of this schema.
        portfolio: Its name.
        version: Its own version, counted by its author.
        pipeline: The pipeline whose records it scores; matched exactly.
        goal: What the pipeline is for, in the practitioner's words.
        time_zone: Of the hour-of-week baselines.
        trace_url: Where a trace can be looked at; `{trace_id}` and the like are filled in.
        runbook_url: What to do about a metric; `{metric}` and the like are filled in.
        written_by_llm: Fields that models write; None: the outputs of llm, agent and chain.
        redact: Patterns, besides the built-in ones.
        volume: Expected traffic.
        budget: What a team can bear.
        components: Of the pipeline.
        edges: Between them.
        facts: In force.
        questions: Still open.
        metrics: In the order of the file.
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

    _sha: str = PrivateAttr("")
    _text: str = PrivateAttr("")

    @property
    def sha(self) -> str:
        """sha256, hexadecimal, over the RFC 8785 form of what is written; comments and layout do not count."""
        return self._sha

    @property
    def text(self) -> str:
        """The YAML as written."""
        return self._text

    def direction_fact(self, metric: Metric) -> Fact | None:
        """Return the latest fact that says which way is better for a metric, or None where nobody said."""
        return direction_fact(metric, self.facts)
