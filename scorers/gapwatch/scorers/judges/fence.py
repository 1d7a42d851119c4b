"""Fences around inputs of judges: each input is marked as data, so that no text in it counts as an instruction.

Each input is between two lines with a nonce, a random number for this call. A text cannot close a fence whose nonce it
does not know, and an answer that does not repeat the nonce is rejected.
"""

from __future__ import annotations

import re

from gapwatch.scorers.transcripts.cutting import cut
from gapwatch.scorers.transcripts.turns import CALL, RESULT, TEXT, Transcript, Turn, TurnPart

#: Hex digits of the nonce; 64 bits cannot be guessed, and are short enough for a model to repeat.
NONCE_DIGITS = 16

_NONCE = re.compile(rf"[0-9a-f]{{{NONCE_DIGITS}}}")

#: Longest input in a prompt, in characters; the middle of a longer text is left out, and a line says so. It is all that
#: is recorded of what a model was sent: a true statement about what a judge is not shown looks invented. It costs some
#: 15,000 input tokens for the longest texts (4.5 cents at 3 dollars per million); most are a tenth as long.
SHOWN_CHARACTERS = 60_000
#: Characters that a role or the name of a tool may have in the line before a turn, and the longest such name.
_NO_WORD, _WORD_CHARACTERS = re.compile(r"[^A-Za-z0-9_.:-]+"), 40


def fence(name: str, text: str, nonce: str, limit: int = SHOWN_CHARACTERS, more: str = "") -> str:
    """Return one input for the prompt: cut, with invisible characters spelt out, between two lines with the nonce.

    Args:
        name: Name of the field.
        text: Its value, already redacted.
        nonce: `NONCE_DIGITS` lower-case hex digits.
        limit: Longest input, in characters.
        more: What only the first line says behind the name.

    Raises:
        ValueError: The nonce has another form.
    """
    if not _NONCE.fullmatch(nonce):
        raise ValueError(f"a nonce has {NONCE_DIGITS} hex digits, not {nonce!r}")
    shown = make_visible(cut(text, limit))
    # A text can contain the nonce by chance only (1 in 2^64), or if it was written after the call.
    shown = shown.replace(nonce, "[number removed]")
    label = make_visible(name).replace("\n", " ")
    return f"<<<DATA {nonce} {label}{more}>>>\n{shown}\n<<<END {nonce} {label}>>>"


def fence_turns(name: str, transcript: Transcript, nonce: str) -> str:
    """Return a conversation for the prompt: a fence for each text, call and result of each turn.

    The turns are numbered from the first of the whole conversation. A line outside of all fences says how many turns
    are left out.

    Args:
        name: Name of the field.
        transcript: The conversation, cut to its size and redacted.
        nonce: `NONCE_DIGITS` lower-case hex digits.
    """
    count = len(transcript.turns) + transcript.left_turns
    blocks: list[str] = []
    for position, turn in enumerate(transcript.turns):
        is_behind = transcript.left_turns and position >= transcript.gap
        if is_behind and position == transcript.gap:
            blocks.append(_left_out(transcript))
        number = position + 1 + (transcript.left_turns if is_behind else 0)
        for part in turn.parts:
            more = f" of {count}, {_spoken(turn)}{_said(part)}"
            blocks.append(fence(f"{name} turn {number}", part.text, nonce, len(part.text), more))
    if transcript.left_turns and transcript.gap >= len(transcript.turns):
        blocks.append(_left_out(transcript))
    return "\n".join(blocks)


def _left_out(transcript: Transcript) -> str:
    return f"[... {transcript.left_turns:,} turns with {transcript.left_characters:,} characters left out ...]"


def _spoken(turn: Turn) -> str:
    name = _word(turn.name)
    return f"{_word(turn.role) or 'other'}{f' ({name})' if name else ''}"


def _said(part: TurnPart) -> str:
    if part.kind == TEXT:
        return ""
    name = _word(part.name) or "unnamed"
    return {CALL: f", calls tool {name}", RESULT: ", result of tool" + (f" {name}" if part.name else "")}.get(
        part.kind, f", {name}"
    )


def _word(text: str) -> str:
    """Return a name from the data as one word of letters, digits and marks, so that it can say nothing to a judge."""
    return _NO_WORD.sub("_", text)[:_WORD_CHARACTERS]


#: Controls, joiners, direction marks, fillers, variation selectors, tags and lone surrogates: a person does not see
#: them, but a model reads them. A regular expression, because `unicodedata` is too slow for long texts.
INVISIBLE = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\xad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b-\\u200f"
    "\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffb\\ud800-\\udfff\\U000e0000-\\U000e0fff]"
)


def make_visible(text: str) -> str:
    r"""Return a text with every invisible or direction-changing character spelt out, such as `\u{200b}`."""
    return INVISIBLE.sub(lambda found: f"\\u{{{ord(found[0]):x}}}", text)


def outside_fences(reply: str, nonce: str) -> str:
    """Return a model's reply without the fences that it repeats, and without their contents.

    If the reply opens a fence and does not close it, the rest of the reply is removed.
    """
    if f"<<<DATA {nonce}" not in reply:
        return reply
    pattern = rf"<<<DATA {nonce}[^\n>]*>>>.*?(?:<<<END {nonce}[^\n>]*>>>|\Z)"
    return re.sub(pattern, "", reply, flags=re.DOTALL)
