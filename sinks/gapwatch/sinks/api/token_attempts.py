"""Limits the wrong tokens of each address, so that nobody can guess a token by trying many."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

#: Seconds for which a wrong token counts.
_SECONDS = 60.0
#: Wrong tokens of one address in that time after which no further one is looked at. Fewer: people who mistype wait.
WRONG_TOKENS_A_MINUTE = 10
#: Addresses that are remembered.
_ADDRESSES = 1000
#: What an address is told.
TOO_MANY_WRONG = "Too many wrong tokens: wait a minute."


class TokenAttempts:
    """Counts the wrong tokens of each address.

    An address that has given a right token before is never blocked: behind a proxy, one client with a wrong token would
    otherwise keep out all others, such as Prometheus.
    """

    def __init__(self) -> None:
        self._wrong: dict[str, deque[float]] = {}
        self._right: dict[str, None] = {}

    def are_blocked(self, address: str) -> bool:
        """Return whether no further token of an address is looked at now."""
        times = self._wrong.get(address, deque())
        is_full = len(times) == WRONG_TOKENS_A_MINUTE and time.monotonic() - times[0] < _SECONDS
        return is_full and address not in self._right

    def note(self, address: str, *, is_right: bool) -> None:
        """Note a token of an address."""
        if is_right:
            _make_room(self._right, address)
            self._right[address] = None
        else:
            _make_room(self._wrong, address)
            self._wrong.setdefault(address, deque(maxlen=WRONG_TOKENS_A_MINUTE)).append(time.monotonic())


def _make_room(known: dict[str, Any], address: str) -> None:
    if address not in known and len(known) >= _ADDRESSES:
        del known[next(iter(known))]
