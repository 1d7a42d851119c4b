"""Reads the responses of OpenAI-compatible endpoints: whole replies, streams, and errors in several dialects."""

from __future__ import annotations

import email.utils
import time
from collections.abc import Mapping
from typing import Any

import orjson

from gapwatch.scorers.judges.chat_model import ChatReply, ModelFailure

#: Most characters of a provider's error text that Gapwatch repeats.
_DETAIL = 200
#: Longest accepted `Retry-After`; a longer one is shortened to it.
MAX_RETRY_AFTER_SECONDS = 600.0


def read_reply(status: int, headers: Mapping[str, str], body: bytes) -> ChatReply:
    """Return the reply in an HTTP response.

    Args:
        status: Status of the response.
        headers: Headers with lower-case names.
        body: Decompressed body.

    Raises:
        ModelFailure: The response has no reply; the failure has the provider's error text, shortened.
    """
    if status != 200:
        raise _failure(status, headers, body)
    if body[:1] != b"{" and body.lstrip()[:5] in (b"data:", b"event"):
        return _read_stream(body)
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        words = f"the endpoint did not answer with JSON ({len(body)} bytes)"
        raise ModelFailure("bad_reply", words, usage=_usage_in(body)) from None
    return read_completion(document)


def read_completion(document: object) -> ChatReply:
    """Return the reply of one chat completion.

    Raises:
        ModelFailure: The document is not a chat completion, or is empty; it has the billed tokens, if they are named.
    """
    try:
        return _completion(document)
    except ModelFailure as failure:
        failure.usage = _usage(document)
        raise


def _usage(document: object) -> tuple[int, int] | None:
    """Return the billed tokens, input and output, that a document names."""
    usage = _object(_object(document).get("usage"))
    tokens = billed_tokens(usage, *_INPUT_TOKENS), billed_tokens(usage, *_OUTPUT_TOKENS)
    return None if tokens[0] is None or tokens[1] is None else (tokens[0], tokens[1])


def _usage_in(body: bytes) -> tuple[int, int] | None:
    """Return the billed tokens that a body names which is JSON, but not in UTF-8."""
    try:
        return _usage(orjson.loads(body.decode("utf-8", "replace")))
    except orjson.JSONDecodeError:
        return None


#: Most tokens of one call: ten times the largest context window there is. More is no bill but a broken reply, which
#: would spend the cap of a week, or more than the store has room for. Smaller: a true bill may count as unknown.
_MOST_TOKENS = 100_000_000
#: Names of the billed tokens of a reply.
_INPUT_TOKENS, _OUTPUT_TOKENS = ("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens")


def _completion(document: object) -> ChatReply:
    if not isinstance(document, dict):
        raise ModelFailure("bad_reply", "the endpoint answered with JSON that is not an object")
    if document.get("error"):
        raise ModelFailure(_kind_of_error(document["error"]), _words(document))
    choices = document.get("choices")
    if not isinstance(choices, list):
        known = ", ".join(sorted(str(key) for key in document)[:6])
        raise ModelFailure("bad_reply", f"the reply is not a chat completion; its keys are {known}"[:_DETAIL])
    if not choices:
        raise ModelFailure("empty", "the list of choices is empty")
    choice = choices[0] if isinstance(choices[0], dict) else {}
    message = choice.get("message") if isinstance(choice.get("message"), dict) else None
    text = _text(message.get("content") if message is not None else choice.get("text"))
    refusal = message.get("refusal") if message is not None else None
    if message is not None and refusal is None:  # as litellm has it
        refusal = _object(message.get("provider_specific_fields")).get("refusal")
    return _reply(document, text, refusal, choice.get("finish_reason"))


def _reply(document: Mapping[str, Any], text: str, refusal: object, finish: object) -> ChatReply:
    refused = refusal if isinstance(refusal, str) and refusal else None
    finish_reason = finish if isinstance(finish, str) else None
    if not text and refused is None and finish_reason not in ("content_filter", "length"):
        raise ModelFailure("empty", f"no text in the answer (finished: {finish_reason})")
    usage = document.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    model = document.get("model")
    return ChatReply(
        text,
        model if isinstance(model, str) else None,
        billed_tokens(usage, *_INPUT_TOKENS),
        billed_tokens(usage, *_OUTPUT_TOKENS),
        finish_reason,
        refused,
    )


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") in ("text", None)]
        return "".join(part for part in parts if isinstance(part, str))
    return ""


def billed_tokens(usage: Mapping[str, Any], *names: str) -> int | None:
    """Return the first number of tokens under these names that can be one; None: the reply names none."""
    for name in names:
        value = usage.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS:
            return value
    return None


def _read_stream(body: bytes) -> ChatReply:
    """Join the chunks of a stream; a stream that stops before its end is a `cut_off` failure."""
    texts: list[str] = []
    refusals: list[str] = []
    last: dict[str, Any] = {}
    finish: object = None
    done, strange = False, 0
    for line in body.split(b"\n"):
        if not line.startswith(b"data:"):
            continue
        data = line[5:].strip()
        if data == b"[DONE]":
            done = True
            continue
        try:
            chunk = orjson.loads(data)
        except orjson.JSONDecodeError:
            raise ModelFailure("cut_off", "the stream holds a broken chunk") from None
        if not isinstance(chunk, dict):
            continue
        if chunk.get("error"):
            raise ModelFailure(_kind_of_error(chunk["error"]), _words(chunk))
        last |= {key: value for key, value in chunk.items() if key in ("model", "usage") and value}
        choices = chunk.get("choices")
        strange += not isinstance(choices, list)
        choice = _object(choices[0]) if isinstance(choices, list) and choices else {}
        delta = _object(choice.get("delta"))
        texts.append(_text(delta.get("content")) or (choice["text"] if isinstance(choice.get("text"), str) else ""))
        refusals.append(delta["refusal"] if isinstance(delta.get("refusal"), str) else "")
        finish = choice.get("finish_reason") or finish
    if strange and finish is None and not any(texts) and not any(refusals):
        raise ModelFailure("bad_reply", "a stream, but not of chat completions")
    if not done and finish is None:
        raise ModelFailure("cut_off", "the stream stopped before its end")
    return _reply(last, "".join(texts), "".join(refusals), finish)


def _failure(status: int, headers: Mapping[str, str], body: bytes) -> ModelFailure:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        document = None
    detail = f"status {status}: {_words(document)}".removesuffix(": ")
    error = document.get("error") if isinstance(document, dict) else None
    return ModelFailure(_kind_of_status(status, error), detail, retry_after(headers))


def _kind_of_status(status: int, error: object) -> str:
    if status == 402 or (status in (400, 403, 429) and is_quota(_code(error), _words({"error": error}))):
        return "quota_exhausted"  # not a rate limit: waiting some seconds does not help
    if status == 429:
        return "rate_limited"
    if status == 401 or (status == 400 and _code(error) in _KEY_CODES):
        return "refused_key"
    if status == 403:
        return "forbidden"
    if status == 404:
        return "no_such_model"
    if status in (408, 504):
        return "timeout"
    return "unavailable" if status >= 500 or status in (409, 425) else "bad_request"


_KEY_CODES = ("401", "invalid_api_key", "authentication_error", "API_KEY_INVALID")


def is_quota(code: str, words: str) -> bool:
    """Return True if an error of a provider says that the account has no money left."""
    return code in ("402", "insufficient_quota", "billing_not_active") or "credit balance is too low" in words


def _kind_of_error(error: object) -> str:
    """Return the kind of an error in a body; some gateways send errors with status 200."""
    code = _code(error)
    if is_quota(code, _words({"error": error})):
        return "quota_exhausted"
    if code in ("429", "rate_limit_exceeded", "rate_limit_error"):
        return "rate_limited"
    if code in _KEY_CODES:
        return "refused_key"
    if code in ("403", "permission_error", "permission_denied"):
        return "forbidden"
    if code in ("404", "model_not_found"):
        return "no_such_model"
    return "bad_request" if code in ("400", "invalid_request_error", "content_filter") else "unavailable"


def _code(error: object) -> str:
    if isinstance(error, dict):
        return str(error.get("code") or error.get("type") or "")
    return ""


def _words(document: object) -> str:
    """Return a provider's error text on one line, shortened."""
    found: object = document
    if isinstance(document, dict):
        error = document.get("error")
        found = error.get("message") if isinstance(error, dict) else error or document.get("message")
    text = found if isinstance(found, str) else ""
    return " ".join("".join(c if c.isprintable() else " " for c in text[: 2 * _DETAIL]).split())[:_DETAIL]


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of `retry-after-ms` or `Retry-After` (a number or a date); None if invalid or in the past."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        try:
            seconds = float(value) * unit
        except ValueError:
            seconds = _until(value)
        if 0 < seconds < float("inf"):
            return min(seconds, MAX_RETRY_AFTER_SECONDS)
    return None


def _until(date: str) -> float:
    try:
        return email.utils.parsedate_to_datetime(date).timestamp() - time.time()
    except (ValueError, TypeError, OverflowError):
        return 0.0
