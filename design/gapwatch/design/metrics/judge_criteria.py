"""Criteria of judges: what an answer must rest on, which SQL answers a question, what a prompt asks for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from gapwatch.design.architecture.claimed_code import ClaimedCode
from gapwatch.design.architecture.component_names import snake
from gapwatch.design.architecture.evidence_flow import PROVIDED
from gapwatch.design.architecture.model import ComponentDraft, TierDraft
from gapwatch.design.architecture.prompts import Prompt
from gapwatch.design.architecture.reply_flow import has_member, is_exchange_seen
from gapwatch.design.metrics.catalog import metric_name
from gapwatch.design.metrics.prompt_demands import (
    answers_from_found,
    asks_nothing,
    demand_of,
    is_answering,
    is_find,
    is_for_statements,
    writes_sql,
)
from gapwatch.design.metrics.spans import OF_EXCHANGE, IntegrationPoint
from gapwatch.design.patterns.library_uses import CodePlace


@dataclass(frozen=True)
class JudgedTier:
    """The tier whose answers are judged.

    Attributes:
        prefix: What the names of its judges begin with.
        prompts: Its own: the one with the task first.
        span: The span of its function; None where it is asked for none.
        is_kept: Whether its function gives no text, so that the span's output is the model's reply.
        code: The functions.
    """

    component: ComponentDraft
    tier: TierDraft
    prefix: str
    prompts: list[Prompt]
    span: IntegrationPoint | None
    is_kept: bool
    code: ClaimedCode

    def has_member(self, key: str) -> bool:
        """Return whether the output is an object with a key: it is written so, or it is what the reply is parsed to."""
        return not self.is_kept and not self.is_seen and has_member(self.code, self.tier.symbol, key)

    @cached_property
    def is_seen(self) -> bool:
        """True if its span has what the model was last sent and said."""
        return is_exchange_seen(self.code, self.tier.symbol)

    @cached_property
    def given(self) -> set[str]:
        """Names of what its span shows as input."""
        subject = self.code.subject(self.tier.symbol)
        return {p.name for p in subject.ir.params} if subject is not None else set()

    @property
    def agents(self) -> list[CodePlace]:
        """Places of the prompts of agents, one for each agent, where a run starts the one that is chosen for it."""
        named = [p for p in reversed(self.prompts) if p.sent_at and _IS_AGENT.search(p.name)]
        return list({p.name: p.place for p in named if p.sent_at == named[0].sent_at}.values())

    @property
    def inputs(self) -> list[str]:
        """Fields that a judge reads."""
        return list(OF_EXCHANGE) if self.is_seen else ["input", "output"]

    @property
    def asked_at(self) -> list[int]:
        """Lines at which its prompt is sent, where the function asks again afterwards for something else."""
        return sorted(line for line, is_after in (self.span.held_at if self.span else {}).items() if not is_after)

    @property
    def answer(self) -> str:
        """Name of the judged text, for a criterion."""
        if self.is_seen and self.asked_at:
            at = " and ".join(map(str, self.asked_at))
            return f"reply of the model that `{self.tier.symbol}` asks at line {at}, which is the one that is shown,"
        if self.is_seen:
            return f"last reply of the model in `{self.tier.symbol}`"
        return f"{'reply of the model in' if self.is_kept else 'answer of'} `{self.tier.symbol}`"

    @property
    def is_provided(self) -> bool:
        """True if the provider of the model finds what it answers from."""
        named = {f for p in self.prompts for f in p.fields}
        return PROVIDED in {f for p in self.prompts for f in p.evidence_fields} - named

    @property
    def has_pictures(self) -> bool:
        """True if the model is shown pictures, which a judge cannot see."""
        return shows_pictures(self.tier.symbol, [f for p in self.prompts for f in p.fields])

    @property
    def place(self) -> CodePlace:
        """Place of its prompt, or of its code."""
        return self.prompts[0].place if self.prompts else self.tier.place


def shows_pictures(symbol: str, fields: list[str]) -> bool:
    """Return whether a function shows a model pictures, by its name, its class's, or the fields of its prompts."""
    return any(map(_OF_PICTURES.search, map(snake, (*symbol.split(".")[-2:], *fields))))


@dataclass(frozen=True)
class Criterion:
    """Criterion of a judge.

    Attributes:
        family: The judge's name without the component's and the tier's.
        inputs: What it is shown of the span.
        failure: What it finds.
        is_unnamed: Whether it is of support by what has no name in the prompt.
    """

    family: str
    text: str
    inputs: list[str]
    concern: str
    failure: str
    is_unnamed: bool = False


#: Keys of a provider's reply around the answer; no model chose their values.
_ENVELOPE = frozenset(
    "choices delta done error event finish_reason id index model object role stop_reason type usage".split()  # noqa: SIM905
)


#: Names of variables that hold an agent.
_IS_AGENT = re.compile(r"(?i)(^|_)agent$")
#: Judges that an owner wants before others.
FIRST = frozenset({"sql_answers_the_question"})
#: Names of what is fetched to ask with, and states nothing.
_IS_ASKED_WITH = re.compile(r"example|instruction|history|prompt|question|message|dialect|schema")
#: Prompts, and characters of them, that are read for what the model is to write.
_MOST_READ, _MOST_OF_TASK = 2, 700
#: Names of functions and fields by which a model is shown pictures, which a judge cannot see.
_OF_PICTURES = re.compile(r"(^|_)(vlm|vision|images?|pictures?|photos?|screenshots?|multi_?modal)(_|$)")
#: Keys in which a model thinks aloud before it answers.
_THOUGHTS = re.compile(r"logic|reason|rationale|thought|thinking|explanation|justification|analysis$", re.I)


def criteria_of(judged: JudgedTier) -> list[Criterion]:
    """Return the criteria by which the answers of a tier are judged."""
    tier, prompts, place = judged.tier, judged.prompts, judged.place
    evidence = sorted({f for p in prompts for f in p.evidence_fields if not _IS_ASKED_WITH.search(f.lower())})
    said = "\n".join(p.text for p in prompts)
    read = {k for p in prompts for k in p.output_fields} - _ENVELOPE
    keys = sorted(k for k in read if not _THOUGHTS.search(k) and k in said and judged.has_member(k))
    asked = _asked(prompts)
    if writes_sql(tier.symbol, prompts):
        return [_of_sql(judged)]
    if len(judged.agents) > 1:
        # Which of several prompts was sent, no line says.
        return []
    out: list[Criterion] = []
    # What was fetched inside of the function is in its span only with the prompt.
    is_shown = judged.is_seen or bool(judged.given.intersection(f for p in prompts for f in p.fields))
    told = " ".join(" ".join(p.text.split()) for p in prompts[:_MOST_READ])[:_MOST_OF_TASK]
    asks_much = any(demand_of(p.text) >= 1 for p in prompts)
    is_named = asks_much and is_answering(tier.symbol) and any(is_find(f) for p in prompts for f in p.fields)
    is_held = is_for_statements(tier.symbol, told) and bool(evidence or is_named or answers_from_found(prompts))
    if is_held and judged.is_provided:
        # What it must rest on is in nothing that a judge could read.
        return []
    if is_held and judged.is_seen and not judged.has_pictures:
        out.append(_of_support(judged, evidence))
    for key in keys[:2]:
        out.append(
            Criterion(
                family=f"{metric_name(key)}_is_right",
                text=f"Is the member `{key}` of the {judged.answer} right for what was asked, given what the "
                f"prompt at {place} says about it?",
                inputs=["input", f"output#/{key}"],
                concern="quality",
                failure=f"wrong {key}",
            )
        )
    if (asked or not out) and not asks_nothing(prompts) and (is_shown or not evidence):
        what = f"“{asked}”" if asked else f"the prompt built in {tier.place}"
        if judged.is_seen:
            what = f"the instructions that the model was sent for it, which are made at {place}"
        out.append(
            Criterion(
                family="follows_its_prompt",
                text=f"Does the {judged.answer} do what it is told by {what}{'' if judged.is_seen else f' ({place})'}, "
                "all of it and nothing else?",
                inputs=judged.inputs,
                concern="quality",
                failure=f"an answer that does not do what {place} asks",
            )
        )
    return out


def _of_support(judged: JudgedTier, evidence: list[str]) -> Criterion:
    """Return the criterion that an answer rests on what the model was sent, whichever prompt that was."""
    fields = _fields(judged.prompts, evidence)
    shown = evidence or [f for f in fields if is_find(f)]
    return Criterion(
        family="rests_on_" + (metric_name(shown[0]) if len(shown) == 1 else "its_sources"),
        text=support_question(judged.tier.symbol, f"`{'`, `'.join(shown)}`" if shown else ""),
        inputs=judged.inputs,
        concern="groundedness",
        failure=f"statements without support in {', '.join(shown) or 'what the model was sent'}",
        is_unnamed=not shown,
    )


def support_question(symbol: str, above_all: str) -> str:
    """Return the question whether the reply of a function's model rests on what it was sent.

    Args:
        symbol: The function.
        above_all: What of it was found for the answer; empty where that has no name.
    """
    rest = f", above all by {above_all}" if above_all else ""
    return (
        f"Is every statement, number, name and citation of the last reply of the model in `{symbol}` supported by what "
        f"the model was sent for it{rest}, and is none invented?"
    )


def _of_sql(judged: JudgedTier) -> Criterion:
    """Return the criterion that SQL which a model writes answers the question."""
    return Criterion(
        family="sql_answers_the_question",
        text=f"Does the SQL in the {judged.answer} answer the question that was asked, with tables, columns, joins, "
        f"filters and aggregates as the schema and the instructions shown to the model mean them ({judged.place})?",
        inputs=judged.inputs,
        concern="quality",
        failure="SQL that runs and answers another question",
    )


def _fields(prompts: list[Prompt], evidence: list[str]) -> list[str]:
    """Return the names of all that fills prompts, what was fetched first."""
    return list(dict.fromkeys([*evidence, *(f for p in prompts for f in p.fields if f not in evidence)]))


def _asked(prompts: list[Prompt]) -> str:
    text = next(filter(None, (" ".join(p.text.split()) for p in prompts)), "")
    return text[:160] + ("…" if len(text) > 160 else "")
