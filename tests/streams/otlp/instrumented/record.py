"""Records what a program with a real instrumentor sends, as a capture for `tests/data/otlp/recorded`.

    python -m tests.streams.otlp.instrumented.record PYTHON FOLDER INSTRUMENTOR...

PYTHON is that of an environment with `requirements.txt`, or `recorded.txt`, beside this file. It writes one file for
each instrumentor, and what the model server counted into `truth.json`.
"""

from __future__ import annotations

import base64
import gzip
import json
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.streams.otlp.instrumented.model_server import model_server
from tests.streams.otlp.instrumented.programs import PROGRAM, start_program

#: Headers that are kept: others name the machine or hold a key.
_KEPT_HEADERS = ("content-type", "content-encoding")


def _without_host(body: bytes) -> bytes:
    """Replace the name of this machine by one of the same length: protobuf has the length before the text."""
    host = socket.gethostname().encode()
    return body.replace(host, b"h" * len(host))


@contextmanager
def recorder() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Answer 200 to everything; yield the URL and the requests, in the order of arrival."""
    kept: list[dict[str, Any]] = []
    started = time.monotonic()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.compress(_without_host(gzip.decompress(body)), mtime=0)
            else:
                body = _without_host(body)
            headers = {key.lower(): value for key, value in self.headers.items() if key.lower() in _KEPT_HEADERS}
            kept.append({
                "at": round(time.monotonic() - started, 3), "via": "http", "path": self.path, "headers": headers,
                "body": base64.b64encode(body).decode(),
            })  # fmt: skip
            self.send_response(200)
            self.send_header("Content-Type", headers.get("content-type", "application/x-protobuf"))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", kept
    finally:
        server.shutdown()
        server.server_close()


def main() -> None:
    python, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    truth_file = folder / "truth.json"
    truth: dict[str, Any] = json.loads(truth_file.read_text()) if truth_file.exists() else {}
    for name in sys.argv[3:]:
        with model_server() as server, recorder() as (url, kept), tempfile.TemporaryDirectory() as place:
            # Spans of errors name the file of the program.
            program = Path(shutil.copy(PROGRAM, place))
            process = start_program(python, name, url, server, program)
            _, said = process.communicate(timeout=180)
            if process.returncode:
                sys.exit(said)
        lines = "".join(json.dumps(one) + "\n" for one in kept)
        (folder / f"{name}.jsonl.gz").write_bytes(gzip.compress(lines.encode(), mtime=0))
        truth[name] = {
            "answered": server.answered, "failed": server.failed, "input_tokens": server.input_tokens,
            "output_tokens": server.output_tokens,
        }  # fmt: skip
        print(name, truth[name], [one["path"] for one in kept])
    truth_file.write_text(json.dumps(truth, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
