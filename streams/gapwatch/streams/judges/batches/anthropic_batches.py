"""Anthropic's Message Batches: a batch is made with its requests, and its results are downloaded.

Source: https://platform.claude.com/docs/en/api/messages/batches
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from gapwatch.scorers.judges.chat_model import ChatCall, ChatReply, ModelFailure
from gapwatch.streams.judges.batches.batch_api import BatchAnswer, BatchHttp
from gapwatch.streams.judges.models.chat_completions import billed_tokens
from gapwatch.streams.judges.secret import Secret

_VERSION = "2023-06-01"
#: Parameters under another name; `seed` and `response_format` do not exist, and the prompt asks for JSON in words.
_NAMES = {"max_completion_tokens": "max_tokens", "max_output_tokens": "max_tokens", "stop": "stop_sequences"}
_LEFT_OUT = ("seed",)


class AnthropicBatches:
    """Message batches of Anthropic.

    Args:
        base_url: Address such as `https://api.anthropic.com/v1`.
        key: Key of the provider.
    """

    def __init__(self, base_url: str, key: Secret | None) -> None:
        headers: dict[str, Secret | str] = {"anthropic-version": _VERSION}
        self._http = BatchHttp(base_url, key, headers if key is None else {**headers, "x-api-key": key})

    async def submit(self, key: str, calls: Sequence[tuple[str, ChatCall]]) -> str:
        """Make the batch, and return its id."""
        requests = [{"custom_id": custom_id, "params": _params(call)} for custom_id, call in calls]
        made = await self._http.json("POST", "/messages/batches", {"requests": requests})
        return str(made["id"])

    async def find(self, key: str, requests: int, known: frozenset[str]) -> str | None:
        """Return the batch whose results have this key.

        A message batch has no metadata, and tells the ids of its requests with its results only. So an unknown batch of
        as many requests is taken for the one that is looked for while it runs, and checked when it has ended.
        """
        page = await self._http.json("GET", "/messages/batches?limit=100")
        for batch in page.get("data") or []:
            counts = batch.get("request_counts") or {}
            if batch["id"] in known or sum(n for n in counts.values() if isinstance(n, int)) != requests:
                continue
            if batch.get("processing_status") != "ended":
                raise ModelFailure("unavailable", f"batch {batch['id']} may be the one that was sent; it is under way")
            answers = await self.results(batch["id"])
            if answers and all(answer.custom_id.startswith(f"{key}_") for answer in answers):
                return str(batch["id"])
        return None

    async def results(self, provider_id: str) -> list[BatchAnswer] | None:
        """Return the results, once the batch has ended."""
        batch = await self._http.json("GET", f"/messages/batches/{provider_id}")
        if batch.get("processing_status") != "ended":
            return None
        # Not `results_url`: that would send the key wherever a reply says.
        return list(read_answers(await self._http.send("GET", f"/messages/batches/{provider_id}/results", None, {})))

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()


def _params(call: ChatCall) -> dict[str, object]:
    system = "\n\n".join(text for role, text in call.messages if role == "system")
    messages = [{"role": role, "content": text} for role, text in call.messages if role != "system"]
    params = {_NAMES.get(name, name): value for name, value in call.params.items() if name not in _LEFT_OUT}
    return {"model": call.name, "messages": messages, **({"system": system} if system else {}), **params}


def read_answers(content: bytes) -> Iterator[BatchAnswer]:
    """Yield the answers of a file of results; a line that is none is left out, and its request is asked again."""
    for line in content.splitlines():
        try:
            document = _object(orjson.loads(line))
        except orjson.JSONDecodeError:
            continue
        custom_id, result = document.get("custom_id"), _object(document.get("result"))
        if not isinstance(custom_id, str):
            continue
        if result.get("type") == "succeeded":
            try:
                yield BatchAnswer(custom_id, reply=_reply(_object(result.get("message"))))
            except ModelFailure as failure:
                yield BatchAnswer(custom_id, failure=failure)
        else:
            yield BatchAnswer(custom_id, failure=_failure(result))


def _reply(message: dict[str, Any]) -> ChatReply:
    blocks = message.get("content")
    blocks = [block for block in blocks if isinstance(block, dict)] if isinstance(blocks, list) else []
    text = "".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")
    stop = message.get("stop_reason")
    if not text and stop not in ("refusal", "max_tokens"):
        raise ModelFailure("empty", f"no text in the answer (finished: {stop})")
    usage, model = _object(message.get("usage")), message.get("model")
    read = [billed_tokens(usage, n) for n in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")]
    known = [n for n in read if n is not None]
    return ChatReply(
        text, model if isinstance(model, str) else None, sum(known) if known else None,
        billed_tokens(usage, "output_tokens"), "stop" if stop == "end_turn" else stop,
    )  # fmt: skip


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _failure(result: dict[str, Any]) -> ModelFailure:
    outer = _object(result.get("error"))
    error = _object(outer.get("error")) or outer
    kind = {"invalid_request_error": "bad_request", "not_found_error": "no_such_model"}.get(str(error.get("type")))
    words = str(error.get("message", ""))[:200]
    return ModelFailure(kind or "unavailable", f"the batch gave no answer ({result.get('type')}) {words}".strip())
