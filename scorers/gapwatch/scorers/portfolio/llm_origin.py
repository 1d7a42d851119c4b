"""Finds the fields that models write, by component."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gapwatch.scorers.portfolio.component import MODEL_KINDS, Component
from gapwatch.scorers.portfolio.field import Field, parse_field


@dataclass(frozen=True)
class WrittenByLlm:
    """Fields that models write: the declared ones, or else the outputs of llm, agent and chain components.

    Attributes:
        fields: Component and field of each; a pointer limits it to a part of the field.
    """

    fields: tuple[tuple[str, Field], ...]

    def holds(self, component: str | None, field: Field) -> bool:
        """Return whether a model writes a field, or a part of a field, of a component's spans."""
        return any(
            owner == component and declared.base == field.base and _inside(field.pointer, declared.pointer)
            for owner, declared in self.fields
        )


def written_by_llm(declared: Sequence[str] | None, components: Iterable[Component]) -> WrittenByLlm:
    """Return the fields that models write; entries that name no field are left out.

    Args:
        declared: Entries `component.field` of the portfolio; None where it has no `written_by_llm`.
        components: Components of the portfolio.
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
    """Split an entry `component.field`; return None where it names no component, or no field of a span.

    An id may itself contain dots, so every component is tried.
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
