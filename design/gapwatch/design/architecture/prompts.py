"""Finds the prompts that the functions of a component send to models."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from gapwatch.design.architecture.answer_keys import keys_of_parsers, output_keys
from gapwatch.design.architecture.claimed_code import ClaimedCode
from gapwatch.design.architecture.evidence_flow import (
    OF_STATE,
    evidence_beside,
    evidence_of,
    fetched_for,
    values_of_field,
)
from gapwatch.design.architecture.model import ComponentDraft
from gapwatch.design.architecture.prompt_flow import Carried, given_whole, said_to_model
from gapwatch.design.architecture.prompt_texts import MIN_TASK, Found, PromptText, PromptTexts, target_name
from gapwatch.design.architecture.reply_flow import Output, output_of
from gapwatch.design.patterns.code_walk import arguments_of, names_in, unwrapped
from gapwatch.design.patterns.hit import MAX_CALLERS, Subject
from gapwatch.design.patterns.library_uses import CodePlace
from gapwatch.design.patterns.model_calls import CALLS
from gapwatch.design.source.ir import call_line, constant_of, is_call, is_text, line_of, targets_of, value_of

#: Most prompts of one function.
_MOST = 6


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
        sent_at: First lines of the function's calls that it flows into; empty where a framework carries it.
    """

    symbol: str
    place: CodePlace
    name: str
    text: str
    fields: tuple[str, ...]
    evidence_fields: tuple[str, ...]
    output_fields: tuple[str, ...]
    evidence_from: tuple[CodePlace, ...] = ()
    sent_at: frozenset[int] = frozenset()


def find_prompts(component: ComponentDraft, texts: PromptTexts) -> list[Prompt]:
    """Return the prompts of the functions of a component that call a model."""
    code = texts.code
    material = code.material
    out: list[Prompt] = []
    calls: dict[str, dict[int, set[int]]] = {}
    through: set[str] = set()
    for h in component.hits:
        if h.pattern == "calls_llm" and code.subject(h.symbol) is not None:
            calls.setdefault(h.symbol, {}).setdefault(h.line, set()).update(range(h.line, max(h.line, h.end) + 1))
            if h.kind not in ("direct", "wrapped:1"):
                through.add(h.symbol)

    def keys_of(symbol: str) -> tuple[str, ...]:
        subject = code.subject(symbol)
        own = tuple(output_keys(subject)) if subject is not None else ()
        return own or tuple(keys_of_parsers(symbol, component, material))

    def note(symbol: str, found: PromptText, keys: tuple[str, ...], line: int = 0) -> None:
        sent_at = frozenset({line} if line else ())
        for i, known in enumerate(out):
            if known.symbol == symbol and known.text == found.text:
                out[i] = replace(known, sent_at=known.sent_at | sent_at)
                return
        fetched = {f: _evidence(code, symbol, f) for f in found.fields}
        if line and not any(fetched.values()):
            fetched = beside(symbol, line)
        if not line and not any(fetched.values()):
            fetched = _handed_before(code, symbol)
        evidence = tuple(f for f in fetched if fetched[f])
        lines = tuple(dict.fromkeys(place for f in evidence for place in fetched[f]))
        fields = tuple(found.fields)
        out.append(Prompt(symbol, found.place, found.name, found.text, fields, evidence, keys, lines, sent_at))

    known_beside: dict[tuple[str, int], dict[str, list[CodePlace]]] = {}

    def beside(symbol: str, line: int) -> dict[str, list[CodePlace]]:
        if (symbol, line) not in known_beside:
            known_beside[symbol, line] = evidence_beside(code, symbol, calls[symbol][line])
        return known_beside[symbol, line]

    for symbol in sorted(calls):
        subject = code.subject(symbol)
        if subject is not None:
            keys = keys_of(symbol)
            for line, lines in calls[symbol].items():
                for found in _named_by(subject, line, texts):
                    note(symbol, found, keys, line)
                # What each caller chooses by a name is the caller's prompt.
                for found in _sent(subject, lines, texts) if not _chosen_by_callers(symbol, texts) else ():
                    # A short text that a wrapper of a wrapper is given is a question, and no task.
                    if symbol not in through or len(found.text) >= MIN_TASK:
                        note(symbol, found, keys, line)
    for path in component.files:
        for one in texts.carried.get(path, ()):
            held: Found = {}
            texts.note(one.value, one.holder, one.label, one.line, held)
            for found in held.values():
                if not any(p.text == found.text for p in out):
                    for sender in _senders_of(one, component, calls, code):
                        note(sender, found, keys_of(sender))
            maker = one.holder.symbol
            if maker in component.symbols and not any(h.pattern == "calls_llm" for h in material.hits_of(maker)):
                # What a function sends that asks a model by itself is followed from its call.
                for s, value in given_whole(one.holder, one.value):
                    texts.note(value, one.holder, target_name(s), line_of(s), held)
                for found in held.values():
                    if not any(p.text == found.text for p in out):
                        note(maker, found, keys_of(maker))
    out = _tasks(out)
    return _in_order(out)


def _in_order(prompts: list[Prompt]) -> list[Prompt]:
    """Return prompts by function, the one with the task first; what fills a frame sets the task."""
    named = {(p.symbol, p.name) for p in prompts if _TASK.search(p.name.lower())}
    templates = {p.symbol for p in prompts if p.fields and p.place.path.endswith(".py")}
    senders: dict[str, set[str]] = {}
    for p in prompts:
        senders.setdefault(p.text, set()).add(p.symbol)
    # Beside a long text that other functions send, too, it is a function's own text that says what is asked there.
    own = {p.symbol for p in prompts if len(senders[p.text]) == 1 and len(p.text) >= MIN_TASK and not _is_asked(p.name)}

    def place(number: int) -> tuple[object, ...]:
        p = prompts[number]
        is_frame = any((p.symbol, f) in named for f in p.fields)
        # Parts of one text stay in their order.
        parts = [q for q in prompts if p.name and (q.symbol, q.name, q.place.line) == (p.symbol, p.name, p.place.line)]
        length = max((len(q.text) for q in parts), default=len(p.text))
        last = p.place.end if len(parts) > 1 else 0
        is_setting = p.symbol in templates and _is_setting(p)
        is_form = bool(_OF_FORM.match(p.text))
        is_shared = p.symbol in own and len(senders[p.text]) > 1
        at = p.place.line if last else 0
        return p.symbol, is_setting, _is_asked(p.name), is_frame, is_form, is_shared, -length, at, last, number

    ordered = [prompts[n] for n in sorted(range(len(prompts)), key=place)]
    # What a frame is filled with is no evidence of its own.
    return [
        replace(p, evidence_fields=tuple(f for f in p.evidence_fields if (p.symbol, f) not in named)) for p in ordered
    ]


def _tasks(prompts: list[Prompt]) -> list[Prompt]:
    """Leave out parts of other prompts of a function, and what a user asks beside the task that a function sets."""
    out = []
    for prompt in prompts:
        others = [p for p in prompts if p is not prompt and p.symbol == prompt.symbol]
        # What fills a frame that is shorter is the task: `{system_message}` behind a few sentences.
        said = sum(len(p.text) for p in (prompt, *others) if p.name == prompt.name)
        is_part = bool(prompt.name) and any(prompt.name in p.fields and said <= len(p.text) for p in others)
        # A constant is the application's own text: `QUERY_PLAN_PROMPT`.
        is_asked = _is_asked(prompt.name) and not prompt.name.isupper()
        is_beside = is_asked and any(not _is_asked(p.name) and len(p.text) >= MIN_TASK for p in others)
        if not is_part and not is_beside:
            out.append(prompt)
    return out


def _is_setting(prompt: Prompt) -> bool:
    """Return whether a text is a plain value outside the code: beside a template of the code it is what fills that."""
    return not prompt.fields and not prompt.place.path.endswith(".py")


#: Beginnings of a text that says in which form the answer is given, behind the one with the task.
_OF_FORM = re.compile(
    r"\W*(<\W*)?(output |response |answer )?(format|schema)\b\W"
    r"|\W*(format|return|respond|reply|output|provide|write|give)\b[^.\n]{0,60}\b(json|xml|yaml|format|keys)\b"
    r"|\W*(instructions\W+)?call the \S+ tool to format",
    re.I,
)
#: Names of what a user asks, beside the task that the application sets.
_ASKED = re.compile(r"user|human|question|query|input|^message|^content")
_TASK = re.compile(r"system|instruct|task")


def _is_asked(name: str) -> bool:
    """Return whether a text holds what the user asks, by the name that it is given."""
    return bool(_ASKED.search(name.lower())) and not _TASK.search(name.lower())


def _evidence(code: ClaimedCode, symbol: str, field: str) -> list[CodePlace]:
    """Return the lines that fetch the value of a variable part: of the name itself, or of what it is filled with."""
    subject = code.subject(symbol)
    given = sorted(values_of_field(subject, field)) if subject is not None else []
    wanted = fetched_for(field)
    found = [p for name, key in ((field, ""), *given) for p in evidence_of(code, symbol, name, wanted, key=key)]
    for before in _before(code, symbol) if not found else ():
        found += evidence_of(code, before, field, wanted)
    return list(dict.fromkeys(found))


def _before(code: ClaimedCode, symbol: str) -> list[str]:
    """Return the functions of a pipeline whose results a function of it gets, by the names of its parameters."""
    subject = code.subject(symbol)
    callers = code.material.sites.callers
    runs = {e.src for e in callers[symbol] if e.kind == "framework"} if subject is not None else set()
    if subject is None or not runs:
        return []
    names = {p.name for p in subject.ir.params}
    nodes = [f.symbol for f in code.functions_of(subject.info.module) if f.ir.name in names]
    return [n for n in nodes if any(e.src in runs and e.kind == "framework" for e in callers[n])]


def _handed_before(code: ClaimedCode, symbol: str) -> dict[str, list[CodePlace]]:
    """Return the evidence that the functions before one of a pipeline are handed, by the names of their parameters."""
    out = {}
    for before in filter(None, map(code.subject, _before(code, symbol))):
        for p in before.ir.params:
            if OF_STATE.search(p.name.lower()):
                out[p.name] = evidence_of(code, before.symbol, p.name, fetched_for(p.name))
    return out


def _senders_of(
    one: Carried, component: ComponentDraft, calls: dict[str, dict[int, set[int]]], code: ClaimedCode
) -> list[str]:
    """Return the functions that send a prompt which a framework carries; the one that hands it over if none is known.

    A sender reads the variable of the agent, belongs to the class that holds the agent, or stands in the same file.
    """
    holder = one.holder
    if one.key and (getting := _getting(code, holder, one.key, calls)):
        return getting
    is_asking = any(h.pattern == "calls_llm" for h in code.material.hits_of(holder.symbol))
    if is_asking and holder.info.parent >= 0 and one.label and code.mentions(holder.symbol, one.label):
        # A local variable of a function that asks the model itself.
        return [holder.symbol] if holder.symbol in calls else []
    near = {f.symbol for f in code.functions_of(holder.info.module)} | set(component.symbols)
    is_local = _is_local(holder, one.label)
    if is_local:
        near = {s for s in near if s == holder.symbol or s.startswith(f"{holder.symbol}.")}
    reading = [s for s in sorted(near) if one.label and code.subject(s) is not None and code.mentions(s, one.label)]
    asking = [s for s in reading if s in calls]
    owners = {s.rpartition(".")[0] for s in reading if (o := code.subject(s)) is not None and o.info.owner >= 0}
    of_class = [s for s in sorted(calls) if s.rpartition(".")[0] in owners and not is_local]
    if asking or of_class:
        return asking or of_class
    if code.asks_through(reading):
        # The prompt is another component's.
        return []
    if mine := [s for s in reading if s in component.symbols]:
        return mine[:1]
    if holder.info.parent >= 0 and holder.symbol not in component.symbols:
        return []
    inside = [s for s in sorted(calls) if s == holder.symbol or holder.symbol.startswith(f"{s}.")]
    same = [s for s in sorted(calls) if (o := code.subject(s)) is not None and o.info.module == holder.info.module]
    return inside or ([] if one.label else same[:1]) or [holder.symbol]


def _is_local(holder: Subject, name: str) -> bool:
    """Return whether a name is a variable of a function, which neither gives it back nor keeps it in an object."""
    bound = [s for s in holder.statements if s[0] == "assign" and value_of(s) is not None]
    if not name or holder.info.parent < 0 or not any(("n", name) in targets_of(s) for s in bound):
        return False
    kept = [value_of(s) for s in bound if any(target[0] != "n" for target in targets_of(s))]
    # What an own function is handed in `return ask(prompt)` is used, and not given back.
    given = [e for e in map(unwrapped, holder.returned) if e is not None and not (is_call(e) and holder.inside(e))]
    return not any(name in names_in(e) for e in (*given, *kept) if e is not None)


def _getting(code: ClaimedCode, holder: Subject, key: str, calls: dict[str, dict[int, set[int]]]) -> list[str]:
    """Return the functions that ask a model and get what is handed over by a key, or the result of one that gets it."""
    nodes = {f.ir.name: f for f in code.functions_of(holder.info.module) if f.owner < 0}
    direct = {name for name, f in nodes.items() if any(p.name == key for p in f.ir.params)}
    found = [f for name, f in nodes.items() if name in direct and f.symbol in calls]
    found = found or [f for f in nodes.values() if f.symbol in calls and any(p.name in direct for p in f.ir.params)]
    return sorted(f.symbol for f in found)


def _named_by(subject: Subject, line: int, texts: PromptTexts) -> list[PromptText]:
    """Return the prompts that a function chooses by a name that it passes to the one which asks."""
    edges = [edge for call in subject.calls if call_line(call) == line for edge in subject.inside(call)]
    chosen = (_chosen_by_callers(edge.dst, texts).get((subject.symbol, line), ()) for edge in edges)
    return [found for one in chosen for found in one]


def _chosen_by_callers(symbol: str, texts: PromptTexts) -> dict[tuple[str, int], list[PromptText]]:
    """Return the prompts that callers of a function choose of those which it knows, by caller and line of the call."""
    known = texts.by_name.get(symbol)
    if known is not None:
        return known
    out = texts.by_name[symbol] = {}
    code = texts.code
    subject = code.subject(symbol)
    hits = [h for h in code.material.hits_of(symbol) if h.pattern == "calls_llm" and h.kind == "direct"]
    lines = {line for h in hits for line in range(h.line, max(h.line, h.end) + 1)}
    every = _sent(subject, lines, texts) if subject is not None and hits else []
    if subject is None or len(every) < 2:
        return out
    for src in sorted({edge.src for edge in code.material.sites.callers[symbol]})[:MAX_CALLERS]:
        caller = code.subject(src)
        for call in caller.calls if caller is not None else ():
            given = frozenset(str(constant_of(a)) for a in arguments_of(call) if is_text(a))
            if caller is not None and given and any(edge.dst == symbol for edge in caller.inside(call)):
                chosen = _sent(subject, lines, texts, given)
                if 0 < len(chosen) < len(every):
                    out[src, call_line(call)] = chosen
    return out


def _sent(
    subject: Subject, lines: set[int], texts: PromptTexts, given: frozenset[str] = frozenset()
) -> list[PromptText]:
    """Return the texts that flow into model calls, through names, constants, files and builders."""
    out: Found = {}
    outer = _nested(subject)
    said = said_to_model(subject, lines, _replying(texts.code, subject) - lines)
    for s, e in said:
        for holder in outer:
            texts.note(e, holder, target_name(s), line_of(s), out, given)
    names = {n for _, e in said for n in names_in(e)}
    for holder in outer[1:]:
        # Names of the function around it: `prompt = ...` and then a nested function that sends it.
        for s in holder.statements:
            if target_name(s) in names and (value := value_of(s)) is not None:
                texts.note(value, holder, target_name(s), line_of(s), out)
    # Of a module of DSPy all else that it is given fills fields of the signature.
    signatures = [found for found in out.values() if found.is_signature]
    return (signatures or list(out.values()))[:_MOST]


def _replying(code: ClaimedCode, subject: Subject) -> frozenset[int]:
    """Return the lines at which a function is given the words of a model, which are no prompt of its own."""
    out = set()
    for h in code.material.hits_of(subject.symbol):
        if h.pattern == "calls_llm" and h.kind == "direct":
            out.add(h.line)
        elif h.pattern == "calls_llm" and h.kind == "wrapped:1":
            calls = [call for call in subject.calls if call_line(call) == h.line]
            asked = {e.dst for call in calls for e in subject.inside(call) if e.kind in CALLS}
            if asked and all(output_of(code, one) is Output.REPLY for one in asked):
                out.add(h.line)
    return frozenset(out)


def _nested(subject: Subject) -> list[Subject]:
    """Return a function and the functions around it, whose names it sees."""
    out = [subject]
    while (parent := out[-1].info.parent) >= 0 and subject.program.functions[parent].parent >= 0:
        out.append(Subject(subject.program, subject.sites, subject.program.functions[parent]))
    return out
