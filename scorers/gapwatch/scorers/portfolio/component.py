"""Graph of a pipeline: its components, their tiers, and the edges between them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gapwatch.scorers.portfolio.schema_types import Prose, Text, WrittenModel

#: Kinds of components whose output a model writes, unless the portfolio has `written_by_llm`.
MODEL_KINDS = ("llm", "agent", "chain")


class Tier(WrittenModel):
    """A sub-route inside a component: one of several ways to an answer, best first.

    Attributes:
        id: Value of `tier` in the component's spans.
        by: Whether a model or a rule answers there.
        symbols: Functions that answer, for people and the design stage.
    """

    id: Text
    by: Literal["llm", "rule"]
    symbols: tuple[Text, ...] = ()


class Component(WrittenModel):
    """A node of the pipeline's graph.

    Attributes:
        id: Value of `component` in its spans; matched exactly.
        name: Name for people; the id by default.
        role: Role in the pipeline.
        kind: Kind of its spans; it decides whether a model writes the output.
        stage: Stage of a general LLM pipeline that it belongs to.
        pattern: Pattern that it implements.
        priority: Importance of its metrics.
        silent_failure: Risk that it fails without an error.
        semantics: Words that describe its work.
        files: Source files.
        symbols: Functions and classes.
        tiers: Sub-routes, best first.
        members: Ids of the components whose spans it stands for together; its metrics break down by them as by tier.
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
    members: tuple[Text, ...] = ()


class Edge(WrittenModel):
    """Flow of data or control from one component to another.

    Attributes:
        from_: Id of the component at its start; written `from`.
        to: Id of the component at its end.
        status: Whether the source code confirms it.
        evidence: Calls that prove it.
    """

    from_: Text = Field(alias="from")
    to: Text
    status: Literal["verified", "inferred", "unsupported"] = "inferred"
    evidence: tuple[Prose, ...] = ()
