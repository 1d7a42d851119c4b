"""Serves every recorded exchange with a provider again: both adapters answer each with a reply or a failure.

    python -m tests.benchmarks.judge_dialects FILE

Then each way past litellm for a dialect, against litellm itself: how many answers it reads otherwise.

FILE is `openllmetry.jsonl.gz`: 1,677 exchanges of over a dozen hosts, whole and streamed. Other endpoints than chat
completions are in it on purpose: an answer in a strange dialect may be no reply, but it may not break anything.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from gapwatch.scorers.judges.chat_model import ChatReply, ModelFailure
from tests.streams.judges.models.test_models import MAKERS, http_answer, several
from tests.streams.judges.models.test_translated_way import ONE_MODEL_EACH, outcomes, told


def exchanges(path: Path) -> list[dict[str, Any]]:
    """The recorded exchanges, as the tests have theirs."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        found = [json.loads(line) for line in lines]
    return [
        {
            "uri": one["request"]["uri"], "status": one["response"]["status"], "body": one["response"]["body"],
            "headers": one["response"]["headers"],
        }
        for one in found
    ]  # fmt: skip


def main() -> None:
    """Serve, ask, count."""
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    records = exchanges(Path(sys.argv[1]))
    for make in MAKERS:
        found = several([http_answer(record) for record in records], make)
        assert len(found) == len(records)
        counts: Counter[str] = Counter()
        chat: Counter[str] = Counter()
        for record, outcome in zip(records, found, strict=True):
            kind = "reply" if isinstance(outcome, ChatReply) else outcome.kind
            assert isinstance(outcome, ChatReply | ModelFailure)
            assert record["status"] < 400 or kind != "reply", record["uri"]
            counts[kind] += 1
            if record["uri"].split("?")[0].endswith("chat/completions"):
                chat[kind] += 1
        print(json.dumps({"adapter": make.__name__, "all": dict(counts), "chat_completions": dict(chat)}), flush=True)
    answers = [http_answer(record) for record in records]
    for model in ONE_MODEL_EACH:
        filled, itself = outcomes(model, answers, past_litellm=True), outcomes(model, answers, past_litellm=False)
        replies = sum(isinstance(outcome, ChatReply) for outcome in filled)
        unlike = sum(told(one) != told(other) for one, other in zip(filled, itself, strict=True))
        print(json.dumps({"model": model, "replies": replies, "read_otherwise_than_litellm": unlike}), flush=True)


if __name__ == "__main__":
    main()
