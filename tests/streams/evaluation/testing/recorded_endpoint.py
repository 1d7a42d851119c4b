"""OpenAI-compatible endpoint that serves GRAFITE's recorded answers and verdicts again."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.paths import ROOT

SEED = ROOT / "tests" / "data" / "grafite_seed"
_NONCE = re.compile(r"<<<DATA ([0-9a-f]+)")
#: Returns (status, text of the answer) for the name of a model and its messages.
Answer = Callable[[str, list[dict[str, str]]], tuple[int, str]]


@contextmanager
def serving(answer: Answer) -> Iterator[tuple[str, Counter[str]]]:
    """Serve answers; yield the base URL and the number of calls by model."""
    calls: Counter[str] = Counter()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            calls[asked["model"]] += 1
            status, text = answer(asked["model"], asked["messages"])
            choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
            usage = {"prompt_tokens": 1, "completion_tokens": 1}
            said: dict[str, Any] = {"model": asked["model"], "choices": [choice], "usage": usage}
            body = json.dumps(said if status == 200 else {"error": {"message": text}}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", calls
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def verdict(messages: list[dict[str, str]], score: int, why: str) -> str:
    """Return the answer of a judge to a call."""
    nonce = _NONCE.search(messages[-1]["content"])
    assert nonce is not None
    return json.dumps({"call": nonce[1], "justification": why, "score": score})


def recorded(folder: Path = SEED) -> Answer:
    """Return the answers and verdicts of the recorded run; the call that failed there fails here."""
    results = json.loads((folder / "run_20251219203720.json").read_text())

    def answer(model: str, messages: list[dict[str, str]]) -> tuple[int, str]:
        text = messages[-1]["content"]
        if model == "llama3.1:8b":
            return 200, next(one["model_response"] for one in results if one["messages"][0]["content"] == text)
        (one,) = [one for one in results if one["messages"][0]["content"][:80] in text]
        said = next(judge for judge in one["judge_results"] if judge["model_id"] == model)
        if said["test_justification"].startswith("Max number of retries"):
            return 400, said["test_justification"]
        return 200, verdict(messages, said["test_score"], said["test_justification"])

    return answer
