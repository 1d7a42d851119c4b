"""A cut conversation keeps its first and its last turn, stays below its size, and says what is left out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gapwatch.scorers.transcripts.cutting import PART_CHARACTERS, cut_transcript
from gapwatch.scorers.transcripts.turns import TEXT, Transcript, Turn, TurnPart

#: Characters of the line in a text whose middle is left out.
_NOTE = 60


def conversation(*sizes: int) -> Transcript:
    """A conversation whose turns have texts of these lengths."""
    return Transcript(tuple(Turn(f"r{i}", (TurnPart(TEXT, chr(97 + i % 26) * size),)) for i, size in enumerate(sizes)))


def roles(transcript: Transcript) -> list[str]:
    return [turn.role for turn in transcript.turns]


def test_a_short_conversation_stays_whole() -> None:
    whole = conversation(10, 20, 30)

    assert cut_transcript(whole, 1_000, 4, 500) == whole


def test_the_first_turns_and_the_last_stay() -> None:
    cut = cut_transcript(conversation(*[100] * 50), 2_400, 2, 1_000)

    # 200 characters a turn with the lines around it: 2 of the first, and 10 of the last in the other 2,000.
    assert roles(cut) == ["r0", "r1", *(f"r{i}" for i in range(40, 50))]
    assert (cut.gap, cut.left_turns, cut.left_characters) == (2, 38, 3_800)


def test_the_beginning_takes_a_third_at_most() -> None:
    cut = cut_transcript(conversation(*[100] * 50), 3_000, 40, 1_000)

    assert roles(cut)[:6] == ["r0", "r1", "r2", "r3", "r4", "r40"]


def test_a_long_turn_loses_its_middle_and_not_its_neighbours() -> None:
    cut = cut_transcript(conversation(50, 9_000, 50), 60_000, 4, 900)

    note = "\n[... 8200 characters left out ...]\n"
    assert [len(turn.parts[0].text) for turn in cut.turns] == [50, 800 + len(note), 50]
    assert cut.left_turns == 0


def test_what_was_left_out_before_is_counted_again() -> None:
    once = cut_transcript(conversation(*[100] * 50), 4_800, 2, 1_000)
    twice = cut_transcript(once, 2_400, 2, 1_000)

    assert twice == cut_transcript(conversation(*[100] * 50), 2_400, 2, 1_000)


@given(
    st.lists(st.lists(st.integers(0, 3_000), min_size=1, max_size=40), min_size=1, max_size=60),
    st.integers(1_000, 30_000), st.integers(1, 10), st.integers(200, 10_000),
)  # fmt: skip
def test_the_size_the_ends_and_the_counts_hold(turns: list[list[int]], most: int, first: int, of_turn: int) -> None:
    whole = Transcript(
        tuple(Turn(f"r{i}", tuple(TurnPart(TEXT, "x" * size) for size in sizes)) for i, sizes in enumerate(turns))
    )
    cut = cut_transcript(whole, most, first, of_turn)

    parts = [part for turn in cut.turns for part in turn.parts]
    assert sum(len(part.text) + PART_CHARACTERS for part in parts) <= most + (_NOTE + PART_CHARACTERS) * len(parts)
    assert roles(cut)[0] == "r0" and roles(cut)[-1] == f"r{len(turns) - 1}"
    assert len(cut.turns) + cut.left_turns == len(turns)
    left = whole.turns[cut.gap : cut.gap + cut.left_turns]
    assert cut.left_characters == sum(turn.characters for turn in left)
    assert roles(cut) == [turn.role for turn in (*whole.turns[: cut.gap], *whole.turns[cut.gap + cut.left_turns :])]
