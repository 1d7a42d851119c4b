"""Follows a model's reply to the output of the function that asks: whether its words are what the function gives."""

from __future__ import annotations

import enum
import re

from gapwatch.design.architecture.claimed_code import EVIDENCE, ClaimedCode
from gapwatch.design.architecture.evidence_flow import SEARCHED, is_found_by
from gapwatch.design.architecture.prompt_flow import bindings_of
from gapwatch.design.callgraph.graph import CallEdge
from gapwatch.design.patterns.code_walk import arguments_of, callee_text, children, names_in, unwrapped, walk
from gapwatch.design.patterns.hit import PatternHit, Subject
from gapwatch.design.patterns.model_calls import CALLS, hands_on_stream
from gapwatch.design.routes.forms import Forms
from gapwatch.design.source.ir import Expr, call_line, handler_body, handlers_of, is_call, is_text, operand_of, value_of
from gapwatch.design.source.program import last_name, statements

_MODELS = frozenset({"llm_chat"})


class Output(enum.Enum):
    """Share of the model's reply in the output of a function."""

    REPLY = "the reply, or something with its words"
    KEPT = "no word of it, but the span of the function does: it gives no text itself"
    SELDOM = "the reply in few of its answers"
    NOTHING = "no word of it"
    UNKNOWN = "what cannot be told: it asks no model by itself"


#: Functions that make a number, a flag or a new id of a text.
_NUMBERS = frozenset(
    {"len", "int", "float", "bool", "isinstance", "sum", "any", "all", "round", "abs", "hash", "id", "uuid4", "uuid1"}
)
#: Functions that make or open a path of a text.
_PATHS = re.compile(r"(^|\.)path\.(join|exists|isfile|abspath|basename|dirname)$|^(Path|open)$|\.joinpath$")
#: Capabilities whose calls give what a server, a store or a search says, whatever they are asked.
_OUTSIDE = EVIDENCE | {"db_write", "vector_write", "embedding", "guardrail", "evaluation", "queue"}
#: What streams a reply to a callback of the model, as langchain names it.
_STREAMED = frozenset({"aiter"})
#: Most statements in a row through which a reply is followed, and most functions.
_MAX_STEPS, _MAX_FUNCTIONS = 5, 2
#: Words of the code around a reply at which the text is the code's own, and no reply.
_LEAST_AROUND = 3
#: Most words of a label before a reply.
_MOST_IN_LABEL = 5
#: Tags around a part of a text; words, and signs of Chinese and Japanese, of which two make a word.
_TAG, _WORD, _IDEOGRAM = (
    re.compile(r"<[^>]*>"),
    re.compile(r"[A-Za-z]{2,}"),
    re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]"),
)
#: Answers of a function without the reply, for each with it, at which its output is something else.
_SELDOM, _LEAST_OTHERS = 3, 4


def output_of(code: ClaimedCode, symbol: str) -> Output:
    """Return what the output of a function holds of the reply of the models that it asks.

    Args:
        code: The functions.
        symbol: The function; one that only passes on stands for the one that works for it.
    """
    found = code.outputs.get(symbol)
    if not isinstance(found, Output):
        code.outputs[symbol] = Output.UNKNOWN  # of a function that calls itself
        found = code.outputs[symbol] = _output_of(code, symbol)
    return found


#: Libraries of which the recorders do not read both what a model is sent and what it says.
_UNWATCHED = re.compile(
    r"^(aiohttp|urllib3?|http|strands|lagent|claude_agent_sdk|claude_code_sdk|cohere|boto3|aioboto3"
    r"|vertexai|google\.generativeai|transformers|torch|vllm|replicate|together"
    r"|dashscope|zhipuai|qianfan|huggingface_hub|gpt4all|llama_cpp|rpc|socket|subprocess)\."
)
#: Libraries whose calls end in a client that `client_calls.toml` lists, and methods of chains that do.
_RECORDED = re.compile(
    r"^(openai|anthropic|litellm|langchain\w*|langgraph|llama_index|agents|pydantic_ai|dspy|instructor|mistralai|groq"
    r"|ollama|prompty|portkey_ai|lanarky|crewai|semantic_kernel|google\.genai)\."
)
_OF_CHAINS = re.compile(r"\.(a?(invoke|batch|stream)|astream_events)$")
#: Tools that are run as models are.
_TOOL = re.compile(r"(\.tools?\.(\w+\.)?|Tool\.)(a?invoke|a?run)$")
#: Most calls between a function and the client of a model: clients of many providers have decorators and fallbacks.
_MAX_BETWEEN = 8


def is_tool_run(hit: PatternHit) -> bool:
    """Return whether a hit that looks like a model call runs a tool."""
    return _TOOL.search(hit.evidence) is not None


def is_reply_recorded(hit: PatternHit) -> bool:
    """Return whether a model call is one whose reply the recorders write: a known client, or a chain, makes it."""
    return bool(_RECORDED.search(hit.evidence) or _OF_CHAINS.search(hit.evidence)) and not is_tool_run(hit)


def is_exchange_seen(code: ClaimedCode, symbol: str) -> bool:
    """Return whether the span of a function has what a model was last sent below it and said: a known client asks.

    A stream that is handed on unread says nothing, unless a function above goes through what it is given.
    """
    frontier, seen = [symbol], {symbol}
    for _ in range(_MAX_BETWEEN):
        hits = [h for one in frontier for h in code.material.hits_of(one) if h.pattern == "calls_llm"]
        if direct := [h for h in hits if h.kind == "direct"]:
            above = [code.subject(one) for one in seen - set(frontier)]
            is_read = any(f is not None and any(s[0] == "for" for s in f.statements) for f in above)
            return any(not _UNWATCHED.search(h.evidence) and (is_read or not _is_unread(code, h)) for h in direct)
        below = {e.dst for one in frontier for e in code.material.sites.callees.get(one, ())}
        models = code.reaching(_MODELS)
        frontier = sorted(s for s in below - seen if s in models)
        seen |= below
    return False


def _is_unread(code: ClaimedCode, hit: PatternHit) -> bool:
    """Return whether the model call of a hit gives a stream that its function hands on unread."""
    subject = code.subject(hit.symbol)
    asking = [c for c in subject.calls if call_line(c) == hit.line] if subject is not None else []
    return subject is not None and any(hands_on_stream(subject, c) for c in asking)


def said_at(code: ClaimedCode, symbol: str) -> frozenset[int]:
    """Return the lines of the calls of models whose words the output of a function, or of its span, holds.

    The words of a stream that it hands on unread are not in it yet.
    """
    subject = code.subject(symbol)
    if subject is None or output_of(code, symbol) not in (Output.REPLY, Output.KEPT):
        return frozenset()
    lines = _asking_lines(code, subject)
    for hit in code.material.hits_of(subject.symbol):
        if hit.pattern == "calls_llm" and hit.kind == "direct" and _is_unread(code, hit):
            lines.pop(hit.line, None)
    if output_of(code, symbol) is Output.KEPT or code.worker(symbol) != symbol:
        return frozenset(lines)
    out = set()
    for line in lines:
        replies = _Replies(code, subject, lines[line], set().union(*lines.values()))
        if any(replies.holds(e) for e in subject.returned):
            out.add(line)
    return frozenset(out)


#: Functions that make an object of a text.
_PARSES = re.compile(r"^(loads|parse\w*|\w*_(json|yaml)|safe_load|model_validate\w*|literal_eval)$")


def has_member(code: ClaimedCode, symbol: str, key: str) -> bool:
    """Return whether the output of a function is an object with a key: written so, or parsed from a text."""
    subject = code.subject(code.worker(symbol))
    if subject is None:
        return False
    bound = [pair for s in subject.statements for pair in bindings_of(s)]
    pending, seen = list(subject.returned), set()
    while pending:
        e = unwrapped(pending.pop())
        while e is not None and e[0] == "w":
            e = unwrapped(operand_of(e))
        if e is None:
            continue
        if e[0] == "d" and any(k == ("k", key) for k, _ in e[1]):
            return True
        if is_call(e) and _PARSES.search(last_name(e)):
            return True
        if e[0] == "n" and e[1] not in seen:
            seen.add(e[1])
            pending += [value for name, value in bound if name == e[1]]
    return False


def _asking_lines(code: ClaimedCode, subject: Subject) -> dict[int, set[int]]:
    """Return the lines of each call that reaches a model, by its first."""
    out: dict[int, set[int]] = {}
    for h in code.material.hits_of(subject.symbol):
        if h.pattern == "calls_llm":
            out.setdefault(h.line, set()).update(range(h.line, max(h.line, h.end) + 1))
    return out


def _output_of(code: ClaimedCode, symbol: str) -> Output:
    subject = code.subject(code.worker(symbol))
    hits = [h for h in code.material.hits_of(subject.symbol) if h.pattern == "calls_llm"] if subject is not None else []
    if subject is None or not hits:
        return Output.UNKNOWN
    lines = set().union(*_asking_lines(code, subject).values())
    replies = _Replies(code, subject, lines, lines)
    given = subject.returned
    # What a handler gives is the answer of a failure, unless it asks a model again.
    failed = _failures_of(subject)
    carrying = [e for e in given if replies.holds(e) and (not any(e is f for f in failed) or replies.asks(e))]
    others = [e for e in given if e[0] != "k" and e not in carrying and not any(e is f for f in failed)]
    if carrying:
        return Output.SELDOM if len(others) >= max(_LEAST_OTHERS, _SELDOM * len(carrying)) else Output.REPLY
    # The span of an agent has what the function gives.
    is_agent = any(loop.symbol == subject.symbol and loop.kind != "graph" for loop in code.material.loops)
    direct = {h.line for h in hits if h.kind == "direct"}
    is_alone = len(direct) == 1 and len({h.line for h in hits}) == 1 and not is_agent
    if is_alone and not subject.ir.is_generator and all(_is_no_text(e) for e in given):
        return Output.KEPT
    return Output.NOTHING


def _failures_of(subject: Subject) -> list[Expr | None]:
    """Return what the handlers of a function return."""
    handlers = [h for s in subject.statements if s[0] == "try" for h in handlers_of(s)]
    return [value_of(x) for h in handlers for x in statements(handler_body(h)) if x[0] == "return"]


def _of_errors(subject: Subject) -> set[int]:
    """Return the statements of handlers, by identity, that tell the error: `told = f"{query}: {error}"`."""
    handlers = [h for s in subject.statements if s[0] == "try" for h in handlers_of(s) if h[2]]
    return {
        id(x)
        for h in handlers
        for x in statements(handler_body(h))
        if x[0] == "assign" and (value := value_of(x)) is not None and h[2] in names_in(value)
    }


def _is_no_text(e: Expr) -> bool:
    """Return whether a value is certainly no text: a flag, a number, a tuple, a list or a dictionary."""
    inner = unwrapped(e)
    return inner is None or inner[0] in ("t", "l", "S", "d", "q", "!") or (inner[0] == "k" and not is_text(inner))


def _around(e: Expr) -> str:
    """Return the constant parts of a text that is put together."""
    return " ".join(part for part in e[1] if isinstance(part, str))


def _is_label(e: Expr) -> bool:
    """Return whether a few words and a colon stand before the only part of a text: `f"Summary: {reply}"`."""
    parts = e[1]
    is_one = len(parts) == 2 and isinstance(parts[0], str) and not isinstance(parts[1], str)
    text = _around(e).rstrip() if is_one else ""
    return text.endswith(":") and _words(text) <= _MOST_IN_LABEL and Forms((), "").of(e) != "error"


def _words(text: str) -> int:
    bare = _TAG.sub(" ", text)
    return len(_WORD.findall(bare)) + len(_IDEOGRAM.findall(bare)) // 2


class _Replies:
    """The names of a function that hold replies.

    Args:
        code: The functions.
        subject: The function.
        lines: Lines of the calls that are followed.
        asking: Lines of all its calls that reach a model.
        held: Parameters that hold a reply already.
        depth: Functions that led here.
    """

    def __init__(
        self,
        code: ClaimedCode,
        subject: Subject,
        lines: set[int],
        asking: set[int],
        held: frozenset[str] = frozenset(),
        depth: int = 0,
    ) -> None:
        self._code = code
        self._subject = subject
        self._lines = lines
        self._asking = asking
        self._depth = depth
        self._names: set[str] = set(held)
        told = _of_errors(subject)
        bound = [pair for s in subject.statements if id(s) not in told for pair in bindings_of(s)]
        numbers = {name for name, value in bound if self._is_number(value)}
        self._served = {
            name for name, value in bound if is_call(value) and subject.reach(value).capability in ("http", "saas")
        } - {name for name, value in bound if is_call(value) and call_line(value) in asking}
        for _ in range(_MAX_STEPS):
            before = len(self._names)
            self._names |= {name for name, value in bound if name not in numbers and self.holds(value)}
            if len(self._names) == before:
                break

    def holds(self, e: Expr) -> bool:
        """Return whether a value holds words of a reply."""
        if self._is_number(e):
            return False
        if is_call(e):
            return self._is_held_call(e)
        if e[0] == "n":
            return e[1] in self._names
        if e[0] == "a" and e[1] in (("n", "self"), ("n", "cls")):
            return f"{e[1][1]}.{e[2]}" in self._names
        if e[0] == "f" and any(self._is_from_server(part) for part in e[1] if not isinstance(part, str)):
            # What a server said of it: `f"{query}: {response.text}"`.
            return False
        if e[0] == "f" and _words(_around(e)) >= _LEAST_AROUND and not _is_label(e):
            return False
        inner = e[2:] if e[0] == "?" else tuple(children(e))
        return any(self.holds(one) for one in inner)

    def _is_from_server(self, e: Expr) -> bool:
        return not self._served.isdisjoint(n.partition(".")[0] for n in names_in(e))

    def asks(self, e: Expr) -> bool:
        """Return whether a value holds a call of a model itself."""
        return any(is_call(inner) and call_line(inner) in self._lines for inner in walk(e))

    def _is_held_call(self, call: Expr) -> bool:
        edges = self._subject.inside(call)
        if call_line(call) in self._asking and self._reaches_model(call, edges):
            outputs = {output_of(self._code, edge.dst) for edge in edges}
            return call_line(call) in self._lines and outputs != {Output.NOTHING}
        if last_name(call) in _STREAMED and self._lines:
            return True
        if self._subject.reach(call).capability in _OUTSIDE or _PATHS.search(callee_text(call)):
            return False
        if call[1][0] == "a" and self.holds(call[1][1]):
            return True
        given = [a for a in arguments_of(call) if self.holds(a)]
        if not given:
            return False
        if any(edge.kind in CALLS and is_found_by(self._code, edge.dst, SEARCHED) for edge in edges):
            # A search gives what it finds, whoever wrote the query.
            return False
        others = [o for edge in edges if edge.kind in CALLS and (o := self._subject.other(edge.dst)) is not None]
        if last_name(call)[:1].isupper() or not others or self._depth >= _MAX_FUNCTIONS:
            return True
        return any(self._is_passed_on(call, other) for other in others)

    def _reaches_model(self, call: Expr, edges: list[CallEdge]) -> bool:
        models = self._code.reaching(_MODELS)
        return not edges or any(edge.dst in models for edge in edges)

    def _is_passed_on(self, call: Expr, other: Subject) -> bool:
        """Return whether a function of the repository gives back what it is given of a reply, or an object with it."""
        if other.ir.name == "__init__":
            return True
        names = [p.name for p in other.ir.params if p.name not in ("self", "cls")]
        held = {name for name, value in zip(names, call[2], strict=False) if self.holds(value)}
        held |= {str(name) for name, value in call[3] if name and self.holds(value)}
        inner = _Replies(self._code, other, set(), set(), frozenset(held), self._depth + 1)
        failed = _failures_of(other)
        return any(inner.holds(e) for e in other.returned if not any(e is f for f in failed))

    def _is_number(self, e: Expr) -> bool:
        inner = unwrapped(e)
        if inner is None or inner[0] in ("q", "!"):
            return inner is not None
        if inner[0] == "o" and inner[1] in ("/", "-", "//", "**"):
            return True
        if not is_call(inner):
            return False
        others = [self._subject.other(edge.dst) for edge in self._subject.inside(inner)]
        made = bool(others) and all(other is not None and other.gives_number for other in others)
        return made or (last_name(inner) in _NUMBERS and not others)
