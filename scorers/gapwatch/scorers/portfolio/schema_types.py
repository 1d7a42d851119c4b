"""Base class and field types of all models of a portfolio: frozen, strict, without unknown keys."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, Strict, StringConstraints, WithJsonSchema

from gapwatch.scorers.portfolio.field import Field as SpanField


class WrittenModel(BaseModel):
    """Part of a portfolio. Types are strict: a text is never read as a number, nor a number or boolean as a text."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


#: A short text: not empty, at most 200 characters.
Text = Annotated[str, StringConstraints(min_length=1, max_length=200)]
#: Prose for people.
Prose = Annotated[str, StringConstraints(max_length=20_000)]
#: The stable name of a metric; it becomes a label of Prometheus.
MetricName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$", max_length=100)]
Flag = Annotated[bool, Strict()]
Whole = Annotated[int, Strict()]
Number = Annotated[float, Strict()]
Rate = Annotated[float, Strict(), Field(ge=0, le=1)]
NotNegative = Annotated[float, Strict(), Field(ge=0)]
Positive = Annotated[float, Strict(), Field(gt=0)]

#: A field: a text in the file, parsed before the models see it (`gapwatch.scorers.loading.metric_reader`).
FieldReference = Annotated[
    SpanField,
    WithJsonSchema(
        {"type": "string", "minLength": 1, "description": "A field: output, attributes.<key>, output#/a/b."}
    ),
]
