"""Asks the API as a program would that is none of ours."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Got:
    """Answer of the server."""

    status: int
    body: bytes
    headers: dict[str, str]

    def json(self) -> Any:
        return json.loads(self.body)


def get(url: str, path: str, headers: dict[str, str] | None = None, **query: str) -> Got:
    """GET; `query` becomes the query of the address."""
    return _open(urllib.request.Request(f"{url}{path}?{urllib.parse.urlencode(query)}", headers=headers or {}))


def post(url: str, path: str, asked: Any, headers: dict[str, str] | None = None) -> Got:
    """POST an object as JSON, or bytes as they are."""
    body = asked if isinstance(asked, bytes) else json.dumps(asked).encode()
    all_headers = {"Content-Type": "application/json", **(headers or {})}
    return _open(urllib.request.Request(f"{url}{path}", body, all_headers, method="POST"))


def _open(request: urllib.request.Request) -> Got:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=120) as response:
            return Got(response.status, response.read(), dict(response.headers))
    except urllib.error.HTTPError as error:
        with error:
            return Got(error.code, error.read(), dict(error.headers))
