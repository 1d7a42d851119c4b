"""A local server that answers as OpenAI and Anthropic do, from a script, and counts: the truth about what was asked."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class ModelServer:
    """What was answered. `fails` says how many of the next calls of a model get 500."""

    url: str = ""
    answered: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    fails: dict[str, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def reply(self, path: str, asked: dict[str, object]) -> tuple[int, dict[str, object]]:
        model = str(asked["model"])
        with self.lock:
            if self.fails.get(model, 0) > 0:
                self.fails[model] -= 1
                self.failed += 1
                return 500, {"error": {"message": "the script says so", "type": "server_error"}}
            self.answered += 1
            used = 10 + self.answered, 3
            self.input_tokens += used[0]
            self.output_tokens += used[1]
            number = self.answered
        text = json.dumps({"answer": f"answer {number}"})
        if path.endswith("/messages"):
            return 200, {
                "id": f"msg_{number}", "type": "message", "role": "assistant", "model": f"{model}-20250929",
                "content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "stop_sequence": None,
                "usage": {"input_tokens": used[0], "output_tokens": used[1]},
            }  # fmt: skip
        message = {"role": "assistant", "content": text}
        return 200, {
            "id": f"chatcmpl-{number}", "object": "chat.completion", "created": 1_790_000_000,
            "model": f"{model}-2025-04-14",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": used[0], "completion_tokens": used[1], "total_tokens": sum(used)},
        }  # fmt: skip


@contextlib.contextmanager
def model_server() -> Iterator[ModelServer]:
    state = ModelServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, answer = state.reply(self.path, asked)
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
