"""OpenAI's batch interface: a file of requests is uploaded, a batch made of it, and its files downloaded.

Source: https://platform.openai.com/docs/api-reference/batch
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import aiohttp
import orjson

from gapwatch.scorers.judges.chat_model import ChatCall, ChatReply, ModelFailure
from gapwatch.scorers.judges.prompt import request_bytes
from gapwatch.streams.judges.batches.batch_api import BatchAnswer, BatchHttp, BatchPostponed
from gapwatch.streams.judges.models.chat_completions import read_reply
from gapwatch.streams.judges.secret import Secret

#: Interface that answers each request of a batch, in the words of the provider.
_ENDPOINT = "v1/chat/completions"
#: States of a batch that has ended; only `completed` has an answer to every request.
_ENDED = ("completed", "failed", "expired", "cancelled")
#: Errors of a batch that would exceed the tokens that an account may have in its queue.
_TOO_MUCH = ("token_limit_exceeded", "rate_limit_exceeded")
#: Most pages of the list of batches that are searched for one.
_PAGES = 20


class OpenaiBatches:
    """Batches of OpenAI, and of endpoints with its interface.

    Args:
        base_url: Address such as `https://api.openai.com/v1`.
        key: Key of the provider.
    """

    def __init__(self, base_url: str, key: Secret | None) -> None:
        headers = {} if key is None else {"authorization": Secret(f"Bearer {key.reveal()}")}
        self._http = BatchHttp(base_url, key, headers)

    async def submit(self, key: str, calls: Sequence[tuple[str, ChatCall]]) -> str:
        """Upload the file, make the batch, and return its id."""
        form = aiohttp.FormData()
        form.add_field("purpose", "batch")
        lines = b"".join(_line(custom_id, call) for custom_id, call in calls)
        form.add_field("file", lines, filename=f"gapwatch-{key}.jsonl", content_type="application/jsonl")
        uploaded = orjson.loads(await self._http.send("POST", "/files", form, {}))
        made = await self._http.json(
            "POST",
            "/batches",
            {
                "input_file_id": uploaded["id"],
                "endpoint": f"/{_ENDPOINT}",
                "completion_window": "24h",
                "metadata": {"gapwatch": key},
            },
        )
        return str(made["id"])

    async def find(self, key: str, requests: int, known: frozenset[str]) -> str | None:
        """Return the id of the batch whose metadata have this key."""
        after = ""
        for _ in range(_PAGES):
            page = await self._http.json("GET", f"/batches?limit=100{after}")
            batches = page.get("data") or []
            for batch in batches:
                if (batch.get("metadata") or {}).get("gapwatch") == key:
                    return str(batch["id"])
            if not page.get("has_more") or not batches:
                return None
            after = f"&after={batches[-1]['id']}"
        return None

    async def results(self, provider_id: str) -> list[BatchAnswer] | None:
        """Return what the output file and the error file say, once the batch has ended."""
        batch = await self._http.json("GET", f"/batches/{provider_id}")
        if batch.get("status") not in _ENDED:
            return None
        if batch["status"] == "failed":
            errors = (batch.get("errors") or {}).get("data") or []
            if errors and all(error.get("code") in _TOO_MUCH for error in errors):
                raise BatchPostponed
            said = orjson.dumps(batch.get("errors") or {}).decode()[:200]
            raise ModelFailure("bad_request", f"the provider refused the batch: {said}")
        answers = []
        for name in ("output_file_id", "error_file_id"):
            if batch.get(name):
                content = await self._http.send("GET", f"/files/{batch[name]}/content", None, {})
                answers += list(_answers(content))
        return answers

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()


def _line(custom_id: str, call: ChatCall) -> bytes:
    head = orjson.dumps({"custom_id": custom_id, "method": "POST", "url": f"/{_ENDPOINT}"})
    return head[:-1] + b',"body":' + request_bytes(call) + b"}\n"


def _answers(content: bytes) -> Iterator[BatchAnswer]:
    for line in content.splitlines():
        try:
            document = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue  # its request has no result, and is asked again
        if isinstance(document, dict) and isinstance(document.get("custom_id"), str):
            try:
                yield BatchAnswer(document["custom_id"], reply=_reply(document))
            except ModelFailure as failure:
                yield BatchAnswer(document["custom_id"], failure=failure)


def _reply(document: dict[str, Any]) -> ChatReply:
    response = document.get("response")
    if isinstance(response, dict) and isinstance(response.get("status_code"), int):
        return read_reply(response["status_code"], {}, orjson.dumps(response.get("body")))
    error = document.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    raise ModelFailure("unavailable", f"the batch gave no answer ({code or 'no reason'})")
