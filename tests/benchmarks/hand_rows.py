"""The gap rows, samples and trace ids of one slice as Arrow tables, from what the checks have found."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import zstandard

from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.slices.tables import DEAD_LETTERS, GAPS, SAMPLES, TRACE_IDS
from tests.benchmarks.hand_found import (
    ABSENT,
    CHECKS,
    FAIL,
    KEEP_PASS,
    LABEL,
    LATENCY,
    NOT_IN_LABELS,
    NOT_JSON,
    PASS,
    WARN,
    WRONG_TYPE,
    Found,
    below,
)
from tests.benchmarks.hand_shape import Records, dead_letter_row
from tests.benchmarks.hand_ticks import text
from tests.benchmarks.traffic import COMPONENTS, PIPELINE

_REASONS = {ABSENT: "absent", WRONG_TYPE: "wrong_type", NOT_JSON: "not_json", NOT_IN_LABELS: "not_in_labels"}
_OUTCOME = pa.array(
    [{PASS: "pass", WARN: "warn", FAIL: "fail"}.get(code, "unknown") for code in range(16)], pa.string()
)
_REASON = pa.array([_REASONS.get(code) for code in range(16)], pa.string())
_KEPT = np.where(np.isin(np.arange(16), (PASS, WARN)), KEEP_PASS, 1.0)

#: What is a secret or personal, in any text; RE2.
_SECRETS = "|".join(
    f"(?:{pattern})"
    for pattern in (
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*(?:-----END [A-Z ]*PRIVATE KEY-----)?",
        r"\b(?:sk|pk|rk)[-_](?:[A-Za-z0-9]+[-_])*[A-Za-z0-9]{16,}",
        r"\bgh[pousr]_[A-Za-z0-9]{20,}",
        r"\bgithub_pat_[A-Za-z0-9_]{20,}",
        r"\bxox[abprs]-[A-Za-z0-9-]{10,}",
        r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
        r"\bAIza[A-Za-z0-9_-]{30,}",
        r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?",
        r"(?i)\bbearer\s+[A-Za-z0-9._~+/-]{16,}=*",
        r"\b[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}\b",
        r"\b(?:[0-9]{4}[ -]){3}[0-9]{1,7}\b",
        r"\b3[47][0-9]{2}[ -][0-9]{6}[ -][0-9]{5}\b",
        r"\b[0-9]{3}-[0-9]{2}-[0-9]{4}\b",
        r"\b[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?\b",
    )
)
_SHOWN, _LOOK, _TAIL = 300, 1_200, 200


@dataclass(frozen=True)
class Source:
    """Source of the records, and the selection by which their rows are stored."""

    lane: str
    topic: str
    policy: str
    sample_rate: float

    def columns(self, n: int) -> dict[str, pa.Array]:
        """Return the columns that say so, but for the offset."""
        return {
            "lane": text(self.lane, n),
            "source_topic": text(self.topic, n),
            "source_partition": pa.repeat(pa.scalar(0, pa.int32()), n),
        }


class Rows:
    """Makes gap rows by one portfolio.

    What does not vary within a portfolio is prepared once.
    """

    def __init__(self, portfolio: Portfolio) -> None:
        self._sha = portfolio.sha
        self._metric = pa.array([m.name for m in portfolio.metrics], pa.string())
        self._version = pa.array([m.version for m in portfolio.metrics], pa.string())
        self._component = pa.array([COMPONENTS[m // CHECKS] for m in range(3 * CHECKS)], pa.string())

    def table(self, found: Found, records: Records, source: Source) -> pa.Table:
        """Return the rows of a slice, sorted by offset, span and metric."""
        n = len(found.rows)
        if not n:
            return GAPS.empty_table()
        of_row, metric_of_row, code_of_row, seen = zip(*found.rows, strict=True)
        span, metric, code = pa.array(of_row, pa.int32()), np.array(metric_of_row, np.int32), np.array(code_of_row)
        metrics, codes = pa.array(metric), pa.array(code)
        check = metric % CHECKS
        numbers = pa.array([value if type(value) is float else None for value in seen], pa.float64())
        texts = pa.array([value if type(value) is str else None for value in seen], pa.string())
        observed = _shown(pc.coalesce(texts, numbers.cast(pa.string())))
        nothing = pa.nulls(n, pa.string())

        def of_span(values: list[str | None] | list[str]) -> pa.Array:
            return pa.array(values, pa.string()).take(span)

        spans = found.spans
        offsets = records.offsets
        rate = np.array([t.sampling_probability for _, t, _, _ in spans])
        rate = np.where((rate > 0) & (rate <= 1), rate, 1.0)
        ended = np.round(np.array([s.ended_at for _, _, s, _ in spans]) * 1e6).astype(np.int64)
        tiers = of_span([s.tier for _, _, s, _ in spans])
        columns = {
            "pipeline": text(PIPELINE, n),
            "environment": of_span([t.environment for _, t, _, _ in spans]),
            "release": of_span([t.release for _, t, _, _ in spans]),
            "session_id": nothing,
            "trace_id": of_span([t.trace_id for _, t, _, _ in spans]),
            "span_id": of_span([s.span_id for _, _, s, _ in spans]),
            "component": self._component.take(metrics),
            "tier": tiers,
            "model": of_span([s.model for _, _, s, _ in spans]),
            "metric": self._metric.take(metrics),
            "metric_version": self._version.take(metrics),
            "portfolio_sha": text(self._sha, n),
            "outcome": _OUTCOME.take(codes),
            "score": pc.if_else(pa.array(check == LATENCY), numbers, pa.scalar(None, pa.float64())),
            "label": pc.if_else(pa.array(check == LABEL), tiers, pa.scalar(None, pa.string())),
            "band": nothing,
            "reason": _REASON.take(codes),
            "observed": observed,
            "evidence": nothing,
            "judge": nothing,
            "judge_model_id": nothing,
            "judge_prompt_sha": nothing,
            "judge_sampling_params_sha": nothing,
            "judge_request_sha": nothing,
            "judge_input_sha": nothing,
            "p_evaluated": pa.array(rate).take(span),
            "p_kept": pa.array(_KEPT[code]),
            "stratum": nothing,
            "policy": text(source.policy, n),
            **source.columns(n),
            "source_offset": pa.array([offsets[i] for i, _, _, _ in spans], pa.int64()).take(span),
            "span_index": pa.array([k for _, _, _, k in spans], pa.int32()).take(span),
            "event_at": pa.array(ended).cast(pa.timestamp("us")).take(span),
        }
        return pa.table(columns, schema=GAPS)


def _shown(texts: pa.Array) -> pa.Array:
    """Return the beginnings of texts, redacted first and cut after."""
    encoded = texts.dictionary_encode()
    distinct = encoded.dictionary
    if not len(distinct):
        return texts
    long = pc.greater(pc.utf8_length(distinct), _LOOK)
    looked = pc.utf8_slice_codeunits(distinct, 0, _LOOK) if pc.any(long).as_py() else distinct
    redacted = _redacted(looked)
    if pc.any(long).as_py():
        # The cut may have left the beginning of a secret at the end.
        kept = [
            value[: max(len(value) - _TAIL, 0)] if is_long else value
            for value, is_long in zip(redacted.to_pylist(), long.to_pylist(), strict=True)
        ]
        redacted = pa.array(kept, pa.string())
    if pc.max(pc.binary_length(redacted)).as_py() > _SHOWN:
        redacted = pc.utf8_slice_codeunits(redacted, 0, _SHOWN)
    return redacted.take(encoded.indices)


def _redacted(texts: pa.Array) -> pa.Array:
    if not pc.any(pc.match_substring_regex(texts, _SECRETS)).as_py():
        return texts
    return pc.replace_substring_regex(texts, _SECRETS, "[redacted]")


def samples_table(found: Found, records: Records, source: Source) -> pa.Table:
    """Return the redacted text of the failing traces that are to be kept."""
    rate = source.sample_rate
    limit = below(rate) if rate < 1 else b"\xff" * 33
    chosen = [i for i, drawn, failed in found.selected if failed and drawn < limit]
    if rate > KEEP_PASS:
        raise ValueError("a sample rate above that of the rows: the loop has not looked at enough traces")
    if not chosen:
        return SAMPLES.empty_table()
    raw = [records.lines[i].removesuffix(b"\n").removesuffix(b"\r") for i in chosen]
    redacted = _redacted(pa.array([line.decode() for line in raw], pa.string())).to_pylist()
    compress = zstandard.ZstdCompressor(level=3).compress
    traces = [records.traces[i] for i in chosen]
    n = len(chosen)
    times = np.round(np.array([t.ended_at for t in traces]) * 1e6).astype(np.int64)
    columns = {
        **source.columns(n),
        "source_offset": pa.array([records.offsets[i] for i in chosen], pa.int64()),
        "trace_id": pa.array([t.trace_id for t in traces], pa.string()),
        "cause": text("fail", n),
        "p_kept": pa.repeat(pa.scalar(rate, pa.float64()), n),
        "record_sha256": pa.array([hashlib.sha256(line).hexdigest() for line in raw], pa.string()),
        "record": pa.array([compress(line.encode()) for line in redacted], pa.binary()),
        "event_at": pa.array(times).cast(pa.timestamp("us")),
    }
    return pa.table(columns, schema=SAMPLES)


def trace_ids_table(records: Records, source: Source) -> pa.Table:
    """Return a hash of each trace id."""
    digest = hashlib.blake2b
    joined = b"".join([digest(t.trace_id.encode(), digest_size=8).digest() for t in records.traces])
    n = len(records.traces)
    columns = [
        text(source.lane, n),
        text(PIPELINE, n),
        pa.array(np.frombuffer(joined, "<u8"), pa.uint64()),
        pa.array(records.offsets, pa.int64()),
        pa.array([t.environment for t in records.traces], pa.string()),
        pa.array([t.release for t in records.traces], pa.string()),
    ]
    return pa.table(columns, schema=TRACE_IDS)


def dead_letters_table(records: Records, source: Source) -> pa.Table:
    """Return the records that are none."""
    if not records.dead:
        return DEAD_LETTERS.empty_table()
    same = {"lane": source.lane, "source_topic": source.topic, "source_partition": 0}
    return pa.Table.from_pylist([{**same, **dead_letter_row(*dead)} for dead in records.dead], schema=DEAD_LETTERS)
