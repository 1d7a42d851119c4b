"""Serves the files of the page at `/`, which lie beside this file, with headers that restrict them in a browser."""

from __future__ import annotations

from html import escape
from http import HTTPStatus
from pathlib import Path

from gapwatch.sinks.pages.layout import frame

_HTML_TYPE = "text/html; charset=utf-8"
_FILES = {
    "/": ("overview.html", _HTML_TYPE),
    "/overview.css": ("overview.css", "text/css; charset=utf-8"),
    "/overview.js": ("overview.js", "text/javascript; charset=utf-8"),
}
PATHS = tuple(_FILES)

#: The page may run only its own script and send requests only to this process. No page may frame it. A form needs the
#: origin, which browsers leave out without a referrer.
PAGE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-cache",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


def error_page(path: str, status: int, message: str) -> tuple[bytes, dict[str, str]]:
    """Return an error as a page for a browser, and its headers.

    Args:
        path: Path that was asked for.
        status: HTTP status, 400 or more.
        message: One sentence.
    """
    root = "../" * (path.count("/") - 1) or "./"
    said = f'<section><p>{escape(message)}</p><p><a href="{root}">The overview</a> lists the open alerts.</p></section>'
    text = frame(f"{status} {HTTPStatus(status).phrase}", said, root)
    return text.encode(), {"Content-Type": _HTML_TYPE, **PAGE_HEADERS}


def read_page(path: str, has_session: bool = False, lane: str = "live") -> tuple[bytes, dict[str, str]]:
    """Return a file of the page and its headers.

    Args:
        path: One of `PATHS`.
        has_session: Show the button that ends the session of the browser.
        lane: Lane of the alerts.
    """
    name, kind = _FILES[path]
    body = Path(__file__).with_name(name).read_bytes()
    if has_session:
        body = body.replace(b'action="logout" hidden>', b'action="logout">')
    if lane != "live":
        body = body.replace(b"lane = 'live'", f"lane = '{_in_template(lane)}'".encode())
    return body, {"Content-Type": kind, **PAGE_HEADERS}


def _in_template(text: str) -> str:
    """Return a text as it stands in a SQL text within a template literal of JavaScript."""
    return text.replace("\\", "\\\\").replace("`", "\\`").replace("$", "\\$").replace("'", "''")
