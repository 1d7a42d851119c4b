"""`SpanMapping`: how spans of OpenTelemetry become steps of a pipeline, the part `spans` of a portfolio."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from gapwatch.scorers.portfolio.schema_types import Flag, NotNegative, Prose, Text, WrittenModel

#: A name with `*`, `?` and `[...]` in it, with letter case.
Glob = Annotated[str, StringConstraints(min_length=1, max_length=200)]
SpanKind = Literal[
    "llm", "embedding", "retrieval", "rerank", "tool", "agent", "chain", "guardrail", "parse", "cache", "other"
]


class PipelineRule(WrittenModel):
    """Pipeline of a trace, by a resource attribute of its root.

    Attributes:
        from_: The attribute, with `resource.` before its key.
        names: Value of the attribute to the name of the pipeline; a value that is not here is the name itself.
    """

    from_: Annotated[str, StringConstraints(pattern=r"^resource\..+$", max_length=200)] = Field(
        default="resource.service.name", alias="from"
    )
    names: dict[Text, Text] = Field(default_factory=dict)


class SpanRule(WrittenModel):
    """Rule that gives a component to spans; every condition that is there must hold.

    Attributes:
        component: Component of the portfolio.
        span: Glob on the span's name, or on the name that a person gave to its step.
        kind: Kind of the step.
        under: Glob on the name of a step around it, at any distance.
        service: Glob on the name of the service.
        below: Glob on the names of model spans, at any distance below a span of this rule, that get the component, too;
            without it only those do that have no named step between.
        evidence: Line of code that names the span; for people.
    """

    component: Text
    span: Glob | None = None
    kind: SpanKind | None = None
    under: Glob | None = None
    service: Glob | None = None
    below: Glob | None = None
    evidence: Prose | None = None


class DropRule(WrittenModel):
    """Rule that leaves spans out; every condition that is there must hold.

    Attributes:
        name: Glob on the span's name.
        kind: Kind of the step.
        service: Glob on the name of the service.
    """

    name: Glob | None = None
    kind: SpanKind | None = None
    service: Glob | None = None


class TierRule(WrittenModel):
    """Tier of a component's model calls.

    Attributes:
        id: The tier.
        models: Globs on the model, with or without its provider.
    """

    id: Text
    models: tuple[Glob, ...] = Field(min_length=1)


class PriceRule(WrittenModel):
    """Price of calls of a model, for spans that say tokens and no cost.

    Attributes:
        models: Globs on the model, with or without its provider.
        input: US dollars for a million input tokens.
        output: US dollars for a million output tokens.
        evidence: Where the price comes from; for people.
    """

    models: tuple[Glob, ...] = Field(min_length=1)
    input: NotNegative
    output: NotNegative = 0.0
    evidence: Prose | None = None


class SpanMapping(WrittenModel):
    """Rules by which spans of OpenTelemetry become steps of the pipeline, where names differ from the portfolio's.

    Attributes:
        pipeline: Pipeline of a trace; by default the service of its root.
        root: Globs on the names of spans that are the root of their trace although they have a parent.
        components: Rules for components; the first that matches holds.
        tiers: Component to its tiers; the first that matches holds. By default the first model that was tried is
            `primary`, another that answers after a failed call is `fallback`.
        prices: Prices of models; the first that matches holds. They give `usage.cost_usd` where a span says none.
        attributes: Attribute of the trace to the attribute of a span, or of a resource (`resource.` before its key),
            with a JSON pointer behind `#` where its value is JSON.
        drop: Rules for spans that are left out; the first that matches holds.
        keep_raw: Whether input and output are kept as they were sent, too, as attributes `raw.input` and `raw.output`.
    """

    pipeline: PipelineRule = PipelineRule()
    root: tuple[Glob, ...] = ()
    components: tuple[SpanRule, ...] = ()
    tiers: dict[Text, tuple[TierRule, ...]] = Field(default_factory=dict)
    prices: tuple[PriceRule, ...] = ()
    attributes: dict[Text, Text] = Field(default_factory=dict)
    drop: tuple[DropRule, ...] = ()
    keep_raw: Flag = False
