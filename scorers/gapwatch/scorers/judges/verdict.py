"""Reads a judge's answer: a verdict, or the reason for rejecting it; text repeated from a fence never counts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from gapwatch.scorers.judges.chat_model import ChatReply
from gapwatch.scorers.judges.fence import outside_fences
from gapwatch.scorers.judges.scale import Band, Scale

#: Characters of a justification that a row stores.
JUSTIFICATION_CHARACTERS = 4_000
#: Characters of an answer that are read; a longer one, as of a model that repeats itself, is not a verdict.
_ANSWER_CHARACTERS = 200_000
_CODE_BLOCK = re.compile(r"\A\s*```(?:json|JSON)?\s*\n(.*?)\n?\s*```\s*\Z", re.DOTALL)
#: Reasoning before the answer, where the provider does not remove it.
_THINKING = re.compile(r"\A\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)


@dataclass(frozen=True)
class JudgeAnswer:
    """Verdict of one judge.

    Attributes:
        band: Band of the scale.
        justification: The judge's own words.
        more: Values of the rubric's own schema.
    """

    band: Band
    justification: str
    more: Mapping[str, Any]


@dataclass(frozen=True)
class NoAnswer:
    """Reason for rejecting an answer.

    Attributes:
        reason: One of a closed set: `refusal`, `cut_short`, `not_json`, `not_object`, `wrong_call`, `no_justification`,
            `no_score`, `off_scale`, `score_before_justification`, `schema`, `several`.
        detail: Explanation for people and for the repair request.
    """

    reason: str
    detail: str = ""

    @property
    def can_be_repaired(self) -> bool:
        """True if Gapwatch asks once more; it respects a refusal."""
        return self.reason != "refusal"


def read_verdict(reply: ChatReply, scale: Scale, schema: Mapping[str, Any], nonce: str) -> JudgeAnswer | NoAnswer:
    """Read a judge's answer to the call with this nonce.

    Args:
        reply: Reply of the model.
        scale: Scale of the rubric.
        schema: JSON Schema that the answer has to follow.
        nonce: Nonce of the call; an answer that does not repeat it is rejected.
    """
    document = _whole(reply, nonce)
    return document if isinstance(document, NoAnswer) else _checked(document, scale, schema, "call")


def read_verdicts(
    reply: ChatReply, scale: Scale, schema: Mapping[str, Any], nonce: str, items: int
) -> list[JudgeAnswer | NoAnswer]:
    """Read a judge's answers to a call with several items, in their order.

    An item that is missing, answered twice or answered badly has no answer; the others have theirs. Without a readable
    list, no item has one.

    Args:
        reply: Reply of the model.
        scale: Scale of the rubric.
        schema: JSON Schema that each answer has to follow.
        nonce: Nonce of the call; a reply that does not repeat it is rejected.
        items: Number of items; the first is item 1.
    """
    document = _whole(reply, nonce)
    if isinstance(document, NoAnswer):
        return [document] * items
    listed = document.get("items")
    if not isinstance(listed, list):
        return [NoAnswer("not_object", 'the key "items" holds no list')] * items
    by_number: dict[int, list[dict[str, Any]]] = {}
    for one in listed:
        number = one.get("item") if isinstance(one, dict) else None
        if isinstance(number, int) and not isinstance(number, bool):
            by_number.setdefault(number, []).append(one)
    answers: list[JudgeAnswer | NoAnswer] = []
    for number in range(1, items + 1):
        found = by_number.get(number, [])
        if len(found) == 1:
            answers.append(_checked(found[0], scale, schema, "item"))
        else:
            words = "is missing" if not found else f"is answered {len(found)} times"
            answers.append(NoAnswer("several" if found else "no_score", f"item {number} {words}"))
    return answers


def _whole(reply: ChatReply, nonce: str) -> dict[str, Any] | NoAnswer:
    """Return the one JSON object of a reply to the call with this nonce."""
    if reply.refusal or reply.finish_reason in ("content_filter", "safety", "refusal"):
        return NoAnswer("refusal", (reply.refusal or "stopped by the provider's filter")[:300])
    if reply.finish_reason in ("length", "max_tokens"):
        return NoAnswer("cut_short", "the answer reached the limit of tokens")
    document = _document(reply.text[:_ANSWER_CHARACTERS], nonce)
    if not isinstance(document, NoAnswer) and document.get("call") != nonce:
        return NoAnswer("wrong_call", 'the key "call" does not hold the number of this call')
    return document


def _document(text: str, nonce: str) -> dict[str, Any] | NoAnswer:
    own = _THINKING.sub("", outside_fences(text, nonce))
    if block := _CODE_BLOCK.match(own):
        own = block[1]
    try:
        document = orjson.loads(own)
    except orjson.JSONDecodeError as error:
        return NoAnswer("not_json", f"the answer is not one JSON object and nothing else ({error})")
    if not isinstance(document, dict):
        return NoAnswer("not_object", "the answer is JSON, but no object")
    return document


def _checked(document: dict[str, Any], scale: Scale, schema: Mapping[str, Any], mark: str) -> JudgeAnswer | NoAnswer:
    """Return the answer of a document; `mark` names the key that says what it answers."""
    justification, score = document.get("justification"), document.get("score")
    if not isinstance(justification, str) or not justification.strip():
        return NoAnswer("no_justification", 'the key "justification" holds no text')
    if score is None:
        return NoAnswer("no_score", 'the key "score" is missing')
    keys = list(document)
    if keys.index("justification") > keys.index("score"):
        return NoAnswer("score_before_justification", "the justification has to stand before the score")
    band = _band(score, scale)
    if band is None:
        words = ", ".join(band.word for band in scale.bands)
        return NoAnswer("off_scale", f'the key "score" holds none of: {words}')
    wrong = _against_schema(document, schema, (mark, "justification", "score"))
    if wrong is not None:
        return NoAnswer("schema", wrong)
    more = {name: value for name, value in document.items() if name not in (mark, "justification", "score")}
    return JudgeAnswer(band, justification[:JUSTIFICATION_CHARACTERS], more)


def _band(score: object, scale: Scale) -> Band | None:
    if isinstance(score, str):
        return scale.band(score)
    if isinstance(score, int | float) and not isinstance(score, bool):
        return scale.number(float(score))
    return None


_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}


def _against_schema(document: dict[str, Any], schema: Mapping[str, Any], known: tuple[str, ...]) -> str | None:
    """Return the first violation of the parts of JSON Schema that structured output has: keys, types, enumerations.

    Args:
        document: The answer.
        schema: The schema.
        known: Keys whose values have been read.
    """
    properties = schema["properties"]
    for name in schema["required"]:
        if name not in document:
            return f'the key "{name}" is missing'
    for name, value in document.items():
        if name not in properties:
            return f'the key "{name[:60]}" was not asked for'
        if name not in known and (problem := _against_property(value, properties[name])):
            return f'the key "{name[:60]}" {problem}'
    return None


def _against_property(value: object, schema: object) -> str | None:
    if not isinstance(schema, dict):
        return None
    kinds = schema.get("type")
    names = kinds if isinstance(kinds, list) else [kinds] if isinstance(kinds, str) else []
    if names and not any(_is_of_type(value, name) for name in names):
        return f"is no {' or '.join(names)}"
    if "enum" in schema and value not in schema["enum"]:
        return "holds none of the values that were asked for"
    if isinstance(value, list) and "items" in schema:
        return next((f"has an element that {p}" for v in value if (p := _against_property(v, schema["items"]))), None)
    return None


def _is_of_type(value: object, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    expected = _TYPES.get(name)
    return expected is None or isinstance(value, expected)


def repair_words(problem: NoAnswer, nonce: str, *, has_items: bool = False) -> str:
    """Return the repair request for a rejected answer; it never repeats text from the data.

    Args:
        problem: Why the answer was rejected.
        nonce: Nonce of the call.
        has_items: True if the call has a numbered item.
    """
    keys = (
        '"items", a list of one object with "item" (1), "justification", "score"'
        if has_items
        else ('"justification", "score"')
    )
    return (
        f"Your answer could not be read: {problem.detail}. Answer once more, with one JSON object and nothing else: "
        f'"call" (exactly "{nonce}"), {keys}, in this order.'
    )
