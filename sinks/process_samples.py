"""What a Prometheus client tells of its own process: time, memory, files; as far as the system says it."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

_STARTED_AT = time.time()


def process_samples() -> dict[str, float]:
    """Return samples by name of the family; those that this system does not know are left out."""
    samples = {"process_start_time_seconds": _STARTED_AT, "process_cpu_seconds_total": time.process_time()}
    if (resident := resident_bytes()) is not None:
        samples["process_resident_memory_bytes"] = float(resident)
    with contextlib.suppress(OSError):
        samples["process_open_fds"] = float(sum(1 for _ in Path("/proc/self/fd").iterdir()))
    return samples


def resident_bytes() -> int | None:
    """Return the resident memory of this process; None where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None
