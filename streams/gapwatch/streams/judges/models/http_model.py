"""Adapter of models behind an OpenAI-compatible endpoint; imported only where judges are asked."""

from __future__ import annotations

from yarl import URL

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.judges.chat_model import ChatCall, ChatReply, ModelFailure
from gapwatch.scorers.judges.prompt import request_bytes
from gapwatch.streams.judges.models.chat_completions import read_reply
from gapwatch.streams.judges.models.http_sender import HttpSender, is_in_the_clear
from gapwatch.streams.judges.secret import Secret

_HEADERS = {"content-type": "application/json", "accept": "application/json"}


class HttpModel:
    """Asks one endpoint; for one event loop, from its first request on.

    Args:
        base_url: Address such as `https://api.openai.com/v1`; `/chat/completions` is added.
        key: Sent as a bearer token; None if the endpoint requires none.

    Raises:
        UsageError: The address is invalid, or the key would be sent unencrypted.
    """

    def __init__(self, base_url: str, key: Secret | None = None) -> None:
        self._url = check_base_url(base_url, key)
        self._key = key
        sent = {} if key is None else {"authorization": Secret(f"Bearer {key.reveal()}")}
        self._sender = HttpSender(self._url, {**_HEADERS, **sent})

    def __repr__(self) -> str:
        return f"HttpModel({self._url.host})"

    async def ask(self, call: ChatCall) -> ChatReply:
        """Return the model's reply.

        Raises:
            ModelFailure: The endpoint gave no reply.
        """
        status, headers, body = await self._sender.post(request_bytes(call), call.timeout_seconds)
        if self._key is None:
            return read_reply(status, headers, body)
        # A provider may repeat the refused key in its error.
        clean = body if status == 200 else self._key.scrub_bytes(body)
        try:
            return read_reply(status, headers, clean)
        except ModelFailure as error:
            failure = error.with_detail(self._key.scrub(error.detail))
        del body, clean
        raise failure

    async def close(self) -> None:
        """Close the connections."""
        await self._sender.close()


def check_base_url(base_url: str, key: Secret | None) -> URL:
    """Return the address of an endpoint's chat completions.

    Raises:
        UsageError: The address is invalid, or the key would be sent unencrypted.
    """
    try:
        url = URL(base_url.rstrip("/") + "/chat/completions")
        host, scheme = url.host, url.scheme
    except ValueError:
        raise UsageError("the base_url of a judge's provider is not an address; write https://host/v1") from None
    if scheme not in ("http", "https") or not host:
        raise UsageError("the base_url of a judge's provider is not an http(s) address; write https://host/v1")
    if url.user or url.password or url.query_string:
        raise UsageError(f"the base_url of {host} has a user or a query; give a key with key_env or key_file")
    if key is not None and is_in_the_clear(url):
        raise UsageError(f"the key for {host} would be sent unencrypted; use https")
    return url
