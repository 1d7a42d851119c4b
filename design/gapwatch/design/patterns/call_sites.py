"""Targets of each call site: joins the call graph with the library catalogue, looked up by symbol, line and name."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from gapwatch.design.callgraph.graph import CallEdge, CallGraph
from gapwatch.design.callgraph.streamed_chains import ASKED_LATER
from gapwatch.design.patterns.code_walk import arguments_of, callee_text, constants_in, names_in
from gapwatch.design.patterns.libraries import LibraryCatalog
from gapwatch.design.patterns.model_requests import address_capability, address_of, is_other_work, only_reads
from gapwatch.design.source.ir import (
    Expr,
    Stmt,
    call_line,
    callee_of,
    is_call,
    is_member,
    is_name,
    member_of,
    name_of,
    operands_of,
    operator_of,
    owner_of,
    pairs_in,
    positional_of,
    targets_of,
    value_of,
)
from gapwatch.design.source.program import Program, last_name

#: Ends of a chain that mean a model call for every receiver, because the resolver may not know an untyped client.
_MODEL_ENDS = re.compile(
    r"(chat\.completions\.(create|parse|stream)|beta\.chat\.completions\.(parse|stream)|messages\.(create|stream)"
    r"|responses\.(create|parse|stream)|generate_content(_async|_stream)?|invoke_model(_with_response_stream)?"
    r"|converse(_stream)?|ChatCompletion\.a?create|chat\.complete(_async)?|acompletion|models\.generate_content(_stream)?)$"
)
#: Methods that mean a model call if the receiver is named like a model.
_MODEL_METHODS = frozenset(
    [
        "invoke",
        "ainvoke",
        "stream",
        "astream",
        "batch",
        "abatch",
        "predict",
        "apredict",
        "generate",
        "agenerate",
        "complete",
        "acomplete",
        "chat",
        "achat",
        "call",
        "acall",
        "__call__",
        "stream_chat",
        "astream_chat",
        "stream_complete",
        "astream_complete",
        "structured_predict",
        "astructured_predict",
        "stream_structured_predict",
        "astream_structured_predict",
        "chat_with_tools",
        "achat_with_tools",
        "stream_chat_with_tools",
        "astream_chat_with_tools",
        "run_prompt",
        "call_single",
        "generate_text",
    ]
)
_MODEL_NAMES = re.compile(
    r"(^|_|\.)(llm|llms|chat_?model|language_?model|llm_?model|chat_?llm|llm_?client|gpt|claude|summary_llm|base_llm|chain|llm_chain"
    r"|qa_chain|rag_chain|completion_?model)$",
    re.IGNORECASE,
)
#: Methods that only LangChain models and agents have, so that the receiver name `model` or `agent` is enough.
_RUNNABLE = frozenset({"invoke", "ainvoke", "astream", "astream_events", "abatch"})
_ANY_NAMED_MODEL = re.compile(
    r"(^|_|\.)(sub)?(model|agent|agent_executor)(_with_(tools|structured_output|fallbacks|retry))?$", re.IGNORECASE
)
_EMBED_ENDS = re.compile(r"embeddings\.create$|(^|\.)a?embed_(documents|query|texts|document|batch)$|embed_content$")
#: Calls that serve chat and embedding models alike.
_ANY_MODEL = ("invoke_model", "predict", "invoke_endpoint", ".run")
_EMBEDS = re.compile(r"embed", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Reach:
    """Target of a call site outside the repository.

    Attributes:
        capability: Capability of the catalogue, or None.
        dotted: Library name with that capability, or the text of the call if only its form shows it.
        confidence: 1.0 if the resolver knows the callee, less if only its name is known.
    """

    capability: str | None
    dotted: str
    confidence: float


@dataclass
class CallSites:
    """Look-ups over a call graph.

    Attributes:
        graph: The call graph.
        catalog: The library catalogue.
        outside: Library names by (symbol, line).
        inside: Edges inside the repository by (symbol, line).
        callers: Edges by called symbol.
        callees: Edges by calling symbol.
        statements_within, expressions_within, calls_within: Code by number of the function, found once for all.
        reached: Capabilities within a few calls by function, filled by the first detector that asks.
        reached_by_call: A call and the capabilities that it reaches, by `id` of the call.
        http_wrappers: Whether a function sends a request to an address that it is given, by function.
        queues_with_both_ends: Whether the repository fills a queue and takes from it, by the queue's name.
        asked_by_call: A request and the capability of the server that it is sent to, by `id` of the call.
        served: Paths that the program serves itself; None until somebody asks.
    """

    graph: CallGraph
    catalog: LibraryCatalog
    outside: dict[tuple[str, int], list[str]] = field(default_factory=lambda: defaultdict(list))
    inside: dict[tuple[str, int], list[CallEdge]] = field(default_factory=lambda: defaultdict(list))
    callers: dict[str, list[CallEdge]] = field(default_factory=lambda: defaultdict(list))
    callees: dict[str, list[CallEdge]] = field(default_factory=lambda: defaultdict(list))

    #: Statements, expressions, and calls with their last names by line, by number of the function: found once for all.
    statements_within: dict[int, list[Stmt]] = field(default_factory=dict)
    expressions_within: dict[int, list[Expr]] = field(default_factory=dict)
    calls_within: dict[int, tuple[list[Expr], dict[int, frozenset[str]]]] = field(default_factory=dict)
    #: Capabilities within a few calls by function, for those who come after the first that asks.
    reached: dict[str, frozenset[str]] = field(default_factory=dict)
    #: A call and the capabilities that it reaches, by `id` of the call.
    reached_by_call: dict[int, tuple[Expr, frozenset[str]]] = field(default_factory=dict)
    #: Filled by the first detector that asks, as above.
    http_wrappers: dict[str, bool] = field(default_factory=dict)
    queues_with_both_ends: dict[str, bool] = field(default_factory=dict)
    #: A request and the capability of the server that it is sent to, by `id` of the call.
    asked_by_call: dict[int, tuple[Expr, str | None]] = field(default_factory=dict)
    #: Paths that the program serves itself; None until somebody asks.
    served: frozenset[str] | None = None
    _numbers: dict[str, int] = field(default_factory=dict)
    _sorted: list[str] = field(default_factory=list)
    _reached: dict[int, tuple[Expr, Reach]] = field(default_factory=dict)
    _by_symbol: dict[str, list[str]] = field(default_factory=dict)
    _by_name: dict[tuple[str, int], dict[str, list[CallEdge]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for external in self.graph.externals:
            for line in external.lines:
                self.outside[external.src, line].append(external.dotted)
        for edge in self.graph.edges:
            self.callers[edge.dst].append(edge)
            self.callees[edge.src].append(edge)
            for _, line in edge.sites:
                self.inside[edge.src, line].append(edge)

    def names_outside(self, symbol: str, call: Expr) -> list[str]:
        """Return the library names that a call may reach."""
        last = _last(call)
        found = self.outside.get((symbol, call_line(call)), ())
        return [dotted for dotted in found if not last or dotted.rpartition(".")[2] == last or dotted == last]

    def named_at(self, symbol: str, call: Expr) -> list[str]:
        """Return `names_outside`, or all library names of the line if the callee is bound under another name."""
        return self.names_outside(symbol, call) or (
            list(self.outside.get((symbol, call_line(call)), ()))
            if is_name(callee_of(call)) and not self.inside_of(symbol, call)
            else []
        )

    def instances_at(self, symbol: str, call: Expr, named_here: frozenset[str]) -> list[str]:
        """Return names `X.__call__` if a call calls an instance of X: `answer = Predict(...)`, `answer(q)`.

        Args:
            symbol: Function that holds the call.
            call: The call.
            named_here: Last names of all calls on its line; names that another call explains are left out.
        """
        if is_call(callee_of(call)):
            named_here -= {_last(callee_of(call))}
        found = self.outside.get((symbol, call_line(call)), ())
        lasts = [(dotted, dotted.rpartition(".")[2]) for dotted in found]
        called = [f"{dotted}.__call__" for dotted, last in lasts if last not in named_here and last[:1] != "_"]
        return [dotted for dotted in called if self.catalog.capability(dotted) is not None]

    def inside_of(self, symbol: str, call: Expr) -> list[CallEdge]:
        """Return the edges of a call inside the repository."""
        last = _last(call)
        found = self.inside.get((symbol, call_line(call)))
        if found is None:
            return []
        return self._inside_by_name(symbol, call_line(call), found).get(last, []) if last else list(found)

    def _inside_by_name(self, symbol: str, line: int, found: list[CallEdge]) -> dict[str, list[CallEdge]]:
        """Return the edges of a line by the last name of their target, and by its class where that is made."""
        known = self._by_name.get((symbol, line))
        if known is None:
            known = self._by_name[symbol, line] = {}
            for edge in found:
                for name in {edge.dst.rpartition(".")[2], _owner_name(edge.dst)} - {""}:
                    known.setdefault(name, []).append(edge)
        return known

    def through_variable(self, symbol: str, call: Expr, named_here: frozenset[str]) -> list[CallEdge]:
        """Return the edges of a call of a variable: `ask = config["model"]`, `ask(prompt)`.

        Args:
            symbol: Function that holds the call.
            call: The call.
            named_here: Last names of all calls on its line; names that another call explains are left out.
        """
        if not is_name(callee_of(call)) or self.inside_of(symbol, call):
            return []
        found = self.inside.get((symbol, call_line(call)), ())
        return [e for e in found if e.dst.rpartition(".")[2] not in named_here and _owner_name(e.dst) not in named_here]

    def numbers(self, program: Program) -> dict[str, int]:
        """Return the number of each function by its symbol."""
        if not self._numbers:
            self._numbers.update((info.symbol, info.number) for info in program.functions)
        return self._numbers

    def inner_functions(self, program: Program, symbols: list[str]) -> list[str]:
        """Return the functions inside some functions or classes, at any depth, in the order of the program."""
        numbers = self.numbers(program)
        if not self._sorted:
            self._sorted += sorted(numbers)
        found: set[str] = set()
        for symbol in symbols:
            # "/" follows "." in the order of letters.
            first, end = bisect_left(self._sorted, f"{symbol}."), bisect_left(self._sorted, f"{symbol}/")
            found.update(self._sorted[first:end])
        return sorted(found, key=numbers.__getitem__)

    def reach(self, symbol: str, call: Expr, named_here: frozenset[str]) -> Reach:
        """Return the target of a call outside the repository.

        Args:
            symbol: Function that holds the call.
            call: The call.
            named_here: Last names of all calls on its line.
        """
        found = self._reached.get(id(call))
        if found is None:
            # The call is held with the answer, so that its `id` stays its own, also where a detector made the call.
            found = self._reached[id(call)] = call, self._reach(symbol, call, named_here)
        return found[1]

    def externals_of(self, symbol: str) -> list[str]:
        """Return the library names that a function calls."""
        if not self._by_symbol:
            for external in self.graph.externals:
                self._by_symbol.setdefault(external.src, []).append(external.dotted)
        return self._by_symbol.get(symbol, [])

    def _reach(self, symbol: str, call: Expr, named_here: frozenset[str]) -> Reach:
        best: Reach | None = None
        for dotted in [*self.instances_at(symbol, call, named_here), *self.named_at(symbol, call)]:
            capability = self.catalog.capability(dotted)
            if capability == "http":
                capability = _by_path(call) or capability
            if capability is not None and (
                best is None or _RANK.get(capability, 9) < _RANK.get(best.capability or "", 9)
            ):
                best = Reach(capability, dotted, 1.0)
        if best is not None and best.capability == "stream" and self._asked_later(symbol, call, named_here):
            return Reach("llm_chat", best.dotted, 1.0)
        if best is not None:
            if best.capability == "llm_chat" and best.dotted.endswith(_ANY_MODEL) and _EMBEDS.search(symbol):
                # The call serves models of both kinds; the name of its function shows which one.
                return Reach("embedding", best.dotted, 0.8)
            return best
        text = callee_text(call)
        if not self.inside_of(symbol, call):
            known = self.names_outside(symbol, call)
            held = text.split(".")[-2:]
            if len(held) == 2 and any(dotted.split(".")[-2:] == held for dotted in known):
                # An attribute of a library's object that is named like a model: `self._llm.predict` of a base class.
                shape = _by_shape(text, call)
                if shape is not None and shape.capability == "llm_chat":
                    return Reach("llm_chat", next(d for d in known if d.split(".")[-2:] == held), 0.8)
            if not any(self.catalog.knows(dotted) for dotted in known):
                shape = _by_shape(text, call) if "." in text or not known else None
                return shape or Reach(None, known[0] if known else text, 1.0)
        return Reach(None, text, 1.0)

    def _asked_later(self, symbol: str, call: Expr, named_here: frozenset[str]) -> bool:
        """Return whether a response is handed a chain, whose model it asks: `StreamingResponse.from_chain(chain)`."""
        found = self.outside.get((symbol, call_line(call)), ()) if ASKED_LATER not in named_here else ()
        lasts = [dotted for dotted in found if dotted.rpartition(".")[2] == ASKED_LATER]
        return any(self.catalog.capability(dotted) == "llm_chat" for dotted in lasts)


#: Order of capabilities of a site that may reach several; the smallest counts, 9 for those not listed.
_RANK = {"llm_chat": 0, "embedding": 1, "rerank": 2, "retrieval": 3, "vector_write": 4, "framework": 12, "web": 13}


def _by_path(call: Expr) -> str | None:
    if only_reads(call) or is_other_work(constants_in(address_of(call) or call)):
        return None
    return address_capability(" ".join(text for arg in arguments_of(call) for text in constants_in(arg)))


def _by_shape(text: str, call: Expr) -> Reach | None:
    if _MODEL_ENDS.search(text) and "." in text:
        return Reach("llm_chat", text, 0.85)
    receiver, _, method = text.rpartition(".")
    if receiver and method in _MODEL_METHODS and _MODEL_NAMES.search(receiver):
        return Reach("llm_chat", text, 0.7)
    if receiver and method in _RUNNABLE and _ANY_NAMED_MODEL.search(receiver):
        return Reach("llm_chat", text, 0.7)
    if not receiver and _MODEL_NAMES.search(text) and positional_of(call) and text.islower():
        return Reach("llm_chat", text, 0.6)
    if receiver and _EMBED_ENDS.search(text):
        return Reach("embedding", text, 0.75)
    return None


#: Steps of a chain that ask no model: a search, a prompt, a parser, and what hands values on.
SEARCH_STEP = re.compile(r"(^|_)retriever(_|$)|^as_retriever$|Retriever$", re.IGNORECASE)
_PLAIN_STEP = re.compile(r"^(Runnable(Passthrough|Pick)|itemgetter|pick)$|Prompt(Template)?$|Parser$")
_HOLDS_STEPS = frozenset({"RunnableAssign", "RunnableParallel", "RunnableMap", "RunnableLambda", "assign"})


def steps_without_model(call: Expr, within: Iterable[Stmt], of_lambda: Callable[[Expr], str | None]) -> Reach | None:
    """Return what a call of a chain reaches none of whose steps is a model; None where one is, or may be.

    Args:
        call: `chain.invoke(question)`.
        within: Statements of its function: a chain is looked at that is written there with `|`.
        of_lambda: Gives `search` or `plain` for a lambda, or None where it may ask a model.
    """
    callee, known = callee_of(call), dict[str, list[Expr]]()
    if not is_member(callee) or not is_name(owner_of(callee)):
        return None
    for s in within:
        value = value_of(s) if s[0] == "assign" else None
        for target in targets_of(s) if s[0] == "assign" else ():
            if value is not None and is_name(target):
                known.setdefault(name_of(target), []).append(value)
    chains = known.get(name_of(owner_of(callee)), [])
    if not chains or not all(e[0] == "o" and operator_of(e) == "|" for e in chains):
        return None
    found = [_step(e, known, of_lambda, 4) for e in chains]
    if None in found:
        return None
    return Reach("retrieval" if "search" in found else None, callee_text(call), 0.8)


def _step(e: Expr, known: Mapping[str, list[Expr]], of_lambda: Callable[[Expr], str | None], deep: int) -> str | None:
    """Return `search` or `plain` for a step of a chain; None for what may be a model."""
    inside: list[Expr] = []
    name = last_name(callee_of(e)) if is_call(e) else last_name(e) if is_name(e) or is_member(e) else ""
    owner = last_name(owner_of(callee_of(e))) if is_call(e) and is_member(callee_of(e)) else ""
    if SEARCH_STEP.search(name):
        # Some searches are given a model that writes their queries.
        made = [n for value in (e, *known.get(name, ())) for n in names_in(value)]
        return None if any(map(_MODEL_NAMES.search, made)) else "search"
    if e[0] == "o" and operator_of(e) == "|":
        inside = list(operands_of(e))
    elif e[0] == "d":
        inside = [value for _, value in pairs_in(e)]
    elif is_name(e) and deep > 0:
        inside = known.get(name, [])
    elif is_call(e) and name in _HOLDS_STEPS:
        inside = arguments_of(e)
    elif is_call(e) and (_PLAIN_STEP.search(name) or _PLAIN_STEP.search(owner)):
        return "plain"
    elif e[0] == "L":
        return of_lambda(e)
    found = [_step(one, known, of_lambda, deep - 1) for one in inside]
    return None if not found or None in found else "search" if "search" in found else "plain"


def _last(call: Expr) -> str:
    callee = callee_of(call)
    if is_name(callee):
        return name_of(callee)
    return member_of(callee) if is_member(callee) else ""


def _owner_name(symbol: str) -> str:
    head, _, last = symbol.rpartition(".")
    return head.rpartition(".")[2] if last in ("__init__", "__new__", "__call__") else ""
