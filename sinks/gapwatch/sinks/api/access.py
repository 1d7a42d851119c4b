"""Access control of the HTTP API: address, tokens, and the check of each request."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from dataclasses import dataclass, field

from aiohttp import web

from gapwatch.sinks.api.address import DEFAULT_ADDRESS, DEFAULT_PORT
from gapwatch.sinks.api.query import QueryLimits

#: Paths that need no token on any address: they only say whether the process runs.
_OPEN = ("/healthz", "/readyz")


@dataclass(frozen=True)
class ApiOptions:
    """Address, tokens and limits of the API.

    Attributes:
        address: IP address or `localhost`. On an address that other machines reach, reading also needs a token.
        port: Port; 0 for any free one.
        read_token, write_token: By default new at each start, and written into the note beside the store.
        limits: Limits of each query.
    """

    address: str = DEFAULT_ADDRESS
    port: int = DEFAULT_PORT
    read_token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    write_token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    limits: QueryLimits = field(default_factory=QueryLimits)

    @property
    def is_local(self) -> bool:
        """True if only this machine can reach the address."""
        if self.address == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.address).is_loopback
        except ValueError:
            return False


def check_caller(request: web.Request, options: ApiOptions, url: str) -> None:
    """Check that a caller may make a request.

    Args:
        request: The request.
        options: Address and tokens.
        url: URL of this API, for messages.

    Raises:
        web.HTTPException: The caller may not make it.
    """
    if request.headers.get("Origin") or request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
        raise web.HTTPForbidden(text="web pages of other origins may not use this API")
    if options.is_local and not _names_this_machine(request.host, options.address):
        raise web.HTTPForbidden(
            text=f"use the address of this API, {url}"
        )  # a foreign name that resolves to this machine
    token = request.headers.get("Authorization", "").removeprefix("Bearer ").strip()
    may_write = _equal(token, options.write_token)
    if request.method not in ("GET", "HEAD") and request.path != "/v1/query":
        if not may_write:
            raise web.HTTPUnauthorized(text="this changes the store: send the write token as a Bearer token")
        return
    free = options.is_local or request.path in _OPEN
    if not (free or may_write or _equal(token, options.read_token)):
        raise web.HTTPUnauthorized(text="send the read token as a Bearer token: this address is open to other machines")


def _equal(token: str, expected: str) -> bool:
    return hmac.compare_digest(token.encode(), expected.encode())


def _names_this_machine(host: str, address: str) -> bool:
    """Return whether a Host header names this machine. Pages whose DNS name points here (DNS rebinding) are refused."""
    name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
    return name.strip("[]").lower() in ("localhost", "127.0.0.1", "::1", address.lower())
