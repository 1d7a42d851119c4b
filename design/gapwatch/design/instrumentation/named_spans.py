"""Finds the spans that a program names in its code: decorators, context managers, names handed to frameworks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gapwatch.design.instrumentation.imported_names import ImportedNames
from gapwatch.design.instrumentation.span_ways import SpanWay, SpanWays
from gapwatch.design.patterns.code_walk import callee_text, keyword, text_of
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.patterns.library_uses import CodePlace
from gapwatch.design.source.ir import (
    Expr,
    call_line,
    callee_of,
    constant_of,
    index_of,
    is_call,
    is_member,
    is_name,
    is_subscript,
    is_text,
    items_of,
    keywords_of,
    line_of,
    line_or,
    member_of,
    name_of,
    owner_of,
    pairs_in,
    positional_of,
    targets_of,
    text_parts,
    value_of,
)
from gapwatch.design.source.program import last_name

#: Longest literal that is a name, in characters; a longer one is a text.
_MOST_CHARACTERS = 120
#: Members of a span of Gapwatch's publisher that a program assigns, and what a call of `set_usage` gives.
_NATIVE_FIELDS = {"input": "input", "output": "output", "model": "model", "tier": "tier"}
_USAGE = ("usage.input_tokens", "usage.output_tokens", "usage.cost_usd")
#: Arguments of its decorator that are no notes.
_NO_NOTES = ("name", "component", "kind", "is_there")
#: What the module `span_recording` reads from a model's reply.
_REPLY = ("model", "usage.input_tokens", "usage.output_tokens", "attributes.finish_reason")
#: Methods that give the current span of Langfuse its content.
_UPDATES = ("update_current_span", "update_current_generation", "update_current_observation")
#: What a decorator of Gapwatch's publisher records by itself.
_NATIVE_DECORATOR = ("input", "output", "model", "usage.input_tokens", "usage.output_tokens")


@dataclass(frozen=True)
class NamedSpan:
    """A span that the program emits, by a literal in its code.

    Attributes:
        library: Who emits it.
        literal: The name in the code.
        names: Names that the span may have, the one of current versions first.
        kind: Kind of the step, if the code says it; else empty.
        symbol: Function that runs in it; a module for an object of a module.
        place: Line of the literal.
        fields: Fields of a step that it has.
        is_current: Whether it is OpenTelemetry's current span when the function begins.
        is_whole: Whether the whole function runs in it.
        is_native: Whether the literal is the component of a step of Gapwatch's own publisher.
        needs: Library that an instrumentor must cover, else there is no such span; empty for none.
    """

    library: str
    literal: str
    names: tuple[str, ...]
    kind: str
    symbol: str
    place: CodePlace
    fields: tuple[str, ...]
    is_current: bool = False
    is_whole: bool = True
    is_native: bool = False
    needs: str = ""


def named_spans(subject: Subject, names: ImportedNames, ways: SpanWays) -> list[NamedSpan]:
    """Return the spans that a function, or the body of a module, names.

    Args:
        subject: The function.
        names: Imported names of all files.
        ways: The table of ways.
    """
    found = [*_decorated(subject, names, ways), *_called(subject, names, ways)]
    found = [_updated(span, subject) for span in found]
    extra = _attributes_set(subject, ways)
    if not extra:
        return found
    return [
        replace(span, fields=tuple(dict.fromkeys((*span.fields, *extra)))) if span.symbol == subject.symbol else span
        for span in found
    ]


def _updated(span: NamedSpan, subject: Subject) -> NamedSpan:
    """Return a span with the fields that its own `update` gives: `with ... as span: span.update(output=docs)`."""
    targets = {
        text_of(target)
        for s in subject.statements
        if s[0] == "with" and line_of(s) == span.place.line
        for _, target in items_of(s)
        if target is not None
    }
    given = [
        name
        for call in subject.calls
        if callee_text(call).removesuffix(".update") in targets and callee_text(call).endswith(".update")
        for name, _ in keywords_of(call)
        if name in ("input", "output", "model")
    ]
    if not given:
        return span
    counted = ("attributes.retrieved_count",) if span.kind == "retrieval" and "output" in given else ()
    return replace(span, fields=tuple(dict.fromkeys((*span.fields, *given, *counted))))


def _decorated(subject: Subject, names: ImportedNames, ways: SpanWays) -> Iterator[NamedSpan]:
    for decorator in subject.ir.decorators:
        callee = callee_of(decorator) if is_call(decorator) else decorator
        way = _way(subject, callee, names, ways)
        if way is None:
            continue
        literal = _literal(way, decorator) or _default(way, subject, None)
        if literal:
            span = _span(way, subject, decorator, callee, literal, subject.symbol, ways)
            fields = (*span.fields, *_NATIVE_DECORATOR) if way.is_native else span.fields
            if way.library == "span_recording" and is_call(decorator):
                given = [name for name, _ in keywords_of(decorator) if name and name not in _NO_NOTES]
                fields = (*fields, *(field for name in given for field in _noted(name)))
            place = CodePlace(span.place.path, line_or(decorator, subject.ir.line))
            yield replace(span, fields=fields, place=place, is_current=way.is_current)


def _called(subject: Subject, names: ImportedNames, ways: SpanWays) -> Iterator[NamedSpan]:
    variables: dict[int, str] = {}
    for s in subject.statements:
        if s[0] == "assign" and (value := value_of(s)) is not None and is_call(value):
            variables[id(value)] = text_of(targets_of(s)[0])
    for call in subject.calls:
        way = _way(subject, callee_of(call), names, ways)
        if way is None:
            continue
        literal = _literal(way, call) or _default(way, subject, call, variables.get(id(call), ""))
        if not literal:
            continue
        symbol = subject.symbol
        if way.function is not None:
            given = positional_of(call)
            is_first = not _literal(way, call)
            position = 0 if is_first else way.function
            handed = given[position] if len(given) > position else keyword(call, "action") or keyword(call, "node")
            if handed is None:
                continue
            symbol = _handed(subject, call, handed) or symbol
        made = _span(way, subject, call, callee_of(call), literal, symbol, ways)
        yield replace(made, is_current=False, is_whole=way.function is not None)


def _way(subject: Subject, callee: Expr, names: ImportedNames, ways: SpanWays) -> SpanWay | None:
    dotted = names.dotted(subject.info.module, callee)
    candidates = ways.by_last.get(dotted.rpartition(".")[2])
    if not candidates:
        return None
    imported = names.packages(subject.info.module)
    return next((way for way in candidates if way.matches(dotted, imported)), None)


def _literal(way: SpanWay, call: Expr) -> str:
    """Return the name that a call gives, or an empty text."""
    if not is_call(call):
        return ""
    for key in way.name:
        value: Expr | None
        if isinstance(key, int):
            given = positional_of(call)
            value = given[key] if len(given) > key else None
        else:
            value = keyword(call, key) or _in_dictionary(call, key)
        if value is not None and (text := _text(value)):
            return text
    return ""


def _text(value: Expr) -> str:
    if is_text(value):
        text = str(constant_of(value))
        return text if 0 < len(text) <= _MOST_CHARACTERS and "\n" not in text else ""
    if value[0] == "f" and any(isinstance(part, str) and part.strip() for part in text_parts(value)):
        # An f-string names a family of spans: what is inserted may be anything.
        text = "".join(part if isinstance(part, str) else "*" for part in text_parts(value))
        return text if len(text) <= _MOST_CHARACTERS else ""
    return ""


def _in_dictionary(call: Expr, key: str) -> Expr | None:
    for value in positional_of(call):
        if value[0] == "d":
            for name, found in pairs_in(value):
                if name == ("k", key):
                    return found
    return None


def _default(way: SpanWay, subject: Subject, call: Expr | None, variable: str = "") -> str:
    qual = subject.ir.qual
    if way.default == "first" and call is not None and positional_of(call):
        return last_name(positional_of(call)[0])
    if way.default == "variable":
        return variable.rpartition(".")[2]
    if subject.ir.kind != "function" or call is not None:
        return ""
    module = subject.program.index.modules[subject.info.module].name
    texts = {"function": subject.ir.name, "qualname": qual, "module": f"Calling {module}.{qual}"}
    return texts.get(way.default, "")


def _span(
    way: SpanWay, subject: Subject, call: Expr, callee: Expr, literal: str, symbol: str, ways: SpanWays
) -> NamedSpan:
    kind = ways.kinds.get(last_name(callee), "") if way.kind == "=" else way.kind
    if way.kind_from and is_call(call) and (given := keyword(call, way.kind_from)) is not None:
        word = str(constant_of(given)) if is_text(given) else last_name(given)
        kind = ways.kinds.get(word, word if way.is_native else kind)
    line = call_line(call) if is_call(call) else subject.ir.line
    # The mapping counts the documents of a retrieval.
    words = {word for word, _ in keywords_of(call)} if is_call(call) else set()
    own = [name for name in ("input", "output", "model") if name in words]
    fields = tuple(f for f in dict.fromkeys((*way.fields, *own)) if not _is_switched_off(call, f))
    counted = ("attributes.retrieved_count",) if kind == "retrieval" and "output" in fields else ()
    return NamedSpan(
        library=way.library,
        literal=literal,
        names=tuple(name.replace("{name}", literal) for name in way.names),
        kind=kind,
        symbol=symbol,
        place=CodePlace(subject.program.path(subject.info), line),
        fields=(*fields, *counted),
        is_current=way.is_current,
        is_native=way.is_native,
        needs=way.needs,
    )


def _is_switched_off(call: Expr, name: str) -> bool:
    """Return whether a call says that a field is not captured: `capture_input=False`."""
    return is_call(call) and keyword(call, f"capture_{name}") == ("k", False)


def _handed(subject: Subject, call: Expr, handed: Expr) -> str | None:
    """Return the function of the repository that a call is handed."""
    edges = subject.sites.inside.get((subject.symbol, call_line(call)), ())
    last = last_name(handed)
    for edge in edges:
        if last and edge.dst.rpartition(".")[2] == last:
            return edge.dst
    for edge in edges:
        if edge.kind in ("callback", "framework"):
            return edge.dst
    numbers = subject.sites.numbers(subject.program)
    module = subject.program.index.modules[subject.info.module].name
    if is_name(handed) and f"{module}.{name_of(handed)}" in numbers:
        return f"{module}.{name_of(handed)}"
    return None


def _noted(name: str) -> tuple[str, ...]:
    """Return the fields that a note of the module `span_recording` gives."""
    if name == "attempts":
        return "attributes.retry_count", "attributes.retry_outcome"
    return (name,) if name == "tier" else (f"attributes.{name}",)


def _attributes_set(subject: Subject, ways: SpanWays) -> list[str]:
    """Return the fields that a function gives its span by hand."""
    found: dict[str, None] = {}
    for call in subject.calls:
        last, given = last_name(call), positional_of(call)
        if last == "set_attribute" and given and is_text(given[0]):
            found[ways.field(str(constant_of(given[0])))] = None
        elif last == "set_attributes" and given and given[0][0] == "d":
            for name, _ in pairs_in(given[0]):
                if name is not None and is_text(name):
                    found[ways.field(str(constant_of(name)))] = None
        elif callee_text(call).startswith("span_recording.") and last == "reply":
            found.update(dict.fromkeys(_REPLY))
        elif callee_text(call).startswith("span_recording.") and given and is_text(given[0]):
            found.update(dict.fromkeys(_noted(str(constant_of(given[0])))))
        elif last == "set_usage":
            found.update(dict.fromkeys(_USAGE))
    opened = {
        text_of(target)
        for s in subject.statements
        if s[0] == "with"
        for e, target in items_of(s)
        if target is not None and is_call(e) and last_name(e) == "span"
    }
    for call in subject.calls:
        if last_name(call) in _UPDATES:
            found.update(dict.fromkeys(name for name, _ in keywords_of(call) if name in ("input", "output", "model")))
    for s in subject.statements if opened else ():
        for target in targets_of(s) if s[0] == "assign" else ():
            if is_member(target) and text_of(owner_of(target)) in opened and member_of(target) in _NATIVE_FIELDS:
                found[_NATIVE_FIELDS[member_of(target)]] = None
            elif (
                is_subscript(target)
                and is_text(index_of(target))
                and text_of(owner_of(target)) in {f"{name}.attributes" for name in opened}
            ):
                found[f"attributes.{constant_of(index_of(target))}"] = None
    return list(found)
