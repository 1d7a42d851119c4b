"""Prompts of judges: a template, filled once with the rubric, and for each call with the inputs and a nonce.

The template filled with the rubric is the judge's template: its bytes are hashed and stored with every verdict.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

from gapwatch.scorers.judges.canonical import canonical_texts, canonical_value
from gapwatch.scorers.judges.chat_model import ChatCall, ChatReply
from gapwatch.scorers.judges.fence import SHOWN_CHARACTERS, fence, fence_turns
from gapwatch.scorers.judges.scale import Scale, scale_of
from gapwatch.scorers.judges.verdict import JudgeAnswer, NoAnswer, read_verdict, read_verdicts, repair_words
from gapwatch.scorers.portfolio.claim import JudgedClaim, Rubric, TranscriptRule
from gapwatch.scorers.portfolio.field import TRACE_TEXT_FIELDS
from gapwatch.scorers.transcripts.cutting import cut_transcript
from gapwatch.scorers.transcripts.turns import read_transcript

_PLACE = re.compile(r"\{\{([a-z_0-9]+)\}\}")
_PART = re.compile(r"(?m)^=== (system|user) ===\n")

#: Steps for a rubric without steps.
DEFAULT_STEPS = (
    "Find in the data what the criterion speaks of, and quote it.",
    "Say what speaks for and what against the criterion being met.",
    "Weigh the two; then choose the band.",
)

#: What a template says before inputs that are shown in turns.
TURNS_NOTE = (
    "A conversation is given turn by turn, numbered from its first turn; each text, each call of a tool and each "
    "result of a tool has lines of its own. A line in square brackets outside of them says how many turns are left out."
)


@dataclass(frozen=True)
class JudgePrompt:
    """Prompt of one judged metric, without inputs.

    Attributes:
        template: The template filled with the rubric; only inputs and nonce are open.
        sha: sha256 of its bytes, in hex.
        scale: Scale of the rubric.
        response_format: Requested structured output.
        transcript: Rule by which conversations are cut; None: no input is shown in turns.
        items_per_call: Most items of one call; above 1 every call has numbered items, also that of a single one.
    """

    template: str
    sha: str
    scale: Scale
    response_format: Mapping[str, object]
    transcript: TranscriptRule | None = None
    items_per_call: int = 1

    def call(
        self,
        model: str,
        params: Mapping[str, object],
        inputs: Mapping[str, str | None],
        nonce: str,
        timeout_seconds: float = 60.0,
        characters: int | None = None,
    ) -> ChatCall:
        """Return the call for one set of inputs; equal arguments give equal bytes.

        Args:
            model: `vendor/name`.
            params: Parameters of the judge, as the portfolio writes them.
            inputs: Redacted texts by field, in the rubric's order.
            nonce: Random number of this call.
            timeout_seconds: Time for the reply; not part of the request's bytes.
            characters: Most characters of all inputs together, where the model's context window takes no more; they
                are shared out evenly.
        """
        return self.call_of_items(model, params, [inputs], nonce, timeout_seconds, characters)

    def call_of_items(
        self,
        model: str,
        params: Mapping[str, object],
        items: Sequence[Mapping[str, str | None]],
        nonce: str,
        timeout_seconds: float = 60.0,
        characters: int | None = None,
    ) -> ChatCall:
        """Return the call for the inputs of several items, at most `items_per_call`; the arguments are those of `call`.

        Where a call may have several items, each is shown an equal share of the characters of an input, however many
        there are: so a text is cut in the same place whoever else is asked about.
        """
        most = None if characters is None else characters // max(sum(map(len, items)), 1)
        if self.items_per_call == 1:
            (inputs,) = items
            fenced = [self._fenced(name, text or "", nonce, most) for name, text in inputs.items()]
        else:
            share = SHOWN_CHARACTERS // self.items_per_call
            most = share if most is None else min(most, share)
            fenced = [
                self._fenced(f"item {number} {name}", text or "", nonce, most)
                for number, inputs in enumerate(items, start=1)
                for name, text in inputs.items()
            ]
        values = {"nonce": nonce, "inputs": "\n\n".join(fenced)}
        values |= {f"input_{i}": text for i, text in enumerate(fenced, start=1)}
        messages = tuple((role, _fill(text, values)) for role, text in _parts(self.template))
        return ChatCall(model, messages, params, self.response_format, timeout_seconds)

    def answers(self, reply: ChatReply, nonce: str, items: int = 1) -> list[JudgeAnswer | NoAnswer]:
        """Return the answer to each item of a call, in their order.

        Args:
            reply: Reply of the model.
            nonce: Nonce of the call.
            items: Number of its items.
        """
        schema: Mapping[str, Any] = self.response_format["json_schema"]["schema"]  # type: ignore[index]
        if self.items_per_call == 1:
            return [read_verdict(reply, self.scale, schema, nonce)]
        return read_verdicts(reply, self.scale, schema["properties"]["items"]["items"], nonce, items)

    def repair_words(self, problem: NoAnswer, nonce: str) -> str:
        """Return the repair request for the rejected answer to a call of one item."""
        return repair_words(problem, nonce, has_items=self.items_per_call > 1)

    def _fenced(self, name: str, text: str, nonce: str, most: int | None) -> str:
        rule = self.transcript
        found = None if rule is None else read_transcript(text, is_own=True)
        if rule is None or found is None:
            return fence(name, text, nonce, SHOWN_CHARACTERS if most is None else min(most, SHOWN_CHARACTERS))
        characters = rule.characters if most is None else min(most, rule.characters)
        return fence_turns(name, cut_transcript(found, characters, rule.first_turns, rule.turn_characters), nonce)

    def judged_texts(self, inputs: Mapping[str, str | None]) -> list[str]:
        """Return the texts that a judge reads: the inputs, of conversations the text of each part."""
        texts: list[str] = []
        for text in filter(None, inputs.values()):
            found = None if self.transcript is None else read_transcript(text, is_own=True)
            texts += [text] if found is None else [part.text for turn in found.turns for part in turn.parts]
        return texts


def judge_prompt(claim: JudgedClaim) -> JudgePrompt:
    """Return the prompt of a judged metric."""
    rubric, scale = claim.rubric, scale_of(claim.rubric)
    has_items = rubric.items_per_call > 1
    text = _template("rubric_items" if has_items else rubric.template)
    # A criterion may contain text that looks like a place or a section of the template: `_inert` breaks it.
    values = {
        "criterion": _inert(rubric.criterion.strip()),
        "steps": "\n".join(f"{i}. {_inert(step)}" for i, step in enumerate(rubric.steps or DEFAULT_STEPS, start=1)),
        "scale": "\n".join(f"- {_inert(band.word)}" for band in scale.bands),
        "items_per_call": str(rubric.items_per_call),
    }
    rule = transcript_rule(rubric)
    if rule is not None:
        text = text.replace("{{inputs}}", f"{TURNS_NOTE}\n\n{{{{inputs}}}}")
    filled = _fill(text, values)
    form = _response_format(rubric, scale)
    return JudgePrompt(filled, template_sha(filled), scale, form, rule, rubric.items_per_call)


def transcript_rule(rubric: Rubric) -> TranscriptRule | None:
    """Return the rule by which the conversations of a rubric are cut; the default for the transcript of a trace."""
    if rubric.transcript is None and any(field.base in TRACE_TEXT_FIELDS for field in rubric.inputs):
        return TranscriptRule()
    return rubric.transcript


def template_sha(text: str) -> str:
    """Return the sha256 of a template's bytes, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def request_sha(call: ChatCall) -> str:
    """Return the sha256 of the RFC 8785 form of a request: of everything that is sent, except the key."""
    return hashlib.sha256(request_bytes(call)).hexdigest()


def request_bytes(call: ChatCall) -> bytes:
    """Return the canonical bytes of a request (RFC 8785), computed once for each call.

    Raises:
        ValueError: A parameter is not JSON.
    """
    made: bytes | None = call.__dict__.get("_bytes")
    if made is None:
        made = _made_bytes(call.body())
        call.__dict__["_bytes"] = made
    return made


def _made_bytes(body: Mapping[str, object]) -> bytes:
    members = []
    for name in sorted(body, key=_sort_key):
        value = body[name]
        if name == "messages" and isinstance(value, list):
            text = b"[" + b",".join(canonical_texts(message) for message in value) + b"]"
        else:
            text = canonical_value(value)
        members.append(_member_name(name) + text)
    return b"{" + b",".join(members) + b"}"


@lru_cache(maxsize=1024)
def _sort_key(name: str) -> bytes:
    return name.encode("utf-16-be")


@lru_cache(maxsize=1024)
def _member_name(name: str) -> bytes:
    return canonical_value(name) + b":"


def input_sha(inputs: Mapping[str, str | None]) -> str:
    """Return the sha256 of a judge's inputs, redacted and before they are cut."""
    return hashlib.sha256(canonical_texts(inputs)).hexdigest()


@lru_cache(maxsize=1024)
def _parts(template: str) -> tuple[tuple[str, str], ...]:
    pieces = _PART.split(template)
    return tuple((role, text.strip("\n")) for role, text in zip(pieces[1::2], pieces[2::2], strict=True))


def _fill(template: str, values: Mapping[str, str]) -> str:
    """Fill places in one pass, so that filled-in text never counts as a place."""
    return _PLACE.sub(lambda place: values.get(place[1], place[0]), template)


def _inert(text: str) -> str:
    return text.replace("{{", "{ {").replace("=== system ===", "== system ==").replace("=== user ===", "== user ==")


@cache
def _template(name: str) -> str:
    return (files("gapwatch.scorers.judges") / "templates" / f"{name}.txt").read_text(encoding="utf-8")


def _response_format(rubric: Rubric, scale: Scale) -> dict[str, object]:
    one = verdict_schema(rubric, scale)
    schema = one if rubric.items_per_call == 1 else _schema_of_items(one)
    return {"type": "json_schema", "json_schema": {"name": "verdict", "strict": True, "schema": schema}}


def _schema_of_items(one: dict[str, object]) -> dict[str, object]:
    """Return the JSON Schema of the answers to several items, from that of one: a number takes the place of `call`."""
    properties: dict[str, object] = one["properties"]  # type: ignore[assignment]
    required: list[str] = one["required"]  # type: ignore[assignment]
    own = {name: schema for name, schema in properties.items() if name != "call"}
    item = {
        **one,
        "properties": {"item": {"type": "integer"}, **own},
        "required": ["item", *(name for name in required if name != "call")],
    }
    return {
        "type": "object",
        "properties": {"call": {"type": "string"}, "items": {"type": "array", "items": item}},
        "required": ["call", "items"],
        "additionalProperties": False,
    }


def verdict_schema(rubric: Rubric, scale: Scale) -> dict[str, object]:
    """Return the JSON Schema of an answer: the keys of every verdict, and those of the rubric's own schema."""
    words: list[object] = [band.word for band in scale.bands]
    own = rubric.output_schema or {}
    extra = own.get("properties")
    properties = dict(extra) if isinstance(extra, dict) else {}
    required = own.get("required")
    more = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    fixed: dict[str, object] = {
        "call": {"type": "string"},
        **{name: schema for name, schema in properties.items() if name not in ("call", "justification", "score")},
        "justification": {"type": "string"},
        "score": {"type": "string", "enum": words},
    }
    wanted = ["call", *(name for name in more if name in fixed and name not in ("call", "justification", "score"))]
    return {
        "type": "object",
        "properties": fixed,
        "required": [*wanted, "justification", "score"],
        "additionalProperties": False,
    }
