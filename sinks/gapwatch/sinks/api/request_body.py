"""Reads the bodies of requests; whatever a client sends instead of one is an error of the client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar

from aiohttp import web

from gapwatch.scorers.errors import UsageError

#: Seconds in which the body of a request must come.
_BODY_SECONDS = 10.0

Body = TypeVar("Body")


async def read_form(request: web.Request) -> Mapping[str, Any]:
    """Return the fields of a form.

    Raises:
        web.HTTPException: The body is not a form, or came too slowly.
    """
    form: Mapping[str, Any] | None = await _in_time(request.post())
    if form is None:
        raise web.HTTPBadRequest(text="send the fields of the form as application/x-www-form-urlencoded, in UTF-8")
    return form


async def read_object(request: web.Request) -> dict[str, Any]:
    """Return one JSON object.

    Raises:
        UsageError: The body is not one JSON object.
        web.HTTPException: The body came too slowly.
    """
    if request.content_type != "application/json":
        raise UsageError("send JSON, with Content-Type: application/json")
    asked = await _in_time(request.json())
    if not isinstance(asked, dict):
        raise UsageError("send one JSON object")
    return asked


async def _in_time(reading: Awaitable[Body]) -> Body | None:
    """Return the body; None if it cannot be decoded: its encoding, compression, parts or syntax are wrong."""
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            return await reading
    except TimeoutError:
        raise web.HTTPRequestTimeout(
            text=f"the body of the request did not come within {_BODY_SECONDS:.0f} s"
        ) from None
    except (web.RequestPayloadError, ValueError, LookupError, RecursionError):
        return None
