"""CPU that `--alerts` adds to a replay: the same file with and without it, in turn, by the traffic's density.

    python -m tests.benchmarks.alerts_cost [--traces N] [--pairs N]

The traffic is that of `tests.benchmarks.replay`, with an alert on all of its 60 metrics or on 21, measures among them.
CPU is that of all threads, of user and system.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

import orjson

from tests.benchmarks import traffic
from tests.benchmarks.child import run_module

#: Traces in each tick of 30 s of event time, as the file tells it.
DENSITIES = (3000, 100, 10, 1)


def portfolio(alerts: int) -> str:
    """Return the portfolio of the traffic with an alert on its first metrics of each component."""
    each, made, seen = alerts // len(traffic.COMPONENTS), [], dict.fromkeys(traffic.COMPONENTS, 0)
    for line in traffic.portfolio().splitlines():
        component = next((c for c in traffic.COMPONENTS if f"component: {c}," in line), None)
        if component is not None and seen[component] < each:
            seen[component] += 1
            line = line[:-1] + ", alert: {severity: page}, direction: {better: lower, verdict: verified, evidence: x}}"
        made.append(line)
    return "\n".join(made) + "\n"


def respaced(path: Path, n: int, per_tick: int) -> None:
    """Write n traces of the traffic so that a tick of event time holds so many."""
    with path.open("wb") as file:
        for i, line in enumerate(traffic.lines(n)):
            record = orjson.loads(line)
            move = traffic.START + 30 * i / per_tick - record["started_at"]
            for part in (record, *record["spans"]):
                for name in ("started_at", "ended_at"):
                    if part.get(name) is not None:
                        part[name] += move
            file.write(orjson.dumps(record) + b"\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=int, default=50_000)
    parser.add_argument("--pairs", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for alerts in (60, 21):
            (folder / "p.yaml").write_text(portfolio(alerts), encoding="utf-8")
            for density in DENSITIES:
                traces = folder / "traces.jsonl"
                respaced(traces, options.traces, density)
                shares, cost = [], []
                for _ in range(options.pairs):
                    spent = []
                    for more in ([], ["--alerts"]):
                        store = folder / "s.duckdb"
                        store.unlink(missing_ok=True)
                        arguments = [traces, "--portfolio", folder / "p.yaml", "--store", store, "--quiet", *more]
                        spent.append(run_module("gapwatch.scorers.command_line", "replay", *arguments).cpu)
                    shares.append(spent[1] / spent[0] - 1)
                    cost.append(spent[1] - spent[0])
                ticks = options.traces / density
                print(
                    f"{alerts} metrics alert, {density} traces a tick: {statistics.median(shares):+.1%} CPU "
                    f"({min(shares):+.1%} to {max(shares):+.1%}), {1e3 * statistics.median(cost) / ticks:.2f} ms a tick"
                )


if __name__ == "__main__":
    main()
