"""Fences around inputs of judges: each input is marked as data, so that no text in it counts as an instruction.

Each input is between two lines with a nonce, a random number for this call. A text cannot close a fence whose nonce it
does not know, and an answer that does not repeat the nonce is rejected.
"""

from __future__ import annotations

import re

#: Hex digits of the nonce; 64 bits cannot be guessed, and are short enough for a model to repeat.
NONCE_DIGITS = 16

_NONCE = re.compile(rf"[0-9a-f]{{{NONCE_DIGITS}}}")

#: Longest input in a prompt, in characters; the middle of a longer text is left out.
SHOWN_CHARACTERS = 24_000
#: Share of these characters that is taken from the beginning of the text.
_HEAD = 2 / 3


def fence(name: str, text: str, nonce: str, limit: int = SHOWN_CHARACTERS) -> str:
    """Return one input for the prompt: cut, with invisible characters spelt out, between two lines with the nonce.

    Args:
        name: Name of the field.
        text: Its value, already redacted.
        nonce: `NONCE_DIGITS` lower-case hex digits.
        limit: Longest input, in characters.

    Raises:
        ValueError: The nonce has another form.
    """
    if not _NONCE.fullmatch(nonce):
        raise ValueError(f"a nonce has {NONCE_DIGITS} hex digits, not {nonce!r}")
    shown = make_visible(cut(text, limit))
    # A text can contain the nonce by chance only (1 in 2^64), or if it was written after the call.
    shown = shown.replace(nonce, "[number removed]")
    label = make_visible(name).replace("\n", " ")
    return f"<<<DATA {nonce} {label}>>>\n{shown}\n<<<END {nonce} {label}>>>"


def cut(text: str, limit: int = SHOWN_CHARACTERS) -> str:
    """Return a text of more than `limit` characters without its middle; a line says how many are left out."""
    if len(text) <= limit:
        return text
    head = int(limit * _HEAD)
    tail = limit - head
    return f"{text[:head]}\n[... {len(text) - limit} characters left out ...]\n{text[len(text) - tail :]}"


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
