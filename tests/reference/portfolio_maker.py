"""Generates portfolios that load, with every claim form and predicate."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from tests.reference.trace_maker import LABELS, MODELS, ODD_ATTRIBUTES, TIERS, WORDS, Maker

Written = dict[str, Any]

COMPONENTS: list[Written] = [
    {
        "id": "c",
        "role": "ai_core",
        "kind": "llm",
        "tiers": [{"id": "primary", "by": "llm"}, {"id": "rules", "by": "rule"}],
    },
    {"id": "d", "role": "supporting", "kind": "tool"},
    {"id": "both", "role": "supporting", "kind": "tool", "members": ["c", "d"]},
]

_POINTERS = [
    *("/a", "/n", "/n", "/name", "/name", "/list", "/a/b", "/list/0", "/city"),
    *("/list/-", "/list/01", "/a~1b", "/", "/~0", "/é", "/a.b", "", "/list/-1", "/list/99999999999999999999"),
    *(
        "/*",
        "/$",
        "/[0]",
        "/list[0]",
        "/list/*",
        "/q\"o't",
        "/a\\b",
        "/#-1",
        "/😀",
        "/\n",
        "/�",
        "/list/1e0",
        "/list/ 1",
    ),
]
_TEXT_FIELDS = ["output", "output", "output", "input", "status", "error_type", "model", "tier", "name", "kind"]
_NUMBER_FIELDS = [
    *("latency", "latency_ms", "usage.cost_usd", "usage.input_tokens", "usage.output_tokens", "usage.total_tokens"),
    *("started_at", "ended_at"),
]
_KEYS = ["x", "y", "label", "text", "list", "meta", "never"]
_TRACE_NUMBER_FIELDS = [
    *("trace.duration", "trace.cost_usd", "trace.total_tokens", "trace.span_count", "trace.error_count"),
    *("trace.count(c)", "trace.count(d)"),
]
_TEXTS = [
    *(*TIERS, *LABELS, *MODELS, "ok", "error", "llm", "tool", "yes", "no", "", "5", "true", "null", "1.5", "[]"),
    *("chat", "Rome", "ΟΣ", "\x00", "é", "it's"),
]
_PATTERNS = [
    *("l", "(?i)error", "^a", "o$", r"\bn", "^.$", "a.c", r"\p{L}{4}", r"^\w+$", "^(good|fair)$", "", "[0-9]{2,}"),
    *("(?s)o.w", "^[^x]*$", '"a":1', r"\x00", "'", "�", *WORDS),
]
_FORMATS = ["json", "json", "url", "email", "iso_date", "uuid", "number", "integer"]
_NEAR_BOUNDS = [-4, -1, 0, 0.25, 1, 2, 2.5, 3, 5, 6, 10, 11]
_FAR_BOUNDS = [-1e3, 0, 1e3, 1e20, 9007199254740992]
_TYPES = ["string", "number", "integer", "boolean", "array", "object"]
_RATES = [0, 0.1, 0.25, 0.5, 0.9, 1, 1]
_FOLDS = {"measure": ["any", "max", "sum", "mean", "last"], "label": ["any", "worst", "worst"]}
_WEIGHTS = [[1.0], [0.5, 0.5], [0.25, 0.75], [0.5, 0.25, 0.25], [0.3333333333, 0.3333333333, 0.3333333334]]
_JUDGE: Written = {
    "form": "judge",
    "rubric": {"criterion": "is it grounded", "scale": ["yes", "no"], "inputs": ["input", "output"], "pass_at": "yes"},
    "judges": [{"model": "openai/gpt-4.1-mini", "params": {"temperature": 0}}],
}


class MetricMaker(Maker):
    """Generates one metric from a seed.

    Attributes:
        is_trace: Whether the metric speaks of the trace as a whole.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.is_trace = self.chance(0.2)

    # ---- fields, by what a predicate needs ----

    def attribute(self) -> str:
        """Return a reference to any attribute."""
        return self._attribute(_KEYS if self.chance(0.6) else ODD_ATTRIBUTES)

    def _attribute(self, keys: Sequence[str]) -> str:
        return ("trace." if self.is_trace else "") + f"attributes.{self.pick(keys)}"

    def holder(self) -> str:
        return "output" if not self.is_trace and self.chance(0.6) else self._attribute(["meta", "meta", *_KEYS])

    def pointed(self) -> str:
        return f"{self.holder()}#{self.pick(_POINTERS)}"

    def number_field(self) -> str:
        plain = _TRACE_NUMBER_FIELDS if self.is_trace else _NUMBER_FIELDS
        return self.pick([self.pick(plain), self.pick(plain), self._attribute(["x", "y", "z"]), self.pointed()])

    def text_field(self) -> str:
        plain = self.attribute() if self.is_trace else self.pick(_TEXT_FIELDS)
        return self.pick([plain, plain, self.attribute(), self.pointed()])

    def list_field(self) -> str:
        return self.pick(
            [self._attribute(["list"]), self._attribute(["meta"]) + "#/list", self.holder(), self.pointed()]
        )

    def any_field(self) -> str:
        return self.pick([self.number_field(), self.text_field()])

    def haystack(self) -> str:
        return self.text_field() if self.is_trace or self.chance(0.3) else "input"

    # ---- predicates ----

    def range(self, with_warn: bool) -> Written:
        low, high = sorted(self.random.sample(_NEAR_BOUNDS if self.chance(0.8) else _FAR_BOUNDS, 2))
        side = self.pick(["low", "high", "both", "equal"])
        if side == "equal":
            return {"min": low, "max": low}
        bounds: Written = {}
        if side != "high":
            bounds[self.pick(["min", "above"])] = low
        if side != "low":
            bounds[self.pick(["max", "below"])] = high
        if with_warn and self.chance(0.8):
            middle = low + (high - low) / 2
            bounds["warn"] = {"max": middle} if side == "high" else {"min": middle}
        return bounds

    def whole_bounds(self, with_warn: bool) -> Written:
        low = self.random.randint(0, 4)
        high = low + self.random.randint(0, 8)
        side = self.pick(["low", "high", "both"])
        bounds: Written = ({} if side == "high" else {"min": low}) | ({} if side == "low" else {"max": high})
        if with_warn and self.chance(0.8):
            if side == "low":
                bounds["warn"] = {"min": low + self.random.randint(1, 3)}
            elif high > low:
                bounds["warn"] = {"max": self.random.randint(low, high - 1)}
        return bounds

    def likely_predicate(self) -> Written:
        """Return a predicate with every outcome likely: a wide band of warnings, words that texts share."""
        name = self.pick(_LIKELY)
        if name == "one_of":
            return {"field": self._attribute(["label"]), "one_of": ["fair", "good"]}
        if name == "json":
            shape = self.pick([{"required": ["/n"]}, {"types": {"/name": "string", "/list": "array"}}])
            return {"field": self.holder(), "json": shape}
        if name in ("matches", "not_matches"):
            return {"field": self.pick([self._attribute(["text"]), self.text_field()]), name: self.pick("aeiou")}
        if name == "sibling":
            return {"field": self._attribute(["label"]), "sibling": self.any_field()}
        if name == "format":
            return {"field": self.holder(), "format": self.pick(["json", "json", "number"])}
        source = self._attribute(["text"]) if self.is_trace else "input"
        if name == "substring_of":
            source = source if self.is_trace else self.pick(["input", "output"])
            holder = self._attribute(["meta"]) if self.is_trace else "output"
            return {"field": f"{holder}#{self.pick(['/name', '/city'])}", "substring_of": source}
        if name == "each":
            return {"field": self.list_field(), "substring_of": source, "each": True}
        fields = {
            "range": self._attribute(["x", "y"]) if self.is_trace else self.pick(["latency", "attributes.y"]),
            "length": self._attribute(["label", "text"]) if self.is_trace else self.pick(["output", "name", "tier"]),
            "count": self._attribute(["list"]),
        }
        low, middle, high = {"range": (-4, 4, 12), "length": (1, 7, 80), "count": (1, 2, 4)}[name]
        warn = self.pick([{"min": middle + 1}, {"max": middle}])
        return {"field": fields[name], name: {"min": low, "max": high, "warn": warn}}

    def json_shape(self) -> Written:
        pointers = sorted({pointer for pointer in _POINTERS if pointer})
        shape: Written = {}
        if self.chance(0.5):
            shape["required"] = self.random.sample(pointers, self.random.randint(1, 2))
        if not shape or self.chance(0.5):
            shape["types"] = {pointer: self.pick(_TYPES) for pointer in self.random.sample(pointers, 2)}
        return shape

    def leaf_predicate(self, with_warn: bool, fixed_texts: bool) -> Written:
        """Return one predicate; `fixed_texts` allows equality with one text, as in a `when`."""
        name = self.pick(_LEAVES[:-1] if self.is_trace else _LEAVES)
        if name == "sibling":
            return {"field": self.any_field(), "sibling": self.any_field()}
        if name == "compares":
            operator = self.pick(["<", "<=", ">", ">=", "==", "!="])
            other = self.number_field()
            return {"field": self.number_field(), "compares": {"operator": operator, "other": other}}
        if name == "cited_in":
            return self.cited_in()
        if name == "each":
            return {"field": self.list_field(), "substring_of": self.haystack(), "each": True}
        fields: dict[str, Callable[[], str]] = {
            "present": self.any_field,
            "absent": self.any_field,
            "range": self.number_field,
            "count": self.list_field,
            "json": self.holder,
        }
        arguments: dict[str, Callable[[], Any]] = {
            "present": lambda: True,
            "absent": lambda: True,
            "one_of": lambda: self.random.sample(_TEXTS, self.random.randint(1 if fixed_texts else 2, 12)),
            "range": lambda: self.range(with_warn),
            "count": lambda: self.whole_bounds(with_warn),
            "length": lambda: self.whole_bounds(with_warn),
            "json": self.json_shape,
            "substring_of": self.haystack,
            "matches": lambda: self.pick(_PATTERNS),
            "not_matches": lambda: self.pick(_PATTERNS),
            "format": lambda: self.pick(_FORMATS),
        }
        return {"field": fields.get(name, self.text_field)(), name: arguments[name]()}

    def cited_in(self) -> Written:
        field = self.pick(["output", "output", "output", "output", "attributes.meta", "output#", "output#/a"])
        return {"field": field, "cited_in": self.pick(["input", "input", "input", "attributes.text"])}

    def predicate(self, with_warn: bool, fixed_texts: bool, depth: int) -> Written:
        kind = self.pick(["leaf"] * 9 + ["all_of", "any_of", "not"]) if depth else "leaf"
        if kind == "leaf":
            return self.leaf_predicate(with_warn, fixed_texts)
        if kind == "not":
            return {"not": self.predicate(False, fixed_texts, depth - 1)}
        parts = [self.predicate(False, fixed_texts, depth - 1) for _ in range(self.random.randint(1, 3))]
        return _inheriting(kind, parts) if self.chance(0.5) else {kind: parts}

    # ---- claims ----

    def check(self) -> Written:
        if not self.is_trace and self.chance(0.06):
            return {"form": "check", **self.cited_in()}
        if self.chance(0.35):
            return {"form": "check", **self.likely_predicate()}
        return {"form": "check", **self.predicate(with_warn=True, fixed_texts=False, depth=2)}

    def measure(self) -> Written:
        claim: Written = {"form": "measure", "field": self.number_field(), "unit": "seconds"}
        side = self.pick(["none", "max", "max", "min", "min"])
        if side != "none":
            bound = self.pick([0, 0.25, 1, 2.5, 5, 10])
            claim["limit"] = {side: bound}
            if self.chance(0.7):
                claim["limit"]["warn"] = bound - 4 if side == "max" else bound + 4
        return claim

    def label(self) -> Written:
        field = self.pick([*[self._attribute(["label"])] * 4, self.pointed(), self.text_field()])
        labels: Sequence[str] = LABELS
        if not self.is_trace and self.chance(0.4):
            field, labels = self.pick([("tier", TIERS), ("model", MODELS)])
        claim: Written = {"form": "label", "field": field}
        if self.chance(0.8):
            claim["labels"] = self.random.sample(labels, len(labels))
        if self.chance(0.8):
            claim["bad"] = self.random.sample(labels, self.random.randint(1, 2))
        return claim

    def sample(self) -> Written:
        sample: Written = {}
        if self.chance(0.5):
            sample["rate"] = self.pick(_RATES)
        if self.chance(0.4):
            sample["strata"] = [
                {"name": f"s{number}", "when": self.predicate(False, True, 1), "rate": self.pick(_RATES)}
                for number in range(self.random.randint(1, 3))
            ]
        if self.chance(0.5):
            keys = self.random.sample(["fail", "warn", "pass"], self.random.randint(1, 3))
            sample["keep"] = {key: self.pick(_RATES) for key in keys}
        return sample

    def place(self) -> Written:
        return {"scope": "trace"} if self.is_trace else {"component": self.pick(["c", "c", "d", "both"])}

    def metric(self, name: str) -> Written:
        form = self.pick(["check"] * 6 + ["measure"] * 2 + ["label"] * 2 + ([] if self.is_trace else ["judge"]))
        makers = {"check": self.check, "measure": self.measure, "label": self.label}
        claim = copy.deepcopy(_JUDGE) if form == "judge" else makers[form]()
        if form != "judge" and self.chance(0.3):
            claim["optional"] = True
        metric: Written = {"name": name, **self.place(), "concern": "quality", "claim": claim}
        if self.chance(0.25):
            metric["when"] = self.predicate(False, True, 2)
        if self.chance(0.7):
            folds = [fold for fold in _FOLDS.get(form, ["any"]) if fold != "worst" or "labels" in claim]
            metric["per_trace"] = self.pick(folds)
        if self.chance(0.4):
            metric["sample"] = self.sample()
        return metric

    def composite(self, name: str, metrics: Sequence[Written]) -> Written | None:
        """Return a composite of some of these metrics, or None if no metric is at the chosen place."""
        place = self.place()
        inline_only = self.chance(0.7)
        names = [
            metric["name"]
            for metric in metrics
            if metric.get("component") == place.get("component")
            and not (inline_only and (metric["claim"]["form"] == "judge" or "when" in metric))
        ]
        fitting = [weights for weights in _WEIGHTS if len(weights) <= len(names)]
        if not fitting:
            return None
        weights = self.pick(fitting)
        parts = dict(zip(self.random.sample(names, len(weights)), weights, strict=True))
        claim: Written = {"form": "composite", "parts": parts}
        if self.chance(0.8):
            claim["pass_at"] = self.pick([0.25, 0.5, 0.75, 1.0])
        metric: Written = {"name": name, **place, "concern": "quality", "claim": claim}
        if self.chance(0.4):
            metric["sample"] = self.sample()
        return metric


_LEAVES = [
    *("present", "absent", "sibling", "one_of", "range", "length", "matches", "not_matches", "format", "json"),
    *("substring_of", "each", "compares", "count", "cited_in"),
]


_LIKELY = [
    *("range", "range", "length", "count", "matches", "not_matches", "substring_of", "each", "format", "json"),
    *("one_of", "sibling"),
]


def _inheriting(kind: str, parts: list[Written]) -> Written:
    """Move the field of the first part to the composition, if that part has one."""
    first = parts[0]
    if "field" not in first:
        return {kind: parts}
    rest = {key: value for key, value in first.items() if key != "field"}
    return {"field": first["field"], kind: [rest, *parts[1:]]}


def make_portfolio(seeds: Sequence[int], composite_seeds: Sequence[int] = (), pipeline: str = "p") -> Written:
    """Return a portfolio that loads, with a metric for each seed."""
    metrics = [MetricMaker(seed).metric(f"m{number}") for number, seed in enumerate(seeds)]
    composites = [MetricMaker(seed).composite(f"co{number}", metrics) for number, seed in enumerate(composite_seeds)]
    return {
        "gapwatch": 1,
        "portfolio": f"made-{pipeline}",
        "version": 1,
        "pipeline": pipeline,
        "components": copy.deepcopy(COMPONENTS),
        "edges": [],
        "metrics": [*metrics, *(composite for composite in composites if composite is not None)],
    }
