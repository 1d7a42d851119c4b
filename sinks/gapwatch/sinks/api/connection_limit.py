"""Limits the connections of an HTTP server, so that clients cannot use up the file descriptors of the process.

The stream, the store and Kafka need descriptors too: a process without a free one ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
from collections.abc import Awaitable, Callable

from aiohttp import web

from gapwatch.sinks.api.api_version import API_HEADER, API_VERSION

#: Most connections at once. More: more descriptors and memory for clients. Fewer: a browser opens up to six.
CONNECTIONS = 64
#: Connections that wait to be accepted. asyncio accepts them all before it refuses one, and each takes a descriptor.
BACKLOG = 32
#: Seconds after which a connection without a request is closed. Longer: forgotten ones take the place of others.
IDLE_SECONDS = 10.0
#: Seconds without a request after which a connection gives its place to a new one, if all places are taken.
_SPARE_SECONDS = 1.0

#: Seconds after which a connection that aiohttp does not know is taken for lost. It knows one within milliseconds.
_MAKING_SECONDS = 1.0

_BODY = b'{"error":"too many connections: close those that are not in use, then ask again"}\n'
_BUSY = (
    f"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: {len(_BODY)}\r\n"
    f"Retry-After: 1\r\nConnection: close\r\n{API_HEADER}: {API_VERSION}\r\n\r\n"
).encode() + _BODY


def raise_file_limit() -> None:
    """Raise the number of files that this process may open to its hard limit; the usual soft limit is 1,024."""
    with contextlib.suppress(OSError, ValueError):  # the limits stay as they are
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class _Refusal(asyncio.Protocol):
    """Answers 503 and closes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(_BUSY)
        transport.close()


class ConnectionLimit:
    """Makes the protocol of each new connection of a server, or refuses it.

    Args:
        most: Most connections at once.

    Attributes:
        server: Server of aiohttp that makes protocols; set before the first connection.
    """

    def __init__(self, most: int = CONNECTIONS) -> None:
        self.server: web.Server | None = None
        self._most = most
        #: For each connection, when its last request ended, or when it was made; None during a request.
        self._since: dict[web.RequestHandler, float | None] = {}
        self._seen: set[web.RequestHandler] = set()

    def __call__(self) -> asyncio.Protocol:
        """Return the protocol of a new connection."""
        assert self.server is not None
        now = asyncio.get_running_loop().time()
        self._forget_lost(now)
        if len(self._since) >= self._most and not self._spare_one(now):
            return _Refusal()
        made = self.server()
        self._since[made] = now
        return made

    @web.middleware
    async def watch(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Middleware that notes which connections have a request under way."""
        connection = request.protocol
        self._since[connection] = None
        # It is made, so it counts no longer once it is closed: one that was made and closed between two others was
        # never among the connections that a third one sees, and counted as one that is still being made.
        self._seen.add(connection)
        try:
            return await handler(request)
        finally:
            self._since[connection] = asyncio.get_running_loop().time()

    def _forget_lost(self, now: float) -> None:
        """Forget closed connections. aiohttp does not know yet those made in this turn of the event loop."""
        assert self.server is not None
        known = set(self.server.connections)
        self._seen = (self._seen & self._since.keys()) | known
        lost = [
            one for one, since in self._since.items()
            if one not in known and (one in self._seen or since is None or now - since > _MAKING_SECONDS)
        ]  # fmt: skip
        for one in lost:
            del self._since[one]

    def _spare_one(self, now: float) -> bool:
        """Close the connection that has been without a request for longest; False if each is in use."""
        # Without a transport a connection was made in this turn of the event loop, and cannot be closed yet.
        at_rest = {one: since for one, since in self._since.items() if since is not None and one.transport is not None}
        longest = min(at_rest, key=at_rest.__getitem__, default=None)
        if longest is None or now - at_rest[longest] < _SPARE_SECONDS:
            return False
        del self._since[longest]
        longest.force_close()
        return True
