"""Cuts a conversation to a number of characters: its first and last turns stay, and its middle is left out."""

from __future__ import annotations

from dataclasses import replace

from gapwatch.scorers.transcripts.turns import OTHER, Transcript, Turn, TurnPart

#: Characters that count for each part besides its text: the lines around it in a prompt.
PART_CHARACTERS = 100
#: Share of a cut text that is taken from its beginning.
_HEAD = 2 / 3


def cut(text: str, limit: int) -> str:
    """Return a text of more than `limit` characters without its middle; a line says how many are left out."""
    if len(text) <= limit:
        return text
    head = int(limit * _HEAD)
    tail = limit - head
    return f"{text[:head]}\n[... {len(text) - limit} characters left out ...]\n{text[len(text) - tail :]}"


def cut_transcript(transcript: Transcript, characters: int, first_turns: int, turn_characters: int) -> Transcript:
    """Return a conversation of at most `characters` characters, `PART_CHARACTERS` for each part counted in.

    1. A turn with more than `turn_characters`, or a third of `characters`, loses the middle of its texts.
    2. If that is still too much, the first `first_turns` turns stay, as far as they fit in a third of `characters`;
       then as many of the last turns as fit in the rest. The first and the last turn always stay.

    Args:
        transcript: The conversation.
        characters: Most characters.
        first_turns: Most turns that stay at the beginning.
        turn_characters: Most characters of one turn.
    """
    third = max(characters // 3, 1)
    limit = min(turn_characters, third)
    turns = [_shortened(turn, limit) for turn in transcript.turns]
    sizes = [_size(turn) for turn in turns]
    if sum(sizes) <= characters:
        return replace(transcript, turns=tuple(turns))
    gap = transcript.gap if transcript.left_turns else len(turns)
    head, taken = 1, sizes[0]
    while head < min(first_turns, gap, len(turns)) and taken + sizes[head] <= third:
        taken += sizes[head]
        head += 1
    tail = len(turns)
    lowest = max(head, transcript.gap) if transcript.left_turns else head
    while tail > lowest and (tail == len(turns) or taken + sizes[tail - 1] <= characters):
        tail -= 1
        taken += sizes[tail]
    left = transcript.turns[head:tail]
    return Transcript(
        (*turns[:head], *turns[tail:]),
        head,
        transcript.left_turns + len(left),
        transcript.left_characters + sum(turn.characters for turn in left),
    )


def _size(turn: Turn) -> int:
    return turn.characters + PART_CHARACTERS * len(turn.parts)


def _shortened(turn: Turn, limit: int) -> Turn:
    if _size(turn) <= limit:
        return turn
    parts = turn.parts
    most = max(limit // (2 * PART_CHARACTERS), 1)
    if len(parts) > most:
        note = TurnPart(OTHER, f"[... {len(parts) - most} parts left out ...]", "note")
        parts = (*parts[:most], note)
    share = max(limit // len(parts) - PART_CHARACTERS, 20)
    return replace(turn, parts=tuple(replace(part, text=cut(part.text, share)) for part in parts))
