"""Logs browsers in: a form that asks once for the read token, and a cookie that may only read.

A browser does not send the cookie (SameSite=Strict) when it follows a link from elsewhere, such as one in a chat. So a
page without a session leads to the form by a refresh: that request comes from this origin and has the cookie, and
the form leads back at once if there is a session.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

from aiohttp import web

from gapwatch.sinks.api.access import ApiOptions, tokens_agree
from gapwatch.sinks.api.overview_page import PAGE_HEADERS
from gapwatch.sinks.api.request_body import read_form
from gapwatch.sinks.api.sessions import SESSION_SECONDS, Sessions
from gapwatch.sinks.api.token_attempts import TOO_MANY_WRONG, TokenAttempts

#: Path of a page, relative to `/`. Nothing else may follow a login: it would lead to another host.
_PAGE = re.compile(r"[\w.~-]+(?:/[\w.~-]+)*/?", re.ASCII)
_HTML = {**PAGE_HEADERS, "Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-store"}


class Login:
    """Handlers of the form, of its answer, and of a logout.

    Args:
        options: Tokens of the server.
        sessions: Sessions of the server.
        attempts: Wrong tokens of the clients of the server.
    """

    def __init__(self, options: ApiOptions, sessions: Sessions, attempts: TokenAttempts) -> None:
        self._options, self._sessions, self._attempts = options, sessions, attempts
        self._form = Path(__file__).with_name("login.html").read_text(encoding="utf-8")

    def routes(self) -> Sequence[web.AbstractRouteDef]:
        """Return the routes."""
        return (
            web.get("/login", self._serve_form),
            web.post("/login", self._take_token),
            web.post("/logout", self._end_session),
        )

    def refer(self, request: web.Request) -> web.Response:
        """Return the answer to a browser that needs a session: a page that leads to the form."""
        page = request.path.lstrip("/")
        query = f"?next={page}" if _PAGE.fullmatch(page) else ""
        form = escape("../" * page.count("/") + "login" + query)
        text = (
            f'<!doctype html><title>Gapwatch: log in</title><meta http-equiv="refresh" content="0; url={form}">'
            f'<p><a href="{form}">Log in</a> to see this page.</p>\n'
        )
        return web.Response(text=text, status=401, headers=_HTML)

    async def _serve_form(self, request: web.Request) -> web.Response:
        page = _next_page(request.query.get("next", ""))
        if self._options.reading_is_free or self._sessions.holds(self._cookie(request)):
            return web.Response(status=303, headers={"Location": f"./{page}", "Cache-Control": "no-store"})
        return self._answer("This page asks for a token.", page)

    async def _take_token(self, request: web.Request) -> web.Response:
        asked = await read_form(request)
        page, token, address = _next_page(asked.get("next")), asked.get("token"), request.remote or ""
        if self._attempts.are_blocked(address):
            return self._answer(TOO_MANY_WRONG, page, 429)
        text = token.strip() if isinstance(token, str) else ""
        is_right = any([tokens_agree(text, self._options.read_token), tokens_agree(text, self._options.write_token)])
        self._attempts.note(address, is_right=is_right)
        if not is_right:
            return self._answer("This is not the read token.", page, 401)
        answer = web.Response(status=303, headers={"Location": f"./{page}", "Cache-Control": "no-store"})
        self._set(request, answer, self._sessions.begin(), SESSION_SECONDS)
        return answer

    async def _end_session(self, request: web.Request) -> web.Response:
        self._sessions.end(self._cookie(request))
        answer = web.Response(status=303, headers={"Location": "./login", "Cache-Control": "no-store"})
        self._set(request, answer, "", 0)
        return answer

    def _answer(self, said: str, page: str, status: int = 200) -> web.Response:
        text = self._form.replace("{said}", escape(said)).replace("{next}", escape(page))
        return web.Response(text=text, status=status, headers=_HTML)

    def _cookie(self, request: web.Request) -> str:
        return request.cookies.get(self._sessions.cookie, "")

    def _set(self, request: web.Request, answer: web.Response, value: str, seconds: int) -> None:
        is_https = request.headers.get("X-Forwarded-Proto") == "https"  # of a proxy in front
        answer.set_cookie(
            self._sessions.cookie, value, max_age=seconds, path="/", httponly=True, samesite="Strict", secure=is_https
        )


def _next_page(asked: object) -> str:
    return asked if isinstance(asked, str) and _PAGE.fullmatch(asked) else ""
