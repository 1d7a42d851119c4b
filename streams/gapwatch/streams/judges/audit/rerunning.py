"""Runs verdicts again, from the rows that they left, and says how many come out the same."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.judges.agreement import Estimate, share
from gapwatch.scorers.judges.chat_model import ChatModel, ModelFailure
from gapwatch.scorers.judges.triple import model_id
from gapwatch.scorers.judges.verdict import JudgeAnswer, read_verdict
from gapwatch.sinks.reading.verdict_archive import VerdictArchive
from gapwatch.streams.judges.audit.rebuilding import Rebuilder, Rebuilt
from gapwatch.streams.judges.calls.provider import CallPrice, Provider
from gapwatch.streams.judges.settings import JudgeSettings


@dataclass(frozen=True)
class Rerun:
    """One verdict, then and now.

    Attributes:
        place: Of the row.
        before: Outcome and band of the row.
        after: Outcome and band of the new answer; an error has its reason for a band.
        model_before, model_after: Which model answered.
        why: There is no verdict this time; empty where there is one.
    """

    place: str
    before: tuple[str, str | None]
    after: tuple[str, str | None]
    model_before: str | None
    model_after: str | None
    why: str = ""

    @property
    def agrees(self) -> bool:
        """Whether outcome and band are the same."""
        return self.before == self.after


@dataclass
class Reproducibility:
    """How far verdicts come out the same.

    Attributes:
        outcomes: Share of those that were answered again whose outcome is the same.
        bands: Share whose band is the same as well.
        errors: Those that got no verdict this time, by reason.
        not_rebuilt: Those whose request could not be built again, with why.
    """

    outcomes: Estimate
    bands: Estimate
    errors: Counter[str] = field(default_factory=Counter)
    not_rebuilt: list[str] = field(default_factory=list)


def rerun(rebuilt: list[Rebuilt], settings: JudgeSettings, make_model: Callable[[str], ChatModel]) -> list[Rerun]:
    """Ask each request once more, without repair, cache or cap."""

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
    schema: Any = item.prompt.response_format["json_schema"]
    call = replace(item.call, timeout_seconds=provider.settings.timeout_seconds)
    try:
        reply = await provider.fetch_reply(call, CallPrice("", "", 0.0, 0.0, 0), [])
    except ModelFailure as failure:
        return Rerun(verdict.place, before, ("error", failure.kind), verdict.judge_model_id, None, failure.detail)
    answer = read_verdict(reply, item.prompt.scale, schema["schema"], item.nonce)
    model = model_id(item.call.model, reply.model)
    if not isinstance(answer, JudgeAnswer):
        return Rerun(verdict.place, before, ("error", answer.reason), verdict.judge_model_id, model, answer.detail)
    after = ("pass" if answer.band.passes else "fail", answer.band.word)
    return Rerun(verdict.place, before, after, verdict.judge_model_id, model)


def reproducibility(
    archive: VerdictArchive, settings: JudgeSettings, make_model: Callable[[str], ChatModel], sample: int
) -> Reproducibility:
    """Run a sample of verdicts again.

    Args:
        archive: Of a store.
        settings: How providers are reached.
        make_model: Makes the way to a vendor's models.
        sample: How many; the same ones each time, chosen by the hash of their requests.

    Raises:
        UsageError: There is no verdict.
    """
    places = archive.places(sample)
    if not places:
        raise UsageError("the store has no verdict of a judge; nothing can be run again")
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
