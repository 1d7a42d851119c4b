"""`SpanFacts`: what one span says of a step, by the table of conventions; rules over whole traces come after it."""

from __future__ import annotations

import re
from typing import Any

from gapwatch.streams.otlp.decoding.span_record import SpanRecord
from gapwatch.streams.otlp.mapping import messages
from gapwatch.streams.otlp.mapping.convention_table import GENERAL, ConventionTable
from gapwatch.streams.otlp.mapping.documents import documents_in, indexed_documents
from gapwatch.streams.otlp.mapping.json_text import is_cut, parsed
from gapwatch.streams.otlp.mapping.span_shape import MOST_OWN, NO_RANK, KeyFamily, SpanShape

#: Kinds whose spans are calls of a model; nested or doubled ones are one call.
MODEL_KINDS = ("llm", "embedding", "rerank")
#: Characters of a text of the pipeline's own.
MOST_OWN_CHARACTERS = 2_000
#: Characters of an input or an output. A longer one is absent.
MOST_CHARACTERS = 1_000_000

#: Own attributes that are as long as an input: what a model was last sent below a span, and what it said.
EXCHANGE = frozenset({"model_prompt", "model_reply"})

#: Stands for no own attributes, no metadata and no families, as most spans have; nobody writes to it.
_NONE: dict[str, Any] = {}

_CLIENT = 3  # span kind
_CLASS_REPR = re.compile(r"<class '([^']+)'>$")
_TYPE_AT_START = re.compile(r"([A-Za-z_][\w.]*(?:Error|Exception|Timeout|Warning|Interrupt|Exit))(?::|$)")
_RESPONSE_ID = re.compile(r'\{"id": ?"([^"]{6,100})"')

_USAGE_INPUT = (
    "prompt_tokens",
    "input_tokens",
    "inputTokens",
    "promptTokens",
    "promptTokenCount",
    "prompt_token_count",
)
_USAGE_OUTPUT = (
    "completion_tokens", "output_tokens", "outputTokens", "completionTokens", "candidatesTokenCount",
    "candidates_token_count",
)  # fmt: skip


class SpanFacts:
    """Facts that a span says of a step.

    Attributes:
        record: The decoded span.
        scope: Name of the scope.
        resource: Attributes of the resource.
        service: Service of the resource.
        kind: Kind of the step; None if no convention says it.
        convention: Convention that says it, or else the first of which the span has an attribute; empty for none.
        found: Field to value: the first key that is there, in the order of the table.
        own: Attributes of the pipeline's own.
        metadata: Members of metadata.
        is_infrastructure: Whether the span has a mark of HTTP, a database or the like.
        absent: Field to the reason why it is absent.
        input: In its normal form, after `read_content`.
        output: In its normal form, after `read_content`.
        has_answer: Whether a model call has an answer, after `read_content`.
        input_tokens: None if it is unknown.
        output_tokens: None if it is unknown.
        cost: US dollars; None if it is unknown.
        is_error: Whether the step failed.
        error_type: Class of the error; None without one.
        model: Model that answered, or else the one that was asked, after `read_content`; None if it is unknown.
    """

    __slots__ = (
        "absent", "convention", "cost", "error_type", "found", "has_answer", "indexed", "input", "input_tokens",
        "is_error", "is_infrastructure", "kind", "metadata", "model", "output", "output_tokens", "own", "record",
        "resource", "scope", "service",
    )  # fmt: skip

    def __init__(
        self, record: SpanRecord, scope: str, resource: dict[str, Any], service: str, table: ConventionTable
    ) -> None:
        self.record, self.scope, self.resource, self.service = record, scope, resource, service
        self.own: dict[str, Any]
        self.metadata: dict[str, Any]
        self.indexed: dict[str, tuple[KeyFamily, list[Any]]] = _NONE
        self.model: str | None = None
        self.absent: dict[str, str] = {}
        self.kind: str | None = None
        self.input: str | None = None
        self.output: str | None = None
        self.has_answer = False
        shape: SpanShape = record.shape
        values = record.values
        self.convention, self.is_infrastructure = shape.convention, shape.is_infrastructure
        if not shape.is_plain or None in values or "" in values:
            self._read(table)
        else:
            self.found: dict[str, Any] = {field: values[position] for position, field in shape.fields}
            self.own = {key: values[position] for position, key in shape.own} if shape.own else _NONE
            self.metadata = (
                {member: values[position] for position, member in shape.metadata} if shape.metadata else _NONE
            )
            for position, key, convention in shape.kinds:
                kind = table.kind_of(key, values[position])
                if kind is not None:
                    self.kind, self.convention = kind, convention
                    break
            if shape.families:
                self.indexed = {
                    field: (family, [values[position] for position in positions])
                    for field, family, positions in shape.families
                }
        self._read_error()
        self._read_numbers()
        if self.kind is None:
            self._guess_kind(table)

    def read_content(self) -> None:
        """Bring input and output into their normal form; after the log records were joined."""
        found, kind = self.found, self.kind
        if self.indexed:
            for field in ("input", "output"):
                members = self.indexed.get(field)
                if members is not None:
                    found[field] = members[0].messages.of(members[1])
                    if self.record.dropped and field == "input":
                        del found[field]
                        self.absent[field] = "truncated"
        value = found.get("input")
        if value is not None:
            content = parsed(value)
            if content is value and is_cut(value, content):
                self.absent["input"] = "truncated"
            elif kind == "llm":
                self.input = messages.model_input(value, content, found.get("system"))
            elif kind == "agent":
                self.input = messages.agent_input(value, content)
            else:
                self.input = messages.step_value(value, content)
        value = found.get("output")
        if kind == "embedding":
            if value is not None:
                self.absent["output"] = "vectors"
        elif value is not None:
            content = parsed(value)
            if content is value and is_cut(value, content, is_answer=kind in ("llm", "agent")):
                self.absent["output"] = "truncated"
            elif kind == "llm":
                self.output, self.has_answer = messages.model_output(value, content)
                if self.is_error and not self.has_answer:
                    self.output = None  # an empty reply of a framework is no answer
                if self.input_tokens is None and self.output_tokens is None and isinstance(value, str):
                    self._take_usage(messages.answered_usage(content))
            elif kind == "agent":
                self.output = messages.agent_output(value, content)
            else:
                self.output = messages.step_value(value, content)
        elif self.record.dropped:
            self.absent["output"] = "truncated"
        if "finish_reason" in found:
            self.has_answer = True
        for field, text in (("input", self.input), ("output", self.output)):
            if text is not None and len(text) > MOST_CHARACTERS:
                setattr(self, field, None)
                self.absent[field] = "too_long"
        self.model = self._model()

    def documents(self) -> list[dict[str, Any]] | None:
        """Return the documents of a retrieval or a rerank; None if it has none."""
        members = self.indexed.get("documents")
        if members is not None:
            return indexed_documents(members[0].members, members[1])
        value = self.found.get("documents")
        if value is None and self.kind in ("retrieval", "rerank"):
            value = self.found.get("output")
        return None if value is None else documents_in(value)

    @property
    def has_tokens(self) -> bool:
        """True if the span reports tokens."""
        return bool(self.input_tokens or self.output_tokens)

    @property
    def response_id(self) -> str | None:
        """Id that the provider gave to its answer; None if the span does not have it."""
        value = self.found.get("response_id")
        if isinstance(value, str) and value:
            return value
        output = self.found.get("output")
        if isinstance(output, str) and (match := _RESPONSE_ID.match(output)):
            return match[1]
        return None

    def _model(self) -> str | None:
        value = self.found.get("model")
        if value is None and "parameters" in self.found:
            parameters = parsed(self.found["parameters"])
            if isinstance(parameters, dict):
                value = parameters.get("model") or parameters.get("model_name")
        if value is None and self.kind in MODEL_KINDS:
            for field in ("output", "input"):
                content = self.found.get(field)
                if isinstance(content, str) and '"model"' in content:
                    content = parsed(content)
                    if isinstance(content, dict) and isinstance(content.get("model"), str):
                        value = content["model"]
                        break
        return value.strip('"') or None if isinstance(value, str) else None

    def _read(self, table: ConventionTable) -> None:
        """Read attributes of which some are empty: the next best key counts then."""
        meanings = table.meanings
        found, self.own, self.metadata = dict[str, Any](), dict[str, Any](), dict[str, Any]()
        self.found, self.convention, self.is_infrastructure = found, "", False
        indexed: dict[str, tuple[int, list[tuple[str, Any]]]] = {}
        ranks: dict[str, int] = {}
        first, says_kind = NO_RANK, False
        for key, value in self.record.attributes.items():
            meaning = meanings[key]
            field = meaning.field
            if not field:
                if meaning.is_infrastructure:
                    self.is_infrastructure = True
                elif meaning.wanted and value is not None and len(self.own) < MOST_OWN:
                    self.own[key] = value
                continue
            if not value and (value is None or value == ""):
                continue
            if meaning.member is not None:
                if field == "metadata_member":
                    self.metadata[meaning.member] = value
                    continue
                rank = meaning.rank
                known = indexed.get(field)
                if known is None or rank < known[0]:
                    known = indexed[field] = (rank, [])
                if rank == known[0]:
                    known[1].append((meaning.member, value))
                if rank < first and not says_kind:
                    first, self.convention = rank, meaning.convention
                continue
            rank = meaning.rank
            if field == "kind":
                kind = table.kind_of(key, value)
                if kind is None:
                    if meaning.convention == GENERAL and isinstance(value, str):
                        self.own[key] = value
                    continue
                if not says_kind or rank < first:
                    says_kind, first, self.convention, self.kind = True, rank, meaning.convention, kind
                continue
            if rank >= ranks.get(field, NO_RANK):
                continue
            if isinstance(value, str) and value[:9] == "[Scrubbed":  # a library blanks what looks like a secret
                continue
            found[field], ranks[field] = value, rank
            if rank < first and not says_kind and meaning.names_convention:
                first, self.convention = rank, meaning.convention
        self.indexed = {
            field: (KeyFamily([path for path, _ in members]), [value for _, value in members])
            for field, (rank, members) in indexed.items()
            if ranks.get(field, NO_RANK) >= rank
        }

    def _read_error(self) -> None:
        record, found = self.record, self.found
        self.error_type = None
        given = found.get("error_type")
        self.is_error = record.is_error or (given is not None and self.kind is not None)
        if not self.is_error:
            level = found.get("level")
            self.is_error = isinstance(level, str) and level.strip('"').upper() == "ERROR"
            if not self.is_error:
                return
        name = given if isinstance(given, str) else None
        if name is None:
            for event, _, attributes in record.events:
                if event == "exception" and isinstance(attributes.get("exception.type"), str):
                    name = attributes["exception.type"]
        if name is None and (match := _TYPE_AT_START.match(record.message or str(found.get("message") or ""))):
            name = match[1]
        if name:
            if match := _CLASS_REPR.match(name):
                name = match[1]
            self.error_type = name.rsplit(".", 1)[-1][:200] or None

    def _read_numbers(self) -> None:
        found = self.found
        self.input_tokens = _count(found["input_tokens"]) if "input_tokens" in found else None
        self.output_tokens = _count(found["output_tokens"]) if "output_tokens" in found else None
        if "usage" in found:
            usage = parsed(found["usage"])
            self._take_usage(usage if isinstance(usage, dict) else None)
        self.cost = None
        if "cost_usd" in found or "cost" in found:
            cost = _number(found.get("cost_usd"))
            if cost is None and "cost" in found:
                details = parsed(found["cost"])
                if isinstance(details, dict):
                    cost = _number(details.get("total", details.get("total_cost")))
            # A price that is not known is written as 0 by several libraries.
            self.cost = cost or None

    def _take_usage(self, usage: dict[str, Any] | None) -> None:
        """Take the counts of an object: either the provider's, or parts that add up (`input`, `input_cache_read`)."""
        if not usage:
            return
        found = self.found
        if self.input_tokens is None:
            self.input_tokens = _first_count(usage, _USAGE_INPUT)
            if self.input_tokens is None:
                self.input_tokens = _sum_of(usage, "input")
        if self.output_tokens is None:
            self.output_tokens = _first_count(usage, _USAGE_OUTPUT)
            if self.output_tokens is None:
                self.output_tokens = _sum_of(usage, "output")
        if "cached_tokens" not in found:
            details = usage.get("prompt_tokens_details")
            cached = details.get("cached_tokens") if isinstance(details, dict) else None
            cached = usage.get("input_cache_read", usage.get("cache_read_input_tokens", cached))
            if _count(cached):
                found["cached_tokens"] = cached
        if "reasoning_tokens" not in found:
            details = usage.get("completion_tokens_details")
            reasoning = details.get("reasoning_tokens") if isinstance(details, dict) else None
            reasoning = usage.get("output_reasoning", reasoning)
            if _count(reasoning):
                found["reasoning_tokens"] = reasoning

    def _guess_kind(self, table: ConventionTable) -> None:
        """Guess the kind from what the span has, where no key says it."""
        found, name = self.found, self.record.name
        if "tool_id" in found:
            self.kind = "tool"
        model = found.get("model")
        if not isinstance(model, str):
            return
        is_of_client = self.record.kind == _CLIENT or table.is_client_name(name) or model in name
        is_failed_call = self.is_error and is_of_client
        if self.input_tokens is not None and self.output_tokens is None and "embed" in name.lower():
            self.kind = "embedding"
        elif self.has_tokens or "finish_reason" in found or "response_id" in found or is_failed_call:
            self.kind = "llm"


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        try:
            value = float(value.strip('"'))
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 1e15 else None


def _count(value: Any) -> int | None:
    if type(value) is int and value >= 0:
        return value
    number = _number(value)
    return None if number is None else int(number)


def _first_count(usage: dict[str, Any], keys: tuple[str, ...]) -> int | None:
    for key in keys:
        if (count := _count(usage.get(key))) is not None:
            return count
    return None


def _sum_of(usage: dict[str, Any], part: str) -> int | None:
    counts = [_count(value) for key, value in usage.items() if key == part or key.startswith(part + "_")]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
