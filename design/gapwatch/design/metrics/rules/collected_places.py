"""Chooses the places whose failures one metric of many functions counts: it holds no place that nobody can act on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from gapwatch.design.architecture.claimed_code import ClaimedCode
from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.metrics.rules.code_view import keep_places
from gapwatch.design.metrics.rules.error_paths import ErrorPaths, in_body
from gapwatch.design.metrics.rules.parsed_texts import reads_answer
from gapwatch.design.metrics.spans import IntegrationPoint
from gapwatch.design.patterns.code_walk import own_expressions, walk
from gapwatch.design.patterns.hit import Subject
from gapwatch.design.patterns.library_uses import CodePlace
from gapwatch.design.source.ir import body_of, call_line, constant_of, handlers_of, is_name, line_of, name_of

#: Folders beside a pipeline: a client runs at others, an evaluation at a developer's.
_BESIDE_THE_PIPELINE = re.compile(r"(^|/)(eval|evaluations?|(\w+[-_])*sdk)/")
#: Files whose failures somebody sees: whoever types a command reads its error, and settings are read once.
_SEEN = re.compile(r"(^|/)(cli/|(cli|config|settings)\.py$)")
#: Fields of metrics of failures.
_FAILURES = frozenset({"status", "attributes.swallowed_errors", "attributes.answer_outcome"})
#: Libraries of pages; who looks at a page sees what fails there.
_PAGES = ("streamlit.", "gradio.")
#: Codes of requests that ask for what is not there or not allowed; a time limit or too many requests are none.
_FAULTS_OF_REQUESTS = frozenset(range(400, 500)) - {408, 429}


def collectable(
    metrics: Iterable[MetricDesign], code: ClaimedCode, points: Mapping[str, list[IntegrationPoint]]
) -> list[MetricDesign]:
    """Return metrics without the places that no metric of many functions should hold.

    Left out are clients, evaluations, command lines and settings beside the pipeline, pages, and, by the kind of the
    metric, handled errors of functions that reach no model, faults of a request, and arguments handed back unchanged.

    Args:
        metrics: Metrics of failures; one that no place is left of is left out.
        code: The analysed code.
        points: Spans by component.
    """
    out: list[MetricDesign] = []
    for metric in metrics:
        good = [p for p in metric.places if _is_good(metric, p, code)]
        if good and len(good) < len(metric.places):
            kept = keep_places(replace(metric), good, code, points.get(metric.component, ()))
            out += [kept] if kept is not None else []
        elif good:
            out.append(metric)
    return out


def why_beside(metric: MetricDesign, code: ClaimedCode) -> str | None:
    """Return why a metric comes into a portfolio by name alone, or None where it may be selected.

    Args:
        metric: A metric.
        code: The analysed code.
    """
    if not metric.places:
        return None
    if all(_BESIDE_THE_PIPELINE.search(p.path) for p in metric.places):
        return "of an evaluation or a client beside the pipeline"
    field = metric.claim.get("field")
    if field in _FAILURES and all(_SEEN.search(p.path) for p in metric.places):
        return "who types the command reads the error"
    if field == "attributes.swallowed_errors" and all(_is_harmless(p, code) for p in metric.places):
        return "a person sees the error, or what is tried asks nothing outside"
    if field == "attributes.answer_outcome" and not any(_is_good(metric, p, code) for p in metric.places):
        return "a person sees it, the request asks for what is not there, or a value is handed back unchanged"
    return None


def _is_harmless(place: CodePlace, code: ClaimedCode) -> bool:
    symbol = code.function_at(place)
    subject = code.subject(symbol) if symbol is not None else None
    if subject is None or _is_page(subject) or _SEEN.search(place.path):
        return True
    tried = [
        s for s in subject.statements if s[0] == "try" and place.line in {line_of(s), *(h[0] for h in handlers_of(s))}
    ]
    if any(reads_answer(code, subject, body_of(s)) for s in tried):
        return False
    calls = [c for c in subject.calls if not tried or any(in_body(s, call_line(c)) for s in tried)]
    errors = ErrorPaths(code)
    return not any(code.brings(subject, c, None) or errors.checks_outcome(subject, c) for c in calls)


def _is_good(metric: MetricDesign, place: CodePlace, code: ClaimedCode) -> bool:
    symbol = code.function_at(place)
    subject = code.subject(symbol) if symbol is not None else None
    if subject is None or _BESIDE_THE_PIPELINE.search(place.path) or _SEEN.search(place.path) or _is_page(subject):
        return False
    field = metric.claim.get("field")
    if field == "attributes.swallowed_errors":
        return subject.symbol in code.material.distances
    return field != "attributes.answer_outcome" or not _is_no_failure(subject, place.line)


def _is_page(subject: Subject) -> bool:
    return any(
        name.startswith(_PAGES) for call in subject.calls for name in subject.sites.named_at(subject.symbol, call)
    )


def _is_no_failure(subject: Subject, line: int) -> bool:
    """Return whether the answer at a line tells a fault of the request, or is an argument as it came."""
    given = [e for s in subject.statements if line_of(s) == line for e in own_expressions(s)]
    if any(e[0] == "k" and constant_of(e) in _FAULTS_OF_REQUESTS for one in given for e in walk(one)):
        return True
    names = {p.name for p in subject.ir.params}
    return any(is_name(e) and name_of(e) in names for e in given)
