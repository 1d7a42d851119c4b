"""The 60 checks of the benchmark, written straight: one condition for a span that passes, a careful look at others."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tests.benchmarks.hand_fails import (
    CHANNELS,
    FINISHES,
    INDEXES,
    JSON_STARTS,
    LANGUAGES,
    MODELS,
    NAMES,
    SEARCHED,
    VERSION,
    look_at_generate,
    look_at_reply,
    look_at_retrieve,
)
from tests.benchmarks.hand_found import FAIL, MAX_LATENCY, SELECTED, Fails, Found
from tests.benchmarks.hand_shape import Trace

try:  # the interpreter's own digest has half the overhead of OpenSSL's on 43 bytes
    from _sha256 import sha256  # type: ignore[import-not-found, unused-ignore]
except ImportError:
    from hashlib import sha256


class Answer(msgspec.Struct, gc=False):
    """The JSON that the step `generate` is to give."""

    answer: str
    citations: list[str]
    confidence: float


_answer = msgspec.json.Decoder(Answer).decode
_list = msgspec.json.Decoder(list).decode


def check(traces: list[Trace]) -> Found:
    """Check traces."""
    found = Found()
    passing = found.passing
    (r_keys, r_seconds), (g_keys, g_seconds), (p_keys, p_seconds) = found.others
    models, indexes, names, finishes = MODELS, INDEXES, NAMES, FINISHES
    channels, languages, starts = CHANNELS, LANGUAGES, JSON_STARTS
    parse_list, parse_answer, unreadable = _list, _answer, msgspec.DecodeError
    digest, selected = sha256, SELECTED
    versions: set[str] = set()
    rf: Fails
    gf: Fails
    pf: Fails
    for i, (t, suspicious) in enumerate(zip(traces, _suspicious(traces), strict=True)):
        r, g, p = t.spans
        r_latency = r.ended_at - r.started_at
        g_latency = g.ended_at - g.started_at
        p_latency = p.ended_at - p.started_at
        drawn = digest(b"gapwatch/1/" + t.trace_id.encode()).digest()
        if suspicious or drawn < selected:
            chosen = drawn < selected
            rf = look_at_retrieve(found, i, t, r, suspicious, chosen)
            gf = look_at_generate(found, i, t, g, suspicious, chosen)
            pf = look_at_reply(found, i, t, p, suspicious, chosen)
            if chosen:
                failed = max(r_latency, g_latency, p_latency) > MAX_LATENCY or any(
                    fail & 15 == FAIL for fails in (rf, gf, pf) for fail in fails
                )
                found.selected.append((i, drawn, failed))
        else:
            rf = gf = pf = ()
            usage = r.usage
            attributes = r.attributes
            try:
                if not (
                    r.status == "ok"
                    and not r.error_type
                    and r.tier == "primary"
                    and 0.0 <= r_latency <= 10.0
                    and 0.0 <= usage.cost_usd <= 0.05
                    and 0.0 < usage.input_tokens <= 4000.0
                    and 0.0 <= usage.output_tokens <= 1500.0
                    and 0 < len(r.input) <= 8000
                    and len(r.output) <= 4000
                    and r.model in models
                    and attributes.index in indexes
                    and 1.0 <= attributes.top_k <= 20.0
                    and attributes.score >= 0.5
                    and r.name in names
                    and parse_list(r.output)
                ):
                    rf = look_at_retrieve(found, i, t, r, False, False)
            except unreadable:
                rf = look_at_retrieve(found, i, t, r, False, False)
            usage = g.usage
            made = g.attributes
            try:
                if not (
                    g.status == "ok"
                    and not g.error_type
                    and g.tier == "primary"
                    and 0.0 <= g_latency <= 10.0
                    and 0.0 <= usage.cost_usd <= 0.05
                    and 0.0 < usage.input_tokens <= 4000.0
                    and 0.0 <= usage.output_tokens <= 1500.0
                    and 0 < len(g.input) <= 8000
                    and len(g.output) <= 4000
                    and g.model in models
                    and made.finish_reason in finishes
                    and (made.prompt_version in versions or _is_version(made.prompt_version, versions))
                    and 0.0 <= (answer := parse_answer(g.output)).confidence <= 1.0
                    and len(answer.citations) == 1
                    and answer.citations[0] in g.input
                ):
                    gf = look_at_generate(found, i, t, g, False, False)
            except unreadable:
                gf = look_at_generate(found, i, t, g, False, False)
            usage = p.usage
            sent = p.attributes
            if not (
                p.status == "ok"
                and not p.error_type
                and p.tier == "primary"
                and 0.0 <= p_latency <= 10.0
                and 0.0 <= usage.cost_usd <= 0.05
                and 0.0 < usage.input_tokens <= 4000.0
                and 0.0 <= usage.output_tokens <= 1500.0
                and 0 < len(p.input) <= 8000
                and 40 <= len(p.output) <= 4000
                and p.model in models
                and sent.channel in channels
                and sent.language in languages
                and sent.retries <= 1.0
                and not p.output.startswith(starts)
            ):
                pf = look_at_reply(found, i, t, p, False, False)
            if not (rf or gf or pf):
                key = (t.environment, t.release, t.ended_at // 30.0, t.sampling_probability, r.model, g.model, p.model)
                r_list, g_list, p_list = passing[key]
                r_list.append(r_latency)
                g_list.append(g_latency)
                p_list.append(p_latency)
                continue
        environment, release, bucket, rate = t.environment, t.release, t.ended_at // 30.0, t.sampling_probability
        r_keys.append((environment, release, bucket, rate, r.model, r.tier, rf))
        g_keys.append((environment, release, bucket, rate, g.model, g.tier, gf))
        p_keys.append((environment, release, bucket, rate, p.model, p.tier, pf))
        r_seconds.append(r_latency)
        g_seconds.append(g_latency)
        p_seconds.append(p_latency)
    return found


def _suspicious(traces: list[Trace]) -> list[bool]:
    """Return of which traces an output holds one of the words that are searched for.

    One pass of RE2 over all outputs costs less than five `in` on each, and a fifth of what `re` costs.
    """
    outputs = pa.array([span.output for trace in traces for span in trace.spans], pa.string())
    hits = pc.match_substring_regex(outputs, SEARCHED).to_numpy(zero_copy_only=False)
    result: list[bool] = hits.reshape(-1, 3).any(axis=1).tolist()
    return result


def _is_version(text: str, versions: set[str]) -> bool:
    """Return whether a text is the name of a version, and remember it if it is."""
    if VERSION.match(text) is None:
        return False
    if len(versions) < 1000:
        versions.add(text)
    return True
