"""Who stands around a soak: Prometheus, Alertmanager, somebody on call, and a second run that a real SDK feeds.

    python -m tests.chaos.soak --minutes 46 --folder soak &
    python -m tests.chaos.soak_watchers --soak soak --folder watchers --minutes 40

It only reads the soak: `/metrics`, commands, pictures of the page. `journal.jsonl` has a line for each look, command
and message; `said.log` what the commands said; `page-N.png` the page at three moments. The second run is `--otlp`, fed
with two traces a second by the SDK of OpenTelemetry, of which 10 % take longer than promised.

What must be true, written before the first run of 40 minutes, the soak's change at its 18th minute:

- Scrapes every 15 s fail only while the run is restarted: at most 4.
- Nothing of the product is told to a receiver before the change. The first page comes at most 10 minutes after it and
  names `by_primary`. As sessions are counted 10 minutes after their last trace, it may come later: then that is said
  as a finding, not as a promise kept.
- `explain` says a rate before between 5 % and 8 % and one after between 20 % and 32 %, and a begin within 2 minutes.
- Of the rules on the run itself (behind, stuck, absent) none is told for a restart or for 40 s without a broker.
- Each command answers within 10 s, on two busy cores; a command that meets a restart says why it cannot.
- Every trace that the SDK has exported is in the store of the second run once, and its ledger balances; the share over
  the limit is within its interval of 10 %. Each tenth trace is evaluated by an event of OpenTelemetry, a minute after
  it was closed or at once: each evaluation is joined once.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import set_span_in_context

from tests.deploy.alerting_servers import AlertmanagerServer, OnCall, Server, free_port
from tests.http_client import get
from tests.paths import ROOT
from tests.prometheus import prometheus_folder

GAPWATCH = (sys.executable, "-m", "gapwatch.scorers.command_line")
#: What somebody on call asks of the soak's store, in this order.
QUESTIONS = (("alerts", "--watched"), ("rates",), ("ledger",))
OTLP_PORTFOLIO = """\
gapwatch: 1
portfolio: otlp
version: 1
pipeline: otlp-soak
components: [{id: chat, kind: llm}]
metrics:
  - {name: thumbs, scope: trace, claim: {form: feedback, pass_at: 0.5}}
  - name: latency
    component: chat
    claim: {form: measure, field: latency, unit: seconds, limit: {max: 2.0}}
    alert: {severity: page}
"""
SLOW_SHARE, PER_SECOND = 0.1, 2


def is_open(port: int) -> bool:
    """Return whether somebody listens on a port of this machine."""
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


class Watchers:
    """All that stands around.

    Args:
        soak: Folder of the soak.
        folder: New folder for what is seen.
        on_call: Receives pages and tickets.
    """

    def __init__(self, soak: Path, folder: Path, on_call: OnCall) -> None:
        self.folder, self.on_call = folder, on_call
        self.store, self.portfolio = soak / "store.duckdb", soak / "portfolio.yaml"
        self.target = json.loads((soak / "store.duckdb.api").read_text())["url"].removeprefix("http://")
        self.otlp_store, self.otlp_port = folder / "otlp.duckdb", free_port()
        self.sent = self.evaluated = self._heard = 0
        self.is_over = False
        self._journal = (folder / "journal.jsonl").open("a", buffering=1)
        self._said = (folder / "said.log").open("a", buffering=1)

    def write(self, event: str, **what: Any) -> None:
        """Add a line to the journal."""
        self._journal.write(json.dumps({"at": time.strftime("%H:%M:%S", time.gmtime()), "event": event, **what}) + "\n")

    def ask(self, *command: str, store: Path | None = None) -> str:
        """Return what a command prints; note how long it took. A failure is noted and ends nothing."""
        began = time.monotonic()
        where = f"--store={store or self.store}"
        try:
            ran = subprocess.run([*GAPWATCH, *command, where], cwd=ROOT, capture_output=True, text=True, timeout=60)
        except subprocess.TimeoutExpired:
            self.write("no answer", command=command)
            return ""
        seconds = round(time.monotonic() - began, 1)
        self.write("asked", command=command, status=ran.returncode, seconds=seconds, error=ran.stderr[-300:])
        self._said.write(f"\n=== {time.strftime('%H:%M:%S', time.gmtime())} {' '.join(command)}\n{ran.stdout}")
        return ran.stdout

    def start_servers(self) -> list[Server]:
        """Start Alertmanager, Prometheus and the second run."""
        rules = self.folder / "rules"
        to = (f"--pages-to={self.on_call.url}/pages", f"--tickets-to={self.on_call.url}/tickets")
        subprocess.run([*GAPWATCH, "rules", self.portfolio, f"--out={rules}", *to], cwd=ROOT, check=True)
        alertmanager = AlertmanagerServer(self.folder, rules / "alertmanager.yml")
        self._prometheus = f"127.0.0.1:{free_port()}"
        config = {
            "global": {"scrape_interval": "15s", "evaluation_interval": "15s"},
            "rule_files": [str(rules / "rules.yml")],
            "scrape_configs": [{"job_name": "gapwatch", "static_configs": [{"targets": [self.target]}]}],
            "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager.address]}]}]},
        }
        (self.folder / "prometheus.yml").write_text(json.dumps(config))
        prometheus = Server(
            self.folder, prometheus_folder() / "prometheus", f"--config.file={self.folder}/prometheus.yml",
            f"--storage.tsdb.path={self.folder}/tsdb", f"--web.listen-address={self._prometheus}",
        )  # fmt: skip
        (self.folder / "otlp.yaml").write_text(OTLP_PORTFOLIO)
        self.otlp_run = Server(
            self.folder, Path(sys.executable), *GAPWATCH[1:], "run", f"--otlp=127.0.0.1:{self.otlp_port}",
            f"--portfolio={self.folder / 'otlp.yaml'}", f"--store={self.otlp_store}",
            f"--listen=127.0.0.1:{free_port()}",
        )  # fmt: skip
        return [prometheus, alertmanager]

    def feed(self) -> None:
        """Send traces by the SDK until it is over."""
        while not is_open(self.otlp_port):  # what the SDK gives up before the receiver is there is not what is tried
            time.sleep(0.5)
        provider = TracerProvider(resource=Resource({"service.name": "otlp-soak", "host.name": "soak-host"}))
        exporter = OTLPSpanExporter(endpoint=f"http://127.0.0.1:{self.otlp_port}/v1/traces")
        provider.add_span_processor(BatchSpanProcessor(exporter))
        events = LoggerProvider(resource=Resource({"service.name": "otlp-judge"}))
        logs = OTLPLogExporter(endpoint=f"http://127.0.0.1:{self.otlp_port}/v1/logs")
        events.add_log_record_processor(BatchLogRecordProcessor(logs))
        tracer, logger, chance = provider.get_tracer("soak"), events.get_logger("soak"), random.Random(5)
        awaited: list[tuple[float, Any]] = []
        while not self.is_over:
            seconds = 2.5 if chance.random() < SLOW_SHARE else 1.0
            end = time.time_ns()
            attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "small"}
            span = tracer.start_span("chat", start_time=end - int(seconds * 1e9), attributes=attributes)
            span.end(end)
            if self.sent % 10 == 0:
                awaited.append((time.monotonic() + (60 if self.sent % 20 else 0), set_span_in_context(span)))
            self.sent += 1
            while awaited and (self.is_over or time.monotonic() >= awaited[0][0]):
                value = float(chance.random() < 0.9)
                logger.emit(
                    context=awaited.pop(0)[1], event_name="gen_ai.evaluation.result", timestamp=time.time_ns(),
                    attributes={"gen_ai.evaluation.name": "helpful", "gen_ai.evaluation.score.value": value},
                )  # fmt: skip
                self.evaluated += 1
            time.sleep(1 / PER_SECOND)
        provider.shutdown()
        events.shutdown()

    def look(self) -> None:
        """Note what came to those on call, and what Prometheus knows."""
        for path, message in self.on_call.received[self._heard :]:
            self._heard += 1
            told = [(one["status"], one["labels"], one["annotations"]) for one in message["alerts"]]
            self.write("message", to=path, told=told)
        seen: dict[str, Any] = {}
        for name, expression in (
            ("failed scrapes", "count_over_time((up == 0)[1h:15s])"),
            ("scrape seconds", "max_over_time(scrape_duration_seconds[1h])"),
            ("firing", 'ALERTS{alertstate="firing"}'),
        ):
            try:
                answer: Any = get(f"http://{self._prometheus}", "/api/v1/query", query=expression).json()
                seen[name] = [(one["metric"].get("alertname"), one["value"][1]) for one in answer["data"]["result"]]
            except (OSError, ValueError, KeyError) as error:
                seen[name] = str(error)
        self.write("look", sent=self.sent, **seen)

    def ask_all(self) -> None:
        """Ask what one asks on call; explain each open alert."""
        for question in QUESTIONS:
            self.ask(*question)
        try:
            for alert in json.loads(self.ask("alerts", "--format=json") or "[]"):
                self.ask("explain", alert["alert_id"])
        except (ValueError, KeyError) as error:
            self.write("not readable", error=str(error))

    def picture(self, number: int) -> None:
        """Take a picture of the page."""
        target = self.folder / f"page-{number}.png"
        browser = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=8000"]
        try:
            subprocess.run(
                [*browser, "--window-size=1300,1800", f"--screenshot={target}", f"http://{self.target}/"],
                capture_output=True, timeout=90,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            self.write("no picture", error=str(error))
        self.write("picture", number=number, is_there=target.exists())


def main() -> int:
    """Stand around a soak until the time is over; say what is not as it was promised of the second run."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.soak_watchers", description=__doc__)
    parser.add_argument("--soak", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=40.0)
    asked = parser.parse_args()
    folder: Path = asked.folder.resolve()
    folder.mkdir(parents=True)
    with OnCall() as on_call:
        watchers = Watchers(asked.soak.resolve(), folder, on_call)
        servers = watchers.start_servers()
        feeding = threading.Thread(target=watchers.feed, daemon=True)
        try:
            feeding.start()
            began, asked_for, pictures = time.monotonic(), 0, 0
            while (passed := time.monotonic() - began) < asked.minutes * 60:
                watchers.look()
                if passed >= asked_for * 180:
                    asked_for += 1
                    watchers.ask_all()
                if passed >= (0.1, 0.6, 0.9, 2.0)[pictures] * asked.minutes * 60:
                    pictures += 1
                    watchers.picture(pictures)
                time.sleep(15)
            watchers.is_over = True
            feeding.join(30)
            return _judged(watchers)
        finally:
            for server in (*servers, watchers.otlp_run):
                if server.process.poll() is None:
                    server.stop()


def _judged(watchers: Watchers) -> int:
    """Print whether the second run has everything; return the exit status."""
    time.sleep(30)  # a trace is closed after 10 s of quiet
    rates = watchers.ask("rates", store=watchers.otlp_store)
    ledger = json.loads(watchers.ask("ledger", "--format=json", store=watchers.otlp_store) or "{}")
    found = watchers.ask(
        "history", "SELECT coalesce(sum(records), 0)::BIGINT AS n FROM offsets", "--format=json",
        store=watchers.otlp_store,
    )  # fmt: skip
    stored = json.loads(found)[0]["n"] if found else -1
    joins = watchers.ask(
        "history", "SELECT state, count(*) AS n FROM feedback_joins GROUP BY 1", "--format=json",
        store=watchers.otlp_store,
    )  # fmt: skip
    watchers.otlp_run.process.send_signal(signal.SIGTERM)
    status = watchers.otlp_run.process.wait(60)
    print(
        f"{watchers.sent} traces sent by the SDK, {stored} stored; imbalance {ledger.get('imbalance')}; ends {status}; "
        f"{watchers.evaluated} evaluations, {joins.strip()}"
    )
    print(rates)
    return 0 if stored == watchers.sent and ledger.get("imbalance") == 0 and status == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
