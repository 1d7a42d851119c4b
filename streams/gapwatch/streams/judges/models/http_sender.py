"""Sends HTTP requests to one host with aiohttp, and turns its errors into `ModelFailure`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

from gapwatch.scorers.judges.chat_model import ModelFailure
from gapwatch.streams.judges.secret import Secret

#: Most bytes of a reply; a verdict has a few kilobytes.
_MAX_REPLY_BYTES = 4_000_000
#: Most seconds to connect. Until then nothing was sent, so nothing can be billed.
_CONNECT_SECONDS = 10.0


def is_in_the_clear(url: URL) -> bool:
    """Return True if requests to an address are unencrypted and leave this machine."""
    return url.scheme == "http" and url.host not in ("localhost", "127.0.0.1", "::1")


class HttpSender:
    """Posts to one address; for one event loop, from its first request on.

    Args:
        url: The address.
        headers: Headers of each request, including the key.
    """

    def __init__(self, url: URL, headers: Mapping[str, Secret | str]) -> None:
        self._url = url
        self._headers = headers
        self._proxy = _proxy(url)
        self._session: aiohttp.ClientSession | None = None

    def __repr__(self) -> str:
        return f"HttpSender({self._url.host})"

    async def post(self, content: bytes, timeout_seconds: float) -> tuple[int, Mapping[str, str], bytes]:
        """Return status, headers and body of the response.

        Args:
            content: Body of the request.
            timeout_seconds: Time limit of the whole response.

        Raises:
            ModelFailure: There is no complete response.
        """
        failure: ModelFailure
        host = self._url.host
        try:
            async with asyncio.timeout(timeout_seconds):
                return await self._post(content)
        except ModelFailure as error:
            failure = error
        except aiohttp.ClientConnectorError as error:
            failure = ModelFailure("unreachable", f"{host} cannot be reached ({type(error).__name__})")
        except aiohttp.ConnectionTimeoutError:
            failure = ModelFailure("unreachable", f"{host} cannot be reached within {_CONNECT_SECONDS:g} s")
        except TimeoutError:
            failure = ModelFailure("timeout", f"no reply within {timeout_seconds:g} s")
        except (aiohttp.ClientError, aiohttp.http_exceptions.HttpProcessingError, OSError) as error:
            failure = ModelFailure("cut_off", f"the reply broke off ({type(error).__name__})")
        # Outside the handler: the failure must not reference the exception, whose request holds the key.
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
        headers = {name: text.reveal() if isinstance(text, Secret) else text for name, text in self._headers.items()}
        return aiohttp.ClientSession(
            headers={"user-agent": "gapwatch", **headers},
            skip_auto_headers=("accept-encoding",),
            # `concurrency` of the settings limits the connections.
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
            # With `trust_env` the password of a .netrc would replace the key.
            trust_env=False,
        )

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
