"""The careful look at a span that does not pass in all, or whose passes are to be shown: what failed, and its rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import repeat
from operator import attrgetter
from typing import Any

import msgspec

from tests.benchmarks.hand_found import (
    ABSENT,
    CHECKS,
    FAIL,
    LATENCY,
    MAX_LATENCY,
    NOT_IN_LABELS,
    NOT_JSON,
    PASS,
    WARN,
    WARN_LATENCY,
    WRONG_TYPE,
    Fails,
    Found,
)
from tests.benchmarks.hand_shape import (
    Generate,
    GenerateAttributes,
    Reply,
    Retrieve,
    RetrieveAttributes,
    Span,
    Trace,
)

MODELS = frozenset(("embed-3-small", "gpt-4.1"))
INDEXES = frozenset(("kb-7", "kb-8"))
NAMES = frozenset(("search", "browse"))
FINISHES = frozenset(("stop", "tool_calls"))
CHANNELS = frozenset(("web", "app"))
LANGUAGES = frozenset(("en", "de"))
#: A text that begins otherwise is no JSON.
JSON_STARTS = (*'{["-0123456789 \t\r\n', "true", "false", "null")
#: Searched for in any case; all that is searched for, for RE2, which finds the few outputs to look at.
SECRET, REFUSAL = r"api[_-]?key|password", r"as an ai|i cannot|sorry"
SEARCHED = f"(?i)({SECRET}|{REFUSAL})"
VERSION = re.compile(r"v[0-9]+\Z")


_any = msgspec.json.decode


def _holds(pattern: str, text: str) -> bool:
    """Return whether a text holds a word in any case; `re` takes four times as long to ignore the case itself."""
    if text.isascii():
        return re.search(pattern, text.lower()) is not None
    return re.search(pattern, text, re.IGNORECASE) is not None


def _shared(s: Span, suspicious: bool) -> list[int]:
    """Return metric * 16 + code of what did not pass, among the 14 checks that all spans have."""
    fails = []
    usage, latency, output, tier = s.usage, s.ended_at - s.started_at, s.output, s.tier
    if not output:
        fails.append(0 * 16 + FAIL)
    if not s.input:
        fails.append(1 * 16 + FAIL)
    if s.status != "ok":
        fails.append(2 * 16 + FAIL)
    if s.error_type:
        fails.append(3 * 16 + FAIL)
    if s.model not in MODELS:
        fails.append(4 * 16 + FAIL)
    if tier != "primary":
        fails.append(5 * 16 + (FAIL if tier == "fallback" else NOT_IN_LABELS))
    if latency > WARN_LATENCY:
        fails.append(6 * 16 + (FAIL if latency > MAX_LATENCY else WARN))
    if not 0.0 <= usage.cost_usd <= 0.05:
        fails.append(7 * 16 + FAIL)
    if not 0.0 < usage.input_tokens <= 4000.0:
        fails.append(8 * 16 + FAIL)
    if not 0.0 <= usage.output_tokens <= 1500.0:
        fails.append(9 * 16 + FAIL)
    if len(output) > 4000:
        fails.append(10 * 16 + FAIL)
    if not 1 <= len(s.input) <= 8000:
        fails.append(11 * 16 + FAIL)
    if latency < 0.0:
        fails.append(12 * 16 + FAIL)
    if suspicious and _holds(SECRET, output):
        fails.append(13 * 16 + FAIL)
    return fails


def look_at_retrieve(found: Found, i: int, t: Trace, s: Retrieve, suspicious: bool, selected: bool) -> Fails:
    fails, attributes = _shared(s, suspicious), s.attributes
    if attributes.index not in INDEXES:
        fails.append(14 * 16 + FAIL)
    if not 1.0 <= attributes.top_k <= 20.0:
        fails.append(15 * 16 + FAIL)
    if not attributes.score >= 0.5:
        fails.append(16 * 16 + FAIL)
    try:
        output = _any(s.output)
    except msgspec.DecodeError:
        fails += (17 * 16 + NOT_JSON, 18 * 16 + FAIL)
    else:
        if not isinstance(output, list):
            fails.append(17 * 16 + WRONG_TYPE)
        elif not output:
            fails.append(17 * 16 + FAIL)
    if s.name not in NAMES:
        fails.append(19 * 16 + FAIL)
    return _rows(found, i, t, s, 0, fails, selected)


def look_at_generate(found: Found, i: int, t: Trace, s: Generate, suspicious: bool, selected: bool) -> Fails:
    fails, attributes = _shared(s, suspicious), s.attributes
    if attributes.finish_reason not in FINISHES:
        fails.append(14 * 16 + FAIL)
    try:
        output = _any(s.output)
    except msgspec.DecodeError:
        fails += (15 * 16 + FAIL, 16 * 16 + NOT_JSON, 17 * 16 + NOT_JSON)
    else:
        members = output if isinstance(output, dict) else {}
        citations, confidence = members.get("citations"), members.get("confidence")
        if citations is None or not isinstance(members.get("answer"), str):
            fails.append(15 * 16 + FAIL)
        if citations is None:
            fails.append(16 * 16 + ABSENT)
        elif not isinstance(citations, list):
            fails.append(16 * 16 + WRONG_TYPE)
        elif not _all_inside(citations, s.input.lower()):
            fails.append(16 * 16 + FAIL)
        if confidence is None:
            fails.append(17 * 16 + ABSENT)
        elif not isinstance(confidence, float | int) or isinstance(confidence, bool):
            fails.append(17 * 16 + WRONG_TYPE)
        elif not 0.0 <= confidence <= 1.0:
            fails.append(17 * 16 + FAIL)
    if suspicious and _holds(REFUSAL, s.output):
        fails.append(18 * 16 + FAIL)
    if VERSION.match(attributes.prompt_version) is None:
        fails.append(19 * 16 + FAIL)
    return _rows(found, i, t, s, 1, fails, selected)


def _all_inside(citations: list[Any], source: str) -> bool:
    return all(str(citation).lower() in source for citation in citations)


def look_at_reply(found: Found, i: int, t: Trace, s: Reply, suspicious: bool, selected: bool) -> Fails:
    fails, attributes = _shared(s, suspicious), s.attributes
    if attributes.channel not in CHANNELS:
        fails.append(14 * 16 + FAIL)
    if attributes.language not in LANGUAGES:
        fails.append(15 * 16 + FAIL)
    if not attributes.retries <= 1.0:
        fails.append(16 * 16 + FAIL)
    if suspicious and _holds(REFUSAL, s.output):
        fails.append(17 * 16 + FAIL)
    if len(s.output) < 40:
        fails.append(18 * 16 + FAIL)
    if s.output.startswith(JSON_STARTS):
        try:
            _any(s.output)
            fails.append(19 * 16 + FAIL)
        except msgspec.DecodeError:
            pass
    return _rows(found, i, t, s, 2, fails, selected)


def _latency(s: Span) -> float:
    return s.ended_at - s.started_at


def _members(s: Generate) -> dict[str, Any]:
    """Return the members of the JSON that the output holds; none where it holds no object."""
    try:
        output = _any(s.output)
    except msgspec.DecodeError:
        return {}
    return output if isinstance(output, dict) else {}


def _text(value: Any) -> str | None:
    """Return a JSON value as compact JSON; None for null."""
    return None if value is None else msgspec.json.encode(value).decode()


_read: Callable[[str], Callable[[Any], Any]] = attrgetter
_shown: tuple[Callable[[Any], Any], ...] = (
    *map(_read, ("output", "input", "status", "error_type", "model", "tier")), _latency,
    *map(_read, ("usage.cost_usd", "usage.input_tokens", "usage.output_tokens", "output", "input", "started_at")),
    _read("output"),
)  # fmt: skip
#: What a row shows of a span, by component and metric: a text, or a number that is spelt when the rows are made.
SHOWN: tuple[tuple[Callable[[Any], Any], ...], ...] = (
    (*_shown, _read("attributes.index"), lambda s: str(s.attributes.top_k), lambda s: str(s.attributes.score),
        *map(_read, ("output", "output", "name")),),
    (
        *_shown, _read("attributes.finish_reason"), _read("output"), lambda s: _text(_members(s).get("citations")),
        lambda s: _text(_members(s).get("confidence")), *map(_read, ("output", "attributes.prompt_version")),
    ),
    (
        *_shown,
        _read("attributes.channel"), _read("attributes.language"), lambda s: str(s.attributes.retries),
        *map(_read, ("output", "output", "output")),
    ),
)  # fmt: skip


def _all_shown(s: Span) -> tuple[Any, ...]:
    """Return what the 20 rows of a selected span show."""
    usage, attributes, output, given = s.usage, s.attributes, s.output, s.input
    rest: tuple[Any, ...]
    if isinstance(attributes, RetrieveAttributes):
        rest = (attributes.index, str(attributes.top_k), str(attributes.score), output, output, s.name)  # type: ignore[union-attr]
    elif isinstance(attributes, GenerateAttributes):
        members = _members(s)  # type: ignore[arg-type]
        cited, confidence = _text(members.get("citations")), _text(members.get("confidence"))
        rest = (attributes.finish_reason, output, cited, confidence, output, attributes.prompt_version)
    else:
        rest = (attributes.channel, attributes.language, str(attributes.retries), output, output, output)
    return (
        output, given, s.status, s.error_type, s.model, s.tier, s.ended_at - s.started_at, usage.cost_usd,
        usage.input_tokens, usage.output_tokens, output, given, s.started_at, output, *rest,
    )  # fmt: skip


def _rows(found: Found, i: int, t: Trace, s: Span, component: int, fails: list[int], selected: bool) -> Fails:
    """Add the rows of a span: all of a selected trace, else what failed or is unknown; return its fails for ticks."""
    counted = tuple([fail for fail in fails if fail >> 4 != LATENCY])
    at, base = len(found.spans), component * CHECKS
    if selected:
        codes = [PASS] * CHECKS
        for fail in fails:
            codes[fail >> 4] = fail & 15
        found.spans.append((i, t, s, component))
        found.rows += zip(repeat(at), range(base, base + CHECKS), codes, _all_shown(s), strict=False)
        return counted
    kept = [fail for fail in fails if fail & 15 > WARN]
    if kept:
        found.spans.append((i, t, s, component))
        shown, add = SHOWN[component], found.rows.append
        for fail in kept:
            m = fail >> 4
            add((at, base + m, fail & 15, shown[m](s)))
    return counted
