"""Builds rows of `gaps` for verdicts: of one judge, of an ensemble, and of a composite that waited for a judge."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import orjson
import pyarrow as pa

from gapwatch.scorers.judges.canonical import canonical_value
from gapwatch.scorers.judges.ensemble import ENSEMBLE, Vote, decide
from gapwatch.scorers.judges.judgement import Judgement
from gapwatch.scorers.judges.request import AwaitedComposite, JudgeRequest
from gapwatch.scorers.scoring.score import selection_numbers

_EPOCH = datetime(1970, 1, 1)
#: Columns that a row copies from the request.
_FROM_REQUEST = (
    "pipeline", "release", "session_id", "trace_id", "span_id", "component", "tier", "model", "metric",
    "metric_version", "portfolio_sha", "p_evaluated", "stratum", "policy", "lane", "source_topic", "source_partition",
    "source_offset", "span_index",
)  # fmt: skip
Triples = Mapping[str, tuple[str, str, str]]


def judge_row(request: JudgeRequest, judgement: Judgement) -> dict[str, Any]:
    """Return the row of one judge. Every paid verdict is stored, so `p_kept` is 1."""
    triple = judgement.triple
    evidence = dict(judgement.evidence)
    if triple is not None:
        evidence = {"judge": triple.as_json(), **evidence}
    return {
        **_common(request),
        "outcome": judgement.state,
        "score": judgement.score,
        "label": judgement.band,
        "band": judgement.band,
        "reason": judgement.reason,
        "observed": judgement.observed,
        "evidence": orjson.dumps(evidence).decode(),
        "judge": request.judge,
        "judge_model_id": triple.model_id if triple else None,
        "judge_prompt_sha": triple.prompt_sha if triple else judgement.prompt_sha,
        "judge_sampling_params_sha": triple.sampling_params_sha if triple else judgement.sampling_params_sha,
        "judge_request_sha": judgement.request_sha,
        "judge_input_sha": judgement.input_sha,
        "p_kept": 1.0,
    }


def ensemble_row(
    request: JudgeRequest, votes: Sequence[tuple[str, str, float | None, float | None]], triples: Triples
) -> dict[str, Any]:
    """Return the ensemble's own row.

    Args:
        request: Request to any member.
        votes: Name, state, score and position of each member.
        triples: Model id, prompt sha and sampling sha of each member.
    """
    members_said = [Vote(judge, state, position) for judge, state, _, position in votes]
    decision = decide(members_said, request.quorum, request.passes_from)
    said = [judge for judge, _, _, position in votes if position is not None]
    pinned = {judge: triples[judge] for judge in said if judge in triples}
    members = [
        {"judge": judge, "outcome": state, "score": score, "modelId": triples[judge][0] if judge in triples else None}
        for judge, state, score, _ in votes
    ]
    evidence: dict[str, Any] = {"members": members, "quorum": request.quorum}
    if request.passes_from is not None:
        evidence["passes_from"] = request.passes_from
    if decision.left_out:
        evidence["left_out"] = list(decision.left_out)
    model = " + ".join(pinned[judge][0] for judge in said) if len(pinned) == len(said) and said else None
    prompt = _joined([triple[1] for triple in pinned.values()])
    params = _joined([triple[2] for triple in pinned.values()])
    if model is not None:
        evidence = {"judge": {"modelId": model, "promptSha": prompt, "samplingParamsSha": params}, **evidence}
    return {
        **_common(request),
        "outcome": decision.state,
        "score": decision.score,
        "reason": decision.reason,
        "evidence": orjson.dumps(evidence).decode(),
        "judge": ENSEMBLE,
        "judge_model_id": model,
        "judge_prompt_sha": prompt,
        "judge_sampling_params_sha": params,
        "p_kept": 1.0,
    }


def composite_row(
    request: JudgeRequest, composite: AwaitedComposite, state: str, score: float | None
) -> dict[str, Any] | None:
    """Return the row of a composite; None if its selection does not store it."""
    kept = composite.keep.get(state, 1.0)
    u = float(selection_numbers(pa.array([request.trace_id]))[0])
    if u >= kept * composite.rate:
        return None
    return {
        **_common(request),
        "metric": composite.metric,
        "metric_version": composite.metric_version,
        "outcome": state,
        "score": score,
        "reason": "part_unknown" if state == "unknown" else None,
        "observed": None if score is None else repr(score),
        "p_evaluated": composite.p_evaluated,
        "p_kept": kept * composite.rate,
        "stratum": None,
    }


def series_epoch(base: str, triples: Triples) -> str:
    """Return the epoch of a judged series. A change of model, prompt or sampling of a judge begins a new epoch."""
    if not triples:
        return base
    pinned = canonical_value({judge: list(triple) for judge, triple in triples.items()})
    return f"{base}-j{hashlib.sha256(pinned).hexdigest()[:8]}"


def _joined(shas: list[str]) -> str | None:
    """Return the hash that all members share, or the hash of their hashes in order."""
    if len(set(shas)) <= 1:
        return shas[0] if shas else None
    return hashlib.sha256(canonical_value(shas)).hexdigest()


def _common(request: JudgeRequest) -> dict[str, Any]:
    at = request.event_at
    return {
        **{name: getattr(request, name) for name in _FROM_REQUEST},
        "environment": request.series_environment,
        "event_at": None if at is None else _EPOCH + timedelta(microseconds=round(at * 1e6)),
    }
