"""Predicates after reading: what a check or a `when` asks of one span, with every field resolved."""

from __future__ import annotations

from dataclasses import dataclass

from scorers.field import Field


@dataclass(frozen=True)
class Bounds:
    """Bounds of `range`, `length`, `count`; None where not given; at most one lower and one upper one."""

    min: float | None = None
    max: float | None = None
    above: float | None = None
    below: float | None = None


@dataclass(frozen=True)
class Predicate:
    """One predicate; `name` says which of the following are meant.

    Attributes:
        name: present, absent, sibling, one_of, range, length, matches, not_matches, format, json, substring_of,
            cited_in, compares, count, all_of, any_of, not.
        field: The field it speaks of, inherited from the composition around it; None for all_of, any_of, not.
        path: Dotted key in the metric, such as `claim.all_of[0].range`; for messages.
        texts: The texts of `one_of`.
        bounds: Of range, length, count.
        warn: Tighter bounds of a claim's own predicate.
        pattern: RE2 of matches, not_matches.
        format: Name of the format.
        required: Pointers of `json`.
        types: (pointer, JSON Schema type) pairs of `json`.
        other: The other field of sibling, substring_of, cited_in, compares.
        each: Of substring_of.
        operator: Of compares.
        parts: Of all_of, any_of; one part for not.
    """

    name: str
    field: Field | None
    path: str = ""
    texts: tuple[str, ...] = ()
    bounds: Bounds | None = None
    warn: Bounds | None = None
    pattern: str | None = None
    format: str | None = None
    required: tuple[str, ...] = ()
    types: tuple[tuple[str, str], ...] = ()
    other: Field | None = None
    each: bool = False
    operator: str | None = None
    parts: tuple[Predicate, ...] = ()
