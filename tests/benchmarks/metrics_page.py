"""Time of a scrape with many series, at rest and in motion: python -m tests.benchmarks.metrics_page [SERIES]."""

from __future__ import annotations

import sys
import time
from datetime import datetime

from gapwatch.scorers.loading.load import parse_portfolio
from gapwatch.sinks.metrics.live_metrics import LiveMetrics
from tests.builders import NOON, scored_slice
from tests.prometheus import page_of

ENVIRONMENTS = 10


def many(series: int) -> tuple[LiveMetrics, list[dict[str, object]]]:
    """Return the state of so many series, and a tick of each."""
    claim = "component: agent, claim: {form: check, field: output, present: true}"
    metrics = "\n".join(f"  - {{name: metric_{n:05}, {claim}}}" for n in range(series // ENVIRONMENTS))
    portfolio = parse_portfolio(
        "gapwatch: 1\nportfolio: p\nversion: 1\npipeline: airline-agent\nedges: []\n"
        f"components:\n  - {{id: agent, role: ai_core, kind: llm}}\nmetrics:\n{metrics}\n"
    )
    rows: list[dict[str, object]] = [
        {
            "metric": metric.name, "metric_version": metric.version, "environment": f"env-{environment}",
            "outcome": outcome, "level": level, "n": 3,
        }
        for metric in portfolio.metrics
        for environment in range(ENVIRONMENTS)
        for level, outcome in (("unit", "good"), ("unit", "bad"), ("span", "pass"), ("span", "fail"))
    ]  # fmt: skip
    return LiveMetrics([portfolio]), rows


def main(series: int) -> None:
    """Print the figures."""
    state, rows = many(series)

    def scrape(what: str) -> str:
        started = time.perf_counter()
        page = page_of(state)
        seconds = time.perf_counter() - started
        print(f"{what}: {seconds:.3f} s, {len(page) / 1e6:.1f} MB, {page.count(chr(10))} lines")
        return page

    state.slice_stored(scored_slice(ticks=rows), {})
    scrape(f"{series} series in motion, all new")
    state.slice_stored(scored_slice(1, 2, ticks=rows), {})
    scrape(f"{series} series in motion")
    scrape("the same, nothing new")
    later = [{**row, "bucket": datetime.fromtimestamp(NOON.timestamp() + 9e4)} for row in rows[:400]]
    state.slice_stored(scored_slice(2, 3, ticks=later), {})
    scrape(f"{series} series at rest but for 100")
    scrape("the same, nothing new")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
