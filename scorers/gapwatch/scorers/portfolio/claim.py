"""Claims of metrics: the nine forms, as types."""

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

#: Values of the key `form`.
CLAIM_FORMS = ("check", "measure", "label", "judge", "compare", "composite", "ratio", "python", "feedback")


class CheckClaim(WrittenModel):
    """A predicate that must hold; tighter bounds can warn.

    Attributes:
        predicate: The condition; written as `field` and one predicate beside `form`.
        optional: A missing value gives skip instead of unknown.
    """

    form: Literal["check"]
    predicate: WrittenPredicate
    optional: Flag = False


class Limit(WrittenModel):
    """Limit of a measure: exactly one of `max` and `min`, both inclusive.

    Attributes:
        max: A higher number fails.
        min: A lower number fails.
        warn: A number beyond this bound warns.
    """

    max: Number | None = None
    min: Number | None = None
    warn: Number | None = None


class MeasureClaim(WrittenModel):
    """A number that fails beyond its limit.

    Attributes:
        field: Field with the number.
        unit: Unit of the number, for people.
        limit: Bound; without it every number passes.
        optional: A missing value gives skip instead of unknown.
    """

    form: Literal["measure"]
    field: FieldReference
    unit: Text
    limit: Limit | None = None
    optional: Flag = False


class LabelClaim(WrittenModel):
    """A label that fails if it is listed as bad.

    Attributes:
        field: Field with the label.
        labels: All known labels, best first; without it any label is known.
        bad: Labels that fail.
        optional: A missing label gives skip instead of unknown.
    """

    form: Literal["label"]
    field: FieldReference
    labels: Annotated[tuple[Text, ...], Field(min_length=1)] | None = None
    bad: tuple[Text, ...] = ()
    optional: Flag = False


#: Default scale of a rubric, best first.
FIVE_POINTS = ("Excellent", "Good", "Fair", "Poor", "Very Poor")
#: Prompt templates of rubrics: Gapwatch's own, and the third of GRAFITE (input and output).
TEMPLATES = ("rubric", "grafite_input_output")
#: The first and second template of GRAFITE need a reference answer, which only an offline evaluation has.
REFERENCE_TEMPLATES = ("grafite_input_output_reference", "grafite_output_reference")


#: Most spans of one call; of more, models lose some.
MOST_ITEMS = 20


class TranscriptRule(WrittenModel):
    """Rule by which a judge is shown a conversation, and by which a long one is cut.

    Attributes:
        characters: Most characters of one conversation, 100 for the lines around each part counted in.
        first_turns: Most turns that stay at the beginning, in a third of the characters; the last turns take the rest.
        turn_characters: Most characters of one turn; the middle of a longer text is left out.
    """

    characters: Annotated[int, Field(strict=True, ge=1_000, le=200_000)] = 60_000
    first_turns: Annotated[int, Field(strict=True, ge=1, le=1_000)] = 4
    turn_characters: Annotated[int, Field(strict=True, ge=200, le=100_000)] = 8_000


class Rubric(WrittenModel):
    """The question to a judge, with the scale of its answer.

    Attributes:
        criterion: The one question; for a template of GRAFITE its guidelines.
        scale: Bands: words, best first; or numbers, or a map from band to score, where the highest is the best. The
            default has five words, from Excellent to Very Poor.
        steps: Steps by which the judge reaches its answer.
        inputs: Fields that the judge sees.
        pass_at: The last band, or the lowest number, that passes; by default what is above the middle of the scale.
            Several judges pass a span if their average position reaches it; with two bands, if more than half pass it.
        output_schema: JSON Schema of further keys of the judge's answer, besides the justification and the score.
        template: Prompt template: `rubric`, or `grafite_input_output` (a binary scale, two inputs: input and output).
        transcript: Shows inputs that are JSON lists of messages in turns, and says what is left out of long ones; `{}`
            for the defaults. `trace.transcript` is always shown in turns.
        items_per_call: Most spans that one call asks about. More than 1 costs less and gives up independence: a judge
            may compare the spans of a call.
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
    transcript: TranscriptRule | None = None
    items_per_call: Annotated[int, Field(strict=True, ge=1, le=MOST_ITEMS)] = 1


class Judge(WrittenModel):
    """A model that judges.

    Attributes:
        model: Name at the gateway, `vendor/name`.
        params: Parameters of each request: temperature, top_p, seed, ...; never a secret.
        name: Name of the judge in rows and series; the model by default.
    """

    model: Text
    params: dict[str, object] = Field(default_factory=dict)
    name: Text | None = None


class JudgedClaim(WrittenModel):
    """Common parts of the forms judge and compare.

    Attributes:
        rubric: The question.
        judges: The models that answer it.
        quorum: Number of judges that must answer for the ensemble to have a verdict; by default a majority of them.
    """

    rubric: Rubric
    judges: Annotated[tuple[Judge, ...], Field(min_length=1)]
    quorum: Annotated[int, Field(strict=True, ge=1)] | None = None


class JudgeClaim(JudgedClaim):
    """A verdict of one or several models: band, score and justification."""

    form: Literal["judge"]


class CompareClaim(JudgedClaim):
    """A verdict of models that compare two outputs."""

    form: Literal["compare"]


class CompositeClaim(WrittenModel):
    """The weighted mean of metrics of one concern on one component.

    Attributes:
        parts: Weight of each metric; the weights are positive and sum to 1.
        pass_at: The lowest mean that passes; without it every mean passes.
    """

    form: Literal["composite"]
    parts: Annotated[dict[str, Number], Field(min_length=1)]
    pass_at: Number | None = None


class RatioClaim(WrittenModel):
    """The ratio of the sums of two metrics; it is a series and has no rows.

    Attributes:
        numerator: Metric whose scores (of a measure) or passes (of a check) are summed.
        denominator: Metric whose sum the numerator's is divided by.
        per: Items that are summed.
    """

    form: Literal["ratio"]
    numerator: MetricName
    denominator: MetricName
    per: Literal["unit"] = "unit"


class PythonClaim(WrittenModel):
    """The result of a registered Python scorer.

    Attributes:
        scorer: Name of the `@scorer` function.
        fields: Fields that the function gets.
        optional: An answer without a result gives skip instead of unknown.
    """

    form: Literal["python"]
    scorer: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.]*$", max_length=100)]
    fields: tuple[FieldReference, ...] = ()
    optional: Flag = False


class FeedbackClaim(WrittenModel):
    """Feedback of people about traces, such as thumbs; each is one unit, counted when its trace is known.

    Attributes:
        pass_at: The lowest number that passes; by default every number above 0. A thumb up passes, a thumb down fails.
    """

    form: Literal["feedback"]
    pass_at: Number | None = None


Claim = Annotated[
    CheckClaim
    | MeasureClaim
    | LabelClaim
    | JudgeClaim
    | CompareClaim
    | CompositeClaim
    | RatioClaim
    | PythonClaim
    | FeedbackClaim,
    Discriminator("form"),
]

#: Claims that are about no single span or trace, so that scoring makes no rows of them.
UNSCORED_CLAIMS = (RatioClaim, FeedbackClaim)
