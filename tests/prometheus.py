"""A real Prometheus and its promtool, as Debian packages them, and the page that it would scrape."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from gapwatch.sinks.metrics.live_metrics import LiveMetrics
from tests.paths import ROOT

SCRIPT = ROOT / "deploy" / "prometheus"


def page_of(metrics: LiveMetrics) -> str:
    """Return what a scrape of a run would be answered, in Prometheus' text format."""
    return generate_latest(metrics.registry).decode()


def prometheus_folder(*what: str) -> Path:
    """Return the folder of the programs, or of `alertmanager`'s; skip where they cannot be had."""
    with (Path(tempfile.gettempdir()) / f"gapwatch-prometheus-{os.getuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of several processes one fetches it
        done = subprocess.run([SCRIPT, *what], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode == 3:
        pytest.skip(f"no Prometheus or Alertmanager: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


def promtool(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run promtool on what stands on standard input."""
    tool = prometheus_folder() / "promtool"
    assert shutil.which(tool)
    return subprocess.run([tool, *arguments], input=text, capture_output=True, text=True, check=False)
