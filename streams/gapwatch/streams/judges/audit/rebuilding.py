"""Rebuilds the request of a verdict byte for byte from its row, and checks it by the hashes in the row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.judges.chat_model import ChatCall
from gapwatch.scorers.judges.prompt import JudgePrompt, input_sha, judge_prompt, request_sha, template_sha
from gapwatch.scorers.judges.request import JudgeRequest
from gapwatch.scorers.loading.load import parse_stored_portfolio
from gapwatch.scorers.plan.plan import compile_plan
from gapwatch.scorers.portfolio.portfolio import Portfolio
from gapwatch.scorers.scoring.score import Scorer, score
from gapwatch.scorers.slices.selection import fixed_selection
from gapwatch.scorers.slices.slices import RecordSlice
from gapwatch.sinks.reading.verdict_archive import ArchivedVerdict, VerdictArchive


@dataclass(frozen=True)
class Rebuilt:
    """A request as it was sent.

    Attributes:
        verdict: Its verdict.
        call: The call, equal in every byte to the one that was sent.
        prompt: Prompt that reads the answer.
        nonce: Random number in the prompt.
        items: Number of items of the call.
        place: Number of the verdict's item.
    """

    verdict: ArchivedVerdict
    call: ChatCall
    prompt: JudgePrompt
    nonce: str
    items: int = 1
    place: int = 1


class Rebuilder:
    """Rebuilds requests; a compiled portfolio is reused for the next verdict.

    Args:
        archive: Verdicts, and the portfolios, templates and records that they were made from.
    """

    def __init__(self, archive: VerdictArchive) -> None:
        self._archive = archive
        self._scorers: dict[str, tuple[Portfolio, Scorer]] = {}

    def rebuild(self, verdict: ArchivedVerdict) -> Rebuilt:
        """Return the request of a verdict.

        Raises:
            UsageError: It cannot be rebuilt; the message says what is missing.
        """
        place = verdict.place
        sent = verdict.evidence.get("request")
        if sent is None or verdict.judge_request_sha is None or verdict.judge_prompt_sha is None:
            raise UsageError(f"{place}: no request was sent for this row ({verdict.outcome})")
        portfolio, scorer = self._scorer(verdict.portfolio_sha, place)
        metric = next(m for m in portfolio.metrics if m.name == verdict.metric)
        prompt = self._prompt(judge_prompt(metric.claim), verdict.judge_prompt_sha, place)  # type: ignore[arg-type]
        inputs = self._inputs(verdict, portfolio, scorer)
        at = verdict.evidence.get("together", {}).get("place", 1) - 1
        items = [inputs]
        if len(sent.get("items", ())) > 1:
            items = [inputs if i == at else self._stored_inputs(other) for i, other in enumerate(sent["items"])]
        call = prompt.call_of_items(
            sent["model"], sent["params"], items, sent["nonce"], characters=sent.get("characters")
        )
        if request_sha(call) != verdict.judge_request_sha:
            raise UsageError(f"{place}: the rebuilt request differs from the one that was sent (another hash)")
        return Rebuilt(verdict, call, prompt, sent["nonce"], len(items), at + 1)

    def _scorer(self, sha: str, place: str) -> tuple[Portfolio, Scorer]:
        if sha not in self._scorers:
            text = self._archive.portfolio_text(sha)
            if text is None:
                raise UsageError(f"{place}: the store has no portfolio {sha[:12]}")
            portfolio = parse_stored_portfolio(text)
            self._scorers[sha] = (portfolio, Scorer(compile_plan([_judged_only(portfolio)])))
        return self._scorers[sha]

    def _prompt(self, prompt: JudgePrompt, sha: str, place: str) -> JudgePrompt:
        text = self._archive.template(sha)
        if text is None:
            raise UsageError(f"{place}: the store has no template {sha[:12]}")
        if template_sha(text) != sha:
            raise UsageError(f"{place}: the template {sha[:12]} in the store was changed; its hash does not match")
        return replace(prompt, template=text, sha=sha)

    def _stored_inputs(self, place: str) -> Mapping[str, str | None]:
        """Return the inputs of another item of a call, from its row."""
        verdict = self._archive.verdict(place)
        return self._inputs(verdict, *self._scorer(verdict.portfolio_sha, place))

    def _inputs(self, verdict: ArchivedVerdict, portfolio: Portfolio, scorer: Scorer) -> Mapping[str, str | None]:
        record = self._archive.record(verdict)
        if record is None:
            raise UsageError(
                f"{verdict.place}: the input cannot be rebuilt, because retention has deleted the sample of the trace"
            )
        wanted = (verdict.span_index, verdict.metric, verdict.judge)
        for request in _requests(portfolio, scorer, verdict, record):
            is_same = (request.span_index, request.metric, request.judge) == wanted
            if is_same and input_sha(request.inputs) == verdict.judge_input_sha:
                return request.inputs
        raise UsageError(
            f"{verdict.place}: the stored sample of the trace does not give the judged input, because redaction "
            "changed more in the whole record than in the field"
        )


def _judged_only(portfolio: Portfolio) -> Portfolio:
    """Return the portfolio with its judged metrics only; Python scorers are not available here."""
    metrics = tuple(m for m in portfolio.metrics if m.claim.form in ("judge", "compare"))
    return portfolio.model_copy(update={"metrics": metrics})


def _requests(portfolio: Portfolio, scorer: Scorer, verdict: ArchivedVerdict, record: bytes) -> list[JudgeRequest]:
    offset = verdict.source_offset
    records = RecordSlice(
        verdict.lane, verdict.source_topic, verdict.source_partition, offset, offset + 1,
        np.array([offset], dtype=np.int64), pa.array([record], pa.binary()),
    )  # fmt: skip
    scored = score(scorer, fixed_selection([scorer.plan.portfolios[0]]), records)
    return [JudgeRequest.from_json(value) for value in scored.tables["judge_requests"].column("value").to_pylist()]
