"""Every recorded exchange with a provider, served again: both adapters answer each with a reply or a failure.

    python -m tests.benchmarks.judge_dialects FILE

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

from scorers.judges.chat_model import ChatReply, ModelFailure
from tests.streams.judges.test_models import MAKERS, http_answer, several


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
        outcomes = several([http_answer(record) for record in records], make)
        assert len(outcomes) == len(records)
        counts: Counter[str] = Counter()
        chat: Counter[str] = Counter()
        for record, outcome in zip(records, outcomes, strict=True):
            kind = "reply" if isinstance(outcome, ChatReply) else outcome.kind
            assert isinstance(outcome, ChatReply | ModelFailure)
            assert record["status"] < 400 or kind != "reply", record["uri"]
            counts[kind] += 1
            if record["uri"].split("?")[0].endswith("chat/completions"):
                chat[kind] += 1
        print(json.dumps({"adapter": make.__name__, "all": dict(counts), "chat_completions": dict(chat)}), flush=True)


if __name__ == "__main__":
    main()
