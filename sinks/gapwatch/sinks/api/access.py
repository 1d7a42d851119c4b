"""Access control of the HTTP API: address, tokens, and the check of each request."""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, field

from aiohttp import web

from gapwatch.sinks.api.address import DEFAULT_ADDRESS, DEFAULT_PORT
from gapwatch.sinks.api.query import QueryLimits
from gapwatch.sinks.api.sessions import Sessions
from gapwatch.sinks.api.store_address import is_loopback
from gapwatch.sinks.api.token_attempts import TOO_MANY_WRONG, TokenAttempts

#: Paths that need no token on any address: whether the process runs, the form that asks for the token, and its style.
_OPEN = ("/healthz", "/readyz", "/login", "/overview.css")
#: Paths of POST requests that change no store, and check the token themselves or need none.
_OF_SESSIONS = ("/login", "/logout")
#: Path that tells a client on this machine which note has the tokens.
_ABOUT = "/v1/about"


@dataclass(frozen=True)
class ApiOptions:
    """Address, tokens and limits of the API.

    Attributes:
        address: IP address or `localhost`. On an address that other machines reach, reading also needs a token.
        port: Port; 0 for any free one.
        read_token, write_token: By default new at each start, and written into the note beside the store.
        limits: Limits of each query.
        asks_to_read: Reading needs a token on this machine as well.
    """

    address: str = DEFAULT_ADDRESS
    port: int = DEFAULT_PORT
    read_token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    write_token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    limits: QueryLimits = field(default_factory=QueryLimits)
    asks_to_read: bool = False

    @property
    def is_local(self) -> bool:
        """True if only this machine can reach the address."""
        return is_loopback(self.address)

    @property
    def reading_is_free(self) -> bool:
        """True if reading needs no token."""
        return self.is_local and not self.asks_to_read


class LoginNeededError(web.HTTPUnauthorized):
    """A browser asked for a page without a token or a session."""


def check_caller(
    request: web.Request, options: ApiOptions, url: str, attempts: TokenAttempts, sessions: Sessions | None = None
) -> None:
    """Check that a caller may make a request. Whatever is not allowed here is refused, also on paths that do not exist.

    A session (the cookie of a browser) may only read, with GET: no page of another origin can make a browser change
    the store, because that takes the write token in a header.

    Args:
        request: The request.
        options: Address and tokens.
        url: URL of this API, for messages.
        attempts: Wrong tokens of the clients.
        sessions: Sessions of browsers; None if the server has no pages.

    Raises:
        LoginNeededError: A browser must log in first.
        web.HTTPException: The caller may not make the request.
    """
    if is_foreign(request):
        raise web.HTTPForbidden(text="web pages of other origins may not use this API")
    if options.is_local and not names_this_machine(request.host, options.address):
        raise web.HTTPForbidden(
            text=f"use the address of this API, {url}"
        )  # a foreign name that resolves to this machine
    may_read, may_write = _rights(request, options, attempts)
    is_get = request.method in ("GET", "HEAD")
    if not is_get and request.path != "/v1/query":
        if not may_write and request.path not in _OF_SESSIONS:
            raise web.HTTPUnauthorized(text="this changes the store: send the write token as a Bearer token")
        return
    is_free = options.reading_is_free or request.path in _OPEN or (options.is_local and request.path == _ABOUT)
    if is_free or may_write or may_read:
        return
    if is_get and sessions is not None and sessions.holds(request.cookies.get(sessions.cookie, "")):
        return
    text = "send the read token as a Bearer token: " + (
        "GAPWATCH_READ_TOKEN is set" if options.is_local else "this address is open to other machines"
    )
    if is_get and sessions is not None and asks_for_page(request):
        raise LoginNeededError(text=text)
    raise web.HTTPUnauthorized(text=text)


def _rights(request: web.Request, options: ApiOptions, attempts: TokenAttempts) -> tuple[bool, bool]:
    """Return whether the token of a request allows to read, and to write.

    Raises:
        web.HTTPTooManyRequests: The address has sent too many wrong tokens.
    """
    token = request.headers.get("Authorization", "").removeprefix("Bearer ").strip()
    if not token:
        return False, False
    address = request.remote or ""
    if attempts.are_blocked(address):
        raise web.HTTPTooManyRequests(text=TOO_MANY_WRONG)
    may_read, may_write = tokens_agree(token, options.read_token), tokens_agree(token, options.write_token)
    attempts.note(address, is_right=may_read or may_write)
    return may_read, may_write


def asks_for_page(request: web.Request) -> bool:
    """Return whether a browser asks for a page, so that the answer should be one as well."""
    return "text/html" in request.headers.get("Accept", "") and not request.path.startswith("/v1/")


def tokens_agree(token: str, expected: str) -> bool:
    """Compare a token in a time that does not depend on where they differ."""
    return hmac.compare_digest(token.encode(errors="replace"), expected.encode())


def is_foreign(request: web.Request) -> bool:
    """Return whether a page of another origin makes a request. A link that a person follows to a page is allowed."""
    origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site", "none")
    if origin is not None and origin not in (f"http://{request.host}", f"https://{request.host}"):
        return True
    follows_link = (
        request.method == "GET"
        and request.headers.get("Sec-Fetch-Mode") == "navigate"
        and request.headers.get("Sec-Fetch-Dest") == "document"
        and not request.path.startswith("/v1/")
    )
    return site not in ("none", "same-origin") and not follows_link


def names_this_machine(host: str, address: str) -> bool:
    """Return whether a Host header names this machine. Pages whose DNS name points here (DNS rebinding) are refused."""
    name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
    return name.strip("[]").lower() in ("localhost", "127.0.0.1", "::1", address.lower())
