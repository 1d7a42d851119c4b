"""Measures the detectors against their goals: `python -m tests.benchmarks.detectors --quick` (or --full).

Simulated streams with fixed seeds; thresholds by arithmetic, A = 50,000 / 0.05 unless said otherwise.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.benchmarks import detectors_cost, detectors_numbers, detectors_rates, detectors_robust, detectors_told
from tests.benchmarks.detectors_report import Report
from tests.benchmarks.detectors_streams import FULL, QUICK

PARTS = {
    "cost": detectors_cost.cost,
    "false_alarms": detectors_rates.false_alarms,
    "delays": detectors_rates.delays,
    "peers": detectors_rates.peer_false_alarms,
    "number_alarms": detectors_numbers.false_alarms,
    "number_delays": detectors_numbers.delays,
    "seasons": detectors_robust.seasons,
    "sessions": detectors_robust.sessions,
    "direction": detectors_robust.direction,
    "incident": detectors_robust.incident,
    "degradation": detectors_robust.degradation,
    "size": detectors_robust.size_and_change_point,
    "wander": detectors_robust.wander,
    "told": detectors_told.told,
}


def main() -> int:
    """Run the chosen parts and print the table of goals."""
    parser = argparse.ArgumentParser(description=__doc__)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--quick", action="store_true", help="a few minutes, coarse")
    how.add_argument("--full", action="store_true", help="what the README shows")
    parser.add_argument("--only", nargs="*", choices=sorted(PARTS), default=list(PARTS))
    parser.add_argument("--check", action="store_true", help="exit 1 when a goal is missed")
    chosen = parser.parse_args()
    report = Report()
    size = FULL if chosen.full else QUICK
    for name in PARTS:
        if name in chosen.only:
            start = time.perf_counter()
            report.line(f"\n== {name} ({size.name})")
            PARTS[name](size, report)
            report.line(f"  ({time.perf_counter() - start:.0f} s)")
    report.table()
    return 1 if chosen.check and not all(reached for _, _, reached in report.goals) else 0


if __name__ == "__main__":
    sys.exit(main())
