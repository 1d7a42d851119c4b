"""Sessions of browsers: a cookie made from the read token and a time, which the token itself cannot be read from."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time

#: Seconds for which a browser need not give the token again.
SESSION_SECONDS = 12 * 3600
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

    def _sign(self, what: str) -> str:
        return hmac.new(self._key, what.encode(), hashlib.sha256).hexdigest()
