"""A real Prometheus, a real Alertmanager, and somebody on call, all in one folder on this machine."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.http_client import get
from tests.prometheus import prometheus_folder


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


class Server:
    """A program that runs until `stop`."""

    def __init__(self, folder: Path, program: Path, *arguments: str) -> None:
        self._log = (folder / f"{program.name}.log").open("w")
        self.process = subprocess.Popen(
            [program, *arguments], stdout=self._log, stderr=self._log, stdin=subprocess.DEVNULL, cwd=folder
        )

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=60)
        self._log.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()


class PrometheusServer(Server):
    """Scrapes one target each second, and evaluates rules as often.

    Args:
        folder: Its own.
        target: host:port of what it scrapes, with the token `read-me`.
        rules: Files of rules.
        alertmanager: host:port; empty for none.
    """

    def __init__(self, folder: Path, target: str, rules: tuple[Path, ...] = (), alertmanager: str = "") -> None:
        address = f"127.0.0.1:{free_port()}"
        self.url = f"http://{address}"
        (folder / "token").write_text("read-me")
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(path) for path in rules],
            "scrape_configs": [
                {
                    "job_name": "gapwatch",
                    "authorization": {"credentials_file": str(folder / "token")},
                    "static_configs": [{"targets": [target]}],
                }
            ],
            **(
                {"alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]}}
                if alertmanager
                else {}
            ),
        }
        (folder / "prometheus.yml").write_text(json.dumps(config))
        super().__init__(
            folder, prometheus_folder() / "prometheus", f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/tsdb", f"--web.listen-address={address}",
        )  # fmt: skip

    def ask(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Return labels and value of each series; nothing while it starts."""
        try:
            got = get(self.url, "/api/v1/query", query=expression)
        except OSError:
            return []
        if got.status == 503:
            return []
        answer: Any = got.json()
        assert answer["status"] == "success", (expression, answer)
        return [(one["metric"], float(one["value"][1])) for one in answer["data"]["result"]]


class AlertmanagerServer(Server):
    """Args: as `PrometheusServer`; `config` is a file."""

    def __init__(self, folder: Path, config: Path) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        super().__init__(
            folder, prometheus_folder("alertmanager") / "prometheus-alertmanager", f"--config.file={config}",
            f"--storage.path={folder}/data", f"--web.listen-address={self.address}", "--cluster.listen-address=",
        )  # fmt: skip


class OnCall:
    """Takes what is posted, and notes it by path; answers the first posts with `statuses`."""

    def __init__(self, *statuses: int) -> None:
        received: list[tuple[str, dict[str, Any]]] = []
        left = list(statuses)

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = left.pop(0) if left else 200
                if status == 200:
                    received.append((self.path, json.loads(body)))
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.received = received
        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def __enter__(self) -> OnCall:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
