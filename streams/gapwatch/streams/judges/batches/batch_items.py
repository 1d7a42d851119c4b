"""Requests of a batch: their calls, and what their results become."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gapwatch.scorers.judges.chat_model import ChatCall, ModelFailure
from gapwatch.scorers.judges.judgement import Judgement, PaidCall
from gapwatch.scorers.judges.prompt import input_sha, request_sha
from gapwatch.scorers.judges.suspicion import suspicions
from gapwatch.scorers.judges.verdict import NoAnswer
from gapwatch.sinks.verdicts.batch_journal import BatchItem
from gapwatch.sinks.verdicts.open_requests import WaitingRequest
from gapwatch.streams.judges.batches.batch_api import BatchAnswer
from gapwatch.streams.judges.calls.judging import OBSERVED_CHARACTERS, JudgeQuestion, Judging, judgement_of
from gapwatch.streams.judges.calls.window import OverWindow

#: Most batches in which one request is asked.
MOST_ATTEMPTS = 3
#: Failures for good; after all others, which pass or which people can mend, the same request may succeed.
FINAL_FAILURES = frozenset({"bad_request"})


@dataclass(frozen=True)
class PreparedItem:
    """Request that is ready for a batch.

    Attributes:
        item: As the journal has it.
        question: Its question.
        call: Its call.
        pinned: Hashes of the request and its parts, and the beginning of what is judged.
        found: Suspicions of its inputs.
    """

    item: BatchItem
    question: JudgeQuestion
    call: ChatCall
    pinned: dict[str, Any]
    found: list[str]


class BatchItems:
    """Prepares requests and reads their results.

    Args:
        judging: Knows the questions.
    """

    def __init__(self, judging: Judging) -> None:
        self._judging = judging

    def prepare(self, waiting: WaitingRequest, item: BatchItem) -> PreparedItem | Judgement:
        """Return the call of a request, or its judgement where nothing can be sent."""
        question, inputs = self._judging.questions[waiting.request.question], waiting.request.inputs
        found = sorted({name for text in question.prompt.judged_texts(inputs) for name in suspicions(text)})
        observed = next((text for text in reversed([*inputs.values()]) if text), None)
        pinned: dict[str, Any] = {
            "prompt_sha": question.prompt.sha,
            "sampling_params_sha": question.params_sha,
            "input_sha": input_sha(inputs),
            "observed": observed[:OBSERVED_CHARACTERS] if observed else None,
        }
        absent = [name for name, text in inputs.items() if text is None]
        if absent:
            return Judgement(item.id, "error", reason=f"input_absent: {', '.join(absent)}", **pinned)
        try:
            call, characters = self._judging.fitted_call(question, inputs, item.nonce)
        except OverWindow as error:
            return Judgement(item.id, "error", reason=f"over_window: {error}"[:300], calls=item.paid, **pinned)
        pinned["request_sha"] = request_sha(call)
        return PreparedItem(replace(item, characters=characters), question, call, pinned, found)

    def read(self, one: PreparedItem, answer: BatchAnswer | None, key: str, provider_id: str) -> Judgement | BatchItem:
        """Return the judgement of an answer, or the item that is asked again."""
        item, question = one.item, one.question
        failure = ModelFailure("unavailable", "the batch has no result for this request")
        if answer is not None and answer.failure is not None:
            failure = answer.failure
        request: dict[str, Any] = {"model": question.judge.model, "params": dict(question.params), "nonce": item.nonce}
        if item.characters is not None:
            request["characters"] = item.characters
        evidence: dict[str, Any] = {
            "request": request,
            "batch": {"id": provider_id, "custom_id": custom_id_of(key, item), "attempt": item.attempt},
            **({"suspicions": one.found} if one.found else {}),
        }
        is_last = item.attempt >= MOST_ATTEMPTS
        if answer is None or answer.reply is None:
            paid = (*item.paid, PaidCall(question.judge.model, failure.kind))
            if failure.kind not in FINAL_FAILURES and not is_last:
                return replace(item, attempt=item.attempt + 1, paid=paid)
            return Judgement(item.id, "error", reason=str(failure)[:300], evidence=evidence, calls=paid, **one.pinned)
        reply = answer.reply
        tokens = reply.input_tokens or 0, reply.output_tokens or 0
        is_known = reply.input_tokens is not None and reply.output_tokens is not None
        usd = question.price.of(*tokens) if is_known else question.price.worst(one.call)
        paid = (*item.paid, PaidCall(question.judge.model, "reply", *tokens, usd))
        (verdict,) = question.prompt.answers(reply, item.nonce)
        if isinstance(verdict, NoAnswer) and verdict.can_be_repaired and not is_last:
            return replace(item, attempt=item.attempt + 1, paid=paid)
        made = judgement_of(item.id, question, reply, verdict, evidence, paid, one.pinned)
        if made.triple is not None:
            made = replace(made, triple=replace(made.triple, model_id=f"{made.triple.model_id}:batch"))
        return made


def custom_id_of(key: str, item: BatchItem) -> str:
    """Return the id of a request in the batch with this key: at most 64 letters, digits and underscores."""
    return f"{key}_{item.id}"
