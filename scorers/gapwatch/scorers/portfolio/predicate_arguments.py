"""Arguments of predicates: bounds, lists of texts, the shape of a JSON text, a comparison."""

from __future__ import annotations

import math
import re
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from gapwatch.scorers.portfolio.schema_types import FieldReference, WrittenModel
from gapwatch.scorers.printable import shown


def _problem(message: str, expected: str = "", suggestion: str = "", key: str = "") -> PydanticCustomError:
    """Return a problem of a value for `loading.schema_reader`; `key` is the member that has it."""
    context = {"message": message, "expected": expected, "suggestion": suggestion, "key": key}
    return PydanticCustomError("predicate", "{message}", context)


class _WrittenMap(WrittenModel):
    """Argument of a predicate that is written as a map."""

    example: ClassVar[str]

    @model_validator(mode="before")
    @classmethod
    def _is_map(cls, raw: object) -> object:
        if not isinstance(raw, dict):
            raise _problem(f"a map is expected, not {shown(raw)}", cls.example)
        return raw


def _number(raw: object, expected: str = "a number") -> float:
    if not isinstance(raw, int | float) or isinstance(raw, bool):
        raise _problem(f"a number is expected, not {shown(raw)!r}", expected)
    return float(raw)


def _whole(raw: object) -> float:
    number = _number(raw, "a whole number")
    if number != int(number):
        raise _problem(f"{shown(raw)} is not a whole number", "a whole number")
    return number


# None means that the key is missing; an explicit null is refused.
_Side = Annotated[float | None, BeforeValidator(_number), WithJsonSchema({"type": "number"})]
_WholeSide = Annotated[
    float | None,
    BeforeValidator(_whole),
    WithJsonSchema({"type": "integer", "minimum": 0}),
]


class Bounds(_WrittenMap):
    """Bounds of a number: at least one, at most one lower and one upper bound.

    Attributes:
        min: Lower bound, inclusive.
        max: Upper bound, inclusive.
        above: Lower bound, exclusive.
        below: Upper bound, exclusive.
        warn: Tighter bounds; a number beyond them warns. Only for a claim's own predicate.
    """

    example: ClassVar[str] = "{min: 1}"

    @classmethod
    def sides(cls) -> list[str]:
        """Return the keys that these bounds may have, of min, max, above, below."""
        return [side for side in cls.model_fields if side != "warn"]

    @property
    def given(self) -> dict[str, float]:
        """The bounds that the portfolio writes, by key."""
        return {side: bound for side in self.sides() if (bound := getattr(self, side)) is not None}

    def interval(self) -> tuple[float, float]:
        """Return the smallest and the largest double within the bounds; infinity where there is no bound."""
        given = self.given
        above = math.nextafter(given["above"], math.inf) if "above" in given else -math.inf
        below = math.nextafter(given["below"], -math.inf) if "below" in given else math.inf
        return given.get("min", above), given.get("max", below)

    @model_validator(mode="after")
    def _can_be_met(self) -> Bounds:
        given, (lower, upper) = self.given, self.interval()
        if not given:
            *first, last = self.sides()
            raise _problem("no bound", f"{', '.join(first)} or {last}")
        for one, other, kind in (("min", "above", "lower"), ("max", "below", "upper")):
            if one in given and other in given:
                raise _problem(f"{one} and {other} are both {kind} bounds", f"one {kind} bound")
        is_negative_count = isinstance(self, WholeBounds) and upper < 0
        if lower > upper or is_negative_count or math.inf in (lower, -upper):
            written = ", ".join(f"{side} {bound:.12g}" for side, bound in given.items())
            raise _problem(f"no number is within {written}", "bounds that some number can meet")
        warn: Bounds | None = getattr(self, "warn", None)
        if "warn" in self.model_fields_set and warn is None:
            raise _problem("a map is expected, not nothing", self.example, key="warn")
        if warn is not None and not all(lower <= bound <= upper for bound in warn.interval() if math.isfinite(bound)):
            raise _problem("warn is not inside the bounds", "bounds as tight or tighter", key="warn")
        return self


class NumberBounds(Bounds):
    """Bounds of a number."""

    min: _Side = None
    max: _Side = None
    above: _Side = None
    below: _Side = None


class WholeBounds(Bounds):
    """Bounds of a count."""

    min: _WholeSide = None
    max: _WholeSide = None


class WarnedNumberBounds(NumberBounds):
    """Bounds of a number, with tighter ones."""

    warn: NumberBounds | None = None


class WarnedWholeBounds(WholeBounds):
    """Bounds of a count, with tighter ones."""

    warn: WholeBounds | None = None


def _pointer(text: str) -> str:
    if text and not text.startswith("/"):
        raise _problem(f"{shown(text)!r} is not a JSON Pointer", "a pointer that begins with /", f"/{shown(text)}")
    if not _POINTER.fullmatch(text) or "\x00" in text:
        raise _problem(f"{shown(text)!r} is not a JSON Pointer", "~ written as ~0 and / inside a key as ~1")
    return text


_POINTER = re.compile(r"(/([^~]|~[01])*)?", re.DOTALL)
_POINTER_SCHEMA = {"type": "string", "pattern": f"^{_POINTER.pattern}$"}
JsonType = Literal["string", "number", "integer", "boolean", "array", "object"]
Pointer = Annotated[str, AfterValidator(_pointer), WithJsonSchema(_POINTER_SCHEMA)]


class JsonShape(_WrittenMap):
    """Required shape of a JSON text.

    Attributes:
        required: Pointers to required values; null counts as absent.
        types: JSON Schema types by pointer; absent values are not checked.
    """

    example: ClassVar[str] = "{required: [/a], types: {/a: string}}"
    required: tuple[Pointer, ...] = ()
    types: Annotated[
        dict[Pointer, JsonType],
        WithJsonSchema(
            {
                "type": "object",
                "propertyNames": _POINTER_SCHEMA,
                "additionalProperties": {"enum": list(get_args(JsonType))},
            }
        ),
    ] = Field(default_factory=dict)


class Comparison(_WrittenMap):
    """Operator and second field of a comparison.

    Attributes:
        operator: Operator between this number and the other.
        other: Field with the other number.
    """

    example: ClassVar[str] = '{operator: "<", other: field}'
    operator: Literal["<", "<=", ">", ">=", "==", "!="]
    other: FieldReference


def _true(raw: object, info: ValidationInfo) -> object:
    if raw is not True:
        opposite = {"present": "absent", "absent": "present"}
        meant = opposite[info.field_name or ""] if raw is False else info.field_name
        raise _problem(f"{shown(raw)} is not allowed here", "true", f"{meant}: true")
    return raw


def filled_list(of: str) -> BeforeValidator:
    """Return a validator that accepts only non-empty lists; `of` names their elements in the message."""

    def check(raw: object) -> object:
        if not isinstance(raw, list) or not raw:
            message = "an empty list" if raw == [] else f"a list is expected, not {shown(raw)}"
            raise _problem(message, f"a list of {of}")
        return raw

    return BeforeValidator(check)


IsTrue = Annotated[Literal[True], BeforeValidator(_true)]
Texts = Annotated[tuple[str, ...], filled_list("texts"), Field(json_schema_extra={"minItems": 1})]
