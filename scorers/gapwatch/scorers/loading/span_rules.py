"""Rules over the mapping of spans of a portfolio: components and tiers that must exist, rules that can match."""

from __future__ import annotations

import json

from gapwatch.scorers.loading.draft import Draft
from gapwatch.scorers.loading.problems import KeyPath, nearest, one_of
from gapwatch.scorers.portfolio.span_mapping import SpanMapping
from gapwatch.scorers.printable import shown


def check_span_mapping(mapping: SpanMapping, draft: Draft) -> None:
    """Note every problem of the part `spans`."""
    for position, rule in enumerate(mapping.components):
        path: KeyPath = ("spans", "components", position)
        draft.know_component(rule.component, (*path, "component"))
        if not any((rule.span, rule.kind, rule.under, rule.service)):
            draft.problems.add(path, "the rule names no span", "span, kind, under or service")
    for position, drop in enumerate(mapping.drop):
        if not any((drop.name, drop.kind, drop.service)):
            draft.problems.add(("spans", "drop", position), "the rule would drop every span", "name, kind or service")
    declared = {component.id: [tier.id for tier in component.tiers] for _, component in draft.components}
    for component, tiers in mapping.tiers.items():
        draft.know_component(component, ("spans", "tiers", component))
        known = declared.get(component)
        for position, tier in enumerate(tiers):
            if known and tier.id not in known:
                draft.problems.add(
                    ("spans", "tiers", component, position, "id"),
                    f"the component {shown(component)} has no tier {shown(tier.id)}",
                    one_of(known),
                    nearest(tier.id, known),
                )
    for name, source in mapping.attributes.items():
        key, mark, pointer = source.partition("#")
        if not key or (mark and not pointer.startswith("/")):
            draft.problems.add(
                ("spans", "attributes", name),
                f"{json.dumps(shown(source))} is no attribute",
                "a key, resource.<key>, or a key with a JSON pointer: metadata#/channel",
            )
