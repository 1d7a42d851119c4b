"""Makes outbox messages of dead letters: the record itself, or its digest if it is too large."""

from __future__ import annotations

import hashlib

import numpy as np
import orjson

from gapwatch.scorers.slices.slices import RecordSlice, ScoredSlice
from gapwatch.sinks.store.outbox import OutboxRow

#: Most bytes of dead letters that one piece puts into the outbox as records; the others are sent as digests.
DEAD_LETTER_BYTES = 4 << 20
#: Most bytes of one dead letter that is sent as a record; brokers take 1 MiB by default.
DEAD_LETTER_SIZE = 900_000


def dead_letter_messages(records: RecordSlice, scored: ScoredSlice) -> list[OutboxRow]:
    """Return one message for each dead letter: the record itself, or its digest if it is too large.

    Args:
        records: The records that were scored.
        scored: Their results.
    """
    rows, left = [], DEAD_LETTER_BYTES
    for letter in scored.tables["dead_letters"].to_pylist():
        at = int(np.searchsorted(records.offsets, letter["source_offset"]))
        raw = records.values[at].as_py() or b""
        fits = len(raw) <= min(left, DEAD_LETTER_SIZE)
        left -= len(raw) if fits else 0
        place = f"{letter['source_topic']}/{letter['source_partition']}/{letter['source_offset']}"
        headers = {
            "cause": letter["cause"], "detail": letter["detail"] or "", "topic": letter["source_topic"],
            "partition": str(letter["source_partition"]), "offset": str(letter["source_offset"]),
            "size": str(letter["size"]), "sha256": letter["sha256"], "value": "record" if fits else "digest",
        }  # fmt: skip
        value = raw if fits else orjson.dumps({"size": letter["size"], "sha256": letter["sha256"]})
        id_ = hashlib.sha256(f"{letter['lane']}/{place}".encode()).hexdigest()[:32]
        rows.append(OutboxRow(id_, str(letter["source_partition"]), value, headers))
    return rows
