"""Finds the prompts that functions send to models, and the keys that the code reads from the answers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from string import Formatter

from gapwatch.design.architecture.claimed_code import ClaimedCode
from gapwatch.design.architecture.constants import Constants
from gapwatch.design.architecture.material import Material
from gapwatch.design.architecture.model import ComponentDraft
from gapwatch.design.architecture.prompt_flow import carried, evidence_of, said_to_model
from gapwatch.design.patterns.code_walk import (
    arguments_of,
    children,
    keyword,
    names_in,
    own_expressions,
    target_names,
    text_of,
    walk,
)
from gapwatch.design.patterns.hit import PatternHit, Subject
from gapwatch.design.patterns.library_uses import CodePlace
from gapwatch.design.source.ir import (
    UNKNOWN,
    Class,
    Expr,
    Stmt,
    annotation_of,
    call_line,
    callee_of,
    constant_of,
    docstring,
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
    text_parts,
    value_of,
)
from gapwatch.design.source.program import last_name

#: Shortest prompt, in characters; shorter texts are labels and keys.
_MIN_PROMPT = 30


@dataclass(frozen=True)
class _Text:
    name: str
    text: str
    fields: list[str]
    place: CodePlace


@dataclass(frozen=True)
class Prompt:
    """A text that a function sends to a model.

    Attributes:
        symbol: Function that sends it.
        place: Lines of the text.
        name: Variable or constant that holds it; may be empty.
        text: Its constant parts, with `{name}` for the variable ones.
        fields: Names of the variable parts.
        evidence_fields: Fields with the material that the answer must rest on.
        output_fields: Keys that the code reads from the answer.
        evidence_from: Lines that fetch the material: a search, a tool or a data source.
    """

    symbol: str
    place: CodePlace
    name: str
    text: str
    fields: tuple[str, ...]
    evidence_fields: tuple[str, ...]
    output_fields: tuple[str, ...]
    evidence_from: tuple[CodePlace, ...] = ()


def find_prompts(component: ComponentDraft, material: Material) -> list[Prompt]:
    """Return the prompts of the functions of a component that call a model."""
    numbers = material.sites.numbers(material.program)
    constants = Constants(material.program)
    code = ClaimedCode(material)
    out: list[Prompt] = []
    calls: dict[str, set[int]] = {}
    for h in component.hits:
        if h.pattern == "calls_llm" and h.symbol in numbers:
            calls.setdefault(h.symbol, set()).update(range(h.line, max(h.line, h.end) + 1))
    shared_keys = tuple(_keys_of_parsers(component, material))

    def note(symbol: str, found: _Text, keys: tuple[str, ...]) -> None:
        if any(p.symbol == symbol and p.text == found.text for p in out):
            return
        fetched = {f: evidence_of(code, symbol, f) for f in found.fields}
        evidence = tuple(f for f in fetched if fetched[f])
        lines = tuple(dict.fromkeys(place for f in evidence for place in fetched[f]))
        out.append(Prompt(symbol, found.place, found.name, found.text, tuple(found.fields), evidence, keys, lines))

    for symbol in sorted(calls):
        subject = Subject(material.program, material.sites, material.program.functions[numbers[symbol]])
        keys = tuple(output_keys(subject)) or shared_keys
        for found in _sent(subject, calls[symbol], constants, code):
            note(symbol, found, keys)
    for holder, e, line in carried(component, material) if calls else ():
        texts: dict[str, _Text] = {}
        _note_expression(e, holder, "", line, constants, texts)
        for found in texts.values():
            note(_sender_of(holder, found, calls, code), found, shared_keys)
    return out


def _sender_of(holder: Subject, found: _Text, calls: dict[str, set[int]], code: ClaimedCode) -> str:
    """Return the function that sends a prompt which a framework carries: in it, around it, in its file, or any."""
    near = [
        symbol
        for symbol in sorted(calls)
        if symbol == holder.symbol or holder.symbol.startswith(f"{symbol}.") or code.mentions(symbol, found.name)
    ]
    same = [s for s in sorted(calls) if (o := code.subject(s)) is not None and o.info.module == holder.info.module]
    return (near or same or sorted(calls))[0]


def _sent(subject: Subject, lines: set[int], constants: Constants, code: ClaimedCode) -> list[_Text]:
    """Return the prompt-like texts that flow into model calls, through names, constants and builders."""
    out: dict[str, _Text] = {}
    outer = _nested(subject)
    for s, e in said_to_model(subject, lines):
        for holder in outer:
            _note_expression(e, holder, target_name(s), line_of(s), constants, out)
        for call in walk(e):
            for edge in subject.inside(call) if is_call(call) else ():
                # A function that builds the prompt: `self._messages(question)`.
                builder = code.subject(edge.dst)
                if builder is not None and edge.dst not in code.reaching(frozenset({"llm_chat"})):
                    for found in _texts(builder, constants, gives_prompts=True):
                        out.setdefault(found.text, found)
    for holder in outer[1:]:
        # Names of the function around it: `prompt = ...` and then a nested function that sends it.
        names = {n for _, e in said_to_model(subject, lines) for n in names_in(e)}
        for s in holder.statements:
            if target_name(s) in names and (value := value_of(s)) is not None:
                _note_expression(value, holder, target_name(s), line_of(s), constants, out)
    return list(out.values())[:6]


def _note_expression(
    e: Expr, subject: Subject, name: str, line: int, constants: Constants, out: dict[str, _Text]
) -> None:
    """Note the prompt-like texts of an expression, and of the constants that it names."""
    place = CodePlace(subject.program.path(subject.info), line)
    for inner in _said_to_models(e):
        _note_text(inner, name, place, out)
        if inner[0] in "nas":
            found = constants.find(inner, subject.info.module, subject.info.owner)
            for part in walk(found[0]) if found is not None and found[0][0] != "d" else ():
                _note_text(part, _last_part(inner), found[1], out)  # type: ignore[index]


def _keys_of_parsers(component: ComponentDraft, material: Material) -> list[str]:
    """Return the keys that other functions of the component read from a model's answer."""
    numbers = material.sites.numbers(material.program)
    out: dict[str, None] = {}
    for hit in component.hits:
        if hit.pattern == "parses_json" and hit.kind in ("llm", "text") and hit.symbol in numbers:
            info = material.program.functions[numbers[hit.symbol]]
            out.update(dict.fromkeys(output_keys(Subject(material.program, material.sites, info))))
    return list(out)


def _nested(subject: Subject) -> list[Subject]:
    """Return a function and the functions around it, whose names it sees."""
    out = [subject]
    while (parent := out[-1].info.parent) >= 0 and subject.program.functions[parent].parent >= 0:
        out.append(Subject(subject.program, subject.sites, subject.program.functions[parent]))
    return out


def _texts(subject: Subject, constants: Constants, gives_prompts: bool) -> list[_Text]:
    """Return the prompt-like texts of a function, at most six.

    Args:
        subject: The function.
        constants: Resolves its names.
        gives_prompts: Whether its return value is a prompt. A constant that a function returns without a call is
            otherwise a message to the user and no prompt.
    """
    out: dict[str, _Text] = {}
    path = subject.program.path(subject.info)
    used: set[str] = set()
    skip = docstring(subject.ir.body)
    for s in subject.statements:
        if s[0] == "return" and not gives_prompts and not any(is_call(e) for e in walk(value_of(s) or UNKNOWN)):
            continue
        for e in _expressions(s):
            for inner in _said_to_models(e):
                if inner != ("k", skip):
                    _note_text(inner, target_name(s), CodePlace(path, line_of(s)), out)
                name = text_of(inner) if inner[0] in "nas" else ""
                if name and name not in used:
                    used.add(name)
                    found = constants.find(inner, subject.info.module, subject.info.owner)
                    # Of a dictionary of prompts only the entries count whose keys are read.
                    for part in walk(found[0]) if found is not None and found[0][0] != "d" else ():
                        _note_text(part, _last_part(inner), found[1], out)  # type: ignore[index]
    return list(out.values())[:6]


def _said_to_models(e: Expr) -> Iterator[Expr]:
    """Yield an expression and all inside it, without the arguments of logging and printing."""
    pending = [e]
    while pending:
        current = pending.pop()
        if is_call(current) and last_name(current) in _TELLS_PEOPLE:
            continue
        yield current
        pending.extend(reversed(list(children(current))))


def _note_text(e: Expr, name: str, place: CodePlace, out: dict[str, _Text]) -> None:
    found = _text_and_fields(e)
    if found is not None and _is_prompt(found[0]):
        out.setdefault(found[0], _Text(name, found[0], found[1] + _format_fields(found[0]), place))


def _last_part(e: Expr) -> str:
    return str(index_of(e)[1]) if e[0] == "s" else last_name(e)


def _expressions(s: Stmt) -> list[Expr]:
    return [] if s[0] in ("raise", "assert") else own_expressions(s)


def target_name(s: Stmt) -> str:
    """Return the first name that a statement assigns to; empty for other statements."""
    return next(iter(target_names(targets_of(s)[0])), "") if s[0] == "assign" else ""


def _text_and_fields(e: Expr) -> tuple[str, list[str]] | None:
    if is_text(e):
        return constant_of(e), []
    if e[0] == "f":
        parts, fields = [], []
        for part in text_parts(e):
            if isinstance(part, str):
                parts.append(part)
            else:
                name = text_of(part)
                fields.append(name.rpartition(".")[2] if "(" not in name else sorted(names_in(part) or {"value"})[0])
                parts.append("{" + fields[-1] + "}")
        return "".join(parts), fields
    return None


#: Functions and methods that write logs, messages and error answers.
_TELLS_PEOPLE = frozenset(
    {"debug", "info", "warning", "warn", "error", "exception", "critical", "log", "print", "echo", "HTTPException"}
)
#: Beginning of log and error messages.
_MESSAGE = re.compile(
    r"\W*(an? )?(\w+ )?(error|exception|warning|failed|failure|unable to|could ?n.t|could not|cannot|invalid|skipping"
    r"|unsupported|unknown|unexpected|deprecated|no such|retrying|timed? ?out)\b",
    re.I,
)


def _is_prompt(text: str) -> bool:
    return (
        len(text) >= _MIN_PROMPT
        and len(text.split()) >= 5
        and not text.lstrip().lower().startswith(("http", "select ", "insert ", "create table", "<html"))
        and not _MESSAGE.match(text)
    )


def _format_fields(text: str) -> list[str]:
    try:
        return sorted({f for _, f, _, _ in Formatter().parse(text) if f and re.fullmatch(r"[A-Za-z_]\w*", f)})
    except ValueError:
        return []


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
    parsed: set[str] = set()
    keys: dict[str, None] = {}
    optional: set[str] = set()
    for s in subject.statements:
        if s[0] == "assign" and (assigned := value_of(s)) is not None:
            for call in walk(assigned):
                if is_call(call) and _is_parse(subject, call):
                    parsed.update(n for t in targets_of(s) for n in target_names(t))
    for s in subject.statements:
        for e in _expressions(s):
            for inner in walk(e):
                if inner[0] == "q" and any("in" in operator for operator in operators_of(inner)):
                    # A key that the code tests for is optional.
                    asked = operands_of(inner)[0]
                    optional.update([constant_of(asked)] if asked[0] == "k" else [])
                if inner[0] == "s" and is_text(index_of(inner)):
                    owner = owner_of(inner)
                    direct = is_call(owner) and _is_parse(subject, owner)
                    if direct or (owner[0] == "n" and name_of(owner) in parsed):
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
