"""Facts (answers of practitioners) and open questions of the design stage, as types."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from gapwatch.scorers.portfolio.author import MARKED_PLACEHOLDERS, names_person
from gapwatch.scorers.portfolio.schema_types import MetricName, Prose, Text, WrittenModel


def parse_moment(text: str) -> datetime | None:
    """Return an ISO 8601 date (its first moment) or time as a time in UTC, or None for any other text."""
    try:
        if len(text) <= 10:
            day = date.fromisoformat(text)
            return datetime(day.year, day.month, day.day, tzinfo=UTC)
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


class Fact(WrittenModel):
    """A practitioner's answer to a question of the design stage.

    Attributes:
        id: Unique in a file; of two facts with one id in two files, the later `at` wins.
        question: Id of the question that it answers.
        component: Id of the component it is about.
        kind: Subject of the fact.
        metric: For a direction: the metric.
        better: For a direction: the better way.
        value: The answer, in words or a number.
        by: Person who gave the answer; a text that names nobody, such as `TODO`, is refused.
        at: Date or time of the answer, ISO 8601.
    """

    id: Text
    question: Text | None = None
    component: Text | None = None
    kind: Literal["direction", "scope", "threshold", "availability", "semantics"]
    metric: MetricName | None = None
    better: Literal["lower", "higher", "unknown"] | None = None
    value: Prose | int | float | bool | None = Field(default=None, union_mode="left_to_right")
    by: Annotated[Text, Field(json_schema_extra={"not": {"enum": [*MARKED_PLACEHOLDERS]}})]
    at: Text

    @field_validator("at")
    @classmethod
    def _at_is_a_date(cls, at: str) -> str:
        if parse_moment(at) is None:
            raise PydanticCustomError(
                "date", "{at} is not a date", {"at": at[:40], "expected": "ISO 8601, like 2026-11-02"}
            )
        return at

    @field_validator("by")
    @classmethod
    def _by_is_filled_in(cls, by: str) -> str:
        if not names_person(by):
            raise PydanticCustomError(
                "author",
                "{by} is not the name of a person",
                {"by": by[:40], "expected": "the name of the person who says so"},
            )
        return by

    @model_validator(mode="after")
    def _direction_is_whole(self) -> Fact:
        if self.kind == "direction" and (self.metric is None or self.better is None):
            lacking = "metric" if self.metric is None else "better"
            raise PydanticCustomError(
                "direction_fact", "a fact of kind direction lacks {lacking}", {"lacking": lacking, "key": lacking}
            )
        return self

    @property
    def moment(self) -> datetime:
        """Time of the answer, UTC."""
        moment = parse_moment(self.at)
        assert moment is not None  # the validator checked it
        return moment


class Answer(WrittenModel):
    """Form of the answer to a question.

    Attributes:
        type: Kind of the answer: text, number, choice, yes_no, direction, or another word.
        options: Choices.
    """

    type: Text
    options: tuple[Prose | int | float | bool, ...] = ()


class Question(WrittenModel):
    """An open question of the design stage to the practitioner.

    Attributes:
        id: Unique.
        component: Id of the component it is about.
        text: The question.
        why: Observation in the code that raises it.
        decides: Metrics that the answer decides.
        answer: Form of the answer.
        default: Value that holds until the question is answered.
    """

    id: Text
    component: Text | None = None
    text: Prose
    why: Prose | None = None
    decides: tuple[MetricName, ...] = ()
    answer: Answer | None = None
    default: Prose | int | float | bool | None = Field(default=None, union_mode="left_to_right")
