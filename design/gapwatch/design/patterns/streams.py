"""Finds streamed answers: output that is sent in chunks while a model produces it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gapwatch.design.patterns.code_walk import (
    callee_text,
    calls_in,
    calls_of,
    names_in,
    own_expressions,
    target_names,
    text_of,
    unwrapped,
    walk,
)
from gapwatch.design.patterns.hit import PatternHit, Subject
from gapwatch.design.patterns.model_calls import model_depths
from gapwatch.design.patterns.outside_calls import assigned_to
from gapwatch.design.source.ir import (
    Body,
    Expr,
    body_of,
    call_line,
    end_of,
    iterable_of,
    line_of,
    operand_of,
    positional_of,
    target_of,
    targets_of,
    value_of,
)
from gapwatch.design.source.program import statements

_FILE_TYPES = re.compile(r"csv|zip|octet|pdf|excel|spreadsheet|image|audio|video|tar|parquet|attachment", re.I)
_SOCKET = re.compile(r"(^|[._])(web_?socket|ws|socket|connection)$", re.I)


def find_streams(subject: Subject) -> Iterator[PatternHit]:
    """Yield streamed answers: streaming responses, socket messages in a loop, generators over model output."""
    for call in subject.calls:
        names = subject.sites.named_at(subject.symbol, call)
        is_stream = any(subject.sites.catalog.capability(d) == "stream" for d in names)
        # A response that runs a chain sends out of the chain's callbacks: what goes through it is no stream.
        if is_stream and subject.reach(call).capability != "llm_chat" and not _sends_file(subject, call):
            strength = 0.9 if _comes_from_model(subject, call) else 0.6 if _may_speak(subject, call) else 0.0
            if strength:
                # Other streams send files or the progress of a job.
                yield subject.hit(
                    "streams_response", call_line(call), call_line(call), "response", callee_text(call), strength
                )
    for s in subject.statements:
        if s[0] != "for":
            continue
        for call in calls_in(body_of(s)):
            text = callee_text(call)
            receiver, _, method = text.rpartition(".")
            sends = (method in _SENDS and _is_socket(subject, call, receiver)) or _sends_inside(subject, call)
            if sends and _is_model_output(subject, iterable_of(s)):
                yield subject.hit(
                    "streams_response",
                    line_of(s),
                    end_of(s),
                    "websocket",
                    f"{text} in a loop over {text_of(iterable_of(s))}",
                    0.85,
                )
                break
        if subject.ir.is_generator and _yields_from(s):
            strength = _is_model_output(subject, iterable_of(s))
            if strength:
                evidence = f"yields the pieces of {text_of(iterable_of(s))}"
                yield subject.hit("streams_response", line_of(s), end_of(s), "generator", evidence, strength)


_SPEAKS = re.compile(
    r"chat|answer|complet(e|ion)|llm|token|assistant|agent|conversation|reply|delta|(^|_)(ask|respond|generate_stream|query|message)",
    re.I,
)
#: Most calls between streamed content and the model, and most functions that are searched.
_STREAM_DEPTH, _STREAM_LIMIT = 6, 300


def _may_speak(subject: Subject, call: Expr) -> bool:
    """Return whether the streamed content is named like an answer, or no function of the repository makes it."""
    content = text_of(positional_of(call)[0]) if positional_of(call) else ""
    made_here = any(
        edge.kind != "construct" for edge in subject.sites.inside.get((subject.symbol, call_line(call)), ())
    )
    return not made_here or bool(_SPEAKS.search(f"{subject.ir.name} {content}"))


def _comes_from_model(subject: Subject, call: Expr) -> bool:
    """Return whether the streamed generators, or the function that streams them, lead to a model."""
    depths = model_depths(subject)
    given = {edge.dst for edge in subject.sites.inside.get((subject.symbol, call_line(call)), ())}
    inner = {e.dst for e in subject.sites.callees[subject.symbol] if e.dst.startswith(f"{subject.symbol}.")}
    level, seen = given | inner | {subject.symbol}, set[str]()
    for _ in range(_STREAM_DEPTH):
        if any(symbol in depths for symbol in level):
            return True
        seen |= level
        if len(seen) > _STREAM_LIMIT:
            return False
        level = {e.dst for symbol in sorted(level) for e in subject.sites.callees[symbol]} - seen
    return False


def _sends_file(subject: Subject, call: Expr) -> bool:
    text = text_of(call)
    if _FILE_TYPES.search(text) and "event-stream" not in text:
        return True
    return bool(positional_of(call)) and bool(
        re.search(
            r"BytesIO|StringIO|open\(|buffer|file|iter_content|iter_bytes|aiter_bytes|archive",
            text_of(positional_of(call)[0]),
            re.I,
        )
    )


_SENDS = frozenset({"send", "send_text", "send_json", "send_str", "send_bytes", "stream_token"})


def _sends_inside(subject: Subject, call: Expr) -> bool:
    """Return whether a call runs a function of the repository that writes to a socket."""
    for edge in subject.sites.inside_of(subject.symbol, call):
        other = subject.other(edge.dst)
        for inner in other.calls if other is not None else ():
            receiver, _, method = callee_text(inner).rpartition(".")
            if other is not None and method in _SENDS and _is_socket(other, inner, receiver):
                return True
    return False


def _is_socket(subject: Subject, call: Expr, receiver: str) -> bool:
    names = subject.sites.names_outside(subject.symbol, call)
    return any("websocket" in d.lower() for d in names) or bool(_SOCKET.search(receiver))


def _yields_from(s: tuple[object, ...]) -> bool:
    names = set(target_names(target_of(s)))
    body = body_of(s)
    for inner in statements(body):
        for e in own_expressions(inner):
            for part in walk(e):
                if part[0] == "y" and operand_of(part) is not None:
                    read = {n.partition(".")[0] for n in names_in(operand_of(part))}
                    if read & (names | _derived(body, names)):
                        return True
    return False


def _derived(body: Body, names: set[str]) -> set[str]:
    """Return the names that a loop's body derives from the loop variable."""
    out: set[str] = set()
    for inner in statements(body):
        if inner[0] == "assign" and (assigned := value_of(inner)) is not None:
            read = {n.partition(".")[0] for n in names_in(assigned)}
            if read & (names | out):
                out |= {n for t in targets_of(inner) for n in target_names(t)}
    return out


def _is_model_output(subject: Subject, iterable: Expr) -> float:
    """Return the confidence in [0, 1] that an iterable is a model's stream; 0.0 for no."""
    e = unwrapped(iterable) or iterable
    candidates = [e]
    for name in sorted(names_in(e)):
        candidates += list(assigned_to(subject.ir.body, name.partition(".")[0]))
    for candidate in candidates:
        for call in calls_of(candidate):
            capability = subject.reach(call).capability
            if capability == "llm_chat":
                return 0.9
            for edge in subject.sites.inside_of(subject.symbol, call):
                if edge.dst in model_depths(subject) and _streams(subject, edge.dst):
                    return 0.8
    return 0.0


def _streams(subject: Subject, symbol: str) -> bool:
    other = subject.other(symbol)
    return other is not None and (other.ir.is_generator or "stream" in other.ir.name)
