"""Sessions of browsers: a cookie made from the read token and a time, which the token itself cannot be read from."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections import deque

#: Seconds for which a browser need not give the token again.
SESSION_SECONDS = 12 * 3600
#: Wrong tokens of one address in a minute after which none of it is looked at. Fewer: people who mistype wait.
WRONG_TOKENS_A_MINUTE = 10
#: Addresses whose wrong tokens are remembered.
_ADDRESSES = 1000
_VALUE = re.compile(r"(\d{1,12})\.[0-9a-f]{16}\.[0-9a-f]{64}")


class Sessions:
    """Makes and checks the cookies of one server. They outlive a restart if the token does.

    Args:
        token: Read token of the server.
        port: Port of the server; cookies of a host are shared by all its ports, so that the name has the port.
    """

    def __init__(self, token: str, port: int) -> None:
        self.cookie = f"gapwatch-{port}"
        self._key = hashlib.sha256(b"gapwatch session 1\n" + token.encode()).digest()
        self._ended: dict[str, int] = {}
        self._wrong: dict[str, deque[float]] = {}

    def begin(self) -> str:
        """Return the cookie of a new session."""
        what = f"{int(time.time()) + SESSION_SECONDS}.{secrets.token_hex(8)}"
        return f"{what}.{self._sign(what)}"

    def holds(self, value: str) -> bool:
        """Return whether a cookie is of a session that has neither expired nor been ended."""
        parts = _VALUE.fullmatch(value)
        if parts is None or int(parts[1]) <= time.time() or value in self._ended:
            return False
        what, _, signature = value.rpartition(".")
        return hmac.compare_digest(signature, self._sign(what))

    def end(self, value: str) -> None:
        """End a session before it expires."""
        if self.holds(value):
            now = time.time()
            self._ended = {one: until for one, until in self._ended.items() if until > now}
            self._ended[value] = int(value.partition(".")[0])

    def too_many_wrong(self, address: str) -> bool:
        """Return whether an address sent so many wrong tokens in the last minute that no further one is looked at."""
        times = self._wrong.get(address, deque())
        return len(times) == WRONG_TOKENS_A_MINUTE and time.monotonic() - times[0] < 60

    def note_wrong(self, address: str) -> None:
        """Note a wrong token of an address."""
        if address not in self._wrong and len(self._wrong) >= _ADDRESSES:
            del self._wrong[next(iter(self._wrong))]
        self._wrong.setdefault(address, deque(maxlen=WRONG_TOKENS_A_MINUTE)).append(time.monotonic())

    def _sign(self, what: str) -> str:
        return hmac.new(self._key, what.encode(), hashlib.sha256).hexdigest()
