"""Turns of a whole trace: what its spans read and wrote, in the order of time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from gapwatch.scorers.transcripts.turns import (
    CALL,
    OTHER,
    RESULT,
    TEXT,
    Transcript,
    Turn,
    TurnPart,
    read_transcript,
    write_transcript,
)

#: Texts of a span that a transcript needs.
TRANSCRIPT_KEYS = ("input", "output", "kind", "name", "status", "error_type")
#: Speakers that say the same in the words of different frameworks.
_SPEAKERS = {"human": "user", "input": "user", "ai": "assistant", "model": "assistant", "output": "assistant"}
#: Kinds of spans that enclose others, and repeat their texts.
_ENCLOSING = ("agent", "chain")
#: Kinds of spans whose input a user says and whose output an assistant says.
_SPEAKING = (None, "llm", *_ENCLOSING)


def trace_transcript(trace: Any) -> str | None:
    """Return the texts of a trace's spans as a list of messages; None if no span has a text.

    A span gives its input at its start and its output at its end; the order is that of the record where a time is
    missing. An input that is a list of messages gives those that were not shown before, because pipelines send the
    history of a conversation with each call. Another input is left out where it is the output of an earlier span.

    Args:
        trace: A trace with the texts `TRANSCRIPT_KEYS` of its spans.
    """
    writing = _Writing()
    for span, is_end in _in_order(trace.spans):
        for turn in writing.written(span) if is_end else writing.read(span):
            writing.add(turn)
    return write_transcript(Transcript(tuple(writing.turns))) if writing.turns else None


def _in_order(spans: Sequence[Any]) -> Iterator[tuple[Any, bool]]:
    """Yield each span twice: for its input, and for its output (True)."""
    if any(at is None or at != at for span in spans for at in (span.started_at, span.ended_at)):
        yield from ((span, is_end) for span in spans for is_end in (False, True))
        return
    # Of events at one time, an output comes before the input of another span, but never before its own input.
    timed = [(max(s.ended_at, s.started_at), 0 if s.ended_at > s.started_at else 2, i, s) for i, s in enumerate(spans)]
    timed += [(s.started_at, 1, i, s) for i, s in enumerate(spans)]
    timed.sort(key=lambda event: event[:3])
    yield from ((span, at != 1) for _, at, _, span in timed)


class _Writing:
    """Transcript of a trace while it is written.

    Attributes:
        turns: Turns so far.
        shown: How often each part was shown.
        outputs: Texts that spans wrote.
        announced: How often a model asked for each call of a tool that no span has made yet.
    """

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.shown: Counter[tuple[str, str]] = Counter()
        self.outputs: set[str] = set()
        self.announced: Counter[tuple[str, str]] = Counter()

    def add(self, turn: Turn) -> None:
        """Append a turn."""
        self.turns.append(turn)
        self.shown.update(_keys(turn))

    def read(self, span: Any) -> Iterator[Turn]:
        """Yield what a span reads that was not shown before."""
        if not span.input:
            return
        if span.kind == "tool":
            turn = Turn("assistant", (TurnPart(CALL, span.input, span.name or ""),), span.component)
            key = _keys(turn)[0]
            if self.announced[key] > 0:
                self.announced[key] -= 1
            else:
                yield turn
            return
        found = read_transcript(span.input)
        if found is not None:
            yield from self._unseen(found, span.component)
            return
        role = "user" if span.kind in _SPEAKING else "input"
        # Steps hand their output on, and enclosing steps their input.
        last = self.turns[-1].parts[-1].text if self.turns else None
        if span.input != last and span.input not in self.outputs:
            yield Turn(role, (TurnPart(TEXT, span.input),), span.component)

    def written(self, span: Any) -> Iterator[Turn]:
        """Yield what a span writes; a span that encloses others does not repeat what they wrote."""
        text = span.output or ""
        is_repeated = span.kind in _ENCLOSING and text in self.outputs
        self.outputs.add(text)
        failed = (TurnPart(OTHER, span.error_type or "error", "error"),) if span.status == "error" else ()
        if span.kind == "tool":
            parts = (*((TurnPart(RESULT, text, span.name or ""),) if text else ()), *failed)
            if parts:
                yield Turn("tool", parts, span.component)
            return
        found = read_transcript(text)
        if found is not None:
            yield from self._unseen(found, span.component)
            return
        role = "assistant" if span.kind in _SPEAKING else "output"
        parts = (*((TurnPart(TEXT, text),) if text and not is_repeated else ()), *failed)
        if parts:
            yield Turn(role, parts, span.component)

    def _unseen(self, found: Transcript, component: str) -> Iterator[Turn]:
        # A single message is no history, and may well say what was said before.
        left = Counter(self.shown) if len(found.turns) > 1 else Counter[tuple[str, str]]()
        for turn in found.turns:
            parts = []
            for part, key in zip(turn.parts, _keys(turn), strict=True):
                if left[key] > 0:
                    left[key] -= 1
                    continue
                parts.append(part)
                self.announced[key] += part.kind == CALL
            if parts:
                yield Turn(turn.role, tuple(parts), turn.name or component)


def _keys(turn: Turn) -> list[tuple[str, str]]:
    """Return what identifies each part: who says it, or that it is a call or a result, and its text."""
    who = _SPEAKERS.get(turn.role, turn.role)
    return [(who, part.text) if part.kind == TEXT else (part.kind, "".join(part.text.split())) for part in turn.parts]
