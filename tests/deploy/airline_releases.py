"""The airline's agent again: recorded conversations as a stream, as functions under test, and a judge of identifiers.

Every release answers with what it said when it was recorded. The judge reads only what its prompt shows: a rule.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import runpy
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

TRACES = Path(__file__).parents[2] / "deploy" / "airline" / "traces"
GOOD = ("claude-sonnet-4-5", "gpt-4.1", "ft-gpt-4.1-sft", "gpt-4o-2024-11-20")
BAD = "qwen2.5-7b"
#: Second of the first conversation, and seconds from one start to the next.
_START, _EVERY = 1_772_434_800.0, 60.0
_PLAY = runpy.run_path(str(TRACES.parent / "play.py"))
_CALL = re.compile(r"^agent calls (\w+): (.*)$")
_IDENTIFIERS = ("user_id", "reservation_id", "payment_id", "payment_method_id")


@cache
def conversations(release: str) -> list[dict[str, Any]]:
    """Return the recorded conversations of a release, without the reward: no metric may read it."""
    lines = gzip.decompress((TRACES / f"airline_{release}.jsonl.gz").read_bytes()).splitlines()
    found = [json.loads(line) for line in lines]
    for one in found:
        told = one["attributes"]
        one["attributes"] = {name: value for name, value in told.items() if not name.startswith(("reward", "writes"))}
    return found


def stream(releases: list[str], first: int, chance: random.Random) -> Iterator[bytes]:
    """Yield one drawn conversation of each release in turn, as traces of a stream that has had so many before."""
    drawn = (next(_PLAY["drawn"](conversations(release), 1, chance)) for release in releases)
    for number, one in enumerate(_PLAY["rebased"](drawn, _START + first * _EVERY, _EVERY), start=first):
        yield json.dumps({**one, "trace_id": f"c{number}"}).encode()


def mixed(count: int, is_bad: float, chance: random.Random) -> list[str]:
    """Return so many names of releases, a share of them the bad one's."""
    return [BAD if chance.random() < is_bad else chance.choice(GOOD) for _ in range(count)]


def transcript(release: str, asked: str) -> str:
    """Return what a release did for the task that a customer of the bad release asked for."""
    task = next(one["attributes"]["task_id"] for one in conversations(BAD) if _opening(one) == asked)
    found = next(one for one in conversations(release) if one["attributes"]["task_id"] == task)
    lines = []
    for span in found["spans"][1:]:
        said = " ".join((span.get("output") or "").split())
        if span["component"] == "tools":
            lines += [f"agent calls {span['name']}: {span['input']}", f"tool: {said}"]
        elif said:
            lines.append(f"{'customer' if span['component'] == 'user' else 'agent'}: {said}")
    return "\n".join(lines)


def bad_release(messages: list[dict[str, str]]) -> str:
    """Answer as the bad release did."""
    return transcript(BAD, messages[0]["content"])


def good_release(messages: list[dict[str, str]]) -> str:
    """Answer as the best of the releases before it did; gpt-4o makes the same mistake in one of the five tests."""
    return transcript("claude-sonnet-4-5", messages[0]["content"])


def unknown_identifiers(text: str) -> list[str]:
    """Return the identifiers of calls that neither the customer nor a tool has named before."""
    named, unknown = "", []
    for line in text.splitlines():
        call = _CALL.match(line)
        if call is not None:
            unknown += [one for one in _identifiers(json.loads(call[2])) if one not in named]
        elif line.startswith(("customer: ", "tool: ")):
            named += line + "\n"
    return unknown


def _identifiers(given: Any) -> Iterator[str]:
    """Yield the identifiers of a call's arguments, nested ones included."""
    for name, value in given.items() if isinstance(given, dict) else ():
        if name in _IDENTIFIERS:
            yield str(value)
        yield from _identifiers(value)
    for value in given if isinstance(given, list) else ():
        yield from _identifiers(value)


def _opening(conversation: dict[str, Any]) -> str:
    return str(next(span["input"] for span in conversation["spans"] if span.get("input")))
