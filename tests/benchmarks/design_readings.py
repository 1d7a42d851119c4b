"""Says how many metrics that persons have read are in today's portfolios, by their verdict.

    python -m tests.benchmarks.design_readings farfalle=ROOT open-ta-agent=ROOT ... [--wrong]

The verdicts are in `tests/design/truths/portfolio_readings.yaml`; each name is the end of a repository's. A metric is
known by its name, and the last verdict counts, whatever the product of that time. `--wrong` also lists the metrics that
were wrong or useless and are still there. It shows what a change of the selection costs, and is no reading: what is
behind a name may be mended since.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import run_design
from tests.benchmarks.design_truths import TRUTHS


def verdicts(name: str) -> dict[str, dict[str, Any]]:
    """Return the last reading of each metric of an application, by the metric's name."""
    readings = yaml.safe_load((TRUTHS / "portfolio_readings.yaml").read_text())
    return {r["metric"]: r for r in readings if r["repository"].rpartition("/")[2] == name}


def main(arguments: list[str]) -> None:
    """Print a line for each application, and one for all."""
    whole = Counter[str]()
    for argument in arguments:
        name, is_named, root = argument.partition("=")
        if not is_named:
            continue
        known = verdicts(name)
        metrics = [m.name for m in run_design(scan_repository(Path(root))).metrics]
        found = Counter(known[m]["verdict"] if m in known else "unread" for m in metrics)
        whole += found
        print(
            f"{name:32} {len(metrics):3} metrics, "
            + ", ".join(f"{n} {verdict}" for verdict, n in sorted(found.items()))
        )
        for m in metrics if "--wrong" in arguments else ():
            if m in known and known[m]["verdict"] != "right":
                print(f"    {m}: {known[m]['verdict']}, {known[m]['why']}")
    print("together: " + ", ".join(f"{n} {verdict}" for verdict, n in sorted(whole.items())))


if __name__ == "__main__":
    main(sys.argv[1:])
