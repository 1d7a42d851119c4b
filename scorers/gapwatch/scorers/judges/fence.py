"""The fence around what a pipeline wrote: a judge is shown it as data, and nothing in it can pass for an instruction.

Each input stands between two lines that carry a number which is drawn anew for each call. A text cannot close a fence
whose number it cannot know, and an answer that does not repeat the number is no answer to this call.
"""

from __future__ import annotations

import re

#: Hex digits of the number; 64 bits are beyond guessing, and short enough for a model to repeat.
NONCE_DIGITS = 16

_NONCE = re.compile(rf"[0-9a-f]{{{NONCE_DIGITS}}}")

#: What an input may fill of a prompt, in characters. Longer texts keep their beginning and their end.
SHOWN_CHARACTERS = 24_000
#: Share of what is shown that is taken from the beginning.
_HEAD = 2 / 3


def fence(name: str, text: str, nonce: str, limit: int = SHOWN_CHARACTERS) -> str:
    """Return one input as a judge is shown it: cut, with nothing invisible, between two lines with the nonce.

    Args:
        name: Of the field.
        text: Its value, already redacted.
        nonce: `NONCE_DIGITS` lower-case hex digits.
        limit: Characters shown at most.

    Raises:
        ValueError: The nonce is none.
    """
    if not _NONCE.fullmatch(nonce):
        raise ValueError(f"a nonce has {NONCE_DIGITS} hex digits, not {nonce!r}")
    shown = make_visible(cut(text, limit))
    # A text that holds the number was made after the call, or is a chance of 1 in 2^64; either way it may not close.
    shown = shown.replace(nonce, "[number removed]")
    label = make_visible(name).replace("\n", " ")
    return f"<<<DATA {nonce} {label}>>>\n{shown}\n<<<END {nonce} {label}>>>"


def cut(text: str, limit: int = SHOWN_CHARACTERS) -> str:
    """Return a text of more than `limit` characters without its middle, saying how much is left out."""
    if len(text) <= limit:
        return text
    head = int(limit * _HEAD)
    tail = limit - head
    return f"{text[:head]}\n[... {len(text) - limit} characters left out ...]\n{text[len(text) - tail :]}"


#: Controls, joiners, direction marks, fillers, variation selectors, tags and lone surrogates: what a person would not
#: see and a model would read. A table and not `unicodedata`, for texts are long and this runs on each of them.
INVISIBLE = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\xad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b-\\u200f"
    "\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffb\\ud800-\\udfff\\U000e0000-\\U000e0fff]"
)


def make_visible(text: str) -> str:
    r"""Return a text with every invisible or direction-changing character spelt out, such as `\u{200b}`."""
    return INVISIBLE.sub(lambda found: f"\\u{{{ord(found[0]):x}}}", text)


def outside_fences(reply: str, nonce: str) -> str:
    """Return what a model wrote itself: its reply without everything that it repeated from inside a fence.

    A fence that the reply opens and does not close takes the rest of the reply with it.
    """
    if f"<<<DATA {nonce}" not in reply:
        return reply
    pattern = rf"<<<DATA {nonce}[^\n>]*>>>.*?(?:<<<END {nonce}[^\n>]*>>>|\Z)"
    return re.sub(pattern, "", reply, flags=re.DOTALL)
