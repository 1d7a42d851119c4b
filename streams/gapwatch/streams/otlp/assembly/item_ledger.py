"""`ItemLedger`: each span, log record and event with feedback that came is in exactly one state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

SPAN, LOG, REQUEST = "span", "log_record", "request"
#: Event of a span; only those that are feedback are counted.
EVENT = "span_event"
#: State whose number is the sum of those of all others of its item.
CONSUMED = "consumed"
#: State of what waits for its trace to be closed; it is not counted but found by looking.
PENDING = "pending"


def ledger_key(item: str, state: str, cause: str = "") -> str:
    """Return the name of a count: item, state and cause with points between."""
    return f"{item}.{state}.{cause}"


class ItemLedger:
    """Counts of spans and log records by state and cause.

    Args:
        counts: Counts to continue from, by `ledger_key`.
    """

    def __init__(self, counts: Mapping[str, int] | None = None) -> None:
        self._counts: Counter[str] = Counter(counts or {})
        for item in (SPAN, LOG):
            self._counts.pop(ledger_key(item, PENDING), None)

    def add(self, n: int, item: str, state: str, cause: str = "") -> None:
        """Count `n` items in a state."""
        if n:
            self._counts[f"{item}.{state}.{cause}"] += n

    def counts(self, pending_spans: int, pending_logs: int) -> dict[str, int]:
        """Return all counts with what is pending."""
        found = {key: n for key, n in sorted(self._counts.items()) if n}
        for item, n in ((SPAN, pending_spans), (LOG, pending_logs)):
            if n:
                found[ledger_key(item, PENDING)] = n
        return found


def item_imbalance(counts: Mapping[str, int]) -> int:
    """Return by how much what was consumed and the sum of the states differ; 0 for a ledger that balances."""
    off = 0
    for item in (SPAN, LOG, EVENT):
        consumed = states = 0
        for key, n in counts.items():
            name, state, _ = key.split(".", 2)
            if name == item:
                if state == CONSUMED:
                    consumed += n
                else:
                    states += n
        off += abs(consumed - states)
    return off
