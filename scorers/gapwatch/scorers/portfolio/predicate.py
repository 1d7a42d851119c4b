"""Predicates: conditions of a check or a `when` on one span, one type for each kind.

Each type reads its argument from the key of its `name` and defines its JSON Schema. Before the types see a predicate,
`gapwatch.scorers.loading.predicate_reader` parses its fields and hands the field of a composition to the parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal, TypeAlias, get_args

from pydantic import Field, SkipValidation, WithJsonSchema

from gapwatch.scorers.portfolio.field import Field as SpanField
from gapwatch.scorers.portfolio.field import FieldKind
from gapwatch.scorers.portfolio.predicate_arguments import (
    Comparison,
    IsTrue,
    JsonShape,
    Texts,
    WarnedNumberBounds,
    WarnedWholeBounds,
    filled_list,
)
from gapwatch.scorers.portfolio.schema_types import FieldReference, Flag, WrittenModel


class _Kind(WrittenModel):
    """Kind of predicate; its docstring says when it holds and becomes the description in the JSON Schema."""

    name: ClassVar[str]
    #: Type of values that its fields must be able to have.
    holds: ClassVar[FieldKind]

    def __init_subclass__(cls, name: str = "", holds: FieldKind = FieldKind.TEXT) -> None:
        """Set the key that names the kind, and the type of values of its fields."""
        super().__init_subclass__()
        cls.name, cls.holds = name, holds


class _OnField(_Kind):
    """Predicate on one field; a part of a composition may inherit the field."""

    field: FieldReference


class Present(_OnField, name="present", holds=FieldKind.EITHER):
    """The value is neither null nor the empty text."""

    present: IsTrue


class Absent(_OnField, name="absent", holds=FieldKind.EITHER):
    """The value is null or the empty text."""

    absent: IsTrue


class Sibling(_OnField, name="sibling", holds=FieldKind.EITHER):
    """The other field is present whenever this one is."""

    other: FieldReference = Field(alias="sibling")


class OneOf(_OnField, name="one_of"):
    """The value equals one of the texts."""

    texts: Texts = Field(alias="one_of")


class Range(_OnField, name="range", holds=FieldKind.NUMBER):
    """The number is within the bounds."""

    bounds: WarnedNumberBounds = Field(alias="range")


class Length(_OnField, name="length"):
    """The number of Unicode characters is within the bounds."""

    bounds: WarnedWholeBounds = Field(alias="length")


class Matches(_OnField, name="matches"):
    """The regular expression (RE2, unanchored) matches."""

    pattern: str = Field(alias="matches")


class NotMatches(_OnField, name="not_matches"):
    """The regular expression (RE2, unanchored) does not match."""

    pattern: str = Field(alias="not_matches")


class Format(_OnField, name="format"):
    """The whole text has this format."""

    format: Literal["json", "url", "email", "iso_date", "uuid", "number", "integer"]


class Json(_OnField, name="json"):
    """The text is JSON, has values at these pointers, and values of these types."""

    shape: JsonShape = Field(alias="json")


class SubstringOf(_OnField, name="substring_of"):
    """The text occurs in the other field, ignoring case.

    Attributes:
        each: For substring_of: every text of a JSON list must occur there, instead of the whole text.
    """

    other: FieldReference = Field(alias="substring_of")
    each: Flag = False


class CitedIn(_OnField, name="cited_in"):
    """Every value that a model wrote cites a passage of the other field."""

    other: FieldReference = Field(alias="cited_in")


class Compares(_OnField, name="compares", holds=FieldKind.NUMBER):
    """The comparison of the two numbers is true."""

    comparison: Comparison = Field(alias="compares")

    @property
    def other(self) -> SpanField:
        """The other field."""
        return self.comparison.other


class Count(_OnField, name="count"):
    """The number of elements of a JSON list is within the bounds."""

    bounds: WarnedWholeBounds = Field(alias="count")


class AllOf(_Kind, name="all_of"):
    """Every part holds."""

    parts: Parts = Field(alias="all_of")


class AnyOf(_Kind, name="any_of"):
    """At least one part holds."""

    parts: Parts = Field(alias="any_of")


class Not(_Kind, name="not"):
    """The part does not hold."""

    part: Part = Field(alias="not")


FieldPredicate: TypeAlias = (
    Present | Absent | Sibling | OneOf | Range | Length | Matches | NotMatches | Format | Json | SubstringOf | CitedIn
    | Compares | Count
)  # fmt: skip
Composition: TypeAlias = AllOf | AnyOf | Not
Predicate: TypeAlias = FieldPredicate | Composition
#: Every kind, by the key that names it.
PREDICATE_KINDS: dict[str, type[Predicate]] = {kind.name: kind for kind in get_args(Predicate)}

# A predicate is read before the models see it; `checking.json_schema` puts its JSON Schema in the place of the title.
Part = Annotated[Predicate, SkipValidation, WithJsonSchema({"title": "Part"})]
Parts = Annotated[tuple[Part, ...], filled_list("predicates"), Field(json_schema_extra={"minItems": 1})]
WrittenPredicate = Annotated[Predicate, SkipValidation, WithJsonSchema({"title": "Predicate"})]


def field_predicates(
    predicate: Predicate, path: tuple[str | int, ...] = (), asserted: bool = True
) -> Iterator[tuple[FieldPredicate, tuple[str | int, ...], bool]]:
    """Yield the predicates on fields that a predicate consists of.

    Args:
        predicate: A composition, or a predicate on a field.
        path: Its place in the file.
        asserted: Whether it is outside of negations, or inside an even number of them.

    Yields:
        The predicate, the place of its argument, and whether it is asserted: inside an even number of negations.
        `not_matches` counts as a negation.
    """
    if isinstance(predicate, Not):
        yield from field_predicates(predicate.part, (*path, "not"), not asserted)
    elif isinstance(predicate, AllOf | AnyOf):
        for position, part in enumerate(predicate.parts):
            yield from field_predicates(part, (*path, predicate.name, position), asserted)
    else:
        yield predicate, (*path, predicate.name), asserted != isinstance(predicate, NotMatches)


def other_field(predicate: FieldPredicate) -> SpanField | None:
    """Return the second field that a predicate reads, or None where it reads one."""
    return predicate.other if isinstance(predicate, Sibling | SubstringOf | CitedIn | Compares) else None
