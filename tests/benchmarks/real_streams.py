"""Alerts of real streams, through the whole of `gapwatch replay --alerts`: a cascade, a judge, arrivals, benchmarks.

    python -m tests.benchmarks.real_streams --data FOLDER [--only routellm safety azure reports]

FOLDER holds copies of public data, in sub-folders of these names; nothing of it is in the repository:

    routellm/mmlu_responses/*.csv.gz                 lm-sys/RouteLLM 0b64fda, Apache-2.0: two tiers on 14,042 questions
    autogpt_safety_monitor/*.jsonl.gz                Significant-Gravitas/Auto-GPT-Benchmarks a436d2d, MIT
    autogpt_benchmark_reports/reports.jsonl.gz       the same
    azure_llm_traffic/AzureLLMInferenceTrace_conv.csv.gz    Azure/AzurePublicDataset b469a11, CC-BY-4.0

Nothing is tuned: thresholds follow from one page and ten tickets a month. Seeds are fixed.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from gapwatch.scorers.loading.load import parse_portfolio
from gapwatch.sinks.store.opening import open_for_reading
from gapwatch.sinks.store.utc_text import utc_text
from gapwatch.streams.alerting.incidents.stored_alerts import read_alerts
from gapwatch.streams.alerting.incidents.wording import headline, size
from gapwatch.streams.batch.replay import ReplayOptions, replay

#: A Monday.
START = datetime(2026, 3, 2, tzinfo=UTC)
Trace = dict[str, Any]

_CASCADE = """
gapwatch: 1
portfolio: cascade
version: 1
pipeline: cascade
volume: {traces_per_day: 2880}
components:
  - {id: router, role: ai_core, kind: llm, tiers: [{id: weak, by: llm}, {id: strong, by: llm}]}
questions: [{id: q-1, component: router, text: "Is more escalation worse?", decides: [escalation_rate]}]
metrics:
  - name: answers_right
    component: router
    claim: {form: check, field: attributes.right, one_of: ["true", "yes"]}
    direction: {better: lower, verdict: verified, evidence: "mmlu answers"}
    alert: {severity: page}
  - name: escalation_rate
    component: router
    claim: {form: label, field: tier, labels: [weak, strong], bad: [strong]}
    direction: {better: unknown}
    alert: {severity: ticket}
  - name: question_characters
    component: router
    claim: {form: measure, field: attributes.characters, unit: characters}
    alert: {severity: ticket}
"""

_MONITOR = """
gapwatch: 1
portfolio: monitored-agent
version: 1
pipeline: monitored-agent
volume: {traces_per_day: 2880}
components: [{id: agent, role: ai_core, kind: llm}, {id: monitor, role: operational, kind: llm}]
metrics:
  - name: reply_parses
    component: agent
    claim: {form: check, field: output, format: json}
    direction: {better: lower, verdict: verified, evidence: "json_parsing.py:1"}
    alert: {severity: page}
  - name: request_characters
    component: agent
    claim: {form: measure, field: attributes.request_characters, unit: characters}
    alert: {severity: ticket}
  - name: reply_characters
    component: agent
    claim: {form: measure, field: attributes.reply_characters, unit: characters}
    alert: {severity: ticket}
  - name: challenge
    component: agent
    claim: {form: label, field: attributes.challenge}
    alert: {severity: ticket}
"""
_VERDICT = """  - name: monitor_agrees
    component: monitor
    claim: {form: check, field: attributes.agrees, one_of: ["true", "yes"]}
    direction: {better: lower, verdict: verified, evidence: "inserted steps are known"}
    alert: {severity: page}
"""

_TRAFFIC = """
gapwatch: 1
portfolio: traffic
version: 1
pipeline: traffic
volume: {traces_per_day: 478000}
components: [{id: model, role: ai_core, kind: llm}]
metrics:
  - name: input_tokens
    component: model
    claim: {form: measure, field: usage.input_tokens, unit: tokens, limit: {max: 8000}}
    direction: {better: lower, of: mean, verdict: verified, evidence: "the price list"}
    alert: {severity: page}
  - name: output_tokens
    component: model
    claim: {form: measure, field: usage.output_tokens, unit: tokens}
    direction: {better: lower, of: mean, verdict: verified, evidence: "the price list"}
    alert: {severity: page}
"""

_REPORTS = """
gapwatch: 1
portfolio: reports
version: 1
pipeline: reports
volume: {traces_per_day: 300}
components: [{id: agent, role: ai_core, kind: agent}]
metrics:
  - name: succeeds
    component: agent
    claim: {form: check, field: attributes.success, one_of: ["true", "yes"]}
    direction: {better: lower, verdict: verified, evidence: "the benchmark's own test"}
    alert: {severity: page}
  - name: ends_in_time
    component: agent
    claim: {form: check, field: attributes.reached_cutoff, one_of: ["false", "no"]}
    direction: {better: lower, verdict: verified, evidence: "the cutoff"}
    alert: {severity: page}
  - name: run_seconds
    component: agent
    claim: {form: measure, field: latency, unit: seconds}
    alert: {severity: ticket}
"""


def rows_of(path: Path) -> Iterable[dict[str, Any]]:
    """Yield the objects of a gzipped JSONL or CSV file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        if ".csv" in path.name:
            yield from csv.DictReader(io.StringIO(file.read()))
        else:
            yield from (json.loads(line) for line in file)


def trace(ident: str, at: datetime, pipeline: str, spans: Sequence[dict[str, Any]], **more: Any) -> Trace:
    """Build a trace whose spans end at one time."""
    moment = at.timestamp()
    timed = [{"span_id": f"s{i}", "started_at": moment - 1, "ended_at": moment, **span} for i, span in enumerate(spans)]
    head = {"trace_id": ident, "pipeline": pipeline, "started_at": moment - 1, "ended_at": moment}
    return {**head, "spans": timed, **more}


def raised(name: str, traces: Iterable[Trace], portfolio: str, change: datetime | None = None) -> None:
    """Replay a stream and print what it raises; with a change, how long after it."""
    with tempfile.TemporaryDirectory() as folder:
        path, store = Path(folder) / "stream.jsonl", Path(folder) / "s.duckdb"
        lines = [json.dumps(one) + "\n" for one in traces]
        path.write_text("".join(lines), encoding="utf-8")
        replay([str(path)], [parse_portfolio(portfolio)], store, ReplayOptions(alerts=True))
        with open_for_reading(store) as con:
            alerts = read_alerts(con)
            watched = con.execute(
                "SELECT count(*), count(*) FILTER (phase <> 'learning'), sum(expected_false_alarms) FROM watched"
            ).fetchone()
    assert watched is not None
    seen, awake, expected = watched
    standing = f"{seen} series, {awake} past their burn-in, {expected or 0:.2g} false alarms to expect"
    print(f"{name}: {len(lines):,} traces; {standing}; {len(alerts)} raised{'' if alerts else ': nothing'}")
    for alert in sorted(alerts, key=lambda a: a.row.found_at):
        row, found = alert.row, alert.row.found_at.replace(tzinfo=UTC)
        after = ""
        if change is not None:
            after = f", {abs(found - change)} {'after' if found >= change else 'BEFORE'} the change"
        began = f", told as since {utc_text(alert.began_at)}" if alert.began_at is not None else ""
        words = f"{headline(alert.facts)}: {size(alert.facts)}"
        print(f"    {row.severity} {row.metric}: {words}; found {found}{after}{began}")


# ---- a cascade of two models ----


def questions(folder: Path) -> list[tuple[str, bool, bool, int]]:
    """Return (subject, weak is right, strong is right, characters) of every question."""
    found = []
    for path in sorted(folder.glob("*.csv.gz")):
        for row in rows_of(path):
            weak, strong = (row[name] == "True" for name in list(row)[1:3])
            found.append((path.name.removesuffix(".csv.gz"), weak, strong, len(row["prompt"])))
    return found


def cascade(data: Path) -> None:
    """Play the questions, one every 30 s, through a router that sends most of what the weak model gets wrong on."""
    known = questions(data / "routellm" / "mmlu_responses")
    rng = np.random.default_rng(1)
    mixed = [known[i] for i in rng.permutation(len(known)).tolist()]
    by_subject: dict[str, list[bool]] = {}
    for subject, weak, _, _ in known:
        by_subject.setdefault(subject, []).append(weak)
    ease = {subject: sum(right) / len(right) for subject, right in by_subject.items()}
    hard = [q for q in mixed if ease[q[0]] < 0.6]
    easy = [q for q in mixed if ease[q[0]] >= 0.6]
    at = len(mixed) * 7 // 10

    def stream(order: Sequence[tuple[str, bool, bool, int]], wrong: Sequence[float]) -> Iterable[Trace]:
        """Escalate a question that the weak model gets wrong with a probability of its time, any other with 5 %."""
        draws = np.random.default_rng(2).random(len(order))
        for i, (subject, weak, strong, characters) in enumerate(order):
            escalated = draws[i] < (0.05 if weak else wrong[i])
            tier, right = ("strong", strong) if escalated else ("weak", weak)
            attributes = {"right": "true" if right else "false", "subject": subject, "characters": characters}
            span = {"component": "router", "kind": "llm", "tier": tier, "attributes": attributes}
            yield trace(f"q{i}", START + timedelta(seconds=30 * i), "cascade", [span])

    change = START + timedelta(seconds=30 * at)
    steady = [0.7] * len(mixed)
    raised("cascade, random order, router as it is", stream(mixed, steady), _CASCADE)
    misses = [0.7] * at + [0.2] * (len(mixed) - at)
    raised("cascade, the router misses what it sent on", stream(mixed, misses), _CASCADE, change)
    begin = easy[: len(easy) * 9 // 10]
    rest = [*easy[len(begin) :], *hard]
    later = [rest[i] for i in rng.permutation(len(rest)).tolist()]
    harder = START + timedelta(seconds=30 * len(begin))
    raised("cascade, easy subjects, then mostly hard ones", stream([*begin, *later], steady), _CASCADE, harder)


# ---- a monitor whose prompt changes, over traffic that does not ----


def safety(data: Path) -> None:
    """Play the monitored steps in order of the monitor's calls, one every 30 s."""
    folder = data / "autogpt_safety_monitor"
    steps = {step["step_id"]: step for step in rows_of(folder / "agent_steps.jsonl.gz")}
    calls = list(rows_of(folder / "judge_calls.jsonl.gz"))
    runs = {call["run"]: i for i, call in enumerate(calls)}
    first = {run: min((c["monitor"] or {}).get("created", 1e12) for c in calls if c["run"] == run) for run in runs}
    calls.sort(key=lambda call: (first[call["run"]], (call["monitor"] or {}).get("created", 0)))

    def stream(order: Sequence[dict[str, Any]]) -> Iterable[Trace]:
        for i, call in enumerate(order):
            step = steps[call["step_id"]]
            request, reply = _text(step["request"]), _text(step["response"])
            sizes = {"request_characters": len(request), "reply_characters": len(reply), "challenge": step["challenge"]}
            monitor = {"component": "monitor", "kind": "llm", "attributes": {"agrees": str(call["score"]).lower()}}
            agent = {"component": "agent", "kind": "llm", "output": reply, "attributes": sizes}
            yield trace(
                f"c{i}", START + timedelta(seconds=30 * i), "monitored-agent", [agent, monitor], release=call["run"]
            )

    # Runs differ in which challenges they hold; those of the most frequent mix are traffic that does not change.
    mixes = {run: repr(sorted(Counter(c["step_id"] for c in calls if c["run"] == run).items())) for run in runs}
    ((usual, n_runs),) = Counter(mixes.values()).most_common(1)
    same = [call for call in calls if mixes[call["run"]] == usual]
    rng = np.random.default_rng(1)
    mixed = [calls[i] for i in rng.permutation(len(calls)).tolist()]
    by_run = sorted(calls, key=lambda call: (first[call["run"]], call["run"], rng.random()))
    steady = sorted(same, key=lambda call: (first[call["run"]], call["run"], rng.random()))
    raised(f"safety monitor, {n_runs} runs over the same steps, each in random order", stream(steady), _MONITOR)
    raised("the same, with one series for the monitor under all of its prompts", stream(steady), _MONITOR + _VERDICT)
    raised("safety monitor, all runs in order, steps of each in random order", stream(by_run), _MONITOR)
    raised("safety monitor, all in random order", stream(mixed), _MONITOR + _VERDICT)
    raised("safety monitor, as it ran, one challenge after the other", stream(calls), _MONITOR)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


# ---- an hour of production traffic ----


def azure(data: Path) -> None:
    """Play the requests at their own times; then four days of that hour, at last with longer prompts."""
    rows = list(rows_of(data / "azure_llm_traffic" / "AzureLLMInferenceTrace_conv.csv.gz"))
    sizes = [(int(row["ContextTokens"]), int(row["GeneratedTokens"])) for row in rows]
    times = [datetime.fromisoformat(row["TIMESTAMP"][:26]).replace(tzinfo=UTC) for row in rows]

    def stream(items: Iterable[tuple[datetime, tuple[int, int]]]) -> Iterable[Trace]:
        for i, (at, (context, generated)) in enumerate(items):
            usage = {"input_tokens": context, "output_tokens": generated}
            yield trace(f"r{i}", at, "traffic", [{"component": "model", "kind": "llm", "usage": usage}])

    def days(factors: Sequence[float]) -> Iterable[tuple[datetime, tuple[int, int]]]:
        for day, factor in enumerate(factors):
            order = np.random.default_rng(day).permutation(len(sizes)).tolist()
            for i, at in enumerate(times):
                context, generated = sizes[order[i]]
                late = factor if i >= len(times) // 3 else factors[day - 1] if day else factor
                yield at + timedelta(days=day), (round(context * late), generated)

    raised("azure, its own hour as it came", stream(zip(times, sizes, strict=True)), _TRAFFIC)
    raised("azure, that hour on four days, sizes in random order", stream(days([1.0] * 4)), _TRAFFIC)
    change = times[len(times) // 3] + timedelta(days=3)
    raised("azure, the same with prompts 1.25 times as long", stream(days([1.0, 1.0, 1.0, 1.25])), _TRAFFIC, change)


# ---- seven weeks of benchmark runs ----


def reports(data: Path) -> None:
    """Play the test results of four agents at the times of their reports, then in random order."""
    results = []
    for row in rows_of(data / "autogpt_benchmark_reports" / "reports.jsonl.gz"):
        agent, report = row["file"].split("/")[1], row["data"]
        at = _moment(report.get("completion_time") or report.get("benchmark_start_time"))
        if at is not None and isinstance(report.get("tests"), dict):
            results += [(at, agent, report.get("agent_git_commit_sha"), one) for one in _results(report["tests"])]
    results.sort(key=lambda result: result[0])

    def stream(order: Sequence[int]) -> Iterable[Trace]:
        for i, (at, agent, commit, _) in enumerate(results):
            metrics, reached = results[order[i]][3]
            attributes = {"success": str(bool(metrics.get("success"))).lower(), "reached_cutoff": str(reached).lower()}
            seconds = _seconds(metrics.get("run_time"))
            span = {"component": "agent", "kind": "agent", "attributes": attributes}
            if seconds is not None:
                span["started_at"] = at.timestamp() - seconds
            yield trace(f"t{i}", at, "reports", [span], environment=agent, release=str(commit)[-40:])

    raised("benchmark reports, as they came", stream(range(len(results))), _REPORTS)
    mixed = np.arange(len(results))
    for agent in {result[1] for result in results}:
        mine = np.array([i for i, result in enumerate(results) if result[1] == agent])
        mixed[mine] = np.random.default_rng(1).permutation(mine)
    raised("benchmark reports, results of each agent in random order", stream(mixed.tolist()), _REPORTS)


def _results(tests: dict[str, Any]) -> Iterable[tuple[dict[str, Any], bool]]:
    for test in tests.values():
        if isinstance(test, dict):
            if isinstance(test.get("tests"), dict):
                yield from _results(test["tests"])
            elif isinstance(test.get("metrics"), dict) and "success" in test["metrics"]:
                yield test["metrics"], bool(test.get("reached_cutoff"))


def _moment(text: Any) -> datetime | None:
    for form in ("%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d-%H:%M"):
        try:
            found = datetime.strptime(str(text), form)
        except ValueError:
            continue
        return found if found.tzinfo else found.replace(tzinfo=UTC)
    return None


def _seconds(text: Any) -> float | None:
    try:
        return float(str(text).split()[0])
    except (ValueError, IndexError):
        return None


PARTS = {"routellm": cascade, "safety": safety, "azure": azure, "reports": reports}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    options = parser.parse_args()
    for part in options.only:
        PARTS[part](options.data)


if __name__ == "__main__":
    main()
