"""Times the design stage on a repository: cold, warm, and its peak of memory.

python -m tests.benchmarks.design_speed REPO
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time


def _run(*arguments: str) -> tuple[float, float, int]:
    """(CPU seconds, wall seconds, peak in MB) of one run of the command."""
    code = "import sys; sys.argv[0] = 'gapwatch'; from gapwatch.scorers.command_line import main; main()"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", code, "design", *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    if status:
        raise SystemExit(f"gapwatch design {' '.join(arguments)} failed")
    del before
    return usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss // 1024


def main() -> None:
    """Print one line a run."""
    repo = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        runs = {
            "graph, cold": ("graph", repo, "--cache", folder, "--quiet"),
            "graph, warm": ("graph", repo, "--cache", folder, "--quiet"),
            "whole design": (repo, "--out", f"{folder}/out", "--quiet"),
        }
        for name, arguments in runs.items():
            cpu, wall, peak = _run(*arguments)
            print(f"{name:<14} {cpu:7.2f} s CPU {wall:7.2f} s wall {peak:6d} MB")


if __name__ == "__main__":
    main()
