"""Envelope cases as raw records."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import yaml

from tests.paths import ROOT


@dataclass(frozen=True)
class EnvelopeCase:
    """Raw record with its expected result.

    Attributes:
        id: Says the behaviour.
        record: The bytes.
        becomes: read, dead_letter or foreign.
        causes: Words of which any is right for a dead letter.
        is_line: Whether it can be a line of a file as well as a value of a topic.
    """

    id: str
    record: bytes
    becomes: str
    causes: frozenset[str]
    is_line: bool


def envelope_cases() -> list[EnvelopeCase]:
    """Return all cases."""
    text = (ROOT / "tests/contracts/envelope_cases.yaml").read_text(encoding="utf-8")
    return [_case(written) for written in yaml.load(text, Loader=yaml.CSafeLoader)]


def _case(written: dict[str, Any]) -> EnvelopeCase:
    causes = written.get("cause", [])
    return EnvelopeCase(
        id=written["id"],
        record=_record(written),
        becomes=written["becomes"],
        causes=frozenset([causes] if isinstance(causes, str) else causes),
        is_line=written.get("only") != "kafka",
    )


def _record(written: dict[str, Any]) -> bytes:
    if "base64" in written:
        return base64.b64decode(written["base64"])
    if "record" in written:
        record: str = written["record"]
        return record.encode()
    repeat = {"middle": "", "close": "", **written["repeat"]}
    times = repeat["times"]
    text: str = (
        repeat["prefix"] + repeat["unit"] * times + repeat["middle"] + repeat["close"] * times + repeat["suffix"]
    )
    return text.encode()
