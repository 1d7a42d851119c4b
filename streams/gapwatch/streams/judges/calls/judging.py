"""Answers one judge request: builds the prompt, calls the model, reads the verdict, and records how it was made."""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from gapwatch.scorers.judges.canonical import canonical_value
from gapwatch.scorers.judges.chat_model import ChatCall, ChatReply, ModelFailure
from gapwatch.scorers.judges.fence import NONCE_DIGITS
from gapwatch.scorers.judges.judgement import Judgement, PaidCall
from gapwatch.scorers.judges.prompt import JudgePrompt, input_sha, judge_prompt, request_sha
from gapwatch.scorers.judges.request import JudgeRequest
from gapwatch.scorers.judges.suspicion import suspicions
from gapwatch.scorers.judges.triple import StabilityTriple, model_id, sampling_params_sha
from gapwatch.scorers.judges.verdict import JudgeAnswer, NoAnswer
from gapwatch.scorers.portfolio.claim import Judge, JudgedClaim
from gapwatch.streams.judges.calls.call_price import CallPrice
from gapwatch.streams.judges.calls.item_groups import AskAlone, GroupedItem, ItemGroups
from gapwatch.streams.judges.calls.patience import Patience, SharedPatience
from gapwatch.streams.judges.calls.provider import OverBudget, Provider
from gapwatch.streams.judges.calls.terms import JudgeTerms
from gapwatch.streams.judges.calls.verdict_cache import VerdictCache
from gapwatch.streams.judges.calls.wallet import Wallet
from gapwatch.streams.judges.calls.window import OverWindow, fits_window, fitted_call, window_of
from gapwatch.streams.judges.models.model_maker import ModelMaker
from gapwatch.streams.judges.secret import key_name
from gapwatch.streams.judges.settings import JudgeSettings, vendor_of

OBSERVED_CHARACTERS = 300
#: Names of the parameter that limits the tokens of a reply.
_OUTPUT_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
#: Failures that one item of a call may cause: each is asked again alone.
_OF_THE_ITEMS = frozenset({"bad_request", "bad_reply", "empty", "timeout", "cut_off"})


@dataclass(frozen=True)
class JudgeQuestion:
    """The part of a judge's request that does not depend on the inputs.

    Attributes:
        judge: The judge, from the portfolio.
        prompt: Prompt of the metric.
        params: Parameters as sent: the judge's, and a token limit if it has none.
        price: Price of a call.
        params_sha: Hash of the sampling parameters.
        sha: Hash of template, name of the judge, model and all parameters; equal questions have equal hashes.
    """

    judge: Judge
    prompt: JudgePrompt
    params: Mapping[str, object]
    price: CallPrice
    params_sha: str
    sha: str


def sent_parameters(judge: Judge, max_output_tokens: int) -> dict[str, object]:
    """Return the parameters of each call of a judge.

    Args:
        judge: The judge.
        max_output_tokens: Limit of the reply, if the judge's params have none.
    """
    if any(name in judge.params for name in _OUTPUT_LIMITS):
        return dict(judge.params)
    return {"max_tokens": max_output_tokens, **judge.params}


def judge_questions(terms: Iterable[JudgeTerms], settings: JudgeSettings) -> dict[tuple[str, str, str], JudgeQuestion]:
    """Return the questions of all judges by (portfolio sha, metric, judge).

    Args:
        terms: Portfolios with their prices.
        settings: Settings of the judges.
    """
    questions = {}
    for one in terms:
        portfolio = one.portfolio
        for metric in portfolio.metrics:
            claim = metric.claim
            if not isinstance(claim, JudgedClaim):
                continue
            prompt = judge_prompt(claim)
            for judge in claim.judges:
                params = sent_parameters(judge, settings.max_output_tokens)
                limit = next((params[n] for n in _OUTPUT_LIMITS if isinstance(params.get(n), int)), None)
                most = limit if isinstance(limit, int) else settings.max_output_tokens
                provider = settings.provider(vendor_of(judge.model))
                share = 1 - provider.batch_discount if provider.mode == "batch" else 1.0
                usd = [token * share for token in one.price(judge.model)]
                price = CallPrice(portfolio.portfolio, metric.name, usd[0], usd[1], most)
                question = JudgeQuestion(
                    judge, prompt, params, price, sampling_params_sha(params), _question_sha(prompt, judge, params)
                )
                questions[portfolio.sha, metric.name, judge.name or judge.model] = question
    return questions


class Judging:
    """Answers judge requests, any number at once, in one event loop.

    Args:
        terms: Portfolios whose requests are answered, with their prices.
        settings: Settings of the judges.
        make_model: Makes the adapter of a vendor's models.
        wallet: Reserves the cost of calls; None: there is no cap.
        draw_nonce: Returns a random number for a prompt; None: from the system's random source.
    """

    def __init__(
        self,
        terms: Iterable[JudgeTerms],
        settings: JudgeSettings,
        make_model: ModelMaker,
        wallet: Wallet | None = None,
        draw_nonce: Callable[[], str] | None = None,
    ) -> None:
        self.questions: dict[tuple[str, str, str], JudgeQuestion] = {}
        self._most_items: dict[str, int] = {}
        self.providers: dict[str, Provider] = {}
        self.suspicions: Counter[tuple[str, str]] = Counter()
        self._settings = settings
        self._make_model = make_model
        self._wallet = wallet
        self._draw_nonce = draw_nonce or _nonces().__next__
        self._cache: VerdictCache[Judgement] = VerdictCache(settings.cache_entries)
        self._groups: ItemGroups[JudgeQuestion] = ItemGroups(self._judge_together)
        self.add(terms)

    def add(self, terms: Iterable[JudgeTerms]) -> None:
        """Also answer requests of these portfolios; may be called on any thread."""
        more = judge_questions(terms, self._settings)
        most = dict(self._most_items)
        for question in more.values():
            lane = self._settings.lane(vendor_of(question.judge.model))
            most[lane] = max(most.get(lane, 1), question.prompt.items_per_call)
        self.questions, self._most_items = {**self.questions, **more}, most

    def breaker_states(self) -> dict[str, str]:
        """Return the state of the circuit breaker by vendor, for all providers asked so far."""
        return {vendor or "-": provider.breaker.state for vendor, provider in list(self.providers.items())}

    def knows(self, request: JudgeRequest, lane: str | None = None) -> bool:
        """Return True if this process has the portfolio of a request, and its model belongs to the lane.

        Args:
            request: The request, as scoring wrote it.
            lane: A lane of `JudgeSettings.lane`; None: any lane.
        """
        question = self.questions.get(request.question)
        return question is not None and lane in (None, self._settings.lane(vendor_of(question.judge.model)))

    def outages(self) -> list[str]:
        """Return the present outages of all providers, in words."""
        return [words for provider in list(self.providers.values()) for words in provider.outages()]

    async def judge(self, id_: str, request: JudgeRequest, patience: Patience | None = None) -> Judgement:
        """Return the judgement of one request; failures of a model or provider become an `error` judgement.

        Args:
            id_: Id of the request.
            request: The request, as scoring wrote it.
            patience: How long it waits for outages that people can mend; None: it does not wait for these.

        Raises:
            KeyError: `knows` returns False for the request.
            LeftPending: An outage has lasted too long, and the request stays pending.
        """
        question = self.questions[request.question]
        inputs = request.inputs
        found = sorted({name for text in question.prompt.judged_texts(inputs) for name in suspicions(text)})
        self.suspicions.update((request.pipeline, name) for name in found)
        observed = next((text for text in reversed([*inputs.values()]) if text), None)
        pinned: dict[str, Any] = {
            "prompt_sha": question.prompt.sha,
            "sampling_params_sha": question.params_sha,
            "input_sha": input_sha(inputs),
            "observed": observed[:OBSERVED_CHARACTERS] if observed else None,
        }
        absent = [name for name, text in inputs.items() if text is None]
        if absent:
            return Judgement(id_, "error", reason=f"input_absent: {', '.join(absent)}", **pinned)
        key = question.sha + pinned["input_sha"]

        async def judge_uncached() -> Judgement:
            if question.prompt.items_per_call == 1:
                return await self._judge_alone(id_, question, inputs, pinned, patience)
            item = GroupedItem(id_, request.place, inputs, pinned, patience)
            most = question.prompt.items_per_call
            answer = await self._groups.answer(request.question, question, item, most)
            if isinstance(answer, AskAlone):
                return await self._judge_alone(id_, question, inputs, pinned, patience, answer, request.place)
            return answer

        judgement, was_there = await self._cache.get(key, judge_uncached, lambda j: j.state in ("pass", "fail"))
        evidence = {**judgement.evidence, **({"suspicions": found} if found else {})}
        if was_there:
            evidence = {**evidence, "cached": True}
            return replace(judgement, id=id_, evidence=evidence, calls=())
        return replace(judgement, evidence=evidence) if found else judgement

    async def _judge_alone(
        self, id_: str, question: JudgeQuestion, inputs: Mapping[str, str | None], pinned: dict[str, Any],
        patience: Patience | None, before: AskAlone | None = None, place: str = "",
    ) -> Judgement:  # fmt: skip
        """Ask about one item: `before` is why a call with several had no answer to it."""
        nonce = self._draw_nonce()
        provider = self._provider(question.judge.model)
        try:
            call, characters = self.fitted_call(question, inputs, nonce)
        except OverWindow as error:
            calls = before.calls if before is not None else ()
            return Judgement(id_, "error", reason=f"over_window: {error}"[:300], calls=calls, **pinned)
        request: dict[str, Any] = {"model": question.judge.model, "params": dict(question.params), "nonce": nonce}
        if characters is not None:
            request["characters"] = characters
        pinned = {**pinned, "request_sha": request_sha(call)}
        paid: list[PaidCall] = []
        evidence: dict[str, Any] = {"request": request}
        if before is not None:
            paid += before.calls
            request["items"] = [place]
            evidence["together"] = {"items": 1, "place": 1, "asked_again": before.reason}
        try:
            reply, answer = await self._answer(provider, question, call, nonce, paid, evidence, patience)
        except ModelFailure as failure:
            return Judgement(id_, "error", reason=str(failure)[:300], evidence=evidence, calls=tuple(paid), **pinned)
        except OverBudget:
            return Judgement(id_, "shed_budget", reason="budget", evidence=evidence, calls=tuple(paid), **pinned)
        return judgement_of(id_, question, reply, answer, evidence, tuple(paid), pinned)

    async def _judge_together(
        self, question: JudgeQuestion, group: Sequence[GroupedItem]
    ) -> list[Judgement | AskAlone]:
        """Ask about several items in one call; the first of them books it."""
        model, count, nonce = question.judge.model, len(group), self._draw_nonce()
        provider = self._provider(model)
        params = {
            name: value * count if name in _OUTPUT_LIMITS and isinstance(value, int) else value
            for name, value in question.params.items()
        }
        price = replace(question.price, most_output_tokens=count * question.price.most_output_tokens)
        call = question.prompt.call_of_items(
            model, params, [item.inputs for item in group], nonce, provider.settings.timeout_seconds
        )
        paid: list[PaidCall] = []
        patience = [item.patience for item in group if item.patience is not None]

        def again(reason: str) -> list[Judgement | AskAlone]:
            return [AskAlone(reason, tuple(paid) if at == 0 else ()) for at in range(count)]

        def evidence(at: int) -> dict[str, Any]:
            places = [item.place for item in group]
            request = {"model": model, "params": params, "nonce": nonce, "items": places}
            return {"request": request, "together": {"items": count, "place": at + 1}}

        if not fits_window(call, price.most_output_tokens, lambda size: window_of(self._settings, model, size)):
            return again("over_window")
        pinned = [{**item.pinned, "request_sha": request_sha(call)} for item in group]
        try:
            reply = await provider.fetch_reply(call, price, paid, SharedPatience(patience) if patience else None)
        except OverBudget:
            return again("budget")
        except ModelFailure as failure:
            if failure.kind in _OF_THE_ITEMS and count > 1:
                return again(failure.kind)
            return [
                Judgement(
                    item.id, "error", reason=str(failure)[:300], evidence=evidence(at),
                    calls=tuple(paid) if at == 0 else (), **pinned[at],
                )
                for at, item in enumerate(group)
            ]  # fmt: skip
        answers = question.prompt.answers(reply, nonce, count)
        return [
            AskAlone(answer.reason, calls) if isinstance(answer, NoAnswer)
            else judgement_of(item.id, question, reply, answer, evidence(at), calls, pinned[at])
            for at, (item, answer) in enumerate(zip(group, answers, strict=True))
            for calls in [tuple(paid) if at == 0 else ()]
        ]  # fmt: skip

    def most_items(self, lane: str) -> int:
        """Return the most items of one call of a lane."""
        return self._most_items.get(lane, 1)

    def fitted_call(
        self, question: JudgeQuestion, inputs: Mapping[str, str | None], nonce: str
    ) -> tuple[ChatCall, int | None]:
        """Return the call of a request, cut to the window of its model, and the characters to which it was cut."""
        model, settings = question.judge.model, self._settings
        seconds = settings.provider(vendor_of(model)).timeout_seconds
        return fitted_call(
            lambda most, given: question.prompt.call(model, question.params, given, nonce, seconds, most),
            inputs, question.price.most_output_tokens, lambda size: window_of(settings, model, size),
        )  # fmt: skip

    async def _answer(
        self, provider: Provider, question: JudgeQuestion, call: ChatCall, nonce: str, paid: list[PaidCall],
        evidence: dict[str, Any], patience: Patience | None,
    ) -> tuple[ChatReply, JudgeAnswer | NoAnswer]:  # fmt: skip
        """Ask the model, and once more if its reply holds no readable verdict."""
        prompt = question.prompt
        reply = await provider.fetch_reply(call, question.price, paid, patience)
        (answer,) = prompt.answers(reply, nonce)
        if isinstance(answer, NoAnswer) and answer.can_be_repaired:
            evidence["repaired"] = answer.reason
            turns = (("assistant", reply.text[:8_000]), ("user", prompt.repair_words(answer, nonce)))
            again = replace(call, messages=(*call.messages, *turns))
            reply = await provider.fetch_reply(again, question.price, paid, patience)
            (answer,) = prompt.answers(reply, nonce)
        return reply, answer

    def _provider(self, model: str) -> Provider:
        vendor = vendor_of(model)
        found = self.providers.get(vendor)
        if found is None:
            settings = self._settings.provider(vendor)
            name = f"provider {vendor or '-'}, {key_name(settings.key_env, settings.key_file, vendor)}"
            found = Provider(settings, self._make_model(vendor), self._wallet, name=name)
            self.providers[vendor] = found
        return found

    def asks(self, lane: str) -> bool:
        """Return True if a model of the lane is asked."""
        return lane in self._most_items

    @property
    def cache_hits(self) -> int:
        """Number of requests answered from the cache."""
        return self._cache.hits

    async def close(self) -> None:
        """Close the connections and return unspent money."""
        for provider in self.providers.values():
            await provider.model.close()
        if self._wallet is not None:
            await self._wallet.close()


def _nonces() -> Iterator[str]:
    """Yield unpredictable numbers, many from one call of the system's random source."""
    while True:
        drawn = secrets.token_hex(128 * NONCE_DIGITS)
        yield from (drawn[i : i + NONCE_DIGITS] for i in range(0, len(drawn), NONCE_DIGITS))


def _question_sha(prompt: JudgePrompt, judge: Judge, params: Mapping[str, object]) -> str:
    # The judge's name: equal members of an ensemble are asked apart, or their agreement would be that of one answer.
    parts = (prompt.sha, judge.name or judge.model, judge.model, canonical_value(params).decode())
    return hashlib.sha256(orjson.dumps(parts)).hexdigest()


def judgement_of(
    id_: str, question: JudgeQuestion, reply: ChatReply, answer: JudgeAnswer | NoAnswer, evidence: dict[str, Any],
    paid: tuple[PaidCall, ...], pinned: dict[str, Any],
) -> Judgement:  # fmt: skip
    """Return the judgement of an answer.

    Args:
        id_: Id of the request.
        question: Its question.
        reply: The model's reply.
        answer: What was read in it.
        evidence: Details for the row.
        paid: Calls that were paid for it.
        pinned: Hashes of the request and its parts, and the beginning of what was judged.
    """
    named = model_id(question.judge.model, reply.model)
    triple = None if named is None else StabilityTriple(named, question.prompt.sha, question.params_sha)
    if triple is not None and triple.is_unreported:
        evidence = {**evidence, "flags": ["version_unreported"]}
    if isinstance(answer, NoAnswer):
        reason = f"{answer.reason}: {answer.detail}"[:300]
        return Judgement(id_, "error", reason=reason, triple=triple, evidence=evidence, calls=paid, **pinned)
    evidence = {"justification": answer.justification, **evidence}
    if answer.more:
        evidence["more"] = dict(answer.more)
    if triple is None:
        reason = "no_model_id: the provider did not say which model answered"
        return Judgement(id_, "error", reason=reason, evidence=evidence, calls=paid, **pinned)
    band = answer.band
    state = "pass" if band.passes else "fail"
    return Judgement(
        id_, state, band.score, band.position, band.word, triple=triple, evidence=evidence, calls=paid, **pinned
    )
