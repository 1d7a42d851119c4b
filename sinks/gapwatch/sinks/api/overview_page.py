"""Serves the files of the page at `/`, which lie beside this file, with headers that restrict them in a browser."""

from __future__ import annotations

from pathlib import Path

_FILES = {
    "/": ("overview.html", "text/html; charset=utf-8"),
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


def read_page(path: str, has_session: bool = False) -> tuple[bytes, dict[str, str]]:
    """Return a file of the page and its headers.

    Args:
        path: One of `PATHS`.
        has_session: Show the button that ends the session of the browser.
    """
    name, kind = _FILES[path]
    body = Path(__file__).with_name(name).read_bytes()
    if has_session:
        body = body.replace(b'action="logout" hidden>', b'action="logout">')
    return body, {"Content-Type": kind, **PAGE_HEADERS}
