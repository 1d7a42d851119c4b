# ruff: noqa: E501, SIM905 - the shape of a span is easier to see in long lines
"""The traffic of the benchmarks: traces of about 2.3 KB with 3 spans, and a portfolio with 20 checks a span.

Run as a program it writes a file: `python -m tests.benchmarks.traffic 200000 traces.jsonl`.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

WORDS = (
    "the refund policy allows a customer to change the reservation within twenty four hours of booking when the fare "
    "class permits it and the agent has confirmed the payment method on file before the flight departs"
).split()
START = 1_774_166_400.0
PIPELINE = "support"
COMPONENTS = ("retrieve", "generate", "reply")


def _words(dice: random.Random, n: int) -> str:
    return " ".join(dice.choices(WORDS, k=n))


def _span(component: str, i: int, k: int, at: float, seconds: float, **rest: Any) -> dict[str, Any]:
    return {
        "span_id": f"{i:012x}{k:04x}",
        "parent_id": f"{i:012x}{k - 1:04x}" if k else None,
        "component": component,
        "started_at": round(at, 3),
        "ended_at": round(at + seconds, 3),
        **rest,
    }


def trace(dice: random.Random, i: int, bad: float, per_second: float = 200.0) -> dict[str, Any]:
    """Make one trace.

    Args:
        dice: Source of all that varies.
        i: Number of the trace; its time is `i / per_second` seconds after the start.
        bad: Probability that one check fails, roughly.
        per_second: Traces a second of event time.
    """

    def wrong() -> bool:
        return dice.random() < bad

    at = START + i / per_second
    question = _words(dice, 10)
    documents = [_words(dice, 12) for _ in range(3)]
    answer: dict[str, Any] = {
        "answer": _words(dice, 22),
        "citations": ["made up"] if wrong() else [documents[0][8:40]],
        "confidence": round(dice.random(), 3),
    }
    if wrong():
        del answer["citations"]
    spans = [
        _span(
            "retrieve", i, 0, at, 2.0 + dice.random() if wrong() else 0.1 + 0.5 * dice.random(),
            name="search", kind="retrieval", status="error" if wrong() else "ok",
            error_type=None, model="embed-3-small", tier="fallback" if wrong() else "primary",
            input=question, output=orjson.dumps([] if wrong() else documents).decode(),
            usage={"input_tokens": dice.randint(10, 60), "output_tokens": 0, "cost_usd": round(2e-5 * dice.random(), 8)},
            attributes={"index": "kb-old" if wrong() else "kb-7", "top_k": 3, "score": round(0.5 * dice.random() if wrong() else 0.5 + 0.5 * dice.random(), 4)},
        ),
        _span(
            "generate", i, 1, at + 1, 12.0 if wrong() else 0.8 + 2 * dice.random(),
            name="chat", kind="llm", status="error" if wrong() else "ok",
            error_type="RateLimitError" if wrong() else None, model="gpt-4.1-mini" if wrong() else "gpt-4.1",
            tier="fallback" if wrong() else "primary", input=" ".join(documents),
            output="Sorry, I cannot answer that." if wrong() else orjson.dumps(answer).decode(),
            usage={"input_tokens": dice.randint(300, 1500), "output_tokens": 2000 if wrong() else dice.randint(40, 300), "cost_usd": round(0.01 * dice.random(), 6)},
            attributes={"finish_reason": "length" if wrong() else "stop", "temperature": 0.2, "prompt_version": "v12"},
        ),
        _span(
            "reply", i, 2, at + 4, 3.0 if wrong() else 0.1,
            name="send", kind="agent", status="error" if wrong() else "ok", error_type=None, model="gpt-4.1",
            tier="primary", input=question, output="As an AI language model I must refuse." if wrong() else answer["answer"],
            usage={"input_tokens": dice.randint(30, 150), "output_tokens": dice.randint(4, 30), "cost_usd": round(0.001 * dice.random(), 7)},
            attributes={"channel": "fax" if wrong() else "web", "language": "xx" if wrong() else "en", "retries": 3 if wrong() else 0},
        ),
    ]  # fmt: skip
    return {
        "trace_id": f"{dice.getrandbits(128):032x}",
        "pipeline": PIPELINE,
        "environment": "production",
        "release": "r41" if i % 7 == 0 else "r42",
        "session_id": None,
        "started_at": round(at, 3),
        "ended_at": round(at + 5, 3),
        "sampling_probability": 1.0,
        "attributes": {"region": "eu"},
        "spans": spans,
    }


def lines(n: int, bad: float = 0.02, seed: int = 7) -> Iterator[bytes]:
    """Yield n traces as JSON."""
    dice = random.Random(seed)
    for i in range(n):
        yield orjson.dumps(trace(dice, i, bad))


def write(path: Path, n: int, bad: float = 0.02, seed: int = 7) -> None:
    """Write n traces to a file, one a line."""
    with path.open("wb") as file:
        for line in lines(n, bad, seed):
            file.write(line + b"\n")


#: The checks of one span: name and claim, those that read JSON or search texts among them. `{c}` is the component.
_SHARED: list[tuple[str, str]] = [
    ("output_present", "{form: check, field: output, present: true}"),
    ("input_present", "{form: check, field: input, present: true}"),
    ("status_ok", "{form: check, field: status, one_of: [ok]}"),
    ("no_error", "{form: check, field: error_type, absent: true}"),
    ("model_known", "{form: check, field: model, one_of: [embed-3-small, gpt-4.1]}"),
    ("tier_primary", "{form: label, field: tier, labels: [primary, fallback], bad: [fallback]}"),
    ("latency", "{form: measure, field: latency, unit: seconds, limit: {max: 10, warn: 2}}"),
    ("cost", "{form: check, field: usage.cost_usd, range: {min: 0, max: 0.05}}"),
    ("input_tokens", "{form: check, field: usage.input_tokens, range: {above: 0, max: 4000}}"),
    ("output_tokens", "{form: check, field: usage.output_tokens, range: {min: 0, max: 1500}}"),
    ("output_short", "{form: check, field: output, length: {max: 4000}}"),
    ("input_short", "{form: check, field: input, length: {min: 1, max: 8000}}"),
    ("times_in_order", '{form: check, field: started_at, compares: {operator: "<=", other: ended_at}}'),
    ("no_secret", '{form: check, field: output, not_matches: "(?i)(api[_-]?key|password)"}'),
]
_OWN: dict[str, list[tuple[str, str]]] = {
    "retrieve": [
        ("index_known", "{form: check, field: attributes.index, one_of: [kb-7, kb-8]}"),
        ("top_k", "{form: check, field: attributes.top_k, range: {min: 1, max: 20}}"),
        ("score", "{form: check, field: attributes.score, range: {min: 0.5}}"),
        ("found_some", "{form: check, field: output, count: {min: 1}}"),
        ("is_json", "{form: check, field: output, format: json}"),
        ("name_known", "{form: check, field: name, one_of: [search, browse]}"),
    ],
    "generate": [
        ("finished", "{form: check, field: attributes.finish_reason, one_of: [stop, tool_calls]}"),
        (
            "answer_parses",
            "{form: check, field: output, json: {required: [/answer, /citations], types: {/answer: string}}}",
        ),
        ("quotes_sources", '{form: check, field: "output#/citations", substring_of: input, each: true}'),
        ("confidence", '{form: check, field: "output#/confidence", range: {min: 0, max: 1}}'),
        ("no_refusal", '{form: check, field: output, not_matches: "(?i)(as an ai|i cannot|sorry)"}'),
        ("prompt_version", '{form: check, field: attributes.prompt_version, matches: "^v[0-9]+$"}'),
    ],
    "reply": [
        ("channel", "{form: check, field: attributes.channel, one_of: [web, app]}"),
        ("language", "{form: check, field: attributes.language, one_of: [en, de]}"),
        ("retries", "{form: check, field: attributes.retries, range: {max: 1}}"),
        ("no_refusal", '{form: check, field: output, not_matches: "(?i)(as an ai|i cannot|sorry)"}'),
        ("long_enough", "{form: check, field: output, length: {min: 40}}"),
        ("plain_text", "{form: check, field: output, not: {format: json}}"),
    ],
}


def portfolio(checks: int = 20) -> str:
    """Return the YAML of a portfolio with that many checks a span; beyond 20 they are repeated with other bounds."""
    metrics = []
    for component in COMPONENTS:
        own = [*_SHARED, *_OWN[component]] if checks >= 20 else [*_OWN[component], *_SHARED]
        for i in range(checks):
            name, claim = own[i % 20]
            round_ = i // 20
            if round_:
                claim = claim.replace("max: ", f"max: {round_}").replace("(?i)(", f"(?i)(never{round_}|")
            metrics.append(
                f"  - {{name: {component}_{name}_{round_}, component: {component}, concern: quality, claim: {claim}}}"
            )
    kinds = {"retrieve": "retrieval", "generate": "llm", "reply": "agent"}
    components = "\n".join(f"  - {{id: {c}, role: ai_core, kind: {kinds[c]}}}" for c in COMPONENTS)
    return (
        f"gapwatch: 1\nportfolio: benchmark\nversion: 1\npipeline: {PIPELINE}\nwritten_by_llm: [generate.output]\n"
        f"volume: {{traces_per_day: 200000}}\ncomponents:\n{components}\nedges: []\nmetrics:\n"
        + "\n".join(metrics)
        + "\n"
    )


if __name__ == "__main__":
    write(Path(sys.argv[2]), int(sys.argv[1]), float(sys.argv[3]) if len(sys.argv) > 3 else 0.02)
