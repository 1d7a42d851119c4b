"""Measures incidents on chains of components and dates of shifts in sessions: `python -m tests.benchmarks.incidents`.

A chain pages once and names the component that broke first; the 95 % interval of a date holds the shift. Tests state
the same laws with fewer seeds.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.streams.alerting.chain_incident import receive
from tests.streams.alerting.session_streams import SHAPES, dates


def main() -> None:
    """Print a line for the chains, and one for each shape of sessions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="4 chains and 2 streams a shape instead of 100 and 40")
    chosen = parser.parse_args()
    chains, streams = (4, 2) if chosen.quick else (100, 40)
    with tempfile.TemporaryDirectory() as folder:
        found = [receive(Path(folder), seed) for seed in range(chains)]
    print(
        f"{chains} chains: {sum(one.pages == 1 for one in found)} page once, "
        f"{sum(one.incidents == 1 for one in found)} are one incident, the component that broke first is named by "
        f"{sum(one.paged_as == one.root for one in found)} pages and "
        f"{sum(one.named == one.root for one in found)} incidents; {sum(one.early for one in found)} false incidents",
        flush=True,
    )
    for name, shape in SHAPES.items():
        dated = dates(shape, range(streams))
        print(
            f"{name}: the 95 % interval holds the shift in {dated.held} of {streams} streams; median error "
            f"{dated.median_error:.1f} ticks (expected below {1 + shape.ticks_to_a_failure:.1f}); "
            f"{dated.early} false alarms, {dated.missed} missed",
            flush=True,
        )


if __name__ == "__main__":
    main()
