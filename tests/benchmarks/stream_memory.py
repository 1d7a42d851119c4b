"""Memory of `gapwatch run` while it works through millions of traces of a real broker.

    python -m tests.benchmarks.stream_memory                    # 2,000,000 traces on four partitions: ten minutes
    python -m tests.benchmarks.stream_memory --traces 400000

Needs Java and Maven (deploy/kafka), the extra `stream`, and 2 GB of disk for the topic. The memory is what the process
holds itself, a second apart; where it does not grow from tenth to tenth of the time, it is flat.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import uuid
from itertools import islice
from pathlib import Path
from typing import Any

from tests.benchmarks.long_stream import long_stream
from tests.benchmarks.replay import _machine, _table, _title
from tests.benchmarks.stream import _cpu_seconds
from tests.benchmarks.traffic import portfolio
from tests.paths import ROOT

_BATCH = 20_000


def main() -> None:
    """Fill a topic, work through it, print what was held."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.stream_memory", description=__doc__)
    parser.add_argument("--traces", type=int, default=2_000_000, help="in the topic (default 2000000)")
    parser.add_argument("--partitions", type=int, default=4, help="of the topic (default 4)")
    asked = parser.parse_args()
    print(_machine())
    from tests.kafka_broker import running_broker

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with running_broker(folder / "broker") as broker:
            topic = broker.make_topic(asked.partitions)
            fill(broker, topic, asked.traces, asked.partitions)
            work_through(folder, broker.address, topic, asked.traces)


def fill(broker: Any, topic: str, traces: int, partitions: int) -> None:
    """Produce traces to all partitions in turn."""
    stream, turn = (line.rstrip(b"\n") for line in long_stream(traces)), 0
    while batch := list(islice(stream, _BATCH)):
        broker.produce(topic, batch, partition=turn % partitions, compression_type="lz4")
        turn += 1


def work_through(folder: Path, address: str, topic: str, traces: int) -> None:
    """Run until all is kept, looking at the process once a second; print a table."""
    (folder / "portfolio.yaml").write_text(portfolio(), encoding="utf-8")
    command = [
        sys.executable, "-m", "gapwatch.scorers.command_line", "run", "--brokers", address, "--topic", topic,
        "--portfolio",
        str(folder / "portfolio.yaml"), "--store", str(folder / "store.duckdb"), "--until-caught-up", "--quiet",
        "--group", uuid.uuid4().hex,
    ]  # fmt: skip
    held: list[float] = []
    began, cpu = time.monotonic(), 0.0
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            if (memory := _resident_mb(process.pid)) is not None:
                held.append(memory)
                cpu = _cpu_seconds(process.pid)
            time.sleep(1.0)
    wall = time.monotonic() - began
    if process.returncode:
        raise RuntimeError(f"gapwatch run ended with {process.returncode}")
    size = (folder / "store.duckdb").stat().st_size / 1e6
    _title(f"{traces:,} traces from a real broker")
    row = _table("us CPU a trace", "wall : CPU", "largest MB in each tenth of the time", "store, MB")
    step = max(1, len(held) // 10)
    tenths = [max(held[i : i + step]) for i in range(0, step * 10, step) if held[i : i + step]]
    row(f"{cpu / traces * 1e6:.0f}", f"{wall / cpu:.2f}", ", ".join(f"{mb:.0f}" for mb in tenths), f"{size:.0f}")


def _resident_mb(pid: int) -> float | None:
    """Return what a process holds, or None where it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("VmRSS:")), None)


if __name__ == "__main__":
    main()
