"""Protocol of batch interfaces, and the HTTP requests that they share."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import aiohttp
import orjson

from gapwatch.scorers.judges.chat_model import ChatCall, ChatReply, ModelFailure
from gapwatch.streams.judges.models.chat_completions import read_reply
from gapwatch.streams.judges.models.http_model import check_base_url
from gapwatch.streams.judges.secret import Secret

#: Most bytes of a response: the results of 50,000 verdicts.
_MAX_BYTES = 500_000_000
_TIMEOUT_SECONDS = 600.0


@dataclass(frozen=True)
class BatchAnswer:
    """Result of one request of a batch.

    Attributes:
        custom_id: Id that Gapwatch gave the request.
        reply: The model's reply; None where there is none.
        failure: Why there is none.
    """

    custom_id: str
    reply: ChatReply | None = None
    failure: ModelFailure | None = None


class BatchPostponed(Exception):  # noqa: N818 - an answer that every caller handles
    """The provider has too much work to begin with a batch; nothing of it was done."""


class BatchApi(Protocol):
    """Batch interface of a provider."""

    async def submit(self, key: str, calls: Sequence[tuple[str, ChatCall]]) -> str:
        """Give a batch to the provider, and return its id there.

        Args:
            key: Id of the batch at Gapwatch.
            calls: Each request with its `custom_id`.

        Raises:
            ModelFailure: The provider did not take it.
        """
        ...

    async def find(self, key: str, requests: int, known: frozenset[str]) -> str | None:
        """Return the provider's id of a batch that may have been submitted; None if it has no such batch.

        Args:
            key: Id of the batch at Gapwatch.
            requests: Number of its requests.
            known: Ids of other batches of Gapwatch.
        """
        ...

    async def results(self, provider_id: str) -> list[BatchAnswer] | None:
        """Return the results of a batch; None while it has not ended.

        Raises:
            ModelFailure: The provider did not answer, or refused the batch.
            BatchPostponed: The same requests may be given again later.
        """
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


class BatchHttp:
    """Sends requests to the address of a provider; for one event loop.

    Args:
        base_url: Address such as `https://api.openai.com/v1`.
        key: Key of the provider; None if it requires none.
        headers: Headers of each request, including the key.

    Raises:
        UsageError: The address is invalid, or the key would be sent unencrypted.
    """

    def __init__(self, base_url: str, key: Secret | None, headers: Mapping[str, Secret | str]) -> None:
        self._url = str(check_base_url(base_url, key)).removesuffix("/chat/completions")
        self._key, self._headers = key, headers
        self._session: aiohttp.ClientSession | None = None

    async def json(self, method: str, path: str, content: object = None) -> dict[str, Any]:
        """Return the JSON object of a response.

        Raises:
            ModelFailure: There is no such response.
        """
        data = None if content is None else orjson.dumps(content)
        body = await self.send(method, path, data, {"content-type": "application/json"} if data else {})
        try:
            document = orjson.loads(body)
        except orjson.JSONDecodeError:
            document = None
        if not isinstance(document, dict):
            raise ModelFailure("bad_reply", f"{path} did not answer with a JSON object")
        return document

    async def send(
        self, method: str, path: str, data: bytes | aiohttp.FormData | None, headers: Mapping[str, str]
    ) -> bytes:
        """Return the body of a response, without the key.

        Args:
            method: HTTP method.
            path: Path behind the base address.
            data: Body.
            headers: Further headers.

        Raises:
            ModelFailure: There is no response of status 200.
        """
        failure: ModelFailure
        try:
            async with (
                asyncio.timeout(_TIMEOUT_SECONDS),
                self._opened().request(
                    method, f"{self._url}{path}", data=data, headers=headers, allow_redirects=False
                ) as response,
            ):
                body = bytearray()
                async for piece in response.content.iter_any():
                    body += piece
                    if len(body) > _MAX_BYTES:
                        raise ModelFailure("bad_reply", f"a response of more than {_MAX_BYTES} bytes")
                clean = bytes(body) if self._key is None else self._key.scrub_bytes(bytes(body))
                if response.status == 200:
                    return clean
                read_reply(response.status, {k.lower(): v for k, v in response.headers.items()}, clean)
                raise ModelFailure("bad_reply", f"status {response.status}")
        except ModelFailure as error:
            failure = error
        except TimeoutError:
            failure = ModelFailure("timeout", f"{path}: no response within {_TIMEOUT_SECONDS:g} s")
        except (aiohttp.ClientError, OSError) as error:
            failure = ModelFailure("unavailable", f"{path}: {type(error).__name__}")
        # Outside the handler: the failure must not reference the exception, whose request holds the key.
        raise failure

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            headers = {k: v.reveal() if isinstance(v, Secret) else v for k, v in self._headers.items()}
            self._session = aiohttp.ClientSession(
                headers={"user-agent": "gapwatch", **headers},
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=10.0),
                trust_env=False,
            )
        return self._session

    async def close(self) -> None:
        """Close the connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()
