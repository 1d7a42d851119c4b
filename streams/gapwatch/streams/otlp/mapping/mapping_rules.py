"""Rules of the mapping of a portfolio, applied to the steps of one trace."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from gapwatch.scorers.portfolio.span_mapping import SpanMapping, SpanRule
from gapwatch.streams.otlp.mapping.json_text import parsed
from gapwatch.streams.otlp.mapping.naming import clean_name
from gapwatch.streams.otlp.mapping.span_facts import MODEL_KINDS
from gapwatch.streams.otlp.mapping.trace_step import TraceStep

#: Name of the pipeline of a trace without any service name; the SDKs' own default.
UNKNOWN_SERVICE = "unknown_service"


@lru_cache(1_024)
def glob_test(glob: str) -> Callable[[str], bool]:
    """Return the test whether a name matches a glob of `*`, `?` and `[...]`, with letter case."""
    match = re.compile(fnmatch.translate(glob)).match
    return lambda name: match(name) is not None


class TraceRules:
    """Rules of one pipeline.

    Args:
        pipeline: Name of the pipeline.
        mapping: Its mapping; None without one.

    Attributes:
        pipeline: Name of the pipeline.
        mapping: Its mapping; None without one.
        picks: Whether the mapping takes attributes.
    """

    def __init__(self, pipeline: str, mapping: SpanMapping | None) -> None:
        self.pipeline, self.mapping = pipeline, mapping
        self.picks = mapping is not None and bool(mapping.attributes)

    def set_components(self, steps: Sequence[TraceStep]) -> None:
        """Set the components that the rules name."""
        rules = self.mapping.components if self.mapping is not None else ()
        if not rules:
            return
        matched: dict[int, SpanRule] = {}
        for step in steps:
            for rule in rules:
                if _matches(rule, step):
                    matched[id(step)] = rule
                    break
        for step in steps:
            own = matched.get(id(step))
            if own is not None:
                step.component = own.component
            elif step.kind in MODEL_KINDS or step.own_name is None:
                self._inherit(step, matched)

    def set_tiers(self, steps: Sequence[TraceStep]) -> None:
        """Set the tiers that the mapping names by model."""
        tiers = self.mapping.tiers if self.mapping is not None else {}
        for step in steps:
            if step.kind != "llm" or (named := tiers.get(step.component)) is None:
                continue
            for tier in named:
                if _is_model(step.facts.model or "", tier.models):
                    step.tier = tier.id
                    break

    def set_costs(self, steps: Sequence[TraceStep]) -> None:
        """Set the cost of the calls that say tokens and none, by the prices of the mapping."""
        prices = self.mapping.prices if self.mapping is not None else ()
        if not prices:
            return
        for step in steps:
            facts = step.facts
            if facts.cost is not None or facts.model is None or step.is_wrapper or not facts.has_tokens:
                continue
            price = next((one for one in prices if _is_model(facts.model, one.models)), None)
            if price is not None:
                tokens = (facts.input_tokens or 0) * price.input + (facts.output_tokens or 0) * price.output
                facts.cost = tokens / 1e6
                facts.own = {**facts.own, "cost_by": "price"}

    def drop(self, steps: Sequence[TraceStep], root: TraceStep) -> None:
        """Leave out spans of HTTP, databases and the like, unless a rule names them, and those that a rule leaves out.

        The root stays: the times of the trace are its own.
        """
        mapping = self.mapping
        named = mapping.components if mapping is not None else ()
        has_drops = mapping is not None and bool(mapping.drop)
        for step in steps:
            facts = step.facts
            if step is root:
                continue
            if (
                has_drops
                and mapping is not None
                and any(
                    (rule.name is None or glob_test(rule.name)(facts.record.name))
                    and (rule.kind is None or rule.kind == step.kind)
                    and (rule.service is None or glob_test(rule.service)(facts.service))
                    for rule in mapping.drop
                )
            ):
                step.is_dropped = True
            elif facts.kind is None and (facts.is_infrastructure or _is_remote(step)):
                step.is_dropped = not any(_matches(rule, step) for rule in named)

    def picked(self, step: TraceStep) -> dict[str, Any]:
        """Return the attributes that the mapping takes from a span or its resource."""
        found: dict[str, Any] = {}
        if self.mapping is not None:
            for name, source in self.mapping.attributes.items():
                if (value := _picked(step, source)) is not None:
                    found[name] = value
        return found

    def _inherit(self, step: TraceStep, matched: dict[int, SpanRule]) -> None:
        name = step.facts.record.name
        for above in step.above():
            rule = matched.get(id(above))
            if rule is not None and rule.below is not None and glob_test(rule.below)(name):
                step.component = rule.component
                return
        if step.own_name is None:
            for above in step.above():
                rule = matched.get(id(above))
                if rule is not None:
                    step.component = rule.component
                    return
                if above.own_name is not None:
                    return


class MappingRules:
    """Mappings of all pipelines.

    Args:
        mappings: Pipelines with their mapping.

    Attributes:
        picked_keys: Keys of attributes that a mapping takes.
        root_globs: Globs on the names of spans that are a root although they have a parent.
    """

    def __init__(self, mappings: Sequence[tuple[str, SpanMapping]]) -> None:
        self._by_pipeline = dict(mappings)
        self._sources = [(mapping.pipeline.from_.removeprefix("resource."), mapping) for _, mapping in mappings]
        self._rules: dict[str, TraceRules] = {}
        sources = [source for _, mapping in mappings for source in mapping.attributes.values()]
        self.picked_keys = frozenset(source.partition("#")[0] for source in sources)
        self.root_globs = tuple(glob for _, mapping in mappings for glob in mapping.root)

    def is_root(self, name: str) -> bool:
        """Return whether a span of this name is a root although it has a parent."""
        return any(glob_test(glob)(name) for glob in self.root_globs)

    def of_trace(self, root: TraceStep) -> TraceRules:
        """Return the rules of the pipeline of a trace.

        Args:
            root: Root of the trace, or its earliest span.
        """
        pipeline = self._pipeline(root)
        rules = self._rules.get(pipeline)
        if rules is None:
            rules = TraceRules(pipeline, self._by_pipeline.get(pipeline))
            if len(self._rules) < 10_000:
                self._rules[pipeline] = rules
        return rules

    def _pipeline(self, root: TraceStep) -> str:
        resource = root.facts.resource
        for key, mapping in self._sources:
            value = resource.get(key, UNKNOWN_SERVICE if key == "service.name" else None)
            if value is not None:
                name = mapping.pipeline.names.get(str(value), str(value))
                if name in self._by_pipeline or str(value) in mapping.pipeline.names:
                    return name
        return clean_name(root.facts.service or UNKNOWN_SERVICE)


def _is_model(model: str, globs: Sequence[str]) -> bool:
    short = model.rsplit("/", 1)[-1]
    return any(glob_test(glob)(model) or glob_test(glob)(short) for glob in globs)


def _matches(rule: SpanRule, step: TraceStep) -> bool:
    facts = step.facts
    if rule.kind is not None and rule.kind != step.kind:
        return False
    if rule.span is not None:
        test = glob_test(rule.span)
        if not test(facts.record.name) and not (step.own_name is not None and test(step.own_name)):
            return False
    if rule.service is not None and not glob_test(rule.service)(facts.service):
        return False
    if rule.under is not None:
        test = glob_test(rule.under)
        return any(
            test(above.facts.record.name) or (above.own_name is not None and test(above.own_name))
            for above in step.above()
        )
    return True


def _is_remote(step: TraceStep) -> bool:
    """Return whether a span that no convention names is a call between programs: neither INTERNAL nor unspecified."""
    return step.facts.record.kind > 1 and not step.facts.convention


def _picked(step: TraceStep, source: str) -> Any:
    key, _, pointer = source.partition("#")
    facts = step.facts
    if key.startswith("resource."):
        value = facts.resource.get(key.removeprefix("resource."))
    else:
        value = facts.record.attributes.get(key)
    if pointer:
        value = parsed(value)
        for part in pointer.strip("/").split("/"):
            part = part.replace("~1", "/").replace("~0", "~")
            if isinstance(value, list) and part.isdecimal() and int(part) < len(value):
                value = value[int(part)]
            else:
                value = value.get(part) if isinstance(value, dict) else None
    return value
