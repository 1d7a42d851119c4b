"""The client of the model server: an OpenAI-compatible endpoint, asked again when it fails for a moment."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from typing import Any

from rag_app.telemetry import note

MAX_ATTEMPTS = 3


class ModelError(Exception):
    """The model server did not answer."""


class ModelClient:
    """Asks one model server.

    Args:
        base_url: Up to, and without, `/v1`.
    """

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url

    def complete(self, model: str, messages: list[dict[str, str]]) -> str:
        """Return the text of a model's answer."""
        last: Exception | None = None
        for attempt in range(MAX_ATTEMPTS):
            try:
                body = self._post(model, messages)
            except (urllib.error.URLError, TimeoutError) as error:
                if isinstance(error, urllib.error.HTTPError):
                    error.close()
                last = error
                time.sleep(0.01 * 2**attempt)
                continue
            note(retry_count=attempt, retry_outcome="first_try" if attempt == 0 else "recovered")
            return str(body["choices"][0]["message"]["content"])
        note(retry_count=MAX_ATTEMPTS - 1, retry_outcome="exhausted")
        raise ModelError(f"{model} did not answer") from last

    def _post(self, model: str, messages: list[dict[str, str]]) -> dict[str, Any]:
        data = json.dumps({"model": model, "messages": messages}).encode()
        request = urllib.request.Request(
            f"{self.base_url}/v1/chat/completions", data, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=2.0) as response:
            text = response.read().decode()
        note(parsed_text=text)
        body: dict[str, Any] = json.loads(text)
        note(finish_reason=body["choices"][0]["finish_reason"], model=body["model"], usage=body["usage"])
        return body
