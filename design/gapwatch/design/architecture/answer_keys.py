"""Finds the keys that code reads from the answers of models, and the timeouts of its calls."""

from __future__ import annotations

from gapwatch.design.architecture.material import Material
from gapwatch.design.architecture.model import ComponentDraft
from gapwatch.design.patterns.code_walk import arguments_of, keyword, names_in, own_expressions, target_names, walk
from gapwatch.design.patterns.hit import PatternHit, Subject
from gapwatch.design.source.ir import (
    UNKNOWN,
    Class,
    Expr,
    annotation_of,
    call_line,
    callee_of,
    constant_of,
    index_of,
    is_call,
    is_member,
    is_text,
    line_of,
    name_of,
    operands_of,
    operators_of,
    owner_of,
    positional_of,
    targets_of,
    value_of,
)
from gapwatch.design.source.program import last_name


def keys_of_parsers(symbol: str, component: ComponentDraft, material: Material) -> list[str]:
    """Return the keys that other functions of the component read from the answer of a function that asks a model.

    These call it or are called by it, or one function calls both and the other asks no model by itself.
    """
    callers, callees = material.sites.callers, material.sites.callees
    above = {e.src for e in callers.get(symbol, ())}
    near = {symbol, *above, *(e.dst for e in callees.get(symbol, ()))}
    asking = {h.symbol for h in component.hits if h.pattern == "calls_llm"}
    near |= {e.dst for one in above for e in callees.get(one, ())} - asking
    numbers = material.sites.numbers(material.program)
    out: dict[str, None] = {}
    for hit in component.hits:
        if (
            hit.pattern == "parses_json"
            and hit.kind in ("llm", "text")
            and hit.symbol in numbers
            and hit.symbol in near
        ):
            info = material.program.functions[numbers[hit.symbol]]
            out.update(dict.fromkeys(output_keys(Subject(material.program, material.sites, info))))
    return list(out)


def keys_read(symbol: str, hits: list[PatternHit], material: Material) -> list[str]:
    """Return the keys that a function always reads from the text that it parses; empty if it parses several."""
    number = material.sites.numbers(material.program).get(symbol)
    if number is None or sum(h.symbol == symbol for h in hits) > 1:
        return []
    return sorted(output_keys(Subject(material.program, material.sites, material.program.functions[number])))


def timeout_of(hits: list[PatternHit], material: Material) -> tuple[float, str] | None:
    """Return (seconds, `path:line`) of the first constant timeout at a call of the hits, or None."""
    numbers = material.sites.numbers(material.program)
    for hit in hits:
        number = numbers.get(hit.symbol)
        if number is None:
            continue
        for call in Subject(material.program, material.sites, material.program.functions[number]).calls:
            value = keyword(call, "timeout")
            if (
                value is not None
                and value[0] == "k"
                and type(constant_of(value)) in (int, float)
                and constant_of(value) > 0
            ):
                return float(constant_of(value)), f"{hit.path}:{call_line(call)}"
    return None


def output_keys(subject: Subject) -> list[str]:
    """Return the keys that a function always reads from parsed text, or the fields of the schema that it requests."""
    parsed: dict[str, int] = {}  # the line of its first parse by name
    keys: dict[str, None] = {}
    optional: set[str] = set()
    for s in subject.statements:
        if s[0] == "assign" and (assigned := value_of(s)) is not None:
            for call in walk(assigned):
                if is_call(call) and _is_parse(subject, call):
                    for name in (n for t in targets_of(s) for n in target_names(t)):
                        parsed[name] = min(line_of(s), parsed.get(name, line_of(s)))
    for s in subject.statements:
        # Before it is bound to the parsed text, a name may be the client's message.
        bound = {name for name, line in parsed.items() if line < line_of(s)}
        for e in own_expressions(s) if s[0] not in ("raise", "assert") else ():
            for inner in walk(e):
                if inner[0] == "q" and any("in" in operator for operator in operators_of(inner)):
                    # A key that the code tests for is optional.
                    asked = operands_of(inner)[0]
                    optional.update([constant_of(asked)] if asked[0] == "k" else [])
                if any(inner is target for target in (targets_of(s) if s[0] == "assign" else ())):
                    # A key that the code writes itself is none that the text must hold, unless it writes it anew.
                    is_anew = inner in walk(value_of(s) or UNKNOWN)
                    optional.update([constant_of(index_of(inner))] if _is_key_of(inner, bound) and not is_anew else [])
                elif inner[0] == "s" and is_text(index_of(inner)):
                    owner = owner_of(inner)
                    direct = is_call(owner) and _is_parse(subject, owner)
                    if direct or _is_key_of(inner, bound):
                        keys[constant_of(index_of(inner))] = None
    for call in subject.calls:
        schema = keyword(call, "response_format") or keyword(call, "response_model") or keyword(call, "output_type")
        candidates = [schema] if schema is not None else []
        if last_name(call) in ("with_structured_output", "model_validate_json", "validate_json", "parse_raw"):
            candidates += [
                *arguments_of(call)[:1],
                *([owner_of(callee_of(call))] if is_member(callee_of(call)) else []),
            ]
        for candidate in candidates:
            name = last_name(candidate)
            for cls in subject.program.classes:
                if cls.ir.name == name and cls.field_names:
                    keys.update(dict.fromkeys(_required_fields(cls.ir)))
    return [key for key in keys if key not in optional][:12]


def _is_key_of(e: Expr, names: set[str]) -> bool:
    """Return whether an expression is a key of one of some names: `answer["action"]`."""
    return e[0] == "s" and is_text(index_of(e)) and owner_of(e)[0] == "n" and name_of(owner_of(e)) in names


def _required_fields(cls: Class) -> list[str]:
    """Return the fields of a model class that have no default and no alias and may not be null."""
    out = []
    for s in cls.body:
        if s[0] != "assign" or (annotation := annotation_of(s)) is None or targets_of(s)[0][0] != "n":
            continue
        value = value_of(s)
        is_given = value is None
        if value is not None and is_call(value) and last_name(value) == "Field":
            first = positional_of(value)[:1]
            is_given = not (first and first[0] != UNKNOWN) and not any(
                keyword(value, name) for name in ("default", "default_factory", "alias", "validation_alias")
            )
        may_be_null = not {"Optional", "ClassVar"}.isdisjoint(names_in(annotation)) or ("k", None) in walk(annotation)
        if is_given and not may_be_null:
            out.append(name_of(targets_of(s)[0]))
    return out


def _is_parse(subject: Subject, call: Expr) -> bool:
    names = subject.sites.named_at(subject.symbol, call)
    return any(subject.sites.catalog.capability(d) == "json" for d in names)
