"""The graph of a pipeline: its components, their tiers, and the edges between them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gapwatch.scorers.portfolio.schema_types import Prose, Text, WrittenModel

#: Components of these kinds have their output written by a model, unless the portfolio says otherwise.
MODEL_KINDS = ("llm", "agent", "chain")


class Tier(WrittenModel):
    """A sub-route inside a component: one of several ways to an answer, best first.

    Attributes:
        id: As the spans of the component name it in `tier`.
        by: Whether a model or a rule answers there.
        symbols: Functions that answer, for people and the design stage.
    """

    id: Text
    by: Literal["llm", "rule"]
    symbols: tuple[Text, ...] = ()


class Component(WrittenModel):
    """A node of the pipeline's graph.

    Attributes:
        id: As spans name it in `component`; matched exactly.
        name: For people; the id where there is none.
        role: What the component is to the pipeline.
        kind: Kind of its spans; whether a model writes its output follows from it.
        stage: Stage of a pipeline in general that it belongs to.
        pattern: Shape of what it does.
        priority: How much its metrics matter.
        silent_failure: Risk that it fails without an error.
        semantics: Words for what it does.
        files: Source files.
        symbols: Functions and classes.
        tiers: Sub-routes, best first.
    """

    id: Text
    name: Text | None = None
    role: Literal["ai_core", "supporting", "operational"] = "supporting"
    kind: Literal[
        "llm", "embedding", "retrieval", "rerank", "tool", "agent", "chain", "guardrail", "parse", "cache", "other"
    ]
    stage: (
        Literal[
            "data_acquisition",
            "data_transformation",
            "knowledge_base",
            "ai_core",
            "assurance",
            "continuous_improvement",
        ]
        | None
    ) = None
    pattern: Literal["rag", "agentic", "judge", "prompt_chain", "evidence_match", "none"] | None = None
    priority: Literal["primary", "secondary", "tertiary"] | None = None
    silent_failure: Literal["low", "medium", "high"] | None = None
    semantics: tuple[Text, ...] = ()
    files: tuple[Prose, ...] = ()
    symbols: tuple[Prose, ...] = ()
    tiers: tuple[Tier, ...] = ()


class Edge(WrittenModel):
    """A way that data or control takes from one component to another.

    Attributes:
        from_: Id of the component it leaves; written `from`.
        to: Id of the component it enters.
        status: Whether the code was seen to hold it.
        evidence: Calls that prove it.
    """

    from_: Text = Field(alias="from")
    to: Text
    status: Literal["verified", "inferred", "unsupported"] = "inferred"
    evidence: tuple[Prose, ...] = ()
