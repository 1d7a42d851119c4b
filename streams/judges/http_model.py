"""Models behind any OpenAI-compatible endpoint, over aiohttp; imported only where judges are asked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

from scorers.errors import UsageError
from scorers.judges.chat_model import ChatCall, ChatReply, ModelFailure
from scorers.judges.prompt import request_bytes
from streams.judges.chat_completions import read_reply
from streams.judges.secret import Secret

#: Bytes of a reply that are read; a verdict has a few kilobytes.
_MAX_REPLY_BYTES = 4_000_000
#: A connection that is not there after so long is none; nothing was sent, so nothing can be billed.
_CONNECT_SECONDS = 10.0
_HEADERS = {"content-type": "application/json", "accept": "application/json", "user-agent": "gapwatch"}


class HttpModel:
    """Asks one endpoint; for one event loop, from its first question on.

    Args:
        base_url: Such as `https://api.openai.com/v1`; `/chat/completions` is added.
        key: Sent as a bearer token; None where the endpoint asks for none.

    Raises:
        UsageError: The address is none, or a key would travel in the clear.
    """

    def __init__(self, base_url: str, key: Secret | None = None) -> None:
        self._url = check_base_url(base_url, key)
        self._key = key
        self._proxy = _proxy(self._url)
        self._session: aiohttp.ClientSession | None = None

    def __repr__(self) -> str:
        return f"HttpModel({self._url.host})"

    async def ask(self, call: ChatCall) -> ChatReply:
        """Return the model's reply.

        Raises:
            ModelFailure: There is none.
        """
        failure: ModelFailure
        try:
            async with asyncio.timeout(call.timeout_seconds):
                status, headers, body = await self._post(request_bytes(call))
            # A provider may repeat the key that it refuses.
            clean = body if status == 200 or self._key is None else self._key.scrub_bytes(body)
            del body
            return read_reply(status, headers, clean)
        except ModelFailure as error:
            failure = error
        except aiohttp.ClientConnectorError as error:
            failure = ModelFailure("unavailable", f"{self._url.host} cannot be reached ({type(error).__name__})")
        except aiohttp.ConnectionTimeoutError:
            failure = ModelFailure("unavailable", f"{self._url.host} cannot be reached within {_CONNECT_SECONDS:g} s")
        except TimeoutError:
            failure = ModelFailure("timeout", f"no reply within {call.timeout_seconds:g} s")
        except (aiohttp.ClientError, aiohttp.http_exceptions.HttpProcessingError, OSError) as error:
            failure = ModelFailure("cut_off", f"the reply broke off ({type(error).__name__})")
        # Outside the handler, so that what was raised, with its request and its headers, hangs on nothing.
        failure = self._scrubbed(failure)
        raise failure

    async def _post(self, content: bytes) -> tuple[int, Mapping[str, str], bytes]:
        session = self._session
        if session is None:
            session = self._session = self._open()
        # A redirect would carry the key to another host.
        async with session.post(self._url, data=content, allow_redirects=False, proxy=self._proxy) as response:
            body = bytearray()
            async for piece in response.content.iter_any():
                body += piece
                if len(body) > _MAX_REPLY_BYTES:
                    raise ModelFailure("bad_reply", f"a reply of more than {_MAX_REPLY_BYTES} bytes")
            return response.status, response.headers, bytes(body)

    def _open(self) -> aiohttp.ClientSession:
        key = {} if self._key is None else {"authorization": f"Bearer {self._key.reveal()}"}
        return aiohttp.ClientSession(
            headers={**_HEADERS, **key},
            skip_auto_headers=("accept-encoding",),
            # How many connections there are is said by `concurrency` of the settings.
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
            # With `trust_env` a .netrc would put its password in the place of the key.
            trust_env=False,
        )

    def _scrubbed(self, failure: ModelFailure) -> ModelFailure:
        detail = failure.detail if self._key is None else self._key.scrub(failure.detail)
        return ModelFailure(failure.kind, detail, failure.retry_after_seconds)

    async def close(self) -> None:
        """Close the connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def _proxy(url: URL) -> URL | None:
    """Return the proxy that the environment names for an address (HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY)."""
    proxies = getproxies()
    if not proxies or proxy_bypass(f"{url.host}:{url.port}"):
        return None
    found = proxies.get(url.scheme) or proxies.get("all")
    return URL(found) if found else None


def check_base_url(base_url: str, key: Secret | None) -> URL:
    """Return the address of an endpoint's chat completions.

    Raises:
        UsageError: It is none, or a key would travel in the clear.
    """
    try:
        url = URL(base_url.rstrip("/") + "/chat/completions")
        host, scheme = url.host, url.scheme
    except ValueError:
        raise UsageError("the base_url of a judge's provider is no address; write https://host/v1") from None
    if scheme not in ("http", "https") or not host:
        raise UsageError("the base_url of a judge's provider is no http(s) address; write https://host/v1")
    if url.user or url.password or url.query_string:
        raise UsageError(f"the base_url of {host} holds a user or a query; a key belongs into key_env or key_file")
    if key is not None and scheme == "http" and host not in ("localhost", "127.0.0.1", "::1"):
        raise UsageError(f"the key for {host} would travel in the clear; use https")
    return url
