"""Sends calls in a provider's own dialect as litellm would write them, without running litellm for every call.

litellm takes 3 ms of CPU per call, but two calls of one judge differ only in the texts of their messages. So it is
asked once for each judge: it writes two requests with generated texts, which are caught before they are sent. If they
differ only in these texts, the texts of real calls are put in their places. Replies and errors are read by litellm's
own object for the provider.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson
from yarl import URL

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.judges.chat_model import ChatCall, ChatReply, ModelFailure
from gapwatch.streams.judges.models.chat_completions import read_completion, read_reply, retry_after
from gapwatch.streams.judges.models.http_sender import HttpSender, is_in_the_clear
from gapwatch.streams.judges.models.litellm_failure import litellm_failure
from gapwatch.streams.judges.models.openai_dialect import has_own_headers, is_chat
from gapwatch.streams.judges.models.quiet_litellm import WrittenRequest, silent_log
from gapwatch.streams.judges.secret import Secret

#: Providers of litellm with a constant key in a header: no token that expires, no signature. A test compares each with
#: litellm's requests and replies. OpenAI is here for models whose parameters have other names.
TRANSLATED_PROVIDERS = frozenset(
    ("anthropic", "gemini", "openai", "openrouter", "fireworks_ai", "cohere", "cohere_chat", "ollama_chat")
)

#: Names of headers that may hold a key.
_OF_A_KEY = re.compile("authorization|key|token", re.IGNORECASE)

Writing = Callable[[ChatCall], Awaitable[WrittenRequest | None]]


@dataclass(frozen=True, repr=False)
class _Form:
    """A request without the texts of its messages: the bytes around them, and the order of the messages."""

    url: str
    headers: Mapping[str, str]
    pieces: tuple[bytes, ...]
    order: tuple[int, ...]


class TranslatedWay:
    """Adapter of one judge's model; for one event loop.

    Args:
        litellm: The module.
        call: A call of the judge, with any texts.
        form: The form that litellm wrote for it.

    Raises:
        UsageError: A key would be sent unencrypted.
    """

    def __init__(self, litellm: Any, call: ChatCall, form: _Form) -> None:
        self._litellm = litellm
        self._name, self._provider = litellm.get_llm_provider(model=call.model)[:2]
        self._config = _config(litellm, self._name, self._provider)
        self._params = _mapped(litellm, call, self._name, self._provider)
        self._json_mode = bool(self._params.pop("json_mode", False))
        self._log = silent_log(call.model)
        self._log.optional_params = self._params
        self._pieces, self._order = form.pieces, form.order
        self._url = URL(form.url, encoded=True)
        if is_in_the_clear(self._url) and any(_OF_A_KEY.search(name) for name in form.headers):
            raise UsageError(f"the key for {self._url.host} would be sent unencrypted; use https")
        self._sender = HttpSender(self._url, {name: Secret(text) for name, text in form.headers.items()})

    def __repr__(self) -> str:
        return f"TranslatedWay({self._url.host})"

    def body(self, call: ChatCall) -> bytes:
        """Return the body of a call's request."""
        filled = [self._pieces[0]]
        for at, piece in zip(self._order, self._pieces[1:], strict=True):
            filled += (orjson.dumps(call.messages[at][1]), piece)
        return b"".join(filled)

    async def ask(self, call: ChatCall) -> ChatReply:
        """Return the model's reply.

        Raises:
            ModelFailure: The provider gave no reply.
        """
        status, headers, body = await self._sender.post(self.body(call), call.timeout_seconds)
        if 300 <= status < 400:
            raise ModelFailure("bad_request", f"{self._url.host} answered with status {status}")
        if self._provider == "openai":  # the dialect of `read_reply`
            return read_reply(status, headers, body)
        try:
            return read_completion(self._read(call, body) if status < 300 else self._raise(status, headers, body))
        except ModelFailure as error:
            failure = error
        except Exception as error:  # litellm raises many types
            failure = litellm_failure(self._mapped(error))
        del body
        wait = None if status < 300 else retry_after(headers)  # litellm drops some providers' header
        raise ModelFailure(failure.kind, failure.detail, wait)

    def _read(self, call: ChatCall, body: bytes) -> object:
        import httpx

        answered = self._config.transform_response(
            model=self._name,
            raw_response=httpx.Response(200, content=body),
            model_response=self._litellm.ModelResponse(),
            logging_obj=self._log,
            api_key=None,
            request_data={},
            messages=[{"role": role, "content": text} for role, text in call.messages],
            optional_params=dict(self._params),
            litellm_params={},
            encoding=None,
            json_mode=self._json_mode,
        )
        return answered.model_dump(warnings=False)  # a provider's number where litellm expects a text

    def _raise(self, status: int, headers: Mapping[str, str], body: bytes) -> object:
        words = body.decode("utf-8", "replace")
        raise self._config.get_error_class(error_message=words, status_code=status, headers=dict(headers))

    def _mapped(self, error: Exception) -> Exception:
        """Return the exception that litellm raises for an error of a provider."""
        try:
            self._litellm.exception_type(model=self._name, custom_llm_provider=self._provider, original_exception=error)
        except Exception as mapped:
            return mapped
        return error

    async def close(self) -> None:
        """Close the connections."""
        await self._sender.close()


async def translated_way(litellm: Any, call: ChatCall, write: Writing) -> TranslatedWay | None:
    """Return the adapter of a call's judge; None if litellm has to send its calls.

    Args:
        litellm: The module.
        call: A call of the judge; its texts do not matter.
        write: Returns the request that litellm would send for a call.

    Raises:
        UsageError: A key would be sent unencrypted.
    """
    try:
        name, provider = litellm.get_llm_provider(model=call.model)[:2]
        if provider not in TRANSLATED_PROVIDERS or _config(litellm, name, provider) is None:
            return None
    except Exception:  # litellm reports the error itself when it is asked
        return None
    if provider == "openai":
        if has_own_headers() or not is_chat(litellm, call.model, name):
            return None
        write = _by_the_sdk(write)
    form = await _form(call, write)
    return TranslatedWay(litellm, call, form) if form is not None and form == await _form(call, write) else None


def _by_the_sdk(write: Writing) -> Writing:
    """Return a function that adds the changes of OpenAI's client to the request that litellm passes to it."""

    async def sent(call: ChatCall) -> WrittenRequest | None:
        written = await write(call)
        if written is None:
            return None
        body = orjson.loads(written.body)
        body |= body.pop("extra_body", None) or {}
        headers = {**written.headers, "content-type": "application/json"}
        return WrittenRequest(written.url.rstrip("/") + "/chat/completions", headers, orjson.dumps(body))

    return sent


async def _form(call: ChatCall, write: Writing) -> _Form | None:
    """Return the request that litellm writes around generated texts; None if it changes the texts."""
    # Spaces at both ends, line breaks, quotes and non-ASCII letters reveal any change of a text.
    marks = [secrets.token_hex(8) for _ in call.messages]
    texts = [f'\n "{mark}" \\ é\u2028😀\t{mark}\n ' for mark in marks]
    written = await write(
        replace(call, messages=tuple((role, text) for (role, _), text in zip(call.messages, texts, strict=True)))
    )
    if written is None:
        return None
    places = sorted((written.body.find(orjson.dumps(text)), at) for at, text in enumerate(texts))
    pieces, end = [], 0
    for place, at in places:
        if place < end or written.body.count(marks[at].encode()) != 2:
            return None
        pieces.append(written.body[end:place])
        end = place + len(orjson.dumps(texts[at]))
    return _Form(written.url, written.headers, (*pieces, written.body[end:]), tuple(at for _, at in places))


def _config(litellm: Any, name: str, provider: str) -> Any:
    return litellm.utils.ProviderConfigManager.get_provider_chat_config(
        model=name, provider=litellm.LlmProviders(provider)
    )


def _mapped(litellm: Any, call: ChatCall, name: str, provider: str) -> dict[str, Any]:
    written: dict[str, Any] = dict(call.params)
    if call.response_format is not None:
        written["response_format"] = dict(call.response_format)
    return dict(
        litellm.utils.get_optional_params(model=name, custom_llm_provider=provider, drop_params=False, **written)
    )
