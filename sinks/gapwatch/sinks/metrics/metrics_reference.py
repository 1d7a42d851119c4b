"""Generates `deploy/metrics.md`, the reference of all metrics on `/metrics`."""

from __future__ import annotations

from gapwatch.sinks.metrics.families import SECTIONS


def documentation() -> str:
    """Return the text of `deploy/metrics.md`."""
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


_INTRODUCTION = """# Metrics on `/metrics`

Generated from `sinks/gapwatch/sinks/metrics/families.py` by `deploy/metrics > deploy/metrics.md`; a test checks that it
is current.

- Only the lane `live` is counted.
- *Lasting* counters are rebuilt from the store when the process starts and continue; the others begin at 0.
- Rates cover the hour before the newest event time, not before the scrape, and change in steps of five minutes. A
  pipeline that stops keeps its last rates; `gapwatch_newest_event_timestamp_seconds` shows how old they are. Do not set
  alert thresholds on rates: the detectors decide on every trace, with a bound on false alarms.
- Label values come from the portfolios. The first 16 environments have a label of their own. All others, tiers that no
  portfolio lists, and pipelines without a portfolio are `other`.
- An empty label is left out: `component` for a metric of the whole trace, `judge` if no judge decides.
- Metrics with the label `watched` (the monitored quantity) come from the detectors. The page shows at most 2,500 such
  series, those that moved first; `gapwatch_series` counts all. Quantiles and shares of labels are shown for 500 of them
  and change in steps of five minutes.
- The page shows at most 50,000 samples of monitored series: first the rates of series with new traces, then the trace
  counts of the others, then all further detail. `gapwatch_samples_left_out` counts the samples that did not fit.
- `unwatched` in names and phases means not monitored."""
