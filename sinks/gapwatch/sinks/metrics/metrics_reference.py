"""Writes `deploy/metrics.md`: the reference of all that `/metrics` tells."""

from __future__ import annotations

from gapwatch.sinks.metrics.families import SECTIONS


def documentation() -> str:
    """Return `deploy/metrics.md`."""
    parts = [_INTRODUCTION]
    for title, families in SECTIONS.items():
        rows = [
            f"| `{family.name}` | {family.kind}{', lasting' if family.lasting else ''} | {family.unit} | "
            f"{', '.join(f'`{label}`' for label in family.labels)} | {family.meaning} |"
            for family in families
        ]
        head = "| name | type | unit | labels | meaning |\n| --- | --- | --- | --- | --- |"
        parts.append(f"## {title}\n\n{head}\n" + "\n".join(rows))
    return "\n\n".join(parts) + "\n"


_INTRODUCTION = """# What `/metrics` tells

Made from `sinks/gapwatch/sinks/metrics/families.py` by `deploy/metrics > deploy/metrics.md`; a test keeps it current.

- Only the lane `live` is counted.
- *Lasting* counters are rebuilt from the store when the process starts, and go on where they were; the others begin
  at 0.
- The rates end at the newest event time, not at the time of the scrape, and move in steps of five minutes: a pipeline
  that stands still keeps its last rates; `gapwatch_newest_event_timestamp_seconds` says how old they are. Do not put
  thresholds on them: the detectors do that, on every trace and with a bound on false alarms.
- Labels come from the portfolios. At most 16 environments have a name of their own, those that came first; all others,
  tiers that no portfolio names, and pipelines that have none are `other`.
- An empty label is left out: `component` for a metric of the whole trace, `judge` for what no judge decides.
- Of the detectors' gauges (`watched`), the page holds those of 2,500 rows, first those that moved; `gapwatch_series`
  counts all. Quantiles and shares of labels are told of 500 of them, and move in steps of five minutes.
- The page holds at most 50,000 samples of watched series. First come the rates of what moves, then the traces counted
  of what rests, then all other detail; `gapwatch_samples_left_out` says how much did not fit."""
