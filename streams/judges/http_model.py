"""Models behind any OpenAI-compatible endpoint, over httpx; imported only where judges are asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx

from scorers.errors import UsageError
from scorers.judges.chat_model import ChatCall, ChatReply, ModelFailure
from scorers.judges.prompt import request_bytes
from streams.judges.chat_completions import read_reply
from streams.judges.secret import Secret

#: Bytes of a reply that are read; a verdict has a few kilobytes.
_MAX_REPLY_BYTES = 4_000_000


class HttpModel:
    """Asks one endpoint.

    Args:
        base_url: Such as `https://api.openai.com/v1`; `/chat/completions` is added.
        key: Sent as a bearer token; None where the endpoint asks for none.
        make_transport: Makes one connection's way; instead of the network's.

    Raises:
        UsageError: The address is none, or a key would travel in the clear.
    """

    def __init__(
        self,
        base_url: str,
        key: Secret | None = None,
        make_transport: Callable[[], httpx.AsyncBaseTransport] | None = None,
    ) -> None:
        url = _checked(base_url, key)
        self._key = key
        headers = {"content-type": "application/json", "accept": "application/json", "user-agent": "gapwatch"}
        if key is not None:
            headers["authorization"] = f"Bearer {key.reveal()}"
        self._url = httpx.URL(url)
        self._headers = httpx.Headers({**headers, "host": self._url.netloc.decode("ascii")})
        # The transport alone: cookies, redirects and authentication flows of a client cost more than the request,
        # and a redirect would carry the key to another host. One for each connection: the pool of a shared one looks
        # at every connection for every request, 8 ms of CPU a call at 64 connections.
        self._make_transport = make_transport or _transports()
        self._idle: list[httpx.AsyncBaseTransport] = []

    def __repr__(self) -> str:
        return f"HttpModel({self._url.host})"

    async def ask(self, call: ChatCall) -> ChatReply:
        """Return the model's reply.

        Raises:
            ModelFailure: There is none.
        """
        content = request_bytes(call)
        try:
            async with asyncio.timeout(call.timeout_seconds):
                status, headers, body = await self._post(content, call.timeout_seconds)
            # A provider may repeat the key that it refuses.
            clean = body if status == 200 or self._key is None else self._key.scrub_bytes(body)
            del body
            return read_reply(status, headers, clean)
        except TimeoutError:
            raise ModelFailure("timeout", f"no reply within {call.timeout_seconds:g} s") from None
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise ModelFailure("unavailable", f"{self._url.host} cannot be reached ({type(error).__name__})") from None
        except httpx.TimeoutException:
            raise ModelFailure("timeout", f"no reply within {call.timeout_seconds:g} s") from None
        except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL) as error:
            raise ModelFailure("cut_off", f"the reply broke off ({type(error).__name__})") from None
        except ModelFailure as failure:
            raise self._scrubbed(failure) from None

    async def _post(self, content: bytes, seconds: float) -> tuple[int, httpx.Headers, bytes]:
        headers = self._headers.copy()
        headers["content-length"] = str(len(content))
        timeouts = httpx.Timeout(seconds).as_dict()
        request = httpx.Request(
            "POST", self._url, headers=headers, stream=httpx.ByteStream(content), extensions={"timeout": timeouts}
        )
        transport = self._idle.pop() if self._idle else self._make_transport()
        try:
            response = await transport.handle_async_request(request)
            response.request = request
            try:
                body = bytearray()
                async for piece in response.aiter_bytes():
                    body += piece
                    if len(body) > _MAX_REPLY_BYTES:
                        raise ModelFailure("bad_reply", f"a reply of more than {_MAX_REPLY_BYTES} bytes")
                return response.status_code, response.headers, bytes(body)
            finally:
                await response.aclose()
        finally:
            self._idle.append(transport)

    def _scrubbed(self, failure: ModelFailure) -> ModelFailure:
        if self._key is None:
            return failure
        return ModelFailure(failure.kind, self._key.scrub(failure.detail), failure.retry_after_seconds)

    async def close(self) -> None:
        """Close the connections."""
        while self._idle:
            await self._idle.pop().aclose()


def _transports() -> Callable[[], httpx.AsyncBaseTransport]:
    context = httpx.create_ssl_context()
    limits = httpx.Limits(max_connections=1, max_keepalive_connections=1)
    return lambda: httpx.AsyncHTTPTransport(verify=context, limits=limits, trust_env=True)


def _checked(base_url: str, key: Secret | None) -> str:
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL:
        raise UsageError("the base_url of a judge's provider is no address; write https://host/v1") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise UsageError("the base_url of a judge's provider is no http(s) address; write https://host/v1")
    if url.userinfo or url.query:
        raise UsageError(f"the base_url of {url.host} holds a user or a query; a key belongs into key_env or key_file")
    if key is not None and url.scheme == "http" and url.host not in ("localhost", "127.0.0.1", "::1"):
        raise UsageError(f"the key for {url.host} would travel in the clear; use https")
    return base_url.rstrip("/") + "/chat/completions"
