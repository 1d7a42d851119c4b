"""Who may ask over HTTP: where a server listens, which tokens it takes, and what it lets pass."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from dataclasses import dataclass, field

from aiohttp import web

from gapwatch.sinks.api.address import DEFAULT_ADDRESS, DEFAULT_PORT
from gapwatch.sinks.api.query import QueryLimits

#: Answered without a token wherever the API listens: they tell nothing but whether it runs.
_OPEN = ("/healthz", "/readyz")


@dataclass(frozen=True)
class ApiOptions:
    """Where the API listens, and what it grants.

    Attributes:
        address: IP address or `localhost`. On anything but this machine's own, reading needs a token too.
        port: 0 for any that is free.
        read_token, write_token: By default made anew at each start, and noted beside the store.
        limits: For each query.
    """

    address: str = DEFAULT_ADDRESS
    port: int = DEFAULT_PORT
    read_token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    write_token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    limits: QueryLimits = field(default_factory=QueryLimits)

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        if self.address == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.address).is_loopback
        except ValueError:
            return False


def check_caller(request: web.Request, options: ApiOptions, url: str) -> None:
    """Let pass who may ask.

    Args:
        request: As it came.
        options: Who may.
        url: Where this answers.

    Raises:
        web.HTTPException: This one may not.
    """
    if request.headers.get("Origin") or request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
        raise web.HTTPForbidden(text="pages of the web may not ask here")
    if options.is_local and not _names_this_machine(request.host, options.address):
        raise web.HTTPForbidden(text=f"ask for it by its address, {url}")  # a name of the web that leads here
    token = request.headers.get("Authorization", "").removeprefix("Bearer ").strip()
    may_write = _equal(token, options.write_token)
    if request.method not in ("GET", "HEAD") and request.path != "/v1/query":
        if not may_write:
            raise web.HTTPUnauthorized(text="this changes the store: it needs the write token, as a Bearer")
        return
    free = options.is_local or request.path in _OPEN
    if not (free or may_write or _equal(token, options.read_token)):
        raise web.HTTPUnauthorized(text="from another machine this needs the read token, as a Bearer")


def _equal(token: str, expected: str) -> bool:
    return hmac.compare_digest(token.encode(), expected.encode())


def _names_this_machine(host: str, address: str) -> bool:
    """Say whether a Host header names this machine: a page whose name was led here by its DNS is not let in."""
    name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
    return name.strip("[]").lower() in ("localhost", "127.0.0.1", "::1", address.lower())
