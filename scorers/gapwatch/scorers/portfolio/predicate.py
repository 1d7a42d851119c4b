"""Predicates: what a check or a `when` asks of one span, one type a kind.

Each type reads its argument from the key of its `name` and gives the JSON Schema of it. A predicate's fields are taken
apart, and the field around a composition is handed to its parts, before the types see them
(`gapwatch.scorers.loading.predicate_reader`).
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
    """One kind of predicate; its docstring says when it holds, for the JSON Schema."""

    name: ClassVar[str]
    #: What its fields must be able to hold.
    holds: ClassVar[FieldKind]

    def __init_subclass__(cls, name: str = "", holds: FieldKind = FieldKind.TEXT) -> None:
        """Take the key that names the kind, and what its fields must be able to hold."""
        super().__init_subclass__()
        cls.name, cls.holds = name, holds


class _OnField(_Kind):
    """A predicate on one field, which a part of a composition may have from there."""

    field: FieldReference


class Present(_OnField, name="present", holds=FieldKind.EITHER):
    """Neither null nor the empty text."""

    present: IsTrue


class Absent(_OnField, name="absent", holds=FieldKind.EITHER):
    """Null or the empty text."""

    absent: IsTrue


class Sibling(_OnField, name="sibling", holds=FieldKind.EITHER):
    """The other field is present whenever this one is."""

    other: FieldReference = Field(alias="sibling")


class OneOf(_OnField, name="one_of"):
    """Equals one of the texts."""

    texts: Texts = Field(alias="one_of")


class Range(_OnField, name="range", holds=FieldKind.NUMBER):
    """A number within bounds."""

    bounds: WarnedNumberBounds = Field(alias="range")


class Length(_OnField, name="length"):
    """Unicode characters."""

    bounds: WarnedWholeBounds = Field(alias="length")


class Matches(_OnField, name="matches"):
    """RE2, unanchored."""

    pattern: str = Field(alias="matches")


class NotMatches(_OnField, name="not_matches"):
    """RE2, unanchored; holds where it does not match."""

    pattern: str = Field(alias="not_matches")


class Format(_OnField, name="format"):
    """The whole text is of this form."""

    format: Literal["json", "url", "email", "iso_date", "uuid", "number", "integer"]


class Json(_OnField, name="json"):
    """Is JSON, has these pointers, with values of these types."""

    shape: JsonShape = Field(alias="json")


class SubstringOf(_OnField, name="substring_of"):
    """Inside the other field, whatever the case.

    Attributes:
        each: Of substring_of: every text of a JSON list, instead of the whole.
    """

    other: FieldReference = Field(alias="substring_of")
    each: Flag = False


class CitedIn(_OnField, name="cited_in"):
    """Whatever a model wrote cites a span of the other field."""

    other: FieldReference = Field(alias="cited_in")


class Compares(_OnField, name="compares", holds=FieldKind.NUMBER):
    """Two numbers."""

    comparison: Comparison = Field(alias="compares")

    @property
    def other(self) -> SpanField:
        """The other field."""
        return self.comparison.other


class Count(_OnField, name="count"):
    """Elements of a JSON list."""

    bounds: WarnedWholeBounds = Field(alias="count")


class AllOf(_Kind, name="all_of"):
    """Every part holds."""

    parts: Parts = Field(alias="all_of")


class AnyOf(_Kind, name="any_of"):
    """One part holds."""

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
    """Yield the predicates on fields that a predicate is made of.

    Args:
        predicate: A composition, or one on a field itself.
        path: Where it stands.
        asserted: Whether it stands where what it says is claimed.

    Yields:
        The predicate, where its argument stands, and whether what it says is claimed: not inside an odd number of
        negations. `not_matches` counts as one.
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
