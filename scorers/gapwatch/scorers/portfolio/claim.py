"""What a metric states about a span: the eight forms of a claim, after reading."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, StringConstraints

from gapwatch.scorers.portfolio.predicate import WrittenPredicate
from gapwatch.scorers.portfolio.schema_types import (
    FieldReference,
    Flag,
    MetricName,
    Number,
    Prose,
    Text,
    WrittenModel,
)

#: Distinguishes the forms.
CLAIM_FORMS = ("check", "measure", "label", "judge", "compare", "composite", "ratio", "python")


class CheckClaim(WrittenModel):
    """One predicate; pass, fail, or warn by tighter bounds.

    Attributes:
        predicate: What is asked; written as `field` and one predicate beside `form`.
        optional: Skip, instead of unknown, where there is no value.
    """

    form: Literal["check"]
    predicate: WrittenPredicate
    optional: Flag = False


class Limit(WrittenModel):
    """Bound of a measure; exactly one of `max` and `min`, both inclusive.

    Attributes:
        max: A higher number fails.
        min: A lower number fails.
        warn: A number beyond it warns.
    """

    max: Number | None = None
    min: Number | None = None
    warn: Number | None = None


class MeasureClaim(WrittenModel):
    """A number; fails beyond its limit.

    Attributes:
        field: Where the number stands.
        unit: Of the number, for people.
        limit: Bound; without one every number passes.
        optional: Skip, instead of unknown, where there is no value.
    """

    form: Literal["measure"]
    field: FieldReference
    unit: Text
    limit: Limit | None = None
    optional: Flag = False


class LabelClaim(WrittenModel):
    """A label; fails where it is a bad one.

    Attributes:
        field: Where the label stands.
        labels: All there are, best first; None: any.
        bad: Those that fail.
        optional: Skip, instead of unknown, where there is no label.
    """

    form: Literal["label"]
    field: FieldReference
    labels: Annotated[tuple[Text, ...], Field(min_length=1)] | None = None
    bad: tuple[Text, ...] = ()
    optional: Flag = False


#: The scale where a rubric writes none, best first.
FIVE_POINTS = ("Excellent", "Good", "Fair", "Poor", "Very Poor")
#: The prompts that a rubric may be put into: ours, and the third of GRAFITE's (input and output).
TEMPLATES = ("rubric", "grafite_input_output")
#: GRAFITE's first and second need a reference answer, which belongs to offline evaluation.
REFERENCE_TEMPLATES = ("grafite_input_output_reference", "grafite_output_reference")


class Rubric(WrittenModel):
    """What a judge is asked.

    Attributes:
        criterion: The one question; for a template of GRAFITE its guidelines.
        scale: Bands: words, best first; or numbers, or a map from band to score, of which the highest is the best. Five
            points where not given.
        steps: How to come to the answer.
        inputs: Fields that the judge is shown.
        pass_at: The last band, or the lowest number, that passes.
        output_schema: JSON Schema of the judge's answer: keys besides the justification and the score.
        template: Of the prompt: `rubric`, or `grafite_input_output` (a binary scale, two inputs: input and output).
    """

    criterion: Annotated[str, StringConstraints(min_length=1, max_length=20_000)]
    scale: (
        Annotated[tuple[Text | Number, ...], Field(min_length=2)] | Annotated[dict[str, Number], Field(min_length=2)]
    ) = FIVE_POINTS
    steps: tuple[Prose, ...] = ()
    inputs: Annotated[tuple[FieldReference, ...], Field(min_length=1)]
    pass_at: Text | Number | None = None
    output_schema: dict[str, object] | None = None
    template: Text = "rubric"


class Judge(WrittenModel):
    """One model that judges.

    Attributes:
        model: As the gateway names it, `vendor/name`.
        params: What is sent with each request: temperature, top_p, seed, ...; never a secret.
        name: Name of the judge in rows and series; the model where not given.
    """

    model: Text
    params: dict[str, object] = Field(default_factory=dict)
    name: Text | None = None


class JudgedClaim(WrittenModel):
    """What judge and compare have in common.

    Attributes:
        rubric: What is asked.
        judges: Who is asked.
        quorum: How many judges must have answered for the ensemble to have a verdict; None: a majority of them.
    """

    rubric: Rubric
    judges: Annotated[tuple[Judge, ...], Field(min_length=1)]
    quorum: Annotated[int, Field(strict=True, ge=1)] | None = None


class JudgeClaim(JudgedClaim):
    """A score, a label and a justification, given by models."""

    form: Literal["judge"]


class CompareClaim(JudgedClaim):
    """As judge, on two outputs."""

    form: Literal["compare"]


class CompositeClaim(WrittenModel):
    """The weighted mean of metrics of one quality on one component.

    Attributes:
        parts: Weight of each metric, positive, in sum 1.
        pass_at: The lowest mean that passes; without it every mean passes.
    """

    form: Literal["composite"]
    parts: Annotated[dict[str, Number], Field(min_length=1)]
    pass_at: Number | None = None


class RatioClaim(WrittenModel):
    """A rate of two sums; a series without rows.

    Attributes:
        numerator: Metric whose scores (of a measure) or passes (of a check) are summed.
        denominator: Metric below the line.
        per: What is summed over.
    """

    form: Literal["ratio"]
    numerator: MetricName
    denominator: MetricName
    per: Literal["unit"] = "unit"


class PythonClaim(WrittenModel):
    """What a registered Python scorer returns.

    Attributes:
        scorer: Name under which it is registered.
        fields: What it is given, in this order.
        optional: Skip, instead of unknown, where there is no value.
    """

    form: Literal["python"]
    scorer: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.]*$", max_length=100)]
    fields: tuple[FieldReference, ...] = ()
    optional: Flag = False


Claim = Annotated[
    CheckClaim | MeasureClaim | LabelClaim | JudgeClaim | CompareClaim | CompositeClaim | RatioClaim | PythonClaim,
    Discriminator("form"),
]
