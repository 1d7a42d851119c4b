"""Repeats verdicts from their rows, and measures how many come out the same."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.judges.agreement import Estimate, share
from gapwatch.scorers.judges.chat_model import ChatModel, ModelFailure
from gapwatch.scorers.judges.triple import model_id
from gapwatch.scorers.judges.verdict import JudgeAnswer
from gapwatch.sinks.reading.verdict_archive import VerdictArchive
from gapwatch.streams.judges.audit.rebuilding import Rebuilder, Rebuilt
from gapwatch.streams.judges.calls.call_price import CallPrice
from gapwatch.streams.judges.calls.provider import Provider
from gapwatch.streams.judges.settings import JudgeSettings


@dataclass(frozen=True)
class Rerun:
    """A verdict and its repetition.

    Attributes:
        place: Place of the row.
        before: Outcome and band of the row.
        after: Outcome and band of the repetition; of an error, `error` and its reason.
        model_before, model_after: The model that answered.
        why: Reason why the repetition has no verdict; empty if it has one.
    """

    place: str
    before: tuple[str, str | None]
    after: tuple[str, str | None]
    model_before: str | None
    model_after: str | None
    why: str = ""

    @property
    def agrees(self) -> bool:
        """True if outcome and band are the same."""
        return self.before == self.after


@dataclass
class Reproducibility:
    """Shares of repeated verdicts that come out the same.

    Attributes:
        outcomes: Share with the same outcome, of those that were answered.
        bands: Share with the same outcome and band.
        errors: Number of repetitions without a verdict, by reason.
        not_rebuilt: Reasons of the requests that could not be rebuilt.
    """

    outcomes: Estimate
    bands: Estimate
    errors: Counter[str] = field(default_factory=Counter)
    not_rebuilt: list[str] = field(default_factory=list)


def rerun(rebuilt: list[Rebuilt], settings: JudgeSettings, make_model: Callable[[str], ChatModel]) -> list[Rerun]:
    """Send each request once more, without repair, cache or cap.

    Args:
        rebuilt: The requests.
        settings: Settings of the judges.
        make_model: Makes the adapter of a vendor's models.
    """

    async def all_of_them() -> list[Rerun]:
        providers: dict[str, Provider] = {}
        for item in rebuilt:
            if item.call.vendor not in providers:
                vendor = item.call.vendor
                providers[vendor] = Provider(settings.provider(vendor), make_model(vendor))
        try:
            return list(await asyncio.gather(*(_again(item, providers[item.call.vendor]) for item in rebuilt)))
        finally:
            for provider in providers.values():
                await provider.model.close()

    return asyncio.run(all_of_them())


async def _again(item: Rebuilt, provider: Provider) -> Rerun:
    verdict = item.verdict
    before = (verdict.outcome, verdict.band)
    call = replace(item.call, timeout_seconds=provider.settings.timeout_seconds)
    try:
        reply = await provider.fetch_reply(call, CallPrice("", "", 0.0, 0.0, 0), [])
    except ModelFailure as failure:
        return Rerun(verdict.place, before, ("error", failure.kind), verdict.judge_model_id, None, failure.detail)
    answer = item.prompt.answers(reply, item.nonce, item.items)[item.place - 1]
    model = model_id(item.call.model, reply.model)
    if not isinstance(answer, JudgeAnswer):
        return Rerun(verdict.place, before, ("error", answer.reason), verdict.judge_model_id, model, answer.detail)
    after = ("pass" if answer.band.passes else "fail", answer.band.word)
    return Rerun(verdict.place, before, after, verdict.judge_model_id, model)


def reproducibility(
    archive: VerdictArchive, settings: JudgeSettings, make_model: Callable[[str], ChatModel], sample: int
) -> Reproducibility:
    """Repeat a sample of verdicts.

    Args:
        archive: Verdicts of a store.
        settings: Settings of the judges.
        make_model: Makes the adapter of a vendor's models.
        sample: Number of verdicts; the hash of the request chooses the same ones each time.

    Raises:
        UsageError: The store has no verdict.
    """
    places = archive.places(sample)
    if not places:
        raise UsageError("the store has no verdict of a judge to repeat")
    rebuilder = Rebuilder(archive)
    rebuilt, missing = [], []
    for place in places:
        try:
            rebuilt.append(rebuilder.rebuild(archive.verdict(place)))
        except UsageError as error:
            missing.append(str(error))
    done = rerun(rebuilt, settings, make_model)
    answered = [item for item in done if item.after[0] != "error"]
    same_outcome = sum(item.before[0] == item.after[0] for item in answered)
    return Reproducibility(
        share(same_outcome, len(answered)),
        share(sum(item.agrees for item in answered), len(answered)),
        Counter(str(item.after[1]) for item in done if item.after[0] == "error"),
        missing,
    )
