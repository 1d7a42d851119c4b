"""A long day of a run in an hour: 20 traces a second over four partitions, a shift, restarts, a new portfolio, faults.

    python -m tests.chaos.soak --minutes 75 --folder soak

A real broker; traces and feedback by the real publisher; judges by a local server that answers as OpenAI's API does.
`journal.jsonl` in the folder holds an event or a look at the run a line, `run.log` what the run says: read it line by
line. What must be true was written before the first run; the program ends with status 1 where it is not:

- Every published trace is stored, once but for those that the ledger names as repeated (a request that timed out is
  sent again), and the ledger balances.
- The fallback rate goes from 6.7 % to 26 % at 40 % of the time. One page says so within ten minutes, dated within two
  minutes of the change. No page opens before the change, and none of another metric but `by_primary`'s own incident.
- After the change's end the page is resolved.
- A restart (SIGTERM) ends with status 0 within 10 seconds. After it, and after a SIGKILL, records are stored again
  within 20 seconds.
- A second version of the portfolio takes effect without a restart. A broker that is frozen for 40 s, one that is
  stopped for 30 s and a key that is refused are named in the log, each outage once; afterwards records are stored again
  within 30 s, and no judge request ends as an error.
- The webhook gets one message for the page, and one for its end (`webhook` in the journal).
- No offset is without a record, and each trace names its host.
- Of ten feedbacks one comes before its trace: each is joined once.
- Memory of the run grows by less than 20 % over the second half.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import random
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from gapwatch.publisher import TracePublisher
from tests.deploy.alerting_servers import OnCall
from tests.kafka_broker import KafkaBroker
from tests.paths import ROOT
from tests.streams.judges.model_server import HttpAnswer, free_port, served, verdict
from tests.streams.run_process import make_relayed_topics

PER_SECOND, PARTITIONS = 20, 4
PORTFOLIO = """\
gapwatch: 1
portfolio: soak
version: {version}
pipeline: soak
budget: {{judge_usd_per_week: 50}}
components:
  - {{id: retrieve, role: supporting, kind: retrieval}}
  - {{id: answer, role: ai_core, kind: llm}}
edges: [{{from: retrieve, to: answer}}]
facts:
  - {{id: worse, component: answer, kind: direction, metric: by_primary, better: lower, value: the small model is worse,
      by: the owner, at: 2026-11-28}}
metrics:
  - name: by_primary
    component: answer
    claim: {{form: label, field: tier, labels: [primary, fallback], bad: [fallback]}}
    direction: {{better: lower, of: failure_rate, verdict: verified, fact: worse}}
    alert: {{severity: page, cascade: true}}
  - name: parses
    component: answer
    claim: {{form: check, field: output, format: json}}
  - name: found
    component: retrieve
    claim: {{form: check, field: output, length: {{min: {found}}}}}
  - name: helpful
    component: answer
    claim:
      form: judge
      rubric: {{criterion: Is the answer helpful?, scale: [good, bad], inputs: [input, output], pass_at: good}}
      judges: [{{name: mini, model: openai/small}}]
    sample: {{rate: 0.05}}
"""
KEY = "sk-soak-0123456789"


@dataclass
class Weather:
    """What the pipeline and the judges do now."""

    fallback: float = 0.067
    is_key_refused: bool = False
    is_over: bool = False
    published: int = 0
    feedbacks: int = 0
    dropped: dict[str, int] = field(default_factory=dict)


class Soak:
    """The broker, the run and what is known of both.

    Args:
        folder: New folder for all files.
        broker: The broker.
        base_url: Address of the judges' server.
        on_call: Receives the webhook's messages.
    """

    def __init__(self, folder: Path, broker: KafkaBroker, base_url: str, on_call: OnCall) -> None:
        self._on_call, self._heard = on_call, 0
        self.told: dict[str, float] = {}  # when the webhook first got a message of each kind, seconds since the epoch
        self.folder, self.broker, self.weather = folder, broker, Weather()
        self.store, self.port = folder / "store.duckdb", free_port()
        self.topic = broker.make_topic(partitions=PARTITIONS)
        self.portfolio = folder / "portfolio.yaml"
        self.portfolio.write_text(PORTFOLIO.format(version=1, found=1))
        self.judges = folder / "judges.yaml"
        provider = {"adapter": "http", "base_url": base_url, "key_env": "SOAK_KEY"}
        self.judges.write_text(json.dumps({
            "providers": {"openai": provider}, "prices": {"openai/small": {"input": 0.15, "output": 0.6}},
            "max_output_tokens": 100,
        }))  # fmt: skip
        self._began = time.time()
        self._journal: IO[str] = (folder / "journal.jsonl").open("w", buffering=1)
        self._run: subprocess.Popen[bytes] | None = None

    def write(self, event: str, **what: Any) -> None:
        """Add a line to the journal."""
        line = {"second": round(time.time() - self._began, 1), "at": round(time.time(), 1), "event": event, **what}
        self._journal.write(json.dumps(line) + "\n")
        if event != "look":
            print(json.dumps(line), flush=True)

    def start(self) -> None:
        """Start the run, as its user would."""
        command = [
            sys.executable, "-m", "gapwatch.scorers.command_line", "run", f"--brokers={self.broker.address}",
            f"--topic={self.topic}", f"--portfolio={self.portfolio}", f"--store={self.store}", "--group=soak",
            "--instance=one", f"--listen=127.0.0.1:{self.port}", f"--judges={self.judges}", "--keep=20m",
            f"--export={self.folder / 'export'}", "--export-every=5m",
            f"--webhook={self._on_call.url}/webhook",
        ]  # fmt: skip
        log = (self.folder / "run.log").open("ab")
        self._run = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "SOAK_KEY": KEY}, stdout=log, stderr=log)

    def stop(self, number: signal.Signals) -> int:
        """Send a signal to the run; return its exit status."""
        assert self._run is not None
        began = time.monotonic()
        self._run.send_signal(number)
        status = self._run.wait(60)
        self.write("ended", signal=number.name, status=status, seconds=round(time.monotonic() - began, 2))
        return status

    def asked(self, *command: str) -> Any:
        """Return what a command says of the run's store; what went wrong is said, and ends nothing."""
        arguments = [sys.executable, "-m", "gapwatch.scorers.command_line", *command]
        try:
            ran = subprocess.run(
                [*arguments, f"--store={self.store}", "--format=json"], cwd=ROOT, capture_output=True, timeout=60
            )
            return json.loads(ran.stdout)
        except (subprocess.TimeoutExpired, json.JSONDecodeError) as error:
            self.write("no answer", command=command, error=str(error)[:200])
            return None

    def stored(self) -> int:
        """Return the number of records that are stored, of all partitions."""
        found = self.asked("history", "SELECT coalesce(sum(records), 0)::BIGINT AS n FROM offsets")
        return found[0]["n"] if found else -1

    def wait_until_storing(self, since: float) -> None:
        """Wait until more is stored than at first, and say how long it took.

        Args:
            since: Begin of the fault, seconds since the epoch. `blind` in the journal is the longest time between two
                commits of traces since then, in seconds, by the store.
        """
        began = time.monotonic()
        while (before := self.stored()) < 0 and time.monotonic() - began < 120:
            time.sleep(0.5)  # it starts: without an answer nothing is known of what was stored
        while self.stored() <= before and time.monotonic() - began < 120:
            time.sleep(0.5)
        seconds = round(time.monotonic() - began, 1)
        pause = "epoch(kept_at) - lag(epoch(kept_at)) OVER (ORDER BY kept_at)"
        found = self.asked(
            "history", f"SELECT max(pause) AS blind FROM (SELECT {pause} AS pause FROM offsets "
            f"WHERE records > 0 AND epoch(kept_at) > {since - 10})"
        )  # fmt: skip
        self.write("stores again", seconds=seconds, blind=found[0]["blind"] if found else None)

    def look(self) -> None:
        """Note memory, CPU, lag and health, and what the webhook got."""
        assert self._run is not None
        for _path, message in self._on_call.received[self._heard :]:
            self._heard += 1
            self.told.setdefault(message["news"], time.time())
            self.write("webhook", message=message)
        if self._run.poll() is not None:
            self.write("the run is gone", status=self._run.returncode)
            self.start()  # as systemd would
        seen: dict[str, Any] = {"published": self.weather.published}
        with contextlib.suppress(OSError, IndexError):
            status = Path(f"/proc/{self._run.pid}/status").read_text()
            seen["mib"] = int(status.split("VmRSS:")[1].split()[0]) // 1024
            times = Path(f"/proc/{self._run.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
            seen["cpu_seconds"] = sum(map(int, times)) / os.sysconf("SC_CLK_TCK")
            seen["wal_mb"] = self.store.with_name("store.duckdb.wal").stat().st_size // 1_000_000
        seen["load"] = os.getloadavg()[0]
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=20) as answer:
                page = answer.read().decode()
            for name in ("gapwatch_lag_records", "gapwatch_lag_seconds"):
                seen[name] = max(
                    (float(x.rsplit(" ", 1)[1]) for x in page.splitlines() if x.startswith(name)), default=None
                )
        except OSError as error:
            seen["error"] = str(error)
        self.write("look", **seen)

    def pages(self) -> list[dict[str, Any]]:
        """Return all alerts of severity page, closed ones as well."""
        return [alert for alert in self.asked("alerts", "--all") or [] if alert["severity"] == "page"]


def publish(soak: Soak) -> None:
    """Publish traces until the weather is over; every tenth gets a feedback, a tenth of them before its trace."""
    weather, chance = soak.weather, random.Random(4)
    os.environ["GAPWATCH_KAFKA_BROKERS"] = soak.broker.address
    due = time.monotonic()
    with TracePublisher("soak", topic=soak.topic) as publisher:
        while not weather.is_over:
            number = weather.published
            trace_id = f"soak-{number:08d}"
            if number % 100 == 0:
                publisher.feedback(trace_id, chance.random() < 0.9, user="u")
            with publisher.trace(trace_id=trace_id, session_id=f"s-{number // 6}"):
                with publisher.span("retrieve", kind="retrieval", input=f"question {number}") as span:
                    span.output = "" if chance.random() < 0.02 else "a page"
                with publisher.span("answer", kind="llm", input=f"question {number}") as span:
                    span.tier = "fallback" if chance.random() < weather.fallback else "primary"
                    span.output = "{broken" if chance.random() < 0.01 else json.dumps({"answer": number})
            if number % 10 == 5:
                publisher.feedback(trace_id, chance.random() < 0.9, user="u")
            weather.published += 1
            weather.feedbacks += number % 100 == 0 or number % 10 == 5
            due += 1 / PER_SECOND
            time.sleep(max(0.0, due - time.monotonic()))
        publisher.flush(60)
        weather.dropped = publisher.counts


def judge(weather: Weather) -> Callable[[dict[str, Any], dict[str, str]], HttpAnswer]:
    """Return the function that answers the judges; while the key is refused it says so."""

    def answer(body: dict[str, Any], _headers: dict[str, str]) -> HttpAnswer:
        if weather.is_key_refused:
            return HttpAnswer(401, b'{"error": {"message": "invalid key"}}')
        number = int(body["messages"][1]["content"].split("question ")[1].split("\n")[0])
        return verdict(body, "bad" if number % 10 == 0 else "good")

    return answer


def live(soak: Soak, minutes: float) -> Iterator[str]:
    """Yield each step of the day once it is due, after it was done."""
    weather, began = soak.weather, time.monotonic()

    def until(share: float) -> None:
        while time.monotonic() - began < share * minutes * 60:
            soak.look()
            time.sleep(min(10.0, max(0.1, share * minutes * 60 - (time.monotonic() - began))))

    until(0.12)
    fault = time.time()
    assert soak.stop(signal.SIGTERM) == 0
    soak.start()
    soak.wait_until_storing(fault)
    yield "restarted"
    until(0.24)
    soak.portfolio.write_text(PORTFOLIO.format(version=2, found=2))
    yield "version 2 written"
    until(0.4)
    weather.fallback = 0.26
    yield "fallback 26 %"
    until(0.56)
    fault = time.time()
    soak.stop(signal.SIGKILL)
    soak.start()
    soak.wait_until_storing(fault)
    yield "killed and started"
    until(0.62)
    weather.fallback = 0.067
    yield "fallback 6.7 % again"
    until(0.7)
    fault = time.time()
    soak.broker.signal(signal.SIGSTOP)
    time.sleep(40)
    soak.broker.signal(signal.SIGCONT)
    soak.wait_until_storing(fault)
    yield "broker was away for 40 s"
    until(0.8)
    weather.is_key_refused = True
    time.sleep(120)
    weather.is_key_refused = False
    yield "key was refused for 2 minutes"
    until(0.9)
    fault = time.time()
    soak.broker.stop()
    time.sleep(30)
    soak.broker.start()
    soak.wait_until_storing(fault)
    yield "broker was stopped for 30 s"
    until(1.0)


def main() -> int:
    """Live through it; say what is not as it was promised."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=75.0)
    parser.add_argument("--folder", type=Path, required=True)
    asked = parser.parse_args()
    folder: Path = asked.folder.resolve()
    folder.mkdir(parents=True)
    broker = KafkaBroker(folder / "broker")
    broker.start()
    weather = Weather()
    try:
        make_relayed_topics(broker)
        _make_feedback_topic(folder)
        with served(judge(weather)) as server, OnCall() as on_call:
            soak = Soak(folder, broker, server.base_url, on_call)
            soak.weather = weather
            soak.start()
            publisher = threading.Thread(target=publish, args=(soak,), daemon=True)
            publisher.start()
            moments: dict[str, float] = {}
            for step in live(soak, asked.minutes):
                moments[step] = time.time()
                soak.write(step)
                soak.write("pages", pages=soak.pages())
            weather.is_over = True
            publisher.join(120)
            for _ in range(120):
                if soak.stored() >= weather.published:
                    break
                time.sleep(1)
            time.sleep(30)  # judges end
            return _judged_by_its_promises(soak, moments)
    finally:
        broker.stop("--purge")


def _make_feedback_topic(folder: Path) -> None:
    script = [sys.executable, str(ROOT / "deploy" / "kafka" / "broker"), "topic", "feedback"]
    subprocess.run([*script, f"--folder={folder / 'broker'}"], check=True, stdout=subprocess.DEVNULL)


def _judged_by_its_promises(soak: Soak, moments: dict[str, float]) -> int:
    """Print what holds; return the exit status."""
    stored, ledger, pages = soak.stored(), soak.asked("ledger"), soak.pages()
    errors = soak.asked(
        "history", "SELECT reason, count(*) AS n FROM gaps WHERE judge IS NOT NULL AND outcome = 'error' GROUP BY 1"
    )
    feedback = soak.asked("history", "SELECT state, count(*) AS n FROM feedback_joins GROUP BY 1")
    versions = soak.asked("history", "SELECT portfolio_sha, count(*) AS n FROM gaps GROUP BY 1 ORDER BY 1")
    rates = soak.asked("rates")
    doubled = soak.asked(
        "history", "SELECT count(*) AS n FROM (SELECT trace_id, metric, judge, span_id FROM gaps "
        "GROUP BY ALL HAVING count(*) > 1)"
    )  # fmt: skip
    status = soak.stop(signal.SIGTERM)
    soak.write(
        "end", published=soak.weather.published, publisher=soak.weather.dropped, stored=stored, status=status,
        feedbacks=soak.weather.feedbacks, feedback=feedback, judge_errors=errors, versions=versions, moments=moments,
        doubled=doubled,
    )  # fmt: skip
    (soak.folder / "end.json").write_text(json.dumps({"ledger": ledger, "pages": pages, "rates": rates}, indent=1))
    imbalance = ledger["imbalance"] if ledger else None
    change, change_end = moments["fallback 26 %"], moments["fallback 6.7 % again"]
    paged, resolved = soak.told.get("opened", math.inf) - change, soak.told.get("resolved", math.inf) - change_end
    repeated = sum(ledger["repeated"].values()) if ledger else 0
    holds = {
        "every trace is stored, and told where it is repeated": stored - repeated == soak.weather.published,
        "the ledger balances": imbalance == 0,
        f"paged within 10 min: {paged:.0f} s after the change": 0 < paged < 600,
        f"resolved: {resolved:.0f} s after the change's end": 0 < resolved < math.inf,
        "one page, of the fallback": [page["metric"] for page in pages] == ["by_primary"],
        "no judge request ended as an error": errors == [],
        "ends with status 0": status == 0,
    }
    for promise, is_held in holds.items():
        print(f"{'holds' if is_held else 'BROKEN':7}{promise}")
    print("pages:", json.dumps(pages)[:3000], "change at", change)
    return 0 if all(holds.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
