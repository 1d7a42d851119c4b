"""Metrics that come with Gapwatch for chat, answers from passages (RAG) and calls of tools."""

from __future__ import annotations

from gapwatch.streams.evaluation.metrics.classification import CLASSIFICATION
from gapwatch.streams.evaluation.metrics.metric import PASSING_IS_BETTER, ClaimMetric, EvaluationMetric
from gapwatch.streams.evaluation.metrics.text_scores import TEXT_SCORES
from gapwatch.streams.evaluation.metrics.use_case import MetricMetadata

_ANSWERS = ("chat", "rag_qa")
#: Id of the metric that compares with another run.
PAIRWISE = "pairwise_llm_judge"

_LATENCY = ClaimMetric(
    MetricMetadata(
        "latency_ms", "Latency in milliseconds", ("classification", *_ANSWERS, "tool_calling"), "system", {}, "low",
        "time from the call of the function to its return, in milliseconds",
    ),
    {"form": "measure", "field": "latency_ms", "unit": "milliseconds"},
    "latency",
    "mean",
    direction={"better": "lower", "of": "p95", "verdict": "verified", "evidence": "people wait for the answer"},
)  # fmt: skip

_CHAT = (
    ClaimMetric(
        MetricMetadata(
            "helpfulness_llm_judge", "Helpfulness (LLM judge)", ("chat",), "llm_judge", {}, "high",
            "the answer gives the user what the message asks for",
        ),
        {
            "form": "judge",
            "rubric": {
                "criterion": "The output answers what the input asks for: to the point, complete enough to act on, and "
                "without refusing what can be answered.",
                "steps": [
                    "Say what the input asks for.",
                    "Say which part of it the output answers, and which it leaves out.",
                    "Say whether the output contains what the user has no use for.",
                ],
                "inputs": ["input", "output"],
            },
        },
        "quality",
    ),
)  # fmt: skip

_CONTEXT = {"context": True}
_RAG = (
    ClaimMetric(
        MetricMetadata(
            "answer_quality_llm_judge", "Answer quality (LLM judge)", ("rag_qa",), "llm_judge", {}, "high",
            "the answer is correct as far as the judge can tell, complete and clear",
        ),
        {
            "form": "judge",
            "rubric": {
                "criterion": "The output answers the question of the input correctly, completely and clearly.",
                "steps": [
                    "Say what the question of the input is.",
                    "Say whether the output answers exactly this question.",
                    "Name every statement of the output that is wrong, contradicts another one, or is unclear.",
                ],
                "inputs": ["input", "output"],
            },
        },
        "quality",
    ),
    ClaimMetric(
        MetricMetadata(
            "rag_faithfulness_llm_judge", "Faithfulness to the passages (LLM judge)", ("rag_qa",), "llm_judge",
            _CONTEXT, "high", "every statement of the answer is supported by the passages",
        ),
        {
            "form": "judge",
            "rubric": {
                "criterion": "Every statement of the output is supported by attributes.context. A statement that is "
                "true but is not in the context is not supported. To say that the context does not have the answer "
                "is supported where this is so.",
                "steps": [
                    "List the statements of the output.",
                    "For each, name the part of the context that supports it, or say that there is none.",
                ],
                "inputs": ["attributes.context", "output"],
            },
        },
        "groundedness",
    ),
    ClaimMetric(
        MetricMetadata(
            "citation_support", "Quotations are in the passages", ("rag_qa",), "objective", _CONTEXT, "low",
            "every text of the list `quotes` of the answer occurs in the passages; skipped where there is no list",
        ),
        {
            "form": "check", "field": "output#/quotes", "substring_of": "attributes.context", "each": True,
            "optional": True,
        },
        "groundedness",
    ),
    ClaimMetric(
        MetricMetadata(
            "context_precision", "Context precision", ("rag_qa",), "objective", {"context": True, "reference": True},
            "low", "share of the retrieved passages that are in the list `context` of the reference answer",
        ),
        {
            "form": "python", "scorer": "gapwatch_context_precision",
            "fields": ["attributes.passages", "attributes.reference"],
        },
        "groundedness",
        "mean",
    ),
    ClaimMetric(
        MetricMetadata(
            "context_recall", "Context recall", ("rag_qa",), "objective", {"context": True, "reference": True},
            "low", "share of the list `context` of the reference answer that is among the retrieved passages",
        ),
        {
            "form": "python", "scorer": "gapwatch_context_recall",
            "fields": ["attributes.passages", "attributes.reference"],
        },
        "groundedness",
        "mean",
    ),
)  # fmt: skip

_TOOL_TRACE = {"tool_trace": True}
_TOOLS = (
    ClaimMetric(
        MetricMetadata(
            "tool_success_rate", "Tool success rate", ("tool_calling",), "objective", _TOOL_TRACE, "low",
            "share of the examples with calls of tools in which every call succeeds",
        ),
        {"form": "check", "field": "status", "one_of": ["ok"]},
        "tool_use",
        on="tools",
    ),
    ClaimMetric(
        MetricMetadata(
            "invalid_tool_call_rate", "Invalid tool call rate", ("tool_calling",), "objective",
            {"tool_trace": True, "context": True}, "low",
            "share of the examples with calls of tools in which one names no tool, or breaks its JSON Schema",
        ),
        {
            "form": "python", "scorer": "gapwatch_valid_tool_call", "fields": ["name", "input", "attributes.tools"],
        },
        "tool_use",
        "failure_rate",
        "tools",
        PASSING_IS_BETTER,
    ),
    ClaimMetric(
        MetricMetadata(
            "wrong_tool", "Wrong tool", ("tool_calling",), "objective", {"tool_trace": True, "reference": True},
            "low", "share of the examples in which the called tools are not those of the reference answer, in order",
        ),
        {
            "form": "python", "scorer": "gapwatch_right_tools",
            "fields": ["attributes.called_tools", "attributes.reference"],
        },
        "tool_use",
        "failure_rate",
        direction=PASSING_IS_BETTER,
    ),
)  # fmt: skip

_PAIRWISE = ClaimMetric(
    MetricMetadata(
        PAIRWISE, "Preferred answer (pairwise LLM judge)", _ANSWERS, "llm_judge", {"baseline": True}, "high",
        "share of the examples whose answer the judge prefers to the baseline's in both orders; ties count half",
    ),
    {
        "form": "compare",
        "rubric": {
            "criterion": "Which of the two answers answers the input better: more correct, more complete and clearer?",
            "scale": {"first": 1, "tie": 0.5, "second": 0},
            "steps": [
                "Say what the input asks for.",
                "Say what attributes.first_answer gets right and wrong, then what attributes.second_answer does.",
                "Say which of the two is better for whoever asked, or that neither is.",
            ],
            "inputs": ["input", "attributes.first_answer", "attributes.second_answer"],
            "pass_at": 0.5,
        },
    },
    "quality",
)  # fmt: skip

#: All metrics that come with Gapwatch.
SHIPPED: tuple[EvaluationMetric, ...] = (
    *CLASSIFICATION, *_CHAT, *_RAG, *_TOOLS, *TEXT_SCORES, _PAIRWISE, _LATENCY,
)  # fmt: skip
