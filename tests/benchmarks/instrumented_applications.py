"""Counts the metrics of real applications that `gapwatch instrument` answers, without a line written into them.

    python -m tests.benchmarks.instrumented_applications CHECKOUTS [--only NAME] [--keep FOLDER] [--patched | --own]

CHECKOUTS is a folder with a checkout of each application of `instrumented/applications.yaml` that is to be measured.
For each, the command makes an environment with the packages that the run needs (kept in FOLDER), designs the portfolio
from the source, runs the unchanged application against a local model server phase by phase, one fault each, assembles
the spans that it sends, replays the traces, and compares each metric with what was expected before the first run:
whether it decides a trace, and whether it fails in the phase whose fault it watches for. With --patched the program is
changed by the patch of the design instead, and a module that Python runs at its start sets up OpenTelemetry's SDK. With
--own it sends the spans of its own instrumentation alone.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
import urllib.error
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import duckdb
import yaml

from tests.benchmarks.instrumented.model_server import ModelServer, model_server
from tests.design.emission.watched_programs import python_with_events

HERE = Path(__file__).resolve().parent / "instrumented"
GAPWATCH = str(Path(sys.executable).with_name("gapwatch"))
_SDK = ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http")
#: Seconds that a service may take to start, and one request or program to end.
_START, _LIMIT = 120, 300


class Run:
    """One application: its environment, its design and its run.

    Args:
        told: Its entry of `applications.yaml`.
        checkout: Its source, which is copied.
        keep: Folder for the environment and all that the run makes.
        server: The model server.
    """

    def __init__(self, told: dict[str, Any], checkout: Path, keep: Path, server: ModelServer) -> None:
        self.told, self.server, self.folder = told, server, keep / told["name"]
        self.folder.mkdir(parents=True, exist_ok=True)
        self.source, self.design = self.folder / "source", self.folder / "design"
        shutil.rmtree(self.source, ignore_errors=True)
        shutil.copytree(checkout, self.source, ignore=shutil.ignore_patterns(".git", "__pycache__"), symlinks=True)
        self.python = self._environment()
        self.startup = ""
        self.is_own = False

    def make_design(self, is_patched: bool, is_own: bool) -> list[str]:
        """Design the portfolio; return the command that runs the program so that it emits spans.

        Args:
            is_patched: Whether the patch is applied, so that no command is needed.
            is_own: Whether the program sends the spans of its own instrumentation alone.
        """
        self.is_own = is_own
        command = [GAPWATCH, "design", str(self.source), "--out", str(self.design), "--quiet"]
        if not is_patched:
            subprocess.run(command, check=True)
            return [] if is_own else [GAPWATCH, "instrument", "--design", str(self.design), "--"]
        subprocess.run([*command, "--instrument", str(self.folder)], check=True)
        subprocess.run(["git", "apply", str(self.folder / "instrument.patch")], cwd=self.source, check=True)
        self.startup = f"{HERE / 'startup'}{os.pathsep}"
        return []

    def _environment(self) -> str:
        """Return the Python of the application's environment, made at the first run."""
        python = self.folder / "environment/bin/python"
        done = self.folder / "environment/done"
        if not done.exists():
            subprocess.run([str(python_with_events()), "-m", "venv", str(python.parents[1])], check=True)
            packages = [p for entry in self.told["packages"] for p in ([entry] if isinstance(entry, str) else entry)]
            command = [str(python), "-m", "pip", "install", "-q", *packages, *_SDK]
            if "lock" in self.told:
                pins = self.folder / "pins.txt"
                pins.write_text(_pins(self.source / self.told["lock"]))
                command += ["-c", str(pins)]
            subprocess.run(command, check=True)
            done.touch()
        return str(python)

    def settings(self, endpoint: str) -> dict[str, str]:
        """Return the environment variables of the application."""
        own = {k: str(v).replace("{server}", self.server.url) for k, v in self.told["environment"].items()}
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "GAPWATCH_", "PYTHON"))}
        tokenizers = next(Path(sys.prefix).glob("lib/python*/site-packages/litellm/litellm_core_utils/tokenizers"), "")
        return {
            **kept,
            **own,
            "PYTHONPATH": self.startup + str(self.source / self.told["path"]),
            **({"OTEL_SERVICE_NAME": "source"} if self.startup or self.is_own else {}),
            **({self.told["own"]: endpoint} if self.is_own else {}),
            "MODEL_SERVER": self.server.url,
            "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
            # tiktoken would fetch its vocabulary; a package of this environment holds it.
            "TIKTOKEN_CACHE_DIR": str(tokenizers),
        }

    def phases(self) -> list[dict[str, Any]]:
        """Return the phases, each with all of its fields."""
        shared = {k: self.told[k] for k in ("tools", "answer") if k in self.told}
        return [{**shared, **phase} for phase in self.told["phases"]]

    def drive(self, endpoint: str, wrapper: list[str]) -> None:
        """Run the application through all phases.

        Args:
            endpoint: Where its spans go.
            wrapper: Command before the one of the application.
        """
        settings = self.settings(endpoint)
        if "prepare" in self.told:
            subprocess.run([self.python, str(HERE / self.told["prepare"])], env=settings, cwd=self.source, check=True)
        with (self.folder / "output.txt").open("w") as output:
            if "program" in self.told:
                lines = "".join(json.dumps(phase) + "\n" for phase in self.phases())
                command = [*wrapper, self.python, str(HERE / self.told["program"])]
                subprocess.run(
                    command, env=settings, cwd=self.source, input=lines, text=True, check=True, timeout=3 * _LIMIT,
                    stdout=output, stderr=subprocess.STDOUT,
                )  # fmt: skip
            else:
                self._serve(settings, wrapper, output)

    def _serve(self, settings: dict[str, str], wrapper: list[str], output: Any) -> None:
        address = f"http://127.0.0.1:{_free_port()}"
        settings |= {"HOST": "127.0.0.1", "PORT": address.rpartition(":")[2]}
        command = [*wrapper, self.python, self.told["service"]]
        process = subprocess.Popen(command, env=settings, cwd=self.source, stdout=output, stderr=subprocess.STDOUT)
        try:
            _wait_for(f"{address}/health", process)
            for phase in self.phases():
                requests = phase.pop("requests")
                self.server.begin(phase)
                for path, body, *how in requests:
                    said = _request(address + path, _agui() if body == "AGUI" else body, leaves=bool(how))
                    print(phase["name"], path, "->", said, file=output, flush=True)
            process.send_signal(signal.SIGTERM)
            code = process.wait(_LIMIT)
            print("the service ended with", code, file=output, flush=True)
        finally:
            process.kill()
            process.wait()


def _pins(lock: Path) -> str:
    """Return the versions of a lock file as constraints; packages of two versions are left out."""
    found = [(p["name"], p["version"]) for p in tomllib.loads(lock.read_text())["package"] if "version" in p]
    count = Counter(name for name, _ in found)
    return "".join(f"{name}=={version}\n" for name, version in found if count[name] == 1)


def _agui() -> dict[str, Any]:
    asked = {"id": "1", "role": "user", "content": "When may customers return goods?"}
    empty: dict[str, Any] = {"state": {}, "tools": [], "context": [], "forwardedProps": {}}
    return {"threadId": f"t{time.time_ns()}", "runId": "r", "messages": [asked], **empty}


def _request(url: str, body: dict[str, Any], leaves: bool) -> str:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=_LIMIT) as reply:
            data = reply.read(1) if leaves else reply.read()
            return f"{reply.status} {len(data)} bytes"
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        return str(error)


def _wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    limit = time.monotonic() + _START
    while time.monotonic() < limit and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:
            time.sleep(0.5)
    raise SystemExit("the service did not start; see output.txt")


def _free_port() -> int:
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        return int(server.server_address[1])


@contextmanager
def captured(file: Path) -> Iterator[str]:
    """Yield the address of a receiver that writes each request of spans to a file, as `gapwatch assemble` reads it."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            line = {"path": self.path, "headers": dict(self.headers), "body": base64.b64encode(body).decode()}
            with lock, file.open("a") as out:
                out.write(json.dumps(line) + "\n")
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            """Stay silent."""

    lock = threading.Lock()
    file.write_text("")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def outcomes(folder: Path, server: ModelServer) -> dict[str, dict[str, Counter[str]]]:
    """Return for each metric and phase the number of its outcomes.

    Args:
        folder: Folder with the design and `spans.jsonl`.
        server: Says when each phase began.
    """
    portfolio = yaml.safe_load((folder / "design/portfolio.yaml").read_text())
    for metric in portfolio["metrics"]:
        if metric["claim"]["form"] not in ("ratio", "judge"):
            metric["sample"] = {"keep": {"fail": 1.0, "pass": 1.0}}
    (folder / "portfolio.yaml").write_text(yaml.safe_dump(portfolio, sort_keys=False))
    store = folder / "s.duckdb"
    store.unlink(missing_ok=True)
    traces = folder / "traces.jsonl"
    with traces.open("w") as out:
        command = [GAPWATCH, "assemble", "--portfolio", str(folder / "portfolio.yaml"), str(folder / "spans.jsonl")]
        subprocess.run(command, stdout=out, check=True)
    command = [GAPWATCH, "replay", "--portfolio", str(folder / "portfolio.yaml"), "--store", str(store), "--quiet"]
    subprocess.run([*command, str(traces)], check=True)
    began = {}
    for line in traces.read_text().splitlines():
        trace = json.loads(line)
        began[trace["trace_id"]] = min(float(span["started_at"]) for span in trace["spans"])
    found: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    with duckdb.connect(str(store), read_only=True) as connection:
        for trace_id, metric, outcome in connection.execute("SELECT trace_id, metric, outcome FROM gaps").fetchall():
            phase = [p.name for p in server.phases if p.start <= began[trace_id]][-1]
            found[metric][phase][outcome] += 1
    return found


def report(told: dict[str, Any], folder: Path, found: dict[str, dict[str, Counter[str]]]) -> None:
    """Print whether each metric answers and fails as expected, and the counts."""
    portfolio = yaml.safe_load((folder / "design/portfolio.yaml").read_text())
    names = [m["name"] for m in portfolio["metrics"]]
    parts = {m["name"]: m["claim"] for m in portfolio["metrics"] if m["claim"]["form"] == "ratio"}
    expected = told["metrics"]

    def answers(name: str) -> bool:
        if name in parts:
            return all(answers(parts[name][end]) for end in ("numerator", "denominator"))
        return any(outcome in ("pass", "fail") for by in found[name].values() for outcome in by)

    failing = [n for n in names if expected.get(n, {}).get("fails")]
    failed = [n for n in failing if found[n][expected[n]["fails"]]["fail"]]
    for name in names:
        if name not in expected:
            hoped = "new since the expectations were written"
        elif phase := expected[name].get("fails"):
            hoped = f"fails in {phase}: {'yes' if name in failed else 'NO'}"
        else:
            hoped = expected[name].get("never", "has no limit")
        seen = sorted({phase for phase, by in found[name].items() if by["fail"]})
        head = "answers" if answers(name) else "NO ANSWER"
        print(f"  {head:<9}  {name}: {hoped}; failed in {', '.join(seen) or 'none'}")
    for name in sorted(set(expected) - set(names)):
        print(f"  {'gone':<9}  {name}")
    count = sum(map(answers, names))
    print(f"{told['name']}: {count} of {len(names)} metrics answer; {len(failed)} of {len(failing)} fail as expected")


def main() -> None:
    """Print a line for each metric, and the counts of each application."""
    parser = argparse.ArgumentParser()
    parser.add_argument("checkouts", type=Path)
    parser.add_argument("--only", help="name of one application")
    parser.add_argument("--patched", action="store_true", help="run the patched program instead")
    parser.add_argument("--own", action="store_true", help="send the application's own spans alone")
    parser.add_argument("--keep", type=Path, help="folder for environments and results; temporary by default")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        keep = (options.keep or Path(temporary)).resolve()
        keep.mkdir(parents=True, exist_ok=True)
        for told in yaml.safe_load((HERE / "applications.yaml").read_text()):
            checkout = options.checkouts / told["name"]
            if options.only not in (None, told["name"]) or not checkout.is_dir():
                continue
            with model_server() as server, captured(keep / f"{told['name']}.jsonl") as endpoint:
                run = Run(told, checkout.resolve(), keep, server)
                run.drive(endpoint, run.make_design(options.patched, options.own))
                time.sleep(2)
                shutil.copy(keep / f"{told['name']}.jsonl", run.folder / "spans.jsonl")
                report(told, run.folder, outcomes(run.folder, server))


if __name__ == "__main__":
    main()
