"""Knows which fields of which components are written by a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gapwatch.scorers.portfolio.component import MODEL_KINDS, Component
from gapwatch.scorers.portfolio.field import Field, parse_field


@dataclass(frozen=True)
class WrittenByLlm:
    """The fields that models write: those that were declared, or else the outputs of llm, agent and chain.

    Attributes:
        fields: Component and field of each; a pointer names a part of the field.
    """

    fields: tuple[tuple[str, Field], ...]

    def holds(self, component: str | None, field: Field) -> bool:
        """Say whether a field of a component's spans, or a part of it, is written by a model."""
        return any(
            owner == component and declared.base == field.base and _inside(field.pointer, declared.pointer)
            for owner, declared in self.fields
        )


def written_by_llm(declared: Sequence[str] | None, components: Iterable[Component]) -> WrittenByLlm:
    """Return the fields that are written by models; entries that name no field are left out.

    Args:
        declared: Entries `component.field` of the portfolio; None where it says nothing.
        components: Of the portfolio.
    """
    components = list(components)
    if declared is None:
        entries = [f"{component.id}.output" for component in components if component.kind in MODEL_KINDS]
    else:
        entries = list(declared)
    ids = [component.id for component in components]
    split = (split_entry(entry, ids) for entry in entries)
    return WrittenByLlm(tuple(pair for pair in split if pair is not None))


def split_entry(entry: str, components: Iterable[str]) -> tuple[str, Field] | None:
    """Take an entry `component.field` apart; None where no component and field of a span make it.

    An id may hold dots itself, so every component is tried.
    """
    for component in components:
        if entry.startswith(component + "."):
            field = parse_field(entry[len(component) + 1 :], "span")
            if field is not None:
                return component, field
    return None


def _inside(pointer: str | None, declared: str | None) -> bool:
    if not declared:
        return True
    return pointer is not None and (pointer == declared or pointer.startswith(declared + "/"))
