"""Rules of the critic about one line of evidence: why it does not support the claim of a metric."""

from __future__ import annotations

import re

from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.metrics.outside.unset_settings import chosen_by_setting
from gapwatch.design.metrics.rules.answer_rules import beside_work, only_failures, says_text_alone, thrown_in
from gapwatch.design.metrics.rules.code_view import CodeView, PlaceRule
from gapwatch.design.metrics.rules.empty_outputs import why_never_missing
from gapwatch.design.metrics.rules.harmless_calls import is_beside_the_answer, is_call_beside
from gapwatch.design.metrics.rules.nested_calls import goes_on, nested_model_call
from gapwatch.design.metrics.rules.parsed_texts import why_foreign, why_lenient, why_read_again
from gapwatch.design.metrics.rules.search_rules import no_search
from gapwatch.design.metrics.rules.second_ways import why_no_second_way
from gapwatch.design.metrics.rules.stream_rules import asked_later, ends_in_order, sent_before
from gapwatch.design.metrics.rules.unchecked_status import unchecked_status
from gapwatch.design.patterns.attempt_ends import tells_end
from gapwatch.design.patterns.code_walk import (
    calls_in,
    names_in,
    tags_in,
    target_names,
    text_of,
    unwrapped,
    walk,
)
from gapwatch.design.patterns.failures import checks_secret, is_trial
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.patterns.library_uses import CodePlace
from gapwatch.design.source.evaluations import is_offline_evaluation
from gapwatch.design.source.ir import (
    Stmt,
    body_of,
    branches_of,
    call_line,
    callee_of,
    handlers_of,
    is_call,
    line_of,
    target_of,
    targets_of,
    value_of,
)
from gapwatch.design.source.program import last_name, statements

#: Methods that make an object and do no work of a request.
_MAKERS = frozenset({"__init__", "__post_init__", "__new__", "__init_subclass__", "__set_name__", "model_post_init"})
#: Objects by which a node of a graph says what runs next; to make one is its work.
_COMMANDS = frozenset({"Command", "Send"})

#: Calls that leave a node of a graph by an exception, so that the graph waits for a person.
_INTERRUPTS = frozenset({"langgraph.types.interrupt", "langgraph.errors.NodeInterrupt"})


def _abstract(metric: MetricDesign, place: CodePlace, symbol: str, view: CodeView) -> str | None:
    del metric, place
    subject = view.code.subject(symbol)
    if subject is not None and subject.info.is_abstract:
        return f"{symbol.rpartition('.')[2]} only says what a subclass must define"
    return None


def _constructor(metric: MetricDesign, place: CodePlace, symbol: str, view: CodeView) -> str | None:
    del place
    if metric.source == "judge" and metric.concern == "groundedness" and symbol not in metric.symbols:
        # An object may be given its prompt when it is made; the judge reads what the model was sent.
        return None
    for one in view.code.chain(symbol):
        if one.rpartition(".")[2] in _MAKERS:
            return "a constructor does no work of a request"
    subject = view.code.subject(view.code.worker(symbol))
    if subject is None or not subject.calls or any(s[0] == "try" for s in subject.statements):
        return None
    given = [unwrapped(e) for e in view.code.returned(subject)]
    makes = bool(given) and all(
        e is not None and is_call(e) and last_name(e)[:1].isupper() and last_name(e) not in _COMMANDS for e in given
    )
    if makes and not any(_does_work(subject, call, view) for call in subject.calls):
        return f"{symbol.rpartition('.')[2]} makes an object and does no work of a request"
    return None


def _does_work(subject: Subject, call: tuple[object, ...], view: CodeView) -> bool:
    if last_name(call)[:1].isupper():
        return False
    return subject.reach(call).capability is not None or view.code.brings(subject, call, None)


def _swallowed_status(metric: MetricDesign, place: CodePlace, symbol: str, view: CodeView) -> str | None:
    if metric.claim.get("field") != "status":
        return None
    subject = view.code.subject(symbol)
    if (why := chosen_by_setting(view.code, symbol)) is not None:
        return f"{symbol.rpartition('.')[2]} {why}"
    if subject is not None and any(s[0] == "try" and line_of(s) == place.line for s in subject.statements):
        # The evidence is the handler itself.
        if view.errors.passes_on_values(symbol, place.line):
            return "the handler passes on wrong values alone, such as input that is refused"
        return "the handler swallows the error" if view.errors.takes_all_at(symbol, place.line) else None
    if view.errors.is_swallowed(symbol, place.line):
        return "a handler inside the span takes the error, so the status is never error"
    return None


def _interrupts(metric: MetricDesign, place: CodePlace, symbol: str, view: CodeView) -> str | None:
    del place
    subject = view.code.subject(symbol) if metric.claim.get("field") == "status" else None
    if subject is not None and any(_INTERRUPTS & set(subject.sites.named_at(symbol, c)) for c in subject.calls):
        return "it raises each time that a person is asked, by design"
    return None


#: Decorators of checks that a library of agents runs at the same time.
_GUARDS = re.compile(r"^(input|output)_guardrail$")


def _emptiness(metric: MetricDesign, place: CodePlace, symbol: str, view: CodeView) -> str | None:
    del place
    if metric.claim.get("field") != "output" or metric.claim.get("present") is not True:
        return None
    subject = view.code.subject(symbol)
    if subject is not None and any(_GUARDS.search(last_name(d)) for d in subject.ir.decorators):
        return f"{symbol.rpartition('.')[2]} runs beside others, which are cancelled as soon as one of them refuses"
    why = why_never_missing(view.code, symbol) or chosen_by_setting(view.code, symbol)
    return f"{symbol.rpartition('.')[2]} {why}, so an empty output is no failure" if why else None


def _unused(metric: MetricDesign, place: CodePlace, symbol: str, view: CodeView) -> str | None:
    del metric, place
    if _is_served(symbol, view):
        return None
    return "offline or dead: nothing that the application runs (servers, else programs that ask a model) leads here"


def _always_raises(metric: MetricDesign, place: CodePlace, symbol: str, view: CodeView) -> str | None:
    if metric.claim.get("field") != "attributes.swallowed_errors":
        return None
    if not view.errors.swallowing_at(symbol, place.line):
        return "the handler always raises, so the count is always 0"
    return None


def _normal_course(metric: MetricDesign, place: CodePlace, symbol: str, view: CodeView) -> str | None:
    if metric.claim.get("field") in ("attributes.fallback_depth", "tier") and metric.source == "catalog":
        return why_no_second_way(symbol, place, view)
    if metric.claim.get("field") != "attributes.swallowed_errors":
        return None
    return view.errors.why_normal(symbol, place.line)


#: Claims about errors, which are worth nothing where the work is.
_OF_ERRORS = frozenset({"status", "attributes.swallowed_errors", "attributes.answer_outcome"})


def _beside(metric: MetricDesign, place: CodePlace, symbol: str, view: CodeView) -> str | None:
    if metric.claim.get("field") not in _OF_ERRORS:
        return None
    models = view.code.reaching(frozenset({"llm_chat"}))
    name = symbol.rpartition(".")[2]
    subject = view.code.subject(symbol)
    raises = subject is not None and any(s[0] == "raise" for s in subject.statements)
    if symbol not in models and is_beside_the_answer(name) and not (raises and metric.claim["field"] == "status"):
        return f"{name} is work beside the answer; its loss harms nobody"
    for s in subject.statements if subject is not None else ():
        if subject is not None and s[0] in ("try", "with") and _is_at(s, place.line):
            leaving = [c for c in calls_in(body_of(s)) if view.errors.may_leave(subject, c)]
            asks = any(e.dst in models for c in leaving for e in subject.inside(c))
            if leaving and not asks and all(map(is_call_beside, leaving)):
                return f"{min(map(last_name, leaving))} is work beside the answer; its loss harms nobody"
    return None


def _is_at(s: Stmt, line: int) -> bool:
    """Return whether a `try` or `with` begins at a line, or has a handler around it."""
    return line_of(s) == line or (s[0] == "try" and any(first <= line <= last for first, *_, last in handlers_of(s)))


def _set_up(metric: MetricDesign, place: CodePlace, symbol: str, view: CodeView) -> str | None:
    # A text that is made when a module is loaded is sent by each request.
    is_sent = place in metric.prompts and symbol not in metric.symbols
    if not is_sent and any(symbol == s or symbol.startswith(f"{s}.") for s in view.set_up):
        return "the server runs it once when it starts or ends, and no request does"
    return None


def _trial(metric: MetricDesign, place: CodePlace, symbol: str, view: CodeView) -> str | None:
    del place
    if metric.source != "catalog" or metric.pattern == "":
        return None
    for name in symbol.split("."):
        if is_trial(name):
            return f"{name} tries or looks up a setting, or waits for a start, and serves no request"
    subject = view.code.subject(symbol)
    if subject is not None and is_offline_evaluation(subject.program, subject.info):
        return f"{symbol.rpartition('.')[2]} measures over a data set, and no user waits for it"
    if subject is not None and checks_secret(subject):
        return f"{symbol.rpartition('.')[2]} refuses keys that are not good, and tells whoever gave them"
    return None


def _never_exhausted(metric: MetricDesign, place: CodePlace, symbol: str, view: CodeView) -> str | None:
    if metric.claim.get("field") not in ("attributes.retry_outcome", "attributes.retry_count"):
        return None
    kinds = {h.kind for h in view.hits_at("has_retry_loop", symbol, place)}
    if "client" in kinds and len(kinds) == 1 and not view.is_at_work(symbol):
        return "it sets how often a client tries; the tries are made where the client is used"
    if kinds == {"recursion"} and metric.claim["field"] == "attributes.retry_outcome":
        return "nothing bounds how often it calls itself, so that the tries are never exhausted"
    subject = view.code.subject(symbol)
    loops = [s for s in subject.statements if s[0] == "while" and line_of(s) == place.line] if subject else []
    is_of_end = metric.claim["field"] == "attributes.retry_outcome"
    tries = [s for s in subject.statements if s[0] in ("for", "while") and line_of(s) == place.line] if subject else []
    if is_of_end and subject is not None and not all(tells_end(s, subject.statements) for s in tries):
        return "where the loop ends, the code does not say whether it succeeded"
    if is_of_end and any(_is_endless(loop) for loop in loops):
        return "nothing bounds the loop, so that the tries are never exhausted"
    return None


def _is_endless(loop: Stmt) -> bool:
    """Return whether nothing but success ends `while True`: no count of its own that is held against a limit alone."""
    if loop[2][0] != "k":
        return False
    inside = list(statements(body_of(loop)))
    counted = {n for s in inside if s[0] == "aug" for n in target_names(target_of(s))}
    for s in inside:
        value = value_of(s) if s[0] == "assign" else None
        counted |= names_in(value) & {n for t in targets_of(s) for n in target_names(t)} if value is not None else set()
    for test, block in ((t, b) for s in inside if s[0] == "if" for t, b in branches_of(s)):
        compared = any(e[0] == "q" and counted & names_in(e) for e in walk(test))
        # `if tries >= least and found: break` is no limit.
        if compared and (tags_in(block, "raise", "return") or (test[0] == "q" and tags_in(block, "break"))):
            return False
    return True


def _no_work(metric: MetricDesign, place: CodePlace, symbol: str, view: CodeView) -> str | None:
    if metric.claim.get("field") not in ("status", "attributes.cache") or metric.fact is not None:
        return None
    subject = view.code.subject(symbol)
    if subject is None:
        return None
    given = [unwrapped(e) for e in view.code.returned(subject)]
    if metric.claim["field"] == "attributes.cache" and given:
        made = [e for e in given if e is not None and is_call(e) and last_name(e)[:1].isupper()]
        if len(made) == len(given) and not subject.inside(made[0]):
            return f"{symbol.rpartition('.')[2]} keeps objects that the process makes once"
    if any(view.errors.may_leave(subject, call) for call in subject.calls):
        return None
    return f"{symbol.rpartition('.')[2]} asks nothing outside the process: it fails by a fault of the code alone"


def _no_queue(metric: MetricDesign, place: CodePlace, symbol: str, view: CodeView) -> str | None:
    if metric.claim.get("field") != "attributes.queue_wait_seconds":
        return None
    subject = view.code.subject(view.code.worker(symbol))
    calls = [c for c in subject.calls if last_name(c) == "add_task"] if subject is not None else []
    if subject is not None and calls and all(".BackgroundTasks." in subject.reach(c).dotted for c in calls):
        return "the server runs the work as soon as it has replied: nothing waits"
    if subject is not None and _is_of_pieces(subject, place.line, view):
        return "the queue holds pieces of a stream and no work that waits"
    return None


def _is_of_pieces(subject: Subject, line: int, view: CodeView) -> bool:
    """Return whether what a function puts into a queue at a line is sent on by a generator that takes it out."""
    puts = [c for c in subject.calls if call_line(c) == line and callee_of(c)[0] == "a"]
    names = {text_of(callee_of(c)[1]).rpartition(".")[2] for c in puts}
    generators = [one.symbol for one in subject.program.functions if one.ir.is_generator]
    for other in filter(None, map(view.code.subject, generators)):
        takes = [c for c in other.calls if last_name(c) in ("get", "get_nowait") and callee_of(c)[0] == "a"]
        if any(text_of(callee_of(c)[1]).rpartition(".")[2] in names for c in takes):
            return True
    return False


def _read_in_several_ways(metric: MetricDesign, place: CodePlace, symbol: str, view: CodeView) -> str | None:
    if metric.claim.get("field") != "attributes.parsed_text":
        return None
    return why_read_again(view.code, symbol) or why_lenient(view.code, symbol, place.line)


def _foreign_text(metric: MetricDesign, place: CodePlace, symbol: str, view: CodeView) -> str | None:
    if metric.claim.get("field") != "attributes.parsed_text":
        return None
    return why_foreign(view.code, symbol, place.line, metric.is_of_model)


#: Calls that store what they are given, or raise.
_ADDS = re.compile(
    r"^(add|add_all|commit|flush|merge|save|create|create_\w+|insert|insert_one|insert_many|bulk_create"
    r"|bulk_save_objects|bulk_insert_mappings)$"
)


#: Statements that do the same.
_MAKES_ROWS = re.compile(r"^\W*(insert|merge|create|replace|upsert)\b", re.I)


def _always_a_row(metric: MetricDesign, place: CodePlace, symbol: str, view: CodeView) -> str | None:
    if metric.claim.get("field") != "attributes.rows_written":
        return None
    subject = view.code.subject(view.code.worker(symbol))
    hits = view.hits_at("has_db_write", symbol, place)
    if hits and all(_MAKES_ROWS.search(h.evidence.partition(": ")[2]) for h in hits):
        return "the statement finds or makes its row, or raises; it never writes nothing"
    written = {h.line for h in hits}
    calls = [c for c in subject.calls if call_line(c) in written] if subject is not None else []
    names = {last_name(c) for c in calls if callee_of(c)[0] == "a"}
    if names and all(_ADDS.search(name) for name in names):
        return "the write stores its row or raises; it never writes nothing"
    return None


def unserved_judge(metric: MetricDesign, view: CodeView) -> str | None:
    """Return why no request runs the functions that a judge is about, wherever its prompt stands."""
    if metric.source != "judge" or metric.name in view.added or not metric.symbols:
        return None
    is_run = any(_is_served(symbol, view) for symbol in metric.symbols)
    return None if is_run else f"{metric.symbols[0]}: nothing that the application runs leads here"


def _is_served(symbol: str, view: CodeView) -> bool:
    """Return whether the application runs a function, or one that it stands in; True where no way in is known."""
    served = view.served
    return served is None or symbol in served or any(symbol.startswith(f"{s}.") for s in served)


#: Rules that say that no request runs the code; a person may know better.
UNSERVED = frozenset({"set_up", "trial", "unused_code"})

PLACE_RULES: dict[str, PlaceRule] = {
    "abstract_method": _abstract,
    "never_exhausted": _never_exhausted,
    "set_up": _set_up,
    "trial": _trial,
    "constructor": _constructor,
    "unused_code": _unused,
    "swallowed_status": _swallowed_status,
    "interrupts": _interrupts,
    "thrown_in": thrown_in,
    "ends_in_order": ends_in_order,
    "asked_later": asked_later,
    "sent_before": sent_before,
    "never_or_rightly_empty": _emptiness,
    "always_raises": _always_raises,
    "normal_course": _normal_course,
    "beside_the_answer": _beside,
    "no_work": _no_work,
    "no_queue": _no_queue,
    "foreign_text": _foreign_text,
    "read_in_several_ways": _read_in_several_ways,
    "no_search": no_search,
    "always_a_row": _always_a_row,
    "says_text_alone": says_text_alone,
    "only_failures": only_failures,
    "beside_work": beside_work,
    "nested_calls": nested_model_call,
    "goes_on": goes_on,
    "unchecked_status": unchecked_status,
}
